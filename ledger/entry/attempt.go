package entry

import (
	"cmp"
	"encoding/binary"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Attempt records what was decided about the failures of a case, and what came of it. An engine
// writes the cases of a run. A coordinator, or the agent whose work it was, writes cases outside of
// a run; then Agent is set. Cases that come together share an entry, and so a signature: the first
// stands in the entry itself, the others in Also.
type Attempt struct {
	Header
	Run    string    `json:"run,omitzero"`    // of the issuer; empty: outside of a run
	Agent  Principal `json:"agent,omitzero"`  // whose work it was; empty: not known
	Task   Ref       `json:"task,omitzero"`   // that the agent worked at
	Policy Digest    `json:"policy,omitzero"` // of the rules that decided
	Arm    Arm       `json:"arm,omitzero"`    // of a rollout; empty: there was none
	AttemptCase
	Also []AttemptCase `json:"also,omitempty"`
}

// AttemptCase is one case of an [Attempt].
type AttemptCase struct {
	Case         string         `json:"case"`
	Rungs        []Rung         `json:"rungs"`
	Status       CaseStatus     `json:"status"`
	TraceDigest  Digest         `json:"trace_digest,omitzero"`
	CostMicroUSD *int64         `json:"cost_micro_usd,omitempty"` // of all attempts, also the first
	Tokens       *int64         `json:"tokens,omitempty"`
	ElapsedMS    *int64         `json:"elapsed_ms,omitempty"` // with waits
	Facts        jsontext.Value `json:"facts,omitzero"`       // an object: the case as it was decided
}

// Rung is one step on a ladder of recovery.
type Rung struct {
	Attempt      int64  `json:"attempt"`
	Step         string `json:"step,omitempty"` // of the case
	Class        string `json:"class"`
	Code         string `json:"code"`
	Rule         string `json:"rule"`
	Strategy     string `json:"strategy"`
	Variant      string `json:"variant,omitempty"`
	Model        string `json:"model,omitempty"`
	Result       string `json:"result"`
	CostMicroUSD *int64 `json:"cost_micro_usd,omitempty"`
	Tokens       *int64 `json:"tokens,omitempty"`
	LatencyMS    *int64 `json:"latency_ms,omitempty"`
	WaitMS       *int64 `json:"wait_ms,omitempty"` // before the attempt
	Reason       string `json:"reason"`
}

// Arm is the part of a rollout that a case belongs to.
type Arm string

// The arms: the baseline decided, the candidate decided, or the candidate decided beside and
// nothing was done about it.
const (
	ArmControl Arm = "control"
	ArmCanary  Arm = "canary"
	ArmShadow  Arm = "shadow"
)

// CaseStatus is how a case ended, or that it goes on.
type CaseStatus string

// The statuses.
const (
	StatusRecovered CaseStatus = "auto_recovered"
	StatusEscalated CaseStatus = "escalated"
	StatusPassedOn  CaseStatus = "passed_on" // it goes on
	StatusNoFailure CaseStatus = "no_failure"
)

// Cases yields the cases of the entry in order.
func (a *Attempt) Cases() iter.Seq[*AttemptCase] {
	return func(yield func(*AttemptCase) bool) {
		if !yield(&a.AttemptCase) {
			return
		}
		for i := range a.Also {
			if !yield(&a.Also[i]) {
				return
			}
		}
	}
}

// Size returns a bound on the bytes of the cases in a payload.
func (a *Attempt) Size() (n int) {
	for c := range a.Cases() {
		n += c.caseSize()
	}
	return n
}

// caseSize returns a bound on the bytes of the case in a payload.
func (c *AttemptCase) caseSize() int {
	const members, number = 160, 18 // names of members with their marks
	n := members + len(c.Case) + len(c.TraceDigest) + 3*number + len(c.Facts)
	for i := range c.Rungs {
		r := &c.Rungs[i]
		n += members + len(r.Step) + len(r.Class) + len(r.Code) + len(r.Rule) + len(r.Strategy) + len(r.Variant) + len(r.Model) +
			len(r.Result) + 5*number + 2*len(r.Reason)
	}
	return n
}

// Joint is an attempt that takes further cases up, of the same run, agent, task, policy and arm.
type Joint struct {
	*Attempt
	room int // for further cases, in bytes; 0: not known
}

// Join takes the first case of another attempt up. It reports false if the entry has no room for
// the case.
func (j *Joint) Join(other *Attempt) bool {
	if j.room == 0 {
		j.room = joinMax - j.Size()
	}
	size := other.caseSize()
	if size > j.room || len(j.Also) == MaxAlso {
		return false
	}
	j.room -= size
	j.Also = append(j.Also, other.AttemptCase)
	return true
}

// joinMax bounds the cases of an entry in bytes: as base64 they are smaller than an envelope may
// be.
const joinMax = 33 << 10

// Of returns the principal whose work the cases are.
func (a *Attempt) Of() Principal { return cmp.Or(a.Agent, a.Iss) }

// AttemptJTI returns the jti that an attempt in a run must have: a UUID of version 8 (RFC 9562)
// made of the run and the first case. An engine that registers the attempt again therefore makes no
// second entry (REG-2).
func AttemptJTI(run, id string) string {
	return derivedJTI(append(binary.BigEndian.AppendUint16([]byte("attempt"), uint16(len(run))), run+id...))
}

// Kind implements [Body].
func (*Attempt) Kind() Kind { return KindAttempt }

func (a *Attempt) check() error {
	err := first(optional("run", a.Run, checkName),
		refuseIf(a.Run == "" && a.Agent == "", "run", "neither a run nor an agent whose work it was"),
		optional("agent", string(a.Agent), checkName), optional("task", a.Task, checkRef), optional("policy", a.Policy, checkDigest))
	if a.Arm != "" {
		err = first(err, checkOneOf("arm", a.Arm, ArmControl, ArmCanary, ArmShadow), refuseIf(a.Policy == "", "arm", "an arm without a policy"))
	}
	err = first(err, a.AttemptCase.check(a.Run != ""), checkLen("also", len(a.Also), 0, MaxAlso))
	seen := map[string]bool{a.Case: true}
	return first(err, each("also", a.Also, func(c *AttemptCase) error {
		twice := seen[c.Case]
		seen[c.Case] = true
		return first(c.check(a.Run != ""), refuseIf(twice, "case", "is listed twice"))
	}))
}

// check checks a case. Within a run, the case has a trace.
func (c *AttemptCase) check(traced bool) error {
	err := first(checkName("case", c.Case), checkLen("rungs", len(c.Rungs), 0, MaxList),
		checkOneOf("status", c.Status, StatusRecovered, StatusEscalated, StatusPassedOn, StatusNoFailure))
	if traced || c.TraceDigest != "" {
		err = first(err, checkDigest("trace_digest", c.TraceDigest))
	}
	return first(err, each("rungs", c.Rungs, (*Rung).check), checkOptionalCount("cost_micro_usd", c.CostMicroUSD),
		checkOptionalCount("tokens", c.Tokens), checkOptionalCount("elapsed_ms", c.ElapsedMS),
		refuseIf(c.Facts != nil && c.Facts.Kind() != '{', "facts", "not an object"))
}

func (r *Rung) check() error {
	return first(checkCount("attempt", r.Attempt), optional("step", r.Step, checkName), checkWord("class", r.Class), checkWord("code", r.Code),
		checkWord("rule", r.Rule), checkWord("strategy", r.Strategy), optional("variant", r.Variant, checkWord), optional("model", r.Model, checkName),
		checkWord("result", r.Result), checkOptionalCount("cost_micro_usd", r.CostMicroUSD), checkOptionalCount("tokens", r.Tokens),
		checkOptionalCount("latency_ms", r.LatencyMS), checkOptionalCount("wait_ms", r.WaitMS), checkText("reason", r.Reason))
}
