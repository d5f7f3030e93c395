package coord

import (
	"math"
	"slices"

	"recoveryledger/coord/ascending"
	"recoveryledger/coord/codec"
	"recoveryledger/coord/hour"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// snapshotIncidents passes signals, incidents and cooldowns. It leaves out the parts of an
// incident that are derived from its signals and members.
func (s *State) snapshotIncidents(c *codec.Codec) {
	before, last := uint64(0), int64(0)
	count := uint64(len(s.incidents))
	codec.Number(c, &count, s.size+1)
	codec.List(c, &s.signals, s.size, func(sig *signal) {
		gap, later := sig.index-before, sig.at-last
		codec.Number(c, &gap, s.size-before)
		c.Instant(&later)
		if sig.index, sig.at = before+gap, last+later; gap == 0 && c.Reading() {
			c.Refuse("two signals at %d", before)
		}
		before, last = sig.index, sig.at
		s.snapshotSignal(c, sig, count)
	})
	before = 0
	for i := range count {
		if c.Reading() {
			s.incidents = append(s.incidents, &incident{})
		}
		inc := s.incidents[i]
		gap := inc.opened - before
		codec.Number(c, &gap, s.size-before)
		inc.opened = before + gap
		before = inc.opened
		s.snapshotIncident(c, inc)
		if !c.OK() {
			return
		}
	}
	s.snapshotCooldowns(c)
}

func (s *State) snapshotSignal(c *codec.Codec, sig *signal, incidents uint64) {
	codec.Number(c, &sig.issuer, uint64(s.principals.Size()))
	if c.Text(&sig.keyID, entry.MaxKeyID); c.Reading() {
		sig.keyID = s.sharedKeyID(sig.keyID)
	}
	s.snapshotSubject(c, &sig.subject)
	since := uint64(sig.subject) + 2
	if sig.subject&taskBit != 0 {
		since = 1
	}
	codec.Number(c, &sig.since, since)
	codec.Number(c, &sig.incident, incidents)
	standing := slices.Index(standings, sig.standing)
	codec.Number(c, &standing, uint64(len(standings)))
	if c.OK() {
		sig.standing = standings[standing]
	}
	c.Flag(&sig.evidence)
	c.Flag(&sig.inDoubt)
	c.Flag(&sig.early)
	sig.verdict.snapshot(c)
	codec.List(c, &sig.domains, entry.MaxList, func(domain *string) { c.Text(domain, entry.MaxName) })
	codec.Number(c, &sig.disposed, s.size)
}

// snapshot passes the verdict on a signal.
func (v *verdict) snapshot(c *codec.Codec) {
	codec.Number(c, &v.disposition, uint64(len(dispositions)))
	if v.disposition == corroborated {
		c.Flag(&v.independent)
	}
}

var standings = []entry.Standing{entry.StandingExecutor, entry.StandingUpstream, entry.StandingDownstream, entry.StandingMonitor, entry.StandingOperator}

var incidentStates = entry.IncidentStates()

func (s *State) snapshotIncident(c *codec.Codec, inc *incident) {
	codec.Number(c, &inc.policy, uint64(len(s.policies)))
	state := slices.Index(incidentStates, inc.state)
	codec.Number(c, &state, uint64(len(incidentStates)))
	if c.OK() {
		inc.state = incidentStates[state]
	}
	c.Instant(&inc.epoch)
	codec.Ascending(c, &inc.signals, uint64(len(s.signals)))
	codec.Ascending(c, &inc.entries, s.size)
	s.snapshotHold(c, &inc.hold)
	c.Text(&inc.notFenced, entry.MaxText)
	c.Instant(&inc.fencedMS)
	codec.Number(c, &inc.pinned, s.size+1)
	codec.Optional(c, &inc.proposal, func(q *proposal) { s.snapshotProposal(c, q) })
	codec.Optional(c, &inc.current, func(f *decisionInForce) { s.snapshotDecisionInForce(c, f) })
	c.Instant(&inc.charge.at)
	c.Instant(&inc.charge.fencedMS)
	codec.List(c, &inc.charge.victims, s.size, func(v *victim) {
		codec.Number(c, &v.agent, uint64(s.principals.Size()))
		c.Instant(&v.members)
	})
	codec.Number(c, &inc.mergedInto, s.size)
	s.snapshotAnswers(c, &inc.overrides)
	codec.Number(c, &inc.stopped, s.size)
	codec.Number(c, &inc.recorded, s.size)
	if inc.state.Decided() {
		s.snapshotMissedAnswer(c, inc)
	}
	if c.Reading() && ((inc.state.Decided() && inc.state != entry.IncidentDismissed) != (inc.current != nil) || inc.stopped != 0 && inc.current == nil) {
		c.Refuse("incident %d is %s with a plan in force or none", inc.opened, inc.state)
	}
	if len(inc.signals) == 0 && c.Reading() {
		c.Refuse("incident %d has no signal", inc.opened)
	}
}

// snapshotMissedAnswer passes the missed answer about an incident.
func (s *State) snapshotMissedAnswer(c *codec.Codec, inc *incident) {
	l := &inc.missed
	if codec.Number(c, &l.entry, s.size); l.entry != 0 {
		c.Instant(&l.at)
		codec.Number(c, &l.acknowledged, s.size)
	}
	fits := l.entry == 0 || l.entry > inc.opened && (l.acknowledged == 0 || l.acknowledged > l.entry) &&
		(inc.state != entry.IncidentDismissed || l.entry == inc.recorded)
	if !fits && c.Reading() {
		c.Refuse("incident %d has an unanswered proposal at %d that it cannot have", inc.opened, l.entry)
	}
}

func (s *State) snapshotDecided(c *codec.Codec, d *decided) {
	codec.Number(c, &d.index, s.size)
	c.Text(&d.keyID, entry.MaxKeyID)
	c.Instant(&d.exp)
}

// snapshotHold passes a fence. The first member of a line stands for the line, because the
// numbers of lines depend on how a state was made.
func (s *State) snapshotHold(c *codec.Codec, h *hold) {
	s.snapshotDecided(c, &h.decided)
	codec.Ascending(c, &h.members, uint64(s.graph.Size()))
	var firsts []uint32
	if !c.Reading() {
		for _, exec := range h.members {
			line := s.graph.Node(exec).Line
			if ascending.Has(h.lines, line) && !slices.ContainsFunc(firsts, func(other uint32) bool { return s.graph.Node(other).Line == line }) {
				firsts = append(firsts, exec)
			}
		}
	}
	codec.Ascending(c, &firsts, uint64(s.graph.Size()))
	if !c.Reading() || !c.OK() {
		return
	}
	for _, exec := range firsts {
		line := s.graph.Node(exec).Line
		first := slices.IndexFunc(h.members, func(other uint32) bool { return s.graph.Node(other).Line == line })
		if line == scope.NoLine || first < 0 || h.members[first] != exec {
			c.Refuse("a fenced line without a member")
			return
		}
		h.lines = append(h.lines, line)
	}
	slices.Sort(h.lines)
}

func (s *State) snapshotProposal(c *codec.Codec, q *proposal) {
	s.snapshotDecided(c, &q.decided)
	codec.Number(c, &q.issuer, uint64(s.principals.Size()))
	c.Instant(&q.at)
	snapshotHead(c, &q.pin)
	snapshotHead(c, &q.signals)
	codec.Ascending(c, &q.dismissed, s.size)
	snapshotHead(c, &q.rollbackSet)
	codec.Ascending(c, &q.members, uint64(s.graph.Size()))
	codec.Ascending(c, &q.signalers, uint64(s.principals.Size()))
	s.snapshotAnswers(c, &q.approvals)
}

func (s *State) snapshotAnswers(c *codec.Codec, to *[]approval) {
	codec.List(c, to, s.size, func(a *approval) {
		s.snapshotDecided(c, &a.decided)
		codec.Number(c, &a.issuer, uint64(s.principals.Size()))
		c.Flag(&a.refuse)
	})
}

func (s *State) snapshotDecisionInForce(c *codec.Codec, f *decisionInForce) {
	s.snapshotDecided(c, &f.decided)
	c.Instant(&f.epoch)
	codec.Number(c, &f.first, s.size)
	codec.Ascending(c, &f.decisions, s.size)
	c.Instant(&f.expMax)
	c.Instant(&f.deadline)
	codec.Number(c, &f.override, s.size)
	codec.Number(c, &f.proposal, s.size)
	codec.Ascending(c, &f.approvals, s.size)
	codec.List(c, &f.consents, s.size, func(a *consent) {
		codec.Ascending(c, &a.signals, uint64(len(s.signals)))
		s.snapshotAnswers(c, &a.answers)
	})
	codec.Number(c, &f.pin, s.size+1)
	codec.Ascending(c, &f.dismissed, s.size)
	codec.Ascending(c, &f.review, uint64(s.graph.Size()))
	below := uint64(s.graph.Size())
	codec.List(c, &f.members, below, func(m *member) {
		codec.Number(c, &m.exec, below)
		below = uint64(m.exec)
		s.snapshotMember(c, m)
	})
	below = uint64(s.graph.Size())
	codec.List(c, &f.alreadyUndone, below, func(one *alreadyUndone) {
		codec.Number(c, &one.exec, below)
		below = uint64(one.exec)
		s.snapshotReason(c, one.exec, &one.why)
	})
}

// snapshotReason passes why an execution is in a plan: the signal of a seed, else the execution
// that the step comes from.
func (s *State) snapshotReason(c *codec.Codec, exec uint32, why *reason) {
	codec.Number(c, &why.Rule, uint64(scope.Rollback)+1)
	if why.Rule == scope.Seed {
		if c.Reading() {
			why.From = exec
		}
		codec.Number(c, &why.signal, uint64(len(s.signals)))
		return
	}
	codec.Number(c, &why.From, uint64(s.graph.Size()))
	if why.Rule == scope.Rollback {
		codec.Number(c, &why.By, uint64(s.graph.Size())+1)
		codec.Number(c, &why.Checkpoint, uint64(s.graph.Checkpoints())+1)
	}
}

func (s *State) snapshotMember(c *codec.Codec, m *member) {
	s.snapshotReason(c, m.exec, &m.why)
	codec.Number(c, &m.method, uint64(len(methods)))
	codec.Number(c, &m.checkpoint, uint64(s.graph.Checkpoints())+1)
	c.Flag(&m.direct)
	c.Flag(&m.drain)
	codec.Number(c, &m.since, s.size)
	codec.Number(c, &m.opened, s.size)
	c.Instant(&m.openedAt)
	c.Instant(&m.releasedAt)
	codec.Number(c, &m.releasedBy, s.size)
	result := 1 + slices.Index(results, m.result)
	codec.Number(c, &result, uint64(len(results))+1)
	if m.result = ""; result > 0 {
		m.result = results[result-1]
	}
	codec.Number(c, &m.resultAt, s.size)
	c.Flag(&m.own)
	c.Flag(&m.released)
	if c.Reading() && c.OK() && ((m.checkpoint != 0) != (m.method == scope.Restore) || s.graph.Node(m.exec).Line == scope.NoLine) {
		c.Refuse("a member that no plan has")
	}
}

var results = entry.Results()

// snapshotCooldowns passes cooldowns in the order of principals and subjects.
func (s *State) snapshotCooldowns(c *codec.Codec) {
	type cooldown struct {
		cooldownKey
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
	codec.List(c, &all, s.size, func(one *cooldown) {
		codec.Number(c, &one.issuer, uint64(s.principals.Size()))
		s.snapshotSubject(c, &one.subject)
		c.Instant(&one.at)
		place := int64(one.issuer)<<32 | int64(one.subject)
		if c.Reading() {
			if s.cooldowns[one.cooldownKey] = one.at; place <= last {
				c.Refuse("cooldowns out of order")
			}
		}
		last = place
	})
}

func snapshotHead(c *codec.Codec, h *merkle.Head) {
	codec.Number(c, &h.Size, math.MaxInt64)
	c.Raw(h.Root[:])
}

// derive fills in the parts that a restored state derives from incidents. It refuses parts that
// do not fit together.
func (s *State) derive(c *codec.Codec) {
	for i, inc := range s.incidents {
		number := uint32(i)
		sig, ok := s.findSignal(inc.opened)
		if !ok || i > 0 && s.incidents[i-1].opened >= inc.opened {
			c.Refuse("incident %d opens with no signal", inc.opened)
			return
		}
		inc.openedAt, inc.workflow = sig.at, s.subjectWorkflow(sig.subject)
		if inc.state.Open() {
			s.open[number] = struct{}{}
		}
		for _, n := range inc.signals {
			s.indexExecutions(number, s.signals[n].subject)
		}
		s.indexExecutions(number, inc.hold.members...)
		s.indexLines(number, inc.hold.lines...)
		if inc.proposal != nil {
			s.indexExecutions(number, inc.proposal.members...)
		}
		if inc.current != nil {
			s.link(inc.current)
			for i := range inc.current.members {
				s.indexExecutions(number, inc.current.members[i].exec)
				if inc.current.members[i].method == scope.Restore {
					s.indexLines(number, s.graph.Node(inc.current.members[i].exec).Line)
				}
			}
		}
	}
	for i := range s.signals {
		if sig := &s.signals[i]; sig.standing == entry.StandingExecutor {
			s.usage[sig.issuer].spoke = hour.LastAt(sig.at)
		}
	}
	for i := range s.usage {
		if of := s.usage[i].incidents; len(of) > 0 && int(of[len(of)-1]) >= len(s.incidents) {
			c.Refuse("a principal of an incident that is not there")
		}
	}
	for exec, comp := range s.executions.comps {
		if int(comp.incident) >= len(s.incidents) || comp.exec >= exec {
			c.Refuse("a compensation of nothing")
		}
	}
}
