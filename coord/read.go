package coord

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord/ascending"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// PlanView is a plan with all that people need to judge it, in the words of the wire.
type PlanView struct {
	api.Plan
	// Considered are the indexes of the signals that a decision would rest on, with
	// those that it leaves out; empty in a plan in force.
	Considered []uint64
}

var rules = []string{"seed", "dependent", "line"}

// Incidents returns up to limit incidents, the newest first. Only incidents with an id below
// before count. If before is 0, the list begins with the newest.
func (s *State) Incidents(before uint64, limit int, now int64) (views []api.Incident) {
	for number := s.incidentsBefore(before) - 1; number >= 0 && len(views) < limit; number-- {
		views = append(views, s.view(s.incidents[number], now))
	}
	return views
}

// incidentsBefore counts the incidents that opened before an entry; 0: all.
func (s *State) incidentsBefore(id uint64) int {
	if id == 0 {
		return len(s.incidents)
	}
	count, _ := slices.BinarySearchFunc(s.incidents, id, func(inc *incident, id uint64) int { return cmp.Compare(inc.opened, id) })
	return count
}

// IncidentsOf is Incidents for the incidents that concern a principal: by entries of its own, or
// as the agent of members.
func (s *State) IncidentsOf(p entry.Principal, before uint64, limit int, now int64) (views []api.Incident) {
	u, _ := s.usageOf(p)
	for _, of := range ascending.Largest(limit, ascending.Below(u.incidents, uint32(s.incidentsBefore(before)))) {
		views = append(views, s.view(s.incidents[of], now))
	}
	return views
}

// IncidentOf returns the incident that the signal at an index opened or joined.
func (s *State) IncidentOf(signal uint64) (id uint64, ok bool) {
	sig, ok := s.findSignal(signal)
	if ok {
		id = s.incidents[sig.incident].opened
	}
	return id, ok
}

// Incident returns the incident with an id.
func (s *State) Incident(id uint64, now int64) (view api.Incident, ok bool) {
	_, inc, ok := s.findIncident(id)
	if ok {
		view = s.view(inc, now)
	}
	return view, ok
}

func (s *State) view(inc *incident, now int64) api.Incident {
	l := s.policyFor(inc)
	v := api.Incident{
		ID: inc.opened, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow)), State: inc.state, Epoch: inc.epoch,
		OpenedAt: inc.openedAt, MergedInto: inc.mergedInto, Recorded: inc.recorded, DecideAt: inc.openedAt + l.windows.DecideMS,
		Signals: make([]api.IncidentSignal, 0, len(inc.signals)),
	}
	switch gone := s.missedAnswerOf(inc, now); {
	case gone.entry == 0:
	case inc.state == entry.IncidentDismissed:
		v.Silence, v.Acknowledged = true, gone.acknowledged
	default:
		v.Lapsed = &api.Lapse{Proposal: gone.entry, At: gone.at, Acknowledged: gone.acknowledged}
	}
	for _, n := range inc.signals {
		v.Signals = append(v.Signals, s.viewSignal(n))
	}
	if s.holding(inc, now) {
		v.Fence = &api.Fence{Decision: inc.hold.index, EndsAt: inc.hold.exp, Members: len(inc.hold.members), Lines: len(inc.hold.lines)}
	}
	v.Waits, v.StillFenced, v.NotFenced = s.waits(inc, now), inc.stillFenced(), s.notFenced(inc, now)
	v.WaitsFor = v.Waits.String()
	if p := s.waiting(inc, now); p != nil {
		approve, refuse := s.answersTo(inc, p, now)
		v.Proposal = &api.Proposal{
			Ref: s.logRef(p.index), Issuer: s.principal(p.issuer), ExpiresAt: p.exp, AnswerAt: p.at + l.windows.AnswerMS, Pin: p.pin,
			RollbackSet: p.rollbackSet, Dismissed: append([]uint64{}, p.dismissed...), Approve: s.viewAnswers(approve), Refuse: s.viewAnswers(refuse), Quorum: l.quorum.Approve,
		}
	}
	if f := inc.current; f != nil {
		_, tally := f.verdict()
		delete(tally, "") // members without an outcome are no result
		v.Decision = &api.InForce{
			Ref: s.logRef(f.index), Epoch: f.epoch, ExpiresAt: f.exp, DeadlineAt: f.deadline, Overridden: f.override != 0,
			Void: s.void(&f.decided), Members: len(f.members), Tally: tally, Review: len(f.review), Decisions: slices.Clone(f.decisions),
		}
	}
	v.AsksPeople = asksPeople(&v)
	return v
}

func (s *State) viewSignal(n uint32) api.IncidentSignal {
	sig := &s.signals[n]
	v := api.IncidentSignal{
		Index: sig.index, Incident: s.incidents[sig.incident].opened, At: sig.at, Issuer: s.principal(sig.issuer), Subject: s.subjectRef(sig.subject),
		Standing: sig.standing, Evidence: sig.evidence, Disposed: sig.disposed,
	}
	v.Silence = sig.disposed != 0 && s.incidents[sig.incident].dismissedBySilence()
	if sig.verdict.disposition != undisposed {
		v.Disposition, v.Domains, v.Independent = dispositions[sig.verdict.disposition], sig.domains, sig.verdict.independent
	}
	return v
}

func (s *State) viewAnswers(list []approval) []api.Answer {
	views := make([]api.Answer, 0, len(list))
	for _, a := range list {
		views = append(views, api.Answer{Index: a.index, Principal: s.principal(a.issuer), ExpiresAt: a.exp})
	}
	return views
}

// asks returns why the coordinator may not authorize a plan alone; nil if it may.
func (s *State) asks(number uint32, a *assessment, now int64) *entry.Refusal {
	if other, overlap := s.overlap(number, a.plan); overlap {
		return conflict("rollback_set", "incident %d is AUTHORIZED and has members in common", other.opened)
	}
	refusal, _ := errors.AsType[*entry.Refusal](s.automatic(number, a, now))
	return refusal
}

// Preview returns the plan that a decision about an incident would have now, without the signals
// at some indexes. For an incident in force it is the plan of an amend.
func (s *State) Preview(id uint64, dismissed []uint64, now int64) (*PlanView, bool) {
	number, inc, ok := s.findIncident(id)
	if !ok {
		return nil, false
	}
	a := s.assess(number, s.size, dismissed, now)
	v := s.viewPlan(id, a.plan, a.policy.all(), a.impact)
	for _, n := range a.signals {
		v.Considered = append(v.Considered, s.signals[n].index)
	}
	for i := range v.Members {
		_, v.Members[i].Fenced = s.fencedBy(a.plan.Members[i].Exec, now)
	}
	if decided := inc.current != nil && inc.current.sameAs(a.plan) && !s.void(&inc.current.decided); inc.state.Open() && !decided {
		if r := s.asks(number, a, now); r != nil {
			v.Asks = &api.Asks{Problem: r.Problem, Field: r.Field, Detail: r.Detail}
		}
	}
	s.addCounters(v, s.counts(number, a, s.chargeOf(execsOf(a.plan.Members), inc.fencedUntil(0, now), now), toUndo))
	if inc.state.Open() && inc.current == nil {
		exp := s.defaultExp(inc, entry.ActEscalate, now)
		_, c := s.holdFor(inc, a, decided{exp: exp}, now)
		s.addCounters(v, s.counts(number, a, c, toFence))
		if refusal := s.checkLimits(number, a, c, toFence); refusal != nil {
			v.NotFenced = refusal.Detail
		}
	}
	return v, true
}

func (s *State) addCounters(v *PlanView, counts iter.Seq[cappedExtent]) {
	for c := range counts {
		counter := api.Counter{For: c.of.String(), Whose: c.whose, Members: c.members, Agents: int64(len(c.agents)),
			Domains: int64(len(s.domains(c.agents))), FencedMS: c.fencedMS, Limit: c.limit}
		if c.whose != ofIncident {
			counter.Principal = s.principal(c.who)
		}
		v.Counters = append(v.Counters, counter)
	}
}

// PlanInForce returns the members of an incident in force, with their results.
func (s *State) PlanInForce(id uint64, now int64) (*PlanView, bool) {
	_, inc, ok := s.findIncident(id)
	if !ok || inc.current == nil {
		return nil, false
	}
	plan := &scope.Plan{Members: inc.current.plan(), Review: inc.current.review}
	for _, m := range plan.Members {
		switch effect := s.graph.Node(m.Exec).Effect; {
		case m.Method == scope.Residual && effect == scope.Irrevocable:
			plan.Irrevocable++
		case m.Method == scope.Residual && effect == scope.Undeclared:
			plan.Undeclared++
		}
		if agent := s.graph.Node(m.Exec).Agent; !slices.Contains(plan.Agents, agent) {
			plan.Agents = append(plan.Agents, agent)
		}
	}
	l := s.policyFor(inc)
	v := s.viewPlan(id, plan, l.all(), s.impact(plan))
	v.Decision = inc.current.index
	for i := range v.Members {
		m, view := &inc.current.members[i], &v.Members[i]
		view.Result, view.ResultAt, view.Released, view.DueAt = m.result, m.resultAt, m.releasedAt != 0, s.due(inc, m)
		_, view.Fenced = s.fencedBy(m.exec, now)
		view.Drain = s.draining(m)
	}
	return v, true
}

func (s *State) viewPlan(incident uint64, p *scope.Plan, limits entry.Limits, impact entry.Impact) *PlanView {
	v := &PlanView{Plan: api.Plan{Incident: incident, RollbackSet: s.rollbackSetHead(p.Members), Impact: impact, Limits: limits,
		Members: make([]api.PlanMember, 0, len(p.Members)), Review: []entry.Ref{}, Counters: []api.Counter{}}}
	for i := range p.Members {
		m := &p.Members[i]
		x := s.graph.Node(m.Exec)
		cost := *s.executions.costs.At(m.Exec)
		v.CostMicroUSD += cost
		of := s.planMember(m.Exec, m.Method, m.Checkpoint)
		v.Members = append(v.Members, api.PlanMember{
			Agent: of.Agent, Exec: of.Exec, Index: of.Index, LeafHash: of.LeafHash, Method: of.Method, Checkpoint: of.Checkpoint, Effect: effects[x.Effect], Progress: steps[x.Progress],
			Drain: x.Progress == scope.Started, Direct: m.Direct, Rule: rules[m.Why.Rule], From: s.refOf(m.Why.From), CostMicroUSD: cost,
		})
	}
	for _, exec := range p.Review {
		v.Review = append(v.Review, s.refOf(exec))
	}
	return v
}

// Why returns the chain of executions that leads from a seed to a member of the
// plan that Preview shows (AGT-3), the seed first; nil if there is none.
func (s *State) Why(id uint64, exec entry.Ref, now int64) (chain []api.PlanMember) {
	number, _, ok := s.findIncident(id)
	member, known := s.resolve(s.executions.names, exec)
	if !ok || !known {
		return nil
	}
	a := s.assess(number, s.size, nil, now)
	steps := &scope.Plan{Members: a.plan.Chain(member)}
	return s.viewPlan(id, steps, a.policy.all(), entry.Impact{}).Members
}
