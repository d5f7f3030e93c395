package engine

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// The statuses with which the engine ends a case. A case with a failure ends as one of the first
// two.
const (
	AutoRecovered = entry.StatusRecovered
	Escalated     = entry.StatusEscalated
	NoFailure     = entry.StatusNoFailure
)

// Trace is the record of the engine's actions on one case. Its canonical form is RFC 8785 JSON: one
// line of traces.ndjson, and a leaf of the tree whose root is the fingerprint of the run. The
// members stand in the order of their names, which is their order in JSON.
type Trace struct {
	Arm            entry.Arm        `json:"arm,omitzero"` // of a rollout; empty: none was under way
	Attempts       int64            `json:"attempts"`     // recovery attempts that were made
	Case           string           `json:"case"`
	Class          string           `json:"class,omitzero"` // of the first failure, as effective
	Code           string           `json:"code,omitzero"`
	CostMicroUSD   int64            `json:"cost_micro_usd"` // of all attempts, as far as known
	CostUnknown    int64            `json:"cost_unknown"`   // attempts with unknown cost
	Fallback       bool             `json:"fallback"`       // recovered, and a fallback_model attempt did so for a step
	LatencyMS      int64            `json:"latency_ms"`     // of all attempts as far as known, and waits
	LatencyUnknown int64            `json:"latency_unknown"`
	Near           []Near           `json:"near,omitzero"`
	Other          *Shadow          `json:"other,omitzero"`   // what the other arm of a canary would have decided
	Outcome        scenario.Outcome `json:"outcome,omitzero"` // the source's verdict on the run
	Policy         entry.Digest     `json:"policy,omitzero"`  // of the rules that decided for the arm
	Reason         string           `json:"reason,omitzero"`  // why it escalated
	Rungs          []Rung           `json:"rungs"`
	SafetyCritical bool             `json:"safety_critical,omitzero"` // of the case: never to be accepted automatically
	Severity       entry.Severity   `json:"severity,omitzero"`
	Shadow         *Shadow          `json:"shadow,omitzero"`
	Simulated      bool             `json:"simulated"` // whether an outcome model took part
	Status         entry.CaseStatus `json:"status"`
	Steps          StepCount        `json:"steps"`
	Tags           []string         `json:"tags,omitzero"`
	Tokens         int64            `json:"tokens"`
	Undeclared     string           `json:"undeclared,omitzero"` // step with an effect in doubt that the step does not declare
	V              int64            `json:"v"`
}

// StepCount counts the steps of a case by result.
type StepCount struct {
	Failed      int64 `json:"failed"`
	NotObserved int64 `json:"not_observed"`
	OK          int64 `json:"ok"` // at the first attempt
	Recovered   int64 `json:"recovered"`
	Skipped     int64 `json:"skipped"` // stood after one that was given up
}

// Rung is one action with the failure that it answers, the rule that it comes from, and its result.
type Rung struct {
	Attempt       int64          `json:"attempt"`            // of the step; 0 is the first one
	Citations     []string       `json:"citations,omitzero"` // of the answer, if the case lets them be kept
	Class         string         `json:"class"`
	Code          string         `json:"code"`
	ConfidencePPM *int64         `json:"confidence_ppm,omitzero"`
	CostMicroUSD  *int64         `json:"cost_micro_usd,omitzero"`
	Effects       entry.Effects  `json:"effects,omitzero"` // that the failure left, or a reconcile found
	LatencyMS     *int64         `json:"latency_ms,omitzero"`
	Model         string         `json:"model,omitzero"`
	OutputDigest  entry.Digest   `json:"output_digest,omitzero"`
	Payload       string         `json:"payload,omitzero"` // that OutputDigest is of, if the case lets it be kept
	Reason        string         `json:"reason"`
	Result        string         `json:"result"`
	ResultReason  string         `json:"result_reason,omitzero"`
	Rule          string         `json:"rule"`
	Severity      entry.Severity `json:"severity,omitzero"`
	Simulated     bool           `json:"simulated,omitzero"`
	Step          string         `json:"step"`
	Strategy      string         `json:"strategy"`
	TokensIn      *int64         `json:"tokens_in,omitzero"`
	TokensOut     *int64         `json:"tokens_out,omitzero"`
	Variant       string         `json:"variant,omitzero"`
	WaitMS        int64          `json:"wait_ms,omitzero"`
}

// Shadow is what other rules decided beside the policy: those of the candidate of a shadow, or of
// the other arm of a canary. It has a rung for each decision of the policy, about the same failure
// and history. Nothing was done about it.
type Shadow struct {
	Policy entry.Digest `json:"policy"` // of the other rules
	Rungs  []Rung       `json:"rungs"`
}

// Near is a limit, or the max of a rung, that decides about the case within one step: with the
// other value the case ends otherwise.
type Near struct {
	Param  string           `json:"param"`
	Status entry.CaseStatus `json:"status"`
	Value  int64            `json:"value"`
}

// Hint names the one word that would have helped a case that escalated; empty: there is no such
// word, or it is unknown.
func (t *Trace) Hint() string {
	if t.Undeclared == "" {
		return ""
	}
	return fmt.Sprintf(`step %s declares no effect, so the step may have had one: write "effect":"none" in the step if it has none`, t.Undeclared)
}

// Encode returns the canonical form, without the newline.
func (t *Trace) Encode() ([]byte, error) {
	line, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("engine: encode trace of %s: %w", t.Case, err)
	}
	return line, nil
}

// DecodeTrace reads a line of traces.ndjson. It accepts exactly the output of Encode.
func DecodeTrace(line []byte) (Trace, error) {
	var t Trace
	if wrong := (scenario.Document{What: "a trace"}).DecodeJSON(line, &t); wrong != nil {
		wrong.Remedy = "run arl recover again: traces are not edited"
		return Trace{}, wrong
	}
	again, err := t.Encode()
	if err != nil || string(again) != string(line) {
		return Trace{}, scenario.Malformed("", "is not in canonical form", "run arl recover again: traces are not edited")
	}
	return t, nil
}

// leafOf is the leaf hash of a trace in canonical form.
func leafOf(line []byte) merkle.Hash { return merkle.HashLeaf(line) }

// formatVersion is the v of traces, reports and snapshots.
const formatVersion = 1
