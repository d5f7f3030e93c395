package entry

import (
	"encoding/binary"
)

// Attempt records what the recovery engine did about one case of a run.
type Attempt struct {
	Header
	Run         string `json:"run"`
	Case        string `json:"case"`
	Rungs       []Rung `json:"rungs"`
	Status      string `json:"status"` // auto_recovered, escalated, no_failure
	TraceDigest Digest `json:"trace_digest"`
}

// Rung is one step on a ladder of recovery.
type Rung struct {
	Attempt      int64  `json:"attempt"`
	Class        string `json:"class"`
	Code         string `json:"code"`
	Rule         string `json:"rule"`
	Strategy     string `json:"strategy"`
	Model        string `json:"model,omitempty"`
	Result       string `json:"result"`
	CostMicroUSD *int64 `json:"cost_micro_usd,omitempty"`
	LatencyMS    *int64 `json:"latency_ms,omitempty"`
	Reason       string `json:"reason"`
}

// AttemptJTI returns the jti that the attempt of a case in a run must have: a UUID of version 8
// (RFC 9562) made of the run and the case. An engine that registers the attempt again therefore
// makes no second entry (REG-2).
func AttemptJTI(run, id string) string {
	return derivedJTI(append(binary.BigEndian.AppendUint16([]byte("attempt"), uint16(len(run))), run+id...))
}

// Kind implements [Body].
func (*Attempt) Kind() Kind { return KindAttempt }

func (a *Attempt) check() error {
	err := first(checkName("run", a.Run), checkName("case", a.Case), checkLen("rungs", len(a.Rungs), 0, MaxList),
		checkOneOf("status", a.Status, "auto_recovered", "escalated", "no_failure"),
		checkDigest("trace_digest", a.TraceDigest))
	return first(err, each("rungs", a.Rungs, (*Rung).check))
}

func (r *Rung) check() error {
	return first(checkCount("attempt", r.Attempt), checkWord("class", r.Class), checkWord("code", r.Code),
		checkWord("rule", r.Rule), checkWord("strategy", r.Strategy), optional("model", r.Model, checkName),
		checkWord("result", r.Result), checkOptionalCount("cost_micro_usd", r.CostMicroUSD),
		checkOptionalCount("latency_ms", r.LatencyMS), checkText("reason", r.Reason))
}
