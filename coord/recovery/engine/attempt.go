package engine

import (
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// AttemptOf is the body of the entry about one case. It has the last rungs of the trace, the digest
// of the whole trace, and the facts of the case with what was really tried. A run is empty outside
// of a run of an engine.
func AttemptOf(run string, policy entry.Digest, of *Recovery, line []byte) (*entry.Attempt, error) {
	t := &of.Trace
	a := &entry.Attempt{Run: run, Agent: of.Case.Agent, Policy: policy, AttemptCase: entry.AttemptCase{
		Case: t.Case, Status: string(t.Status), TraceDigest: entry.DigestOf(line), Rungs: []entry.Rung{},
		CostMicroUSD: nonzero(t.CostMicroUSD), Tokens: nonzero(t.Tokens), ElapsedMS: nonzero(t.LatencyMS)}}
	for _, r := range t.Rungs[max(0, len(t.Rungs)-rungsMax):] {
		a.Rungs = append(a.Rungs, entryRung(&r))
	}
	if of.Case.ID == "" { // nobody knows more than the trace
		return a, nil
	}
	var err error
	a.Facts, err = factsBeside(a, &of.Case)
	return a, err
}

func entryRung(r *Rung) entry.Rung {
	made := entry.Rung{Attempt: r.Attempt, Step: r.Step, Class: r.Class, Code: r.Code, Rule: r.Rule, Strategy: r.Strategy, Variant: r.Variant, Model: r.Model,
		Result: r.Result, CostMicroUSD: r.CostMicroUSD, LatencyMS: r.LatencyMS, WaitMS: nonzero(r.WaitMS), Reason: r.Reason}
	if r.TokensIn != nil || r.TokensOut != nil {
		made.Tokens = new(orZero(r.TokensIn) + orZero(r.TokensOut))
	}
	return made
}

// factsBeside returns the facts that an entry has room for.
func factsBeside(a *entry.Attempt, c *scenario.Case) (jsontext.Value, error) {
	return scenario.Facts(c, min(factsMax, attemptMax-a.Size()))
}

// nonzero is a count that is absent if there was nothing to count.
func nonzero(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
