package coord

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// IncidentView is an incident as it stands.
type IncidentView struct {
	ID       uint64 // index of its opening signal
	Wid      entry.WorkflowID
	State    IncidentState
	Epoch    int64
	OpenedAt int64  // Unix milliseconds
	Into     uint64 // the older incident that took its signals; 0: none
	Recorded uint64 // index of the record, or of the deny; 0: none yet
	// Silent is whether it was dismissed because nobody had answered in time, and
	// Acknowledged the index of the entry by which a person has taken note of that;
	// 0: nobody has.
	Silent       bool
	Acknowledged uint64
	Signals      []SignalView
	Fence        *FenceView // of a contain or a proposal, while it lasts
	WaitsFor     string     // in a few words; empty: nothing
	// StillFenced is how many members of an incident that is over nobody may build
	// on until an approver releases them.
	StillFenced int
	// NotFenced is why others may go on building on what may be undone, though
	// nothing is decided; empty where all of it is fenced, and of what is over.
	NotFenced string
	Proposal  *ProposalView // that waits for answers
	Decision  *DecisionView // in force
	DecideAt  int64         // from when on others may escalate, Unix milliseconds
}

// SignalView is a signal of an incident.
type SignalView struct {
	Index    uint64
	Incident uint64
	At       int64 // registered_at, Unix milliseconds
	Issuer   entry.Principal
	Subject  entry.Ref
	Standing entry.Standing
	Evidence bool
	Verdict  entry.Disposition // what was found of it; zero: nothing yet
	Disposed uint64            // index of the record or deny that says so
	Silent   bool              // whether that is because nobody answered in time about its incident
}

// FenceView is what is fenced until it ends.
type FenceView struct {
	Decision uint64 // its index
	Exp      int64  // Unix milliseconds
	Members  int
	Lines    int
}

// ProposalView is an escalate that waits for answers.
type ProposalView struct {
	Ref       entry.LogRef
	Issuer    entry.Principal
	Exp       int64 // Unix milliseconds
	AnswerAt  int64 // from when on silence denies, Unix milliseconds
	Pin       merkle.Head
	Scope     merkle.Head
	Unfounded []uint64
	Approve   []AnswerView // that count
	Refuse    []AnswerView // that count
	Quorum    int64
}

// AnswerView is an approval or a refusal.
type AnswerView struct {
	Index     uint64
	Principal entry.Principal
	Exp       int64 // Unix milliseconds
}

// DecisionView is a decision in force.
type DecisionView struct {
	Ref        entry.LogRef
	Epoch      int64
	Exp        int64 // Unix milliseconds
	Deadline   int64 // Unix milliseconds
	Overridden bool
	Void       bool // its key was compromised before it (TRU-4)
	Members    int
	Tally      map[entry.Result]int64
	Review     int
	Decisions  []uint64 // authorize and amends
}

// PlanView is a plan with all that people need to judge it.
type PlanView struct {
	Members []MemberView // descending by index
	Review  []entry.Ref  // soft dependents: notified, not undone
	Scope   merkle.Head
	Blast   entry.Blast
	Limits  entry.Limits // that hold for the incident
	// Basis are the indexes of the signals that a decision would rest on, with
	// those that it leaves out; empty in a plan in force.
	Basis []uint64
	// CostMicroUSD is what the members cost when they were done, as far as that
	// is logged: what doing them again would cost.
	CostMicroUSD int64
	// Counters are what a decision would count against which caps; empty in a
	// plan in force.
	Counters []CounterView
	// NotFenced is why a contain or a proposal could not fence the plan now; empty
	// if it could, and in a plan in force.
	NotFenced string
	// Refusal is why the coordinator may not authorize it alone; nil if it may,
	// and in a plan in force.
	Refusal *entry.Refusal
}

// CounterView is what counts against a cap, the plan included: of the incident,
// or of a signaler or a victim over the rolling window.
type CounterView struct {
	Fence                              bool            // against what may be fenced, not against what may be undone
	Whose                              string          // incident, signaler, victim
	Principal                          entry.Principal // of the last two
	Members, Agents, Domains, FencedMS int64
	Limit                              entry.Cap
}

// MemberView is a member of a plan.
type MemberView struct {
	entry.Member
	Effect   entry.Effect
	Progress entry.Progress
	Drain    bool // its agent has not made it final
	Direct   bool // SCO-1 alone leads to it
	Rule     string
	From     entry.Ref // the execution that leads to it; itself for a seed
	Cost     int64     // micro-USD
	Fenced   bool
	// Of a plan in force:
	Result   entry.Result // empty: none yet
	ResultAt uint64       // index of what says so
	Released bool         // whether its undo may begin (INC-7)
	Due      int64        // when its time is over, Unix milliseconds
}

var rules = []string{"seed", "dependent", "line"}

// Unacknowledged reports whether silence has dismissed the incident, and nobody has
// taken note of it.
func (v *IncidentView) Unacknowledged() bool { return v.Silent && v.Acknowledged == 0 }

// Incidents returns up to limit incidents from the id before on, the newest
// first; before 0 is the newest of all.
func (s *State) Incidents(before uint64, limit int, now int64) (views []IncidentView) {
	end := len(s.incidents)
	if before != 0 {
		end, _ = slices.BinarySearchFunc(s.incidents, before, func(inc *incident, id uint64) int { return cmp.Compare(inc.opened, id) })
	}
	for number := end - 1; number >= 0 && len(views) < limit; number-- {
		views = append(views, s.view(s.incidents[number], now))
	}
	return views
}

// IncidentsOf is Incidents of those that a principal has to do with: by entries
// of its own, or as the agent of members.
func (s *State) IncidentsOf(p entry.Principal, before uint64, limit int, now int64) (views []IncidentView) {
	number, ok := s.principals.Find([]byte(p))
	if !ok {
		return nil
	}
	for _, of := range slices.Backward(s.usage[number].incidents) {
		if inc := s.incidents[of]; len(views) < limit && (before == 0 || inc.opened < before) {
			views = append(views, s.view(inc, now))
		}
	}
	return views
}

// Incident returns the incident with an id.
func (s *State) Incident(id uint64, now int64) (view IncidentView, ok bool) {
	_, inc, ok := s.findIncident(id)
	if ok {
		view = s.view(inc, now)
	}
	return view, ok
}

func (s *State) view(inc *incident, now int64) IncidentView {
	l := s.lawOf(inc)
	v := IncidentView{
		ID: inc.opened, Wid: entry.WorkflowID(s.workflows.Text(inc.workflow)), State: inc.state, Epoch: inc.epoch,
		OpenedAt: inc.openedAt, Into: inc.into, Recorded: inc.recorded, Silent: inc.silent, Acknowledged: inc.acknowledged, DecideAt: inc.openedAt + l.windows.DecideMS,
	}
	for _, n := range inc.signals {
		v.Signals = append(v.Signals, s.viewSignal(n))
	}
	if s.holding(inc, now) {
		v.Fence = &FenceView{inc.hold.index, inc.hold.exp, len(inc.hold.members), len(inc.hold.lines)}
	}
	v.WaitsFor, v.StillFenced, v.NotFenced = s.waitsFor(inc, now), inc.stillFenced(), s.notFenced(inc, now)
	if p := s.waiting(inc, now); p != nil {
		approve, refuse := s.answersTo(inc, p, now)
		v.Proposal = &ProposalView{
			Ref: s.logRef(p.index), Issuer: s.principal(p.issuer), Exp: p.exp, AnswerAt: p.at + l.windows.AnswerMS, Pin: p.pin,
			Scope: p.scope, Unfounded: p.unfounded, Approve: s.viewAnswers(approve), Refuse: s.viewAnswers(refuse), Quorum: l.quorum.Approve,
		}
	}
	if f := inc.force; f != nil {
		_, tally := f.verdict()
		delete(tally, "") // members without an outcome are no result
		v.Decision = &DecisionView{
			Ref: s.logRef(f.index), Epoch: f.epoch, Exp: f.exp, Deadline: f.deadline, Overridden: f.override != 0,
			Void: s.void(&f.decided), Members: len(f.members), Tally: tally, Review: len(f.review), Decisions: f.decisions,
		}
	}
	return v
}

func (s *State) viewSignal(n uint32) SignalView {
	sig := &s.signals[n]
	v := SignalView{
		Index: sig.index, Incident: s.incidents[sig.incident].opened, At: sig.at, Issuer: s.principal(sig.issuer), Subject: s.subjectRef(sig.subject),
		Standing: sig.standing, Evidence: sig.evidence, Disposed: sig.disposed,
	}
	v.Silent = sig.disposed != 0 && s.incidents[sig.incident].silent
	if sig.verdict.disposition != undisposed {
		v.Verdict = entry.Disposition{Index: sig.index, Disposition: dispositions[sig.verdict.disposition], Domains: sig.domains, Independent: sig.verdict.independent}
	}
	return v
}

func (s *State) viewAnswers(list []approval) (views []AnswerView) {
	for _, a := range list {
		views = append(views, AnswerView{a.index, s.principal(a.issuer), a.exp})
	}
	return views
}

// asks returns why the coordinator may not authorize a plan alone; nil if it may.
func (s *State) asks(number uint32, a *assessment, now int64) *entry.Refusal {
	if other, overlap := s.overlap(number, a.plan); overlap {
		return conflict("scope", "incident %d is AUTHORIZED and has members in common", other.opened)
	}
	refusal, _ := errors.AsType[*entry.Refusal](s.automatic(number, a, now))
	return refusal
}

// Preview returns the plan that a decision about an incident would have now,
// without the signals at some indexes. For an incident in force it is that of
// an amend.
func (s *State) Preview(id uint64, unfounded []uint64, now int64) (*PlanView, bool) {
	number, inc, ok := s.findIncident(id)
	if !ok {
		return nil, false
	}
	a := s.assess(number, s.size, unfounded, now)
	v := s.viewPlan(a.plan, a.law.all(), a.blast)
	for _, n := range a.signals {
		v.Basis = append(v.Basis, s.signals[n].index)
	}
	for i := range v.Members {
		_, v.Members[i].Fenced = s.fencedBy(a.plan.Members[i].Exec, now)
	}
	if decided := inc.force != nil && inc.force.sameAs(a.plan) && !s.void(&inc.force.decided); inc.state.Open() && !decided {
		v.Refusal = s.asks(number, a, now)
	}
	s.addCounters(v, s.counts(number, a, s.chargeOf(execsOf(a.plan.Members), inc.fencedUntil(0, now), now), toUndo))
	if inc.state.Open() && inc.force == nil {
		exp := s.defaultExp(inc, entry.ActEscalate, now)
		_, c := s.holdFor(inc, a, decided{exp: exp}, now)
		s.addCounters(v, s.counts(number, a, c, toFence))
		if refusal := s.checkLimits(number, a, c, toFence); refusal != nil {
			v.NotFenced = refusal.Detail
		}
	}
	return v, true
}

func (s *State) addCounters(v *PlanView, counts iter.Seq[counted]) {
	for c := range counts {
		counter := CounterView{Fence: c.of == toFence, Whose: c.whose, Members: c.members, Agents: int64(len(c.agents)),
			Domains: int64(len(s.domains(c.agents))), FencedMS: c.fencedMS, Limit: c.limit}
		if c.whose != ofIncident {
			counter.Principal = s.principal(c.who)
		}
		v.Counters = append(v.Counters, counter)
	}
}

// PlanInForce returns the members of an incident in force with what became of
// them.
func (s *State) PlanInForce(id uint64, now int64) (*PlanView, bool) {
	_, inc, ok := s.findIncident(id)
	if !ok || inc.force == nil {
		return nil, false
	}
	plan := &scope.Plan{Members: inc.force.plan(), Review: inc.force.review}
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
	l := s.lawOf(inc)
	v := s.viewPlan(plan, l.all(), s.blast(plan))
	for i := range v.Members {
		m, view := &inc.force.members[i], &v.Members[i]
		view.Result, view.ResultAt, view.Released, view.Due = m.result, m.resultAt, m.releasedAt != 0, s.due(inc, m)
		_, view.Fenced = s.fencedBy(m.exec, now)
		view.Drain = s.draining(m)
	}
	return v, true
}

func (s *State) viewPlan(p *scope.Plan, limits entry.Limits, blast entry.Blast) *PlanView {
	v := &PlanView{Scope: s.scopeOf(p.Members), Blast: blast, Limits: limits}
	for i := range p.Members {
		m := &p.Members[i]
		x := s.graph.Node(m.Exec)
		cost := *s.executions.costs.At(m.Exec)
		v.CostMicroUSD += cost
		v.Members = append(v.Members, MemberView{
			Member: s.planMember(m.Exec, m.Method, m.Checkpoint), Effect: effects[x.Effect], Progress: steps[x.Progress],
			Drain: x.Progress == scope.Dispatched, Direct: m.Direct, Rule: rules[m.Why.Rule], From: s.refOf(m.Why.From), Cost: cost,
		})
	}
	for _, exec := range p.Review {
		v.Review = append(v.Review, s.refOf(exec))
	}
	return v
}

// Why returns the chain of executions that leads from a seed to a member of the
// plan that Preview shows (AGT-3), the seed first; nil if there is none.
func (s *State) Why(id uint64, exec entry.Ref, now int64) (chain []MemberView) {
	number, _, ok := s.findIncident(id)
	member, known := s.resolve(s.executions.names, exec)
	if !ok || !known {
		return nil
	}
	a := s.assess(number, s.size, nil, now)
	steps := &scope.Plan{Members: a.plan.Chain(member)}
	return s.viewPlan(steps, a.law.all(), entry.Blast{}).Members
}
