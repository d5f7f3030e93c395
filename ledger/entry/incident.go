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

// Decision is an act on an incident: it fences, proposes, orders or refuses a rollback, or releases
// executions.
type Decision struct {
	Header
	Incident uint64 `json:"incident"` // index of its opening signal
	Act      Act    `json:"act"`
	Policy   LogRef `json:"policy"` // in force
	Epoch    int64  `json:"epoch"`
	Exp      int64  `json:"exp"` // Unix seconds
	Reason   string `json:"reason"`

	// With a rollback set: contain, escalate, authorize, amend.
	Signals     *merkle.Head `json:"signals,omitempty"` // tree over the incident's signals
	Dismissed   []Dismissal  `json:"dismissed,omitzero"`
	Pin         *merkle.Head `json:"pin,omitempty"` // state of the log that the rollback set was computed at
	RollbackSet *RollbackSet `json:"rollback_set,omitempty"`
	Impact      *Impact      `json:"impact,omitempty"`
	NotFenced   string       `json:"not_fenced,omitempty"` // escalate that fences nothing: why not
	DeadlineAt  int64        `json:"deadline_at,omitzero"` // authorize, amend

	Approvals    []uint64      `json:"approvals,omitempty"`
	Supersedes   *LogRef       `json:"supersedes,omitempty"`
	Dispositions []Disposition `json:"dispositions,omitempty"` // deny
	Members      []Ref         `json:"members,omitempty"`      // release
}

// Dismissal removes a signal from the seeds of a rollback set, with the reason.
type Dismissal struct {
	Index  uint64 `json:"index"`
	Reason string `json:"reason"`
}

// RollbackSet commits to the members of a plan (SCO-5).
type RollbackSet struct {
	Algorithm string `json:"algorithm"`
	merkle.Head
}

// Impact counts the members, agents and domains that a rollback set touches.
type Impact struct {
	Members     int64 `json:"members"`
	Agents      int64 `json:"agents"`
	Domains     int64 `json:"domains"`
	Irrevocable int64 `json:"irrevocable"`
	Undeclared  int64 `json:"undeclared"`
}

// Disposition is the verdict on the signal at Index. A believed signal is corroborated if another
// party supports the issuer. Otherwise the signal is self-reported.
type Disposition struct {
	Index       uint64 `json:"index"`
	Disposition string `json:"disposition"` // one of the four below
	// Domains are the domains of the principals that corroborate the signal, ascending. The domain
	// of the issuer may be among them. Only a corroborated signal has domains.
	Domains []string `json:"domains,omitempty"`
	// Independent says that a corroborating principal is of another domain than the issuer, or has
	// a role that only the policy's authority grants: a monitor or an operator with evidence, or an
	// approver.
	Independent bool `json:"independent,omitzero"`
}

// The dispositions.
const (
	Corroborated = "corroborated"
	SelfReported = "self_reported"
	Dismissed    = "dismissed"
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
		checkLen("dismissed", len(d.Dismissed), 0, MaxList),
		checkLen("approvals", len(d.Approvals), 0, MaxList),
		checkLen("members", len(d.Members), 0, MaxList),
		checkText("not_fenced", d.NotFenced),
		refuseIf(d.NotFenced != "" && d.Act != ActEscalate, "not_fenced", "only an escalate may have it"))
	if err != nil {
		return err
	}
	return first(
		each("members", d.Members, func(member *Ref) error { return checkRef("", *member) }),
		each("dismissed", d.Dismissed, func(u *Dismissal) error { return checkReason(u.Reason) }),
		d.checkRollbackSet(), checkDispositions(d.Dispositions),
		refuseIf(d.Act == ActDeny && len(d.Dispositions) == 0, "dispositions", "missing in a deny"),
		refuseIf(d.Act == ActRelease && len(d.Members) == 0, "members", "missing in a release"))
}

func (d *Decision) checkRollbackSet() error {
	timed := d.Act == ActAuthorize || d.Act == ActAmend
	withSet := timed || d.Act == ActContain || d.Act == ActEscalate
	missing := func(field string, absent bool) error {
		return refuseIf(withSet && absent, field, "missing in a decision with a rollback set")
	}
	err := first(
		missing("signals", d.Signals == nil),
		missing("dismissed", d.Dismissed == nil),
		missing("pin", d.Pin == nil),
		missing("rollback_set", d.RollbackSet == nil),
		missing("impact", d.Impact == nil),
		missing("deadline_at", timed && d.DeadlineAt == 0),
		checkCount("deadline_at", d.DeadlineAt))
	if err == nil && d.RollbackSet != nil {
		err = checkOneOf("rollback_set.algorithm", d.RollbackSet.Algorithm, ScopeAlgorithm)
	}
	if err == nil && d.Impact != nil {
		err = inside("impact", d.Impact.check())
	}
	return err
}

func (b *Impact) check() error {
	return first(checkCount("members", b.Members), checkCount("agents", b.Agents), checkCount("domains", b.Domains),
		checkCount("irrevocable", b.Irrevocable), checkCount("undeclared", b.Undeclared))
}

func checkDispositions(list []Disposition) error {
	return first(
		checkLen("dispositions", len(list), 0, MaxList),
		each("dispositions", list, (*Disposition).check),
		distinct("dispositions", list, "index", func(s *Disposition) uint64 { return s.Index }))
}

func (d *Disposition) check() error {
	corroborated := d.Disposition == Corroborated
	return first(
		checkOneOf("disposition", d.Disposition, Corroborated, SelfReported, Dismissed, Inconclusive),
		refuseIf(corroborated && len(d.Domains) == 0, "domains", "missing: say which domains corroborate the signal"),
		refuseIf(!corroborated && len(d.Domains) > 0, "domains", "the signal is %s; only a corroborated one has this member", d.Disposition),
		refuseIf(!corroborated && d.Independent, "independent", "the signal is %s; only a corroborated one has this member", d.Disposition),
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

// Result is the result of undoing a member of a rollback set.
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

// Results returns all results in the order of the protocol.
func Results() []Result {
	return []Result{Restored, Compensated, NotExecuted, ResultIrrevocable, ResultFailed, Refused, Withheld, ResultUnknown}
}

// Undone reports whether the result leaves nothing to undo.
func (r Result) Undone() bool { return r == Restored || r == Compensated || r == NotExecuted }

// Outcome reports the result of undoing a member. The report is a claim of the agent.
type Outcome struct {
	Header
	Incident   uint64     `json:"incident"`
	Decision   LogRef     `json:"decision"`
	Exec       Ref        `json:"exec"`
	Result     Result     `json:"result"`
	ObservedAt int64      `json:"observed_at"`
	Residual   string     `json:"residual,omitempty"`    // what stays; required unless fully undone
	CompExec   Ref        `json:"comp_exec,omitempty"`   // required if compensated
	PostDigest Digest     `json:"post_digest,omitempty"` // required if restored
	Evidence   []Evidence `json:"evidence,omitempty"`
	Supersedes *LogRef    `json:"supersedes,omitempty"`
}

// Kind implements [Body].
func (*Outcome) Kind() Kind { return KindOutcome }

func (o *Outcome) check() error {
	undone := o.Result == Restored || o.Result == Compensated || o.Result == NotExecuted
	return first(
		checkRef("exec", o.Exec),
		checkOneOf("result", o.Result, Results()...),
		checkPositive("observed_at", o.ObservedAt),
		refuseIf(!undone && o.Residual == "", "residual", "missing: name the effects that stay or may stay"),
		checkText("residual", o.Residual),
		refuseIf(o.Result == Compensated && o.CompExec == "", "comp_exec", "missing"),
		optional("comp_exec", o.CompExec, checkRef),
		refuseIf(o.Result == Restored && o.PostDigest == "", "post_digest", "missing"),
		optional("post_digest", o.PostDigest, checkDigest),
		checkEvidence(o.Evidence))
}

// IncidentState is the state of an incident (protocol.md, section 6).
type IncidentState string

// The states of an incident. The last five are terminal.
const (
	IncidentReported   IncidentState = "REPORTED"
	IncidentContained  IncidentState = "CONTAINED"
	IncidentEscalated  IncidentState = "ESCALATED"
	IncidentAuthorized IncidentState = "AUTHORIZED"
	IncidentDismissed  IncidentState = "DISMISSED"
	IncidentRecovered  IncidentState = "RECOVERED"
	// IncidentNoEffects is of an incident in which nothing was restored or compensated, since there
	// was nothing to undo.
	IncidentNoEffects IncidentState = "NO_EFFECTS"
	IncidentPartial   IncidentState = "PARTIAL"
	IncidentFailed    IncidentState = "FAILED"
)

// IncidentStates returns all states in the order of the protocol.
func IncidentStates() []IncidentState {
	return append([]IncidentState{IncidentReported, IncidentContained, IncidentEscalated, IncidentAuthorized, IncidentDismissed}, recordStates()...)
}

// recordStates returns the states in which a recovery record can close an incident.
func recordStates() []IncidentState {
	return []IncidentState{IncidentRecovered, IncidentNoEffects, IncidentPartial, IncidentFailed}
}

// Open reports whether the incident waits for something.
func (s IncidentState) Open() bool {
	return s == IncidentReported || s == IncidentContained || s == IncidentEscalated || s == IncidentAuthorized
}

// Decided reports whether a plan is in force, or the incident is over. A deny no longer dismisses
// such an incident: it acknowledges a silence.
func (s IncidentState) Decided() bool { return s == IncidentAuthorized || !s.Open() }

// LeftUndone reports whether the incident is over, and not everything could be undone.
func (s IncidentState) LeftUndone() bool { return s == IncidentPartial || s == IncidentFailed }

// Record closes an incident.
type Record struct {
	Header
	Incident     uint64           `json:"incident"`
	State        IncidentState    `json:"state"` // RECOVERED, NO_EFFECTS, PARTIAL, FAILED
	Decision     LogRef           `json:"decision"`
	Tally        map[Result]int64 `json:"tally"`
	Unresolved   merkle.Head      `json:"unresolved"`
	Dispositions []Disposition    `json:"dispositions"`
	Review       int64            `json:"review"`
}

// Kind implements [Body].
func (*Record) Kind() Kind { return KindRecord }

func (r *Record) check() error {
	err := first(checkOneOf("state", r.State, recordStates()...), checkCount("review", r.Review),
		checkDispositions(r.Dispositions))
	for _, result := range slices.Sorted(maps.Keys(r.Tally)) { // so that the refusal is the same every time
		err = first(err, checkOneOf("tally", result, Results()...), checkCount("tally."+string(result), r.Tally[result]))
	}
	return err
}
