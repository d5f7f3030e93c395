package coord

import (
	"iter"
	"slices"

	"recoveryledger/coord/ascending"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// charge is what an incident counts against the rolling limits of its signalers and its victims:
// the extent that its last decision fenced or undoes.
type charge struct {
	at       int64 // of that decision; 0: nothing yet
	fencedMS int64
	victims  []victim // ascending by agent
}

type victim struct {
	agent   uint32
	members int64
}

func (s *State) chargeOf(execs []uint32, fencedMS, now int64) charge {
	c := charge{at: now, fencedMS: fencedMS}
	count := map[uint32]int64{}
	for _, exec := range execs {
		count[s.graph.Node(exec).Agent]++
	}
	for agent, members := range count {
		c.victims = append(c.victims, victim{agent, members})
	}
	slices.SortFunc(c.victims, func(a, b victim) int { return int(int64(a.agent) - int64(b.agent)) })
	return c
}

// extent is what counts against a cap.
type extent struct {
	members, fencedMS int64
	agents            []uint32
}

func (x *extent) add(members, fencedMS int64, agents ...uint32) {
	x.members, x.fencedMS = x.members+members, x.fencedMS+fencedMS
	for _, agent := range agents {
		if !slices.Contains(x.agents, agent) {
			x.agents = append(x.agents, agent)
		}
	}
}

// purpose is the purpose that an extent is measured for. A fence is lifted again and a rollback is
// not, so each has caps of its own.
type purpose bool

const (
	toUndo  purpose = false
	toFence purpose = true
)

// String returns "rollback" or "fence".
func (p purpose) String() string {
	if p == toFence {
		return "fence"
	}
	return "rollback"
}

// cappedExtent is an extent with its cap.
type cappedExtent struct {
	extent
	of    purpose
	limit entry.Cap
	whose string // incident, signaler, victim
	who   uint32 // the signaler or the victim
}

// capOf returns the cap of an incident, a signaler or a victim.
func (l *effectivePolicy) capOf(whose string, of purpose) (limit entry.Cap) {
	var reach entry.Reach
	switch whose {
	case ofIncident:
		limit, reach = l.limits.Incident, l.fence.Incident
	case ofSignaler:
		limit, reach = l.limits.Signaler, l.fence.Signaler
	case ofVictim:
		limit, reach = l.limits.Victim, l.fence.Victim
	}
	if of == toFence {
		limit.Members, limit.Agents, limit.Domains = reach.Members, reach.Agents, reach.Domains
	}
	return limit
}

// exceeds refuses an extent that is beyond its cap.
func (s *State) exceeds(c *cappedExtent) *entry.Refusal {
	over := func(what, member string, is, limit int64) *entry.Refusal {
		whose := "the incident"
		if c.whose != ofIncident {
			whose = c.whose + " " + string(s.principal(c.who))
		}
		if c.of == toUndo {
			return entry.Refuse(entry.ScopeExceedsPolicy, "rollback_set", "%d %s of %s, the limit is %d", is, what, whose, limit).
				WithRemedy("escalate: approvers may authorize a plan that the coordinator may not")
		}
		place := "limits.fence." + c.whose + "." + member
		if member == "fenced_ms" {
			place = "limits." + c.whose + "." + member
		}
		return entry.Refuse(entry.ScopeExceedsPolicy, "rollback_set", "%d %s of %s, a fence may have %d (%s)", is, what, whose, limit, place).
			WithRemedy("escalate: approvers may authorize a plan that cannot be fenced; or apply a policy with higher fence limits")
	}
	switch domains := int64(len(s.domains(c.agents))); {
	case c.members > c.limit.Members:
		return over("members", "members", c.members, c.limit.Members)
	case int64(len(c.agents)) > c.limit.Agents:
		return over("agents", "agents", int64(len(c.agents)), c.limit.Agents)
	case domains > c.limit.Domains:
		return over("domains", "domains", domains, c.limit.Domains)
	case c.fencedMS > c.limit.FencedMS:
		return over("ms of fences", "fenced_ms", c.fencedMS, c.limit.FencedMS)
	}
	return nil
}

// checkLimits checks what an incident may cost: by itself, and together with what its signalers
// have caused and its victims have suffered over the rolling window (protocol.md, section 8). The
// refusal is nil if the incident keeps within all caps.
func (s *State) checkLimits(number uint32, a *assessment, c charge, of purpose) *entry.Refusal {
	for count := range s.counts(number, a, c, of) {
		if refusal := s.exceeds(&count); refusal != nil {
			return refusal
		}
	}
	return nil
}

// Whose extent is capped.
const (
	ofIncident = "incident"
	ofSignaler = "signaler"
	ofVictim   = "victim"
)

// counts yields every extent that an incident counts for, together with the charges before.
func (s *State) counts(number uint32, a *assessment, c charge, of purpose) iter.Seq[cappedExtent] {
	return func(yield func(cappedExtent) bool) {
		own := extent{fencedMS: c.fencedMS}
		for _, v := range c.victims {
			own.add(v.members, 0, v.agent)
		}
		count := func(x extent, whose string, who uint32) bool {
			return yield(cappedExtent{x, of, a.policy.capOf(whose, of), whose, who})
		}
		if !count(own, ofIncident, 0) {
			return
		}
		before := chargeFilter{number, c.at - a.policy.limits.WindowMS, of}
		for _, signaler := range s.signalers(a) {
			if !count(s.causedBy(signaler, own, before), ofSignaler, signaler) {
				return
			}
		}
		for _, v := range c.victims {
			if !count(s.sufferedBy(v, a, c, before), ofVictim, v.agent) {
				return
			}
		}
	}
}

// chargeFilter says which charges count beside those of an incident: of others, since an
// instant.
type chargeFilter struct {
	except uint32 // the number of the incident
	since  int64
	of     purpose
}

// causedBy returns the extent that a signaler causes, with an incident that has the extent own.
func (s *State) causedBy(signaler uint32, own extent, before chargeFilter) extent {
	total := own
	total.agents = slices.Clone(own.agents)
	s.eachCharge(signaler, before, func(inc *incident) {
		if !s.signaled(inc, signaler) {
			return
		}
		total.add(0, inc.charge.fencedMS)
		for _, v := range inc.victims(before.of) {
			total.add(v.members, 0, v.agent)
		}
	})
	return total
}

// sufferedBy returns the extent that an agent suffers, with an incident. The agents and domains
// that count are those of the signalers that caused it.
func (s *State) sufferedBy(v victim, a *assessment, c charge, before chargeFilter) (total extent) {
	total.add(v.members, c.fencedMS, s.signalers(a)...)
	s.eachCharge(v.agent, before, func(inc *incident) {
		i, suffered := slices.BinarySearchFunc(inc.charge.victims, v.agent, func(v victim, agent uint32) int { return int(int64(v.agent) - int64(agent)) })
		switch {
		case suffered && inc.counts(before.of):
			total.add(inc.charge.victims[i].members, inc.charge.fencedMS, s.signalersOf(inc.signals)...)
		case suffered:
			total.add(0, inc.charge.fencedMS)
		}
	})
	return total
}

// counts reports whether the members of an incident count for a purpose. Members that were only
// fenced do not count against the caps of rollbacks.
func (inc *incident) counts(of purpose) bool { return of == toFence || inc.current != nil }

// victims returns the victims of an incident that count for a purpose.
func (inc *incident) victims(of purpose) []victim {
	if !inc.counts(of) {
		return nil
	}
	return inc.charge.victims
}

// eachCharge calls f for the other incidents that concern a principal and that were charged since
// the instant of the filter.
func (s *State) eachCharge(principal uint32, before chargeFilter, f func(inc *incident)) {
	for _, number := range s.usage[principal].incidents {
		if inc := s.incidents[number]; number != before.except && inc.charge.at != 0 && inc.charge.at > before.since {
			f(inc)
		}
	}
}

// signalers returns the issuers of the believed signals, each once.
func (s *State) signalers(a *assessment) []uint32 {
	return s.signalersOf(slices.DeleteFunc(slices.Clone(a.signals), func(n uint32) bool {
		return slices.Contains(a.dismissed, s.signals[n].index)
	}))
}

func (s *State) signalersOf(signals []uint32) (list []uint32) {
	for _, n := range signals {
		if issuer := s.signals[n].issuer; !slices.Contains(list, issuer) {
			list = append(list, issuer)
		}
	}
	return list
}

// signaled reports whether a principal signaled an incident.
func (s *State) signaled(inc *incident, principal uint32) bool {
	return slices.ContainsFunc(inc.signals, func(n uint32) bool { return s.signals[n].issuer == principal })
}

// involve notes that an incident concerns a principal.
func (s *State) involve(principal, number uint32) {
	u := &s.usage[principal]
	u.incidents = ascending.Add(u.incidents, number)
}

// tookPart notes that the entry at an index is about an incident, and whose entry it is.
func (s *State) tookPart(principal, number uint32, index uint64) {
	s.involve(principal, number)
	s.incidents[number].entries = append(s.incidents[number].entries, uint32(index))
}

// holdFor returns the fence that a contain or a proposal asks for until exp, and the charge of the
// incident with that fence. Upstream and downstream signals alone support only the edge that they
// were sent over (section 8).
func (s *State) holdFor(inc *incident, a *assessment, d decided, now int64) (hold, charge) {
	h := hold{decided: d, members: execsOf(a.plan.Members), lines: a.plan.Lines}
	strong, weak := s.splitBySubject(a, func(about []uint32) bool { return s.strong(about, a.policy.quorum.Signalers) })
	if until := now + a.policy.windows.DeadlineMaxMS; len(strong) == 0 {
		h.members, h.lines = s.edgesOf(weak, a.plan), nil
	} else if _, beyond := s.subjectOutside(inc, strong, weak, until); beyond {
		p := s.graph.Plan(s.request(inc, strong, nil, until))
		h.members, h.lines = append(execsOf(p.Members), s.edgesOf(weak, a.plan)...), p.Lines
		slices.Sort(h.members)
		h.members = slices.Compact(h.members)
	}
	return h, s.chargeOf(h.members, inc.fencedUntil(d.exp, now), now)
}

// fencedUntil returns for how long holds will have fenced if the next one ends
// at exp.
func (inc *incident) fencedUntil(exp, now int64) int64 {
	return inc.fencedMS - max(0, inc.hold.exp-now) + max(0, exp-now)
}

// strong reports whether a subject has a signal other than upstream and downstream signals, or a
// quorum of those.
func (s *State) strong(about []uint32, quorum int64) bool {
	return slices.ContainsFunc(about, func(n uint32) bool { return !s.signals[n].byNeighbor() }) || s.believed(about, quorum)
}

// edgesOf returns the ends of the edges over which signals were sent that are
// members of the plan, ascending.
func (s *State) edgesOf(signals []uint32, p *scope.Plan) (execs []uint32) {
	for _, n := range signals {
		sig := &s.signals[n]
		_, task := s.taskOf(sig.subject)
		for exec := range s.executionsOf(sig.subject) {
			if task && !s.linked(sig.standing, exec, sig.issuer) {
				continue
			}
			execs = append(execs, exec)
			for child := range s.graph.Children(exec) {
				if _, member := p.Find(child); member && sig.standing == entry.StandingDownstream && s.graph.Node(child).Agent == sig.issuer {
					execs = append(execs, child)
				}
			}
		}
	}
	execs = slices.DeleteFunc(execs, func(exec uint32) bool { _, member := p.Find(exec); return !member })
	slices.Sort(execs)
	return slices.Compact(execs)
}
