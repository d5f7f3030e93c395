package coord

import (
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// incidents passes signals, incidents and cooldowns. What an incident derives
// from its signals and members is not among it.
func (p *passage) incidents(s *State) {
	before, last := uint64(0), int64(0)
	count := uint64(len(s.incidents))
	number(p, &count, s.size+1)
	list(p, &s.signals, s.size, func(sig *signal) {
		gap, later := sig.index-before, sig.at-last
		number(p, &gap, s.size-before)
		instant(p, &later)
		if sig.index, sig.at = before+gap, last+later; gap == 0 && p.reading() {
			p.d.refuse("two signals at %d", before)
		}
		before, last = sig.index, sig.at
		p.signal(s, sig, count)
	})
	before = 0
	for i := range count {
		if p.reading() {
			s.incidents = append(s.incidents, &incident{})
		}
		inc := s.incidents[i]
		gap := inc.opened - before
		number(p, &gap, s.size-before)
		inc.opened = before + gap
		before = inc.opened
		p.incident(s, inc)
		if !p.ok() {
			return
		}
	}
	p.cooldowns(s)
}

func (p *passage) signal(s *State, sig *signal, incidents uint64) {
	number(p, &sig.issuer, uint64(s.principals.Size()))
	if p.text(&sig.keyID, entry.MaxKeyID); p.reading() {
		sig.keyID = s.sharedKeyID(sig.keyID)
	}
	p.subject(s, &sig.subject)
	since := uint64(sig.subject) + 2
	if sig.subject&taskBit != 0 {
		since = 1
	}
	number(p, &sig.since, since)
	number(p, &sig.incident, incidents)
	standing := slices.Index(standings, sig.standing)
	number(p, &standing, uint64(len(standings)))
	if p.ok() {
		sig.standing = standings[standing]
	}
	flag(p, &sig.evidence)
	flag(p, &sig.murky)
	flag(p, &sig.early)
	p.verdict(&sig.verdict)
	list(p, &sig.domains, entry.MaxList, func(domain *string) { p.text(domain, entry.MaxName) })
	number(p, &sig.disposed, s.size)
}

// verdict passes what was found of a signal.
func (p *passage) verdict(v *verdict) {
	number(p, &v.disposition, uint64(len(dispositions)))
	if v.disposition == corroborated {
		flag(p, &v.independent)
	}
}

var standings = []entry.Standing{entry.StandingExecutor, entry.StandingUpstream, entry.StandingDownstream, entry.StandingMonitor, entry.StandingOperator}

func (p *passage) incident(s *State, inc *incident) {
	number(p, &inc.policy, uint64(len(s.policies)))
	number(p, &inc.state, uint64(len(stateNames)))
	instant(p, &inc.epoch)
	ascending(p, &inc.signals, uint64(len(s.signals)))
	p.hold(s, &inc.hold)
	p.text(&inc.notFenced, entry.MaxText)
	instant(p, &inc.fencedMS)
	number(p, &inc.pinned, s.size+1)
	optional(p, &inc.proposal, func(q *proposal) { p.proposal(s, q) })
	optional(p, &inc.force, func(f *force) { p.force(s, f) })
	instant(p, &inc.charge.at)
	instant(p, &inc.charge.fencedMS)
	list(p, &inc.charge.victims, s.size, func(v *victim) {
		number(p, &v.agent, uint64(s.principals.Size()))
		instant(p, &v.members)
	})
	number(p, &inc.into, s.size)
	p.answers(s, &inc.overrides)
	number(p, &inc.recorded, s.size)
	if inc.state == Dismissed {
		flag(p, &inc.silent)
		number(p, &inc.acknowledged, s.size)
	}
	if inc.acknowledged != 0 && (!inc.silent || inc.acknowledged <= inc.recorded) && p.reading() {
		p.d.refuse("incident %d is acknowledged, and nothing was to be", inc.opened)
	}
	if (inc.state == Authorized || inc.state > Dismissed) != (inc.force != nil) && p.reading() {
		p.d.refuse("incident %d is %s with a plan in force or none", inc.opened, inc.state)
	}
	if len(inc.signals) == 0 && p.reading() {
		p.d.refuse("incident %d has no signal", inc.opened)
	}
}

// optional passes what may be absent.
func optional[T any](p *passage, to **T, each func(*T)) {
	present := *to != nil
	if flag(p, &present); !present || !p.ok() {
		return
	}
	if p.reading() {
		*to = new(T)
	}
	each(*to)
}

func (p *passage) decided(s *State, d *decided) {
	number(p, &d.index, s.size)
	p.text(&d.keyID, entry.MaxKeyID)
	instant(p, &d.exp)
}

// hold passes a fence. A line goes as the first of its members, since numbers
// of lines depend on how a state was made.
func (p *passage) hold(s *State, h *hold) {
	p.decided(s, &h.decided)
	ascending(p, &h.members, uint64(s.graph.Size()))
	var firsts []uint32
	if !p.reading() {
		for _, exec := range h.members {
			line := s.graph.Node(exec).Line
			if _, fenced := slices.BinarySearch(h.lines, line); fenced && !slices.ContainsFunc(firsts, func(other uint32) bool { return s.graph.Node(other).Line == line }) {
				firsts = append(firsts, exec)
			}
		}
	}
	ascending(p, &firsts, uint64(s.graph.Size()))
	if !p.reading() || !p.ok() {
		return
	}
	for _, exec := range firsts {
		line := s.graph.Node(exec).Line
		first := slices.IndexFunc(h.members, func(other uint32) bool { return s.graph.Node(other).Line == line })
		if line == scope.NoLine || first < 0 || h.members[first] != exec {
			p.d.refuse("a fenced line without a member")
			return
		}
		h.lines = append(h.lines, line)
	}
	slices.Sort(h.lines)
}

func (p *passage) proposal(s *State, q *proposal) {
	p.decided(s, &q.decided)
	number(p, &q.issuer, uint64(s.principals.Size()))
	instant(p, &q.at)
	p.head(&q.pin)
	p.head(&q.basis)
	ascending(p, &q.unfounded, s.size)
	p.head(&q.scope)
	ascending(p, &q.members, uint64(s.graph.Size()))
	ascending(p, &q.signalers, uint64(s.principals.Size()))
	p.answers(s, &q.approvals)
}

func (p *passage) answers(s *State, to *[]approval) {
	list(p, to, s.size, func(a *approval) {
		p.decided(s, &a.decided)
		number(p, &a.issuer, uint64(s.principals.Size()))
		flag(p, &a.refuse)
	})
}

func (p *passage) force(s *State, f *force) {
	p.decided(s, &f.decided)
	instant(p, &f.epoch)
	number(p, &f.first, s.size)
	ascending(p, &f.decisions, s.size)
	instant(p, &f.expMax)
	instant(p, &f.deadline)
	number(p, &f.override, s.size)
	number(p, &f.proposal, s.size)
	ascending(p, &f.approvals, s.size)
	list(p, &f.consents, s.size, func(a *consent) {
		ascending(p, &a.signals, uint64(len(s.signals)))
		p.answers(s, &a.answers)
	})
	number(p, &f.pin, s.size+1)
	ascending(p, &f.unfounded, s.size)
	ascending(p, &f.review, uint64(s.graph.Size()))
	below := uint64(s.graph.Size())
	list(p, &f.members, below, func(m *member) {
		number(p, &m.exec, below)
		below = uint64(m.exec)
		p.member(s, m)
	})
	below = uint64(s.graph.Size())
	list(p, &f.passed, below, func(one *passed) {
		number(p, &one.exec, below)
		below = uint64(one.exec)
		p.reason(s, one.exec, &one.why)
	})
}

// reason passes why an execution is in a plan: of a seed its signal, else where
// the step comes from.
func (p *passage) reason(s *State, exec uint32, why *reason) {
	number(p, &why.Rule, uint64(scope.Rollback)+1)
	if why.Rule == scope.Seed {
		if p.reading() {
			why.From = exec
		}
		number(p, &why.signal, uint64(len(s.signals)))
		return
	}
	number(p, &why.From, uint64(s.graph.Size()))
	if why.Rule == scope.Rollback {
		number(p, &why.By, uint64(s.graph.Size())+1)
		number(p, &why.Checkpoint, uint64(s.graph.Checkpoints())+1)
	}
}

func (p *passage) member(s *State, m *member) {
	p.reason(s, m.exec, &m.why)
	number(p, &m.method, uint64(len(methods)))
	number(p, &m.checkpoint, uint64(s.graph.Checkpoints())+1)
	flag(p, &m.direct)
	flag(p, &m.drain)
	number(p, &m.since, s.size)
	number(p, &m.opened, s.size)
	instant(p, &m.openedAt)
	instant(p, &m.releasedAt)
	number(p, &m.releasedBy, s.size)
	result := 1 + slices.Index(results, m.result)
	number(p, &result, uint64(len(results))+1)
	if m.result = ""; result > 0 {
		m.result = results[result-1]
	}
	number(p, &m.resultAt, s.size)
	flag(p, &m.own)
	flag(p, &m.released)
	if p.reading() && p.ok() && ((m.checkpoint != 0) != (m.method == scope.Restore) || s.graph.Node(m.exec).Line == scope.NoLine) {
		p.d.refuse("a member that no plan has")
	}
}

var results = []entry.Result{entry.Restored, entry.Compensated, entry.NotExecuted, entry.ResultIrrevocable, entry.ResultFailed,
	entry.Refused, entry.Withheld, entry.ResultUnknown}

// cooldowns passes complaints in the order of principals and subjects.
func (p *passage) cooldowns(s *State) {
	type cooldown struct {
		complaint
		at int64
	}
	var all []cooldown
	for of, at := range s.cooldowns {
		all = append(all, cooldown{of, at})
	}
	slices.SortFunc(all, func(a, b cooldown) int {
		return int(int64(a.issuer)<<32|int64(a.subject)) - int(int64(b.issuer)<<32|int64(b.subject))
	})
	last := int64(-1)
	list(p, &all, s.size, func(c *cooldown) {
		number(p, &c.issuer, uint64(s.principals.Size()))
		p.subject(s, &c.subject)
		instant(p, &c.at)
		place := int64(c.issuer)<<32 | int64(c.subject)
		if p.reading() {
			if s.cooldowns[c.complaint] = c.at; place <= last {
				p.d.refuse("cooldowns out of order")
			}
		}
		last = place
	})
}

// derive fills in what a restored state derives from incidents, and refuses
// what does not fit together.
func (d *decoder) derive(s *State) {
	for i, inc := range s.incidents {
		number := uint32(i)
		sig, ok := s.findSignal(inc.opened)
		if !ok || i > 0 && s.incidents[i-1].opened >= inc.opened {
			d.refuse("incident %d opens with no signal", inc.opened)
			return
		}
		inc.openedAt, inc.workflow = sig.at, s.subjectWorkflow(sig.subject)
		if inc.state.Open() {
			s.open[number] = struct{}{}
		}
		for _, n := range inc.signals {
			s.touch(number, s.signals[n].subject)
		}
		s.touch(number, inc.hold.members...)
		s.touchLines(number, inc.hold.lines...)
		if inc.proposal != nil {
			s.touch(number, inc.proposal.members...)
		}
		if inc.force != nil {
			s.link(inc.force)
			for i := range inc.force.members {
				s.touch(number, inc.force.members[i].exec)
				if inc.force.members[i].method == scope.Restore {
					s.touchLines(number, s.graph.Node(inc.force.members[i].exec).Line)
				}
			}
		}
	}
	for i := range s.signals {
		if sig := &s.signals[i]; sig.standing == entry.StandingExecutor {
			s.usage[sig.issuer].spoke = 1 + sig.at/minuteMS
		}
	}
	for i := range s.usage {
		if of := s.usage[i].incidents; len(of) > 0 && int(of[len(of)-1]) >= len(s.incidents) {
			d.refuse("a principal of an incident that is not there")
		}
	}
	for exec, comp := range s.executions.comps {
		if int(comp.incident) >= len(s.incidents) || comp.exec >= exec {
			d.refuse("a compensation of nothing")
		}
	}
}
