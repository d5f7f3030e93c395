package entry

import (
	"maps"
	"slices"

	"recoveryledger/merkle"
)

// Act is what a decision does to an incident.
type Act string

// The acts (protocol.md, section 6).
const (
	ActContain   Act = "contain"
	ActEscalate  Act = "escalate"
	ActAuthorize Act = "authorize"
	ActAmend     Act = "amend"
	ActDeny      Act = "deny"
	ActOverride  Act = "override"
	ActRelease   Act = "release"
)

// Decision is an act on an incident: what is fenced, proposed, to be undone,
// refused or set free.
type Decision struct {
	Header
	Incident uint64 `json:"incident"` // index of its opening signal
	Act      Act    `json:"act"`
	Policy   LogRef `json:"policy"` // in force
	Epoch    int64  `json:"epoch"`
	Exp      int64  `json:"exp"` // Unix seconds
	Reason   string `json:"reason"`

	// With a scope: contain, escalate, authorize, amend.
	Basis      *merkle.Head `json:"basis,omitempty"` // tree over the incident's signals
	Unfounded  []Unfounded  `json:"unfounded,omitzero"`
	Pin        *merkle.Head `json:"pin,omitempty"` // state of the log the scope was computed at
	Scope      *Scope       `json:"scope,omitempty"`
	Blast      *Blast       `json:"blast,omitempty"`
	NotFenced  string       `json:"not_fenced,omitempty"` // escalate that fences nothing: why not
	DeadlineAt int64        `json:"deadline_at,omitzero"` // authorize, amend

	Approvals  []uint64      `json:"approvals,omitempty"`
	Supersedes *LogRef       `json:"supersedes,omitempty"`
	Signals    []Disposition `json:"signals,omitempty"` // deny
	Members    []Ref         `json:"members,omitempty"` // release
}

// Unfounded takes a signal out of a scope's seeds, with the reason.
type Unfounded struct {
	Index  uint64 `json:"index"`
	Reason string `json:"reason"`
}

// Scope commits to the members of a plan (SCO-5).
type Scope struct {
	Algorithm string `json:"algorithm"`
	merkle.Head
}

// Blast counts what a scope touches.
type Blast struct {
	Members     int64 `json:"members"`
	Agents      int64 `json:"agents"`
	Domains     int64 `json:"domains"`
	Irrevocable int64 `json:"irrevocable"`
	Undeclared  int64 `json:"undeclared"`
}

// Disposition is the verdict on the signal at Index. A signal that is believed is
// corroborated where somebody else's word stands beside its issuer's, else it is
// self-reported: nobody confirms what it says itself.
type Disposition struct {
	Index       uint64 `json:"index"`
	Disposition string `json:"disposition"` // one of the four below
	// Domains are those of the principals that corroborate it, ascending; of a
	// corroborated signal alone. The issuer's own may be among them.
	Domains []string `json:"domains,omitempty"`
	// Independent is whether one of them is of another domain than the issuer, or
	// speaks by a role that only the policy's authority grants: a monitor or an
	// operator with evidence, or an approver.
	Independent bool `json:"independent,omitzero"`
}

// The dispositions.
const (
	Corroborated = "corroborated"
	SelfReported = "self_reported"
	NotFounded   = "unfounded"
	Inconclusive = "inconclusive"
)

// Kind implements [Body].
func (*Decision) Kind() Kind { return KindDecision }

// ScopeAlgorithm names the rules SCO-1 to SCO-5.
const ScopeAlgorithm = "scope/1"

func (d *Decision) check() error {
	err := first(
		checkOneOf("act", d.Act, ActContain, ActEscalate, ActAuthorize, ActAmend, ActDeny, ActOverride, ActRelease),
		checkCount("epoch", d.Epoch),
		checkPositive("exp", d.Exp),
		checkReason(d.Reason),
		checkLen("unfounded", len(d.Unfounded), 0, MaxList),
		checkLen("approvals", len(d.Approvals), 0, MaxList),
		checkLen("members", len(d.Members), 0, MaxList),
		checkText("not_fenced", d.NotFenced),
		refuseIf(d.NotFenced != "" && d.Act != ActEscalate, "not_fenced", "stands in an escalate only"))
	if err != nil {
		return err
	}
	return first(
		each("members", d.Members, func(member *Ref) error { return checkRef("", *member) }),
		each("unfounded", d.Unfounded, func(u *Unfounded) error { return checkReason(u.Reason) }),
		d.checkScope(), checkDispositions(d.Signals),
		refuseIf(d.Act == ActDeny && len(d.Signals) == 0, "signals", "missing in a deny"),
		refuseIf(d.Act == ActRelease && len(d.Members) == 0, "members", "missing in a release"))
}

func (d *Decision) checkScope() error {
	timed := d.Act == ActAuthorize || d.Act == ActAmend
	scoped := timed || d.Act == ActContain || d.Act == ActEscalate
	missing := func(field string, absent bool) error {
		return refuseIf(scoped && absent, field, "missing in a decision with a scope")
	}
	err := first(
		missing("basis", d.Basis == nil),
		missing("unfounded", d.Unfounded == nil),
		missing("pin", d.Pin == nil),
		missing("scope", d.Scope == nil),
		missing("blast", d.Blast == nil),
		missing("deadline_at", timed && d.DeadlineAt == 0),
		checkCount("deadline_at", d.DeadlineAt))
	if err == nil && d.Scope != nil {
		err = checkOneOf("scope.algorithm", d.Scope.Algorithm, ScopeAlgorithm)
	}
	if err == nil && d.Blast != nil {
		err = inside("blast", d.Blast.check())
	}
	return err
}

func (b *Blast) check() error {
	return first(checkCount("members", b.Members), checkCount("agents", b.Agents), checkCount("domains", b.Domains),
		checkCount("irrevocable", b.Irrevocable), checkCount("undeclared", b.Undeclared))
}

func checkDispositions(list []Disposition) error {
	return first(
		checkLen("signals", len(list), 0, MaxList),
		each("signals", list, (*Disposition).check),
		distinct("signals", list, "index", func(s *Disposition) uint64 { return s.Index }))
}

func (d *Disposition) check() error {
	corroborated := d.Disposition == Corroborated
	return first(
		checkOneOf("disposition", d.Disposition, Corroborated, SelfReported, NotFounded, Inconclusive),
		refuseIf(corroborated && len(d.Domains) == 0, "domains", "missing: say which domains corroborate the signal"),
		refuseIf(!corroborated && len(d.Domains) > 0, "domains", "of a signal that is %s", d.Disposition),
		refuseIf(!corroborated && d.Independent, "independent", "of a signal that is %s", d.Disposition),
		checkLen("domains", len(d.Domains), 0, MaxList),
		each("domains", d.Domains, func(domain *string) error { return checkName("", *domain) }),
		distinct("domains", d.Domains, "", func(domain *string) string { return *domain }))
}

// Approval answers a proposal.
type Approval struct {
	Header
	Incident uint64 `json:"incident"`
	Proposal LogRef `json:"proposal"` // the escalate it answers
	Verdict  string `json:"verdict"`  // approve, refuse
	Exp      int64  `json:"exp"`
	Reason   string `json:"reason"`
}

// Kind implements [Body].
func (*Approval) Kind() Kind { return KindApproval }

func (a *Approval) check() error {
	return first(checkOneOf("verdict", a.Verdict, "approve", "refuse"), checkPositive("exp", a.Exp), checkReason(a.Reason))
}

// Result is what became of a member of a plan.
type Result string

// The results (INC-6).
const (
	Restored          Result = "restored"
	Compensated       Result = "compensated"
	NotExecuted       Result = "not_executed"
	ResultIrrevocable Result = "irrevocable"
	ResultFailed      Result = "failed"
	Refused           Result = "refused"
	Withheld          Result = "withheld"
	ResultUnknown     Result = "unknown"
)

func results() []Result {
	return []Result{Restored, Compensated, NotExecuted, ResultIrrevocable, ResultFailed, Refused, Withheld, ResultUnknown}
}

// Outcome reports what became of a member; it is the agent's claim.
type Outcome struct {
	Header
	Incident   uint64     `json:"incident"`
	Decision   LogRef     `json:"decision"`
	Exec       Ref        `json:"exec"`
	Result     Result     `json:"result"`
	ObservedAt int64      `json:"observed_at"`
	Residual   string     `json:"residual,omitempty"`    // what stays; mandatory unless fully undone
	CompExec   Ref        `json:"comp_exec,omitempty"`   // mandatory if compensated
	PostDigest Digest     `json:"post_digest,omitempty"` // mandatory if restored
	Evidence   []Evidence `json:"evidence,omitempty"`
	Supersedes *LogRef    `json:"supersedes,omitempty"`
}

// Kind implements [Body].
func (*Outcome) Kind() Kind { return KindOutcome }

func (o *Outcome) check() error {
	undone := o.Result == Restored || o.Result == Compensated || o.Result == NotExecuted
	return first(
		checkRef("exec", o.Exec),
		checkOneOf("result", o.Result, results()...),
		checkPositive("observed_at", o.ObservedAt),
		refuseIf(!undone && o.Residual == "", "residual", "missing: say what stays, or what may"),
		checkText("residual", o.Residual),
		refuseIf(o.Result == Compensated && o.CompExec == "", "comp_exec", "missing"),
		optional("comp_exec", o.CompExec, checkRef),
		refuseIf(o.Result == Restored && o.PostDigest == "", "post_digest", "missing"),
		optional("post_digest", o.PostDigest, checkDigest),
		checkEvidence(o.Evidence))
}

// Record closes an incident.
type Record struct {
	Header
	Incident   uint64           `json:"incident"`
	State      string           `json:"state"` // RECOVERED, NO_EFFECTS, PARTIAL, FAILED
	Decision   LogRef           `json:"decision"`
	Tally      map[Result]int64 `json:"tally"`
	Unresolved merkle.Head      `json:"unresolved"`
	Signals    []Disposition    `json:"signals"`
	Review     int64            `json:"review"`
}

// Kind implements [Body].
func (*Record) Kind() Kind { return KindRecord }

func (r *Record) check() error {
	err := first(checkOneOf("state", r.State, "RECOVERED", "NO_EFFECTS", "PARTIAL", "FAILED"), checkCount("review", r.Review),
		checkDispositions(r.Signals))
	for _, result := range slices.Sorted(maps.Keys(r.Tally)) { // so that the refusal is the same every time
		err = first(err, checkOneOf("tally", result, results()...), checkCount("tally."+string(result), r.Tally[result]))
	}
	return err
}
