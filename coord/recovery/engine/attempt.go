package engine

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// AttemptOf is the body of the entry about one case. It has the last rungs of the trace, the digest
// of the whole trace, and the facts of the case with what was really tried. A run is empty outside
// of a run of an engine. policy is the digest of the rules that decide for no arm of a rollout.
func AttemptOf(run string, policy entry.Digest, of *Recovery, line []byte) (*entry.Attempt, error) {
	t := &of.Trace
	a := &entry.Attempt{Run: run, Agent: of.Case.Agent, Policy: cmp.Or(t.Policy, policy), Arm: t.Arm, AttemptCase: entry.AttemptCase{
		Case: t.Case, Status: t.Status, TraceDigest: entry.DigestOf(line), Rungs: entryRungs(t.Rungs),
		CostMicroUSD: nonzero(t.CostMicroUSD), Tokens: nonzero(t.Tokens)}}
	if t.LatencyUnknown == 0 {
		a.ElapsedMS = nonzero(t.LatencyMS)
	}
	if a.CostMicroUSD == nil && t.CostUnknown == 0 && t.Steps.Failed > 0 {
		a.CostMicroUSD = new(int64) // of attempts that cost nothing, which is known
	}
	if of.Case.ID == "" { // nobody knows more than the trace
		return a, nil
	}
	var err error
	a.Facts, err = factsBeside(a, &of.Case)
	return a, err
}

// entryRungs returns the last rungs, as many as an entry may have.
func entryRungs(all []Rung) []entry.Rung {
	kept := []entry.Rung{}
	for _, r := range all[max(0, len(all)-rungsMax):] {
		kept = append(kept, entryRung(&r))
	}
	return kept
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
