package coord

import (
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Order says what decision is wanted of whom.
type Order struct {
	Incident  uint64
	Act       entry.Act
	Reason    string
	Exp       int64               // Unix seconds; 0: what suits the act
	Pin       uint64              // size of the log, as of which a plan's signals are taken; 0: as of now
	Unfounded []entry.Unfounded   // signals that a plan leaves out
	Signals   []entry.Disposition // of a deny; nil: all inconclusive
	Members   []entry.Ref         // of a release
}

// Draft returns the decision that carries out an order as the next entry of the
// log, at now (Unix milliseconds): everything but jti, iss, iat and crit. Where
// a proposal waits and enough approvals answer it, authorize and amend carry it
// out. The error is a [*entry.Refusal] if the incident is unknown; whether the
// decision is admitted, only Admit tells.
func (s *State) Draft(o Order, now int64) (*entry.Decision, error) {
	number, inc, ok := s.findIncident(o.Incident)
	if !ok {
		return nil, unknown("incident", "no incident %d in the log", o.Incident)
	}
	_, policy := s.chain.Policy()
	d := &entry.Decision{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: o.Incident, Act: o.Act, Policy: policy, Epoch: inc.epoch, Exp: o.Exp, Reason: o.Reason,
		Signals: o.Signals, Members: o.Members,
	}
	if o.Act == entry.ActEscalate || o.Act == entry.ActAmend || o.Act == entry.ActOverride {
		d.Epoch++
	}
	if o.Act == entry.ActDeny && d.Signals == nil {
		d.Signals = s.inconclusive(inc)
	}
	if o.Act == entry.ActDeny && inc.silent { // somebody takes note
		ref := s.logRef(inc.recorded)
		d.Supersedes = &ref
	}
	if o.Act == entry.ActAmend && inc.force != nil {
		ref := s.logRef(inc.force.index)
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

// draftDeadline is until when all of a plan is to be done. An amend that changes
// nothing but the epoch keeps the deadline in force while it lasts: else whoever
// may propose could, with an agent that says nothing, put it off for ever. What
// people approve has all the time there is, and so has what nobody could carry out.
func (s *State) draftDeadline(d *entry.Decision, inc *incident, a *assessment, now int64) int64 {
	deadline := now + a.law.windows.DeadlineMaxMS
	f := inc.force
	if d.Act != entry.ActAmend || f == nil || f.over(now) || len(d.Approvals) > 0 || s.void(&f.decided) || !f.sameAs(a.plan) {
		return deadline
	}
	return min(deadline, f.deadline)
}

// defaultExp is until when a decision without a deadline holds, in Unix
// milliseconds.
func (s *State) defaultExp(inc *incident, act entry.Act, now int64) int64 {
	l := s.lawOf(inc)
	switch act {
	case entry.ActEscalate:
		return now + l.windows.AnswerMS + l.windows.DecideMS + 1000
	case entry.ActContain:
		left := l.limits.Incident.FencedMS - inc.fencedUntil(0, now)
		return now + min(left, l.windows.AnswerMS+l.windows.DecideMS)
	}
	return now + hourMS
}

func (s *State) inconclusive(inc *incident) (list []entry.Disposition) {
	for _, n := range inc.signals {
		list = append(list, entry.Disposition{Index: s.signals[n].index, Disposition: dispositions[inconclusive]})
	}
	return list
}

// draftScope fills in what a decision with a plan rests on, and returns what it
// undoes.
func (s *State) draftScope(d *entry.Decision, number uint32, o Order, now int64) *assessment {
	inc := s.incidents[number]
	pin, without := s.pin(), slices.Clone(o.Unfounded)
	if o.Pin != 0 {
		pin = merkle.Head{Size: o.Pin, Root: s.tree.root(o.Pin)}
	}
	if d.Act == entry.ActAuthorize || d.Act == entry.ActAmend {
		if p, approvals := s.quorum(inc, now); p != nil {
			pin, without, d.Approvals = p.pin, nil, approvals
			for _, index := range p.unfounded {
				without = append(without, entry.Unfounded{Index: index, Reason: "as proposed"})
			}
		}
	}
	if without == nil {
		without = []entry.Unfounded{}
	}
	d.Pin, d.Unfounded = &pin, without
	a := s.assess(number, pin.Size, unfoundedOf(d), now)
	basis, blast := s.basisOf(a.signals), a.blast
	d.Basis, d.Blast = &basis, &blast
	d.Scope = &entry.Scope{Algorithm: entry.ScopeAlgorithm, Head: s.scopeOf(a.plan.Members)}
	return a
}

// quorum returns the proposal that waits and enough approvals of it; nil if it
// has not got them.
func (s *State) quorum(inc *incident, now int64) (*proposal, []uint64) {
	p := s.waiting(inc, now)
	if p == nil {
		return nil, nil
	}
	approve, _ := s.answersTo(inc, p, now)
	if int64(len(approve)) < s.lawOf(inc).quorum.Approve {
		return nil, nil
	}
	var indexes []uint64
	for _, a := range approve {
		indexes = append(indexes, a.index)
	}
	return p, indexes
}

// DraftRecord returns the record of an incident all of whose members have an
// outcome, as Draft does. What it says of the signals follows from the decision in
// force: those that it rests on are corroborated or self-reported, those that it
// leaves out unfounded, later ones inconclusive.
func (s *State) DraftRecord(id uint64) (*entry.Record, error) {
	_, inc, ok := s.findIncident(id)
	if !ok || inc.force == nil {
		return nil, unknown("incident", "no incident %d in the log with a plan in force", id)
	}
	f := inc.force
	state, tally := f.verdict()
	r := &entry.Record{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: id, State: state.String(), Decision: s.logRef(f.index), Tally: tally, Unresolved: s.unresolved(f),
		Review: int64(len(f.review)), Signals: []entry.Disposition{},
	}
	for _, n := range inc.signals {
		r.Signals = append(r.Signals, s.judge(inc, n))
	}
	return r, nil
}

// DraftUnknown returns the outcome of the next member that has none, in the order
// of the plan in force, as Draft does: for whoever closes an incident whose agents
// say nothing. ok is false if every member has one.
func (s *State) DraftUnknown(id uint64, now int64) (o *entry.Outcome, ok bool) {
	_, inc, ok := s.findIncident(id)
	if !ok || inc.force == nil {
		return nil, false
	}
	for i := range inc.force.members {
		if m := &inc.force.members[i]; m.result == "" {
			return s.draftUnknown(inc, m, now), true
		}
	}
	return nil, false
}

// draftUnknown returns the outcome of a member whose agent says nothing.
func (s *State) draftUnknown(inc *incident, m *member, now int64) *entry.Outcome {
	return &entry.Outcome{
		Header:   entry.Header{V: 1, Aud: s.origin, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow))},
		Incident: inc.opened, Decision: s.logRef(inc.force.index), Exec: s.refOf(m.exec), Result: entry.ResultUnknown,
		ObservedAt: now, Residual: "its agent reported no outcome in time",
	}
}

// over reports whether no decision can hold until the deadline any more: exp is
// in seconds.
func (f *force) over(now int64) bool { return now/1000 >= f.deadline/1000 }

// sameAs reports whether a plan is the one in force.
func (f *force) sameAs(p *scope.Plan) bool {
	return slices.EqualFunc(f.members, p.Members, func(m member, q scope.Member) bool {
		return m.exec == q.Exec && m.method == q.Method && m.checkpoint == q.Checkpoint
	})
}
