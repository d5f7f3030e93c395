package coord

import (
	"maps"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Order says which decision is wanted about an incident.
type Order struct {
	Incident  uint64
	Act       entry.Act
	Reason    string
	Exp       int64               // Unix seconds; 0: the default of the act
	Pin       uint64              // size of the log whose signals the plan rests on; 0: as of now
	Dismissed []entry.Dismissal   // signals that a plan leaves out
	Signals   []entry.Disposition // of a deny, see Dispositions; nil: all inconclusive
	Members   []entry.Ref         // of a release
}

// Draft returns the decision that carries out an order as the next entry of the log, at now (Unix
// milliseconds), without jti, iss, iat and crit. If a proposal waits and has enough approvals,
// authorize and amend carry out the proposal. The error is a [*entry.Refusal] if the incident is
// unknown. Only Admit tells whether the decision is admitted.
func (s *State) Draft(o Order, now int64) (*entry.Decision, error) {
	number, inc, ok := s.findIncident(o.Incident)
	if !ok {
		return nil, unknown("incident", "no incident %d in the log", o.Incident)
	}
	_, policy := s.chain.Policy()
	d := &entry.Decision{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: o.Incident, Act: o.Act, Policy: policy, Epoch: inc.epoch, Exp: o.Exp, Reason: o.Reason,
		Dispositions: o.Signals, Members: o.Members,
	}
	if o.Act == entry.ActEscalate || o.Act == entry.ActAmend || o.Act == entry.ActOverride {
		d.Epoch++
	}
	if o.Act == entry.ActDeny && d.Dispositions == nil {
		d.Dispositions = s.judgements(inc, nil)
	}
	if l := s.missedAnswerOf(inc, now); o.Act == entry.ActDeny && l.entry != 0 { // acknowledgement
		ref := s.logRef(l.entry)
		d.Supersedes = &ref
	}
	if o.Act == entry.ActAmend && inc.current != nil {
		ref := s.logRef(inc.current.index)
		d.Supersedes = &ref
	}
	var a *assessment
	if scoped(o.Act) {
		a = s.draftScope(d, number, o, now)
		if o.Act == entry.ActAuthorize || o.Act == entry.ActAmend {
			d.DeadlineAt = s.draftDeadline(d, inc, a, now)
		}
	}
	if d.Exp == 0 && d.DeadlineAt != 0 {
		d.Exp = d.DeadlineAt / 1000
	} else if d.Exp == 0 {
		d.Exp = s.defaultExp(inc, o.Act, now) / 1000
	}
	if o.Act == entry.ActEscalate {
		if refusal := s.unfenceable(number, a, d.Exp*1000, now); refusal != nil {
			d.NotFenced = refusal.Detail
		}
	}
	return d, nil
}

// draftDeadline returns the instant until which a plan is to be done. An amend that changes only
// the epoch keeps the deadline in force while that lasts. Else a principal that may propose, and a
// silent agent, could put the deadline off for ever. A plan that people approve gets the longest
// time that the policy allows, and so does a plan that no agent could carry out.
func (s *State) draftDeadline(d *entry.Decision, inc *incident, a *assessment, now int64) int64 {
	deadline := now + a.policy.windows.DeadlineMaxMS
	f := inc.current
	if d.Act != entry.ActAmend || f == nil || f.over(now) || len(d.Approvals) > 0 || s.void(&f.decided) || !f.sameAs(a.plan) {
		return deadline
	}
	return min(deadline, f.deadline)
}

// defaultExp returns the instant until which a decision without a deadline holds, in Unix
// milliseconds.
func (s *State) defaultExp(inc *incident, act entry.Act, now int64) int64 {
	l := s.policyFor(inc)
	switch act {
	case entry.ActEscalate:
		return now + l.windows.AnswerMS + l.windows.DecideMS + 1000
	case entry.ActContain:
		left := l.limits.Incident.FencedMS - inc.fencedUntil(0, now)
		return now + min(left, l.windows.AnswerMS+l.windows.DecideMS)
	}
	return now + hourMS
}

// Dispositions returns what a deny by a principal says of each signal of an incident. The
// principal's word corroborates some signals, and dismisses others, named by their
// indexes; the rest are inconclusive. An index of no signal of the incident stands at
// the end, where Admit refuses it.
func (s *State) Dispositions(id uint64, by entry.Principal, corroborated, dismissed []uint64) []entry.Disposition {
	said := map[uint64]entry.Disposition{}
	signer, _ := s.chain.Agent(by) // Admit refuses a signer that the log does not know
	for _, index := range corroborated {
		said[index] = entry.Disposition{Index: index, Disposition: entry.Corroborated, Domains: []string{signer.Domain}, Independent: true}
	}
	for _, index := range dismissed {
		said[index] = entry.Disposition{Index: index, Disposition: entry.Dismissed}
	}
	_, inc, ok := s.findIncident(id)
	if !ok {
		return nil
	}
	return s.judgements(inc, said)
}

// judgements lists the disposition of each signal of an incident. said holds dispositions by the
// index of the signal. A signal that said does not name is inconclusive.
func (s *State) judgements(inc *incident, said map[uint64]entry.Disposition) (list []entry.Disposition) {
	for _, n := range inc.signals {
		index := s.signals[n].index
		one, judged := said[index]
		if delete(said, index); !judged {
			one = entry.Disposition{Index: index, Disposition: entry.Inconclusive}
		}
		list = append(list, one)
	}
	for _, index := range slices.Sorted(maps.Keys(said)) {
		list = append(list, said[index])
	}
	return list
}

// draftScope fills in the signals and the plan that a decision rests on. It returns the
// assessment with that plan.
func (s *State) draftScope(d *entry.Decision, number uint32, o Order, now int64) *assessment {
	inc := s.incidents[number]
	pin, without := s.pin(), slices.Clone(o.Dismissed)
	if o.Pin != 0 {
		pin = merkle.Head{Size: o.Pin, Root: s.tree.Root(o.Pin)}
	}
	if d.Act == entry.ActAuthorize || d.Act == entry.ActAmend {
		if p, approvals := s.quorum(inc, now); p != nil {
			pin, without, d.Approvals = p.pin, nil, approvals
			for _, index := range p.dismissed {
				without = append(without, entry.Dismissal{Index: index, Reason: "as proposed"})
			}
		}
	}
	if without == nil {
		without = []entry.Dismissal{}
	}
	d.Pin, d.Dismissed = &pin, without
	a := s.assess(number, pin.Size, dismissedOf(d), now)
	signals, impact := s.signalsHead(a.signals), a.impact
	d.Signals, d.Impact = &signals, &impact
	d.RollbackSet = &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: s.rollbackSetHead(a.plan.Members)}
	return a
}

// quorum returns the waiting proposal and the indexes of its approvals. Both are nil if the
// approvals are not enough.
func (s *State) quorum(inc *incident, now int64) (*proposal, []uint64) {
	p := s.waiting(inc, now)
	if p == nil {
		return nil, nil
	}
	approve, _ := s.answersTo(inc, p, now)
	if int64(len(approve)) < s.policyFor(inc).quorum.Approve {
		return nil, nil
	}
	var indexes []uint64
	for _, a := range approve {
		indexes = append(indexes, a.index)
	}
	return p, indexes
}

// DraftRecord returns the record of an incident whose members all have an outcome, as Draft does.
// The dispositions follow from the decision in force. A signal that the decision rests on is
// corroborated or self-reported. A signal that it leaves out is dismissed. A later signal is
// inconclusive.
func (s *State) DraftRecord(id uint64) (*entry.Record, error) {
	inc, err := s.withPlan(id)
	if err != nil {
		return nil, err
	}
	return s.draftRecord(inc, inc.current), nil
}

// DraftClosing returns what closes an incident whose agents say nothing, as DraftRecord does: an
// outcome unknown for each member without an outcome, in the order of the plan in force, and the
// record that follows from all outcomes.
func (s *State) DraftClosing(id uint64, now int64) ([]*entry.Outcome, *entry.Record, error) {
	inc, err := s.withPlan(id)
	if err != nil {
		return nil, nil, err
	}
	var silent []*entry.Outcome
	closed := *inc.current
	closed.members = slices.Clone(closed.members)
	for i := range closed.members {
		if m := &closed.members[i]; m.result == "" {
			silent = append(silent, s.draftUnknown(inc, m, now))
			m.result = entry.ResultUnknown
		}
	}
	return silent, s.draftRecord(inc, &closed), nil
}

// withPlan returns an incident that has a plan in force.
func (s *State) withPlan(id uint64) (*incident, error) {
	_, inc, ok := s.findIncident(id)
	if !ok || inc.current == nil {
		return nil, unknown("incident", "no incident %d in the log with a plan in force", id)
	}
	return inc, nil
}

// draftRecord returns the record of the outcomes of a plan.
func (s *State) draftRecord(inc *incident, f *decisionInForce) *entry.Record {
	state, tally := f.verdict()
	r := &entry.Record{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: inc.opened, State: state, Decision: s.logRef(f.index), Tally: tally, Unresolved: s.unresolved(f),
		Review: int64(len(f.review)), Dispositions: []entry.Disposition{},
	}
	for _, n := range inc.signals {
		r.Dispositions = append(r.Dispositions, s.judge(inc, n))
	}
	return r
}

// draftUnknown returns the outcome of a member whose agent says nothing.
func (s *State) draftUnknown(inc *incident, m *member, now int64) *entry.Outcome {
	return &entry.Outcome{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: inc.opened, Decision: s.logRef(inc.current.index), Exec: s.refOf(m.exec), Result: entry.ResultUnknown,
		ObservedAt: now, Residual: "its agent reported no outcome in time",
	}
}

// over reports whether a new decision can no longer be valid. Its exp must be in the future and
// not behind the deadline, and exp is in whole seconds.
func (f *decisionInForce) over(now int64) bool { return now/1000 >= f.deadline/1000 }

// sameAs reports whether a plan is the one in force.
func (f *decisionInForce) sameAs(p *scope.Plan) bool {
	return slices.EqualFunc(f.members, p.Members, func(m member, q scope.Member) bool {
		return m.exec == q.Exec && m.method == q.Method && m.checkpoint == q.Checkpoint
	})
}
