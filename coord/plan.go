package coord

import (
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// methods are the names of a plan's methods, by number.
var methods = []entry.Method{entry.MethodNone, entry.MethodCancel, entry.MethodRestore, entry.MethodCompensate, entry.MethodResidual}

// assessment is the plan of an incident as of now, with the signals that the plan rests on.
type assessment struct {
	policy    effectivePolicy
	signals   []uint32 // that the decision rests on
	merges    []uint32 // younger incidents whose signals are among them
	dismissed []uint64 // indexes of the signals that are not believed
	plan      *scope.Plan
	impact    entry.Impact
}

// assess computes the plan for the signals of an incident that were registered before the pin,
// without the dismissed signals. For an incident in force it is the plan of an amend.
func (s *State) assess(number uint32, pin uint64, dismissed []uint64, now int64) *assessment {
	signals, merges := s.signalsBefore(number, pin, now)
	return s.assessOn(number, &assessment{signals: signals, merges: merges, dismissed: dismissed}, now)
}

// assessOn completes an assessment whose signals and dismissed are set.
func (s *State) assessOn(number uint32, a *assessment, now int64) *assessment {
	inc := s.incidents[number]
	a.policy = s.policyFor(inc)
	a.plan = s.graph.Plan(s.request(inc, a.signals, a.dismissed, now+a.policy.windows.DeadlineMaxMS))
	a.impact = s.impact(a.plan)
	return a
}

// signalsBefore returns the signals that a decision about an incident rests on: the incident's own
// signals before the pin. An authorized incident adds the signals of the other open incidents
// whose plans meet its plan (INC-2), of the oldest mergesMax incidents.
func (s *State) signalsBefore(number uint32, pin uint64, now int64) (signals, merges []uint32) {
	inc := s.incidents[number]
	before := func(list []uint32) (some []uint32) {
		for _, n := range list {
			if s.signals[n].index < pin {
				some = append(some, n)
			}
		}
		return some
	}
	signals = before(inc.signals)
	if inc.current == nil {
		return signals, nil
	}
	var others []mergeCandidate
	for _, other := range s.openIncidents() {
		o := s.incidents[other]
		if theirs := before(o.signals); other != number && o.current == nil && o.mergedInto == 0 && len(theirs) > 0 {
			others = append(others, mergeCandidate{other, theirs})
		}
	}
	for _, r := range s.overlapping(inc.current, others, now+s.policyFor(inc).windows.DeadlineMaxMS, mergesMax) {
		signals, merges = append(signals, r.signals...), append(merges, r.number)
	}
	slices.Sort(signals)
	return signals, merges
}

// mergeCandidate is an open incident whose plan may overlap the plan in force.
type mergeCandidate struct {
	number  uint32
	signals []uint32
}

// overlapping returns up to most of the candidates whose plans overlap the plan in
// force. It asks about all candidates at once, and then about halves of those that
// overlap. The plan for many signals contains the plan for each, so candidates that do
// not overlap together do not overlap alone. A thousand unrelated incidents cost one
// walk.
func (s *State) overlapping(f *decisionInForce, candidates []mergeCandidate, until int64, most int) []mergeCandidate {
	if len(candidates) == 0 || most == 0 {
		return nil
	}
	r := scope.Request{UsableUntil: until}
	for _, one := range candidates {
		r.Seeds = s.seeds(r.Seeds, one.signals, nil)
	}
	switch {
	case !f.sharesMember(s.graph.Plan(r)):
		return nil
	case len(candidates) == 1:
		return candidates
	}
	half := len(candidates) / 2
	found := s.overlapping(f, candidates[:half], until, most)
	return slices.Concat(found, s.overlapping(f, candidates[half:], until, most-len(found)))
}

// sharesMember reports whether a plan and the plan in force have a member in common.
func (f *decisionInForce) sharesMember(p *scope.Plan) bool {
	return slices.ContainsFunc(p.Members, func(m scope.Member) bool {
		_, common := f.find(m.Exec)
		return common
	})
}

// request returns the request of SCO-3: the subjects and since ranges of the believed signals.
func (s *State) request(inc *incident, signals []uint32, dismissed []uint64, until int64) scope.Request {
	r := scope.Request{Seeds: s.seeds(nil, signals, dismissed), UsableUntil: until}
	if inc.current != nil {
		r.Kept, r.AlreadyUndone = inc.current.plan(), inc.current.before()
	}
	return r
}

// seeds appends the seeds that signals give.
func (s *State) seeds(to, signals []uint32, dismissed []uint64) []uint32 {
	for _, n := range signals {
		sig := &s.signals[n]
		if slices.Contains(dismissed, sig.index) {
			continue
		}
		if sig.since == 0 {
			to = slices.AppendSeq(to, s.executionsOf(sig.subject))
			continue
		}
		for exec := range s.graph.Range(sig.since-1, sig.subject) {
			to = append(to, exec)
		}
	}
	return to
}

// plan returns the members as they stand.
func (f *decisionInForce) plan() []scope.Member {
	kept := make([]scope.Member, len(f.members))
	for i := range f.members {
		m := &f.members[i]
		kept[i] = scope.Member{Exec: m.exec, Method: m.method, Checkpoint: m.checkpoint, Direct: m.direct, Why: m.why.Why}
	}
	return kept
}

// before returns the executions that were undone before and lead to members.
func (f *decisionInForce) before() []scope.Member {
	list := make([]scope.Member, len(f.alreadyUndone))
	for i := range f.alreadyUndone {
		list[i] = scope.Member{Exec: f.alreadyUndone[i].exec, Why: f.alreadyUndone[i].why.Why}
	}
	return list
}

// impact returns the impact of a plan.
func (s *State) impact(p *scope.Plan) entry.Impact {
	return entry.Impact{
		Members: int64(len(p.Members)), Agents: int64(len(p.Agents)), Domains: int64(len(s.domains(p.Agents))),
		Irrevocable: int64(p.Irrevocable), Undeclared: int64(p.Undeclared),
	}
}

// domains returns the domains of principals, each once.
func (s *State) domains(principals []uint32) (domains []string) {
	for _, number := range principals {
		info, _ := s.chain.Agent(s.principal(number))
		if !slices.Contains(domains, info.Domain) {
			domains = append(domains, info.Domain)
		}
	}
	return domains
}

// planMember returns a member as it stands in the scope's tree.
func (s *State) planMember(exec uint32, method scope.Method, checkpoint uint32) entry.Member {
	x := s.graph.Node(exec)
	m := entry.Member{Agent: s.principal(x.Agent), Exec: s.refOf(exec), Index: x.First,
		LeafHash: s.tree.Leaf(uint32(x.First)), Method: methods[method]}
	if checkpoint != 0 {
		m.Checkpoint = s.ref(s.checkpoints.names, checkpoint-1)
	}
	return m
}

// rollbackSetHead returns the scope of a plan: the head of the tree over its members.
func (s *State) rollbackSetHead(members []scope.Member) merkle.Head {
	leaves, buf := make([]merkle.Hash, len(members)), []byte(nil)
	for i := range members {
		m := s.planMember(members[i].Exec, members[i].Method, members[i].Checkpoint)
		buf = m.AppendJSON(buf[:0])
		leaves[i] = merkle.HashLeaf(buf)
	}
	return merkle.HeadOf(leaves)
}

// signalsHead returns the head of the tree over signals.
func (s *State) signalsHead(signals []uint32) merkle.Head {
	leaves := make([]merkle.Hash, len(signals))
	for i, n := range signals {
		leaves[i] = s.tree.Leaf(uint32(s.signals[n].index))
	}
	return merkle.HeadOf(leaves)
}

// pin returns the head of the log as of now.
func (s *State) pin() merkle.Head { return merkle.Head{Size: s.size, Root: s.tree.Root(s.size)} }

// execsOf returns the executions of a plan, ascending.
func execsOf(members []scope.Member) []uint32 {
	execs := make([]uint32, len(members))
	for i := range members {
		execs[len(members)-1-i] = members[i].Exec
	}
	return execs
}
