package coord

import (
	"fmt"
	"maps"
	"slices"

	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// admitRecord checks that an incident is over, and that its record says what the log says.
func (s *State) admitRecord(r *entry.Record, roles []entry.Role, now int64) error {
	inc, _, err := s.admitIncident(r.Incident, &r.Header) // REG-8
	if err != nil {
		return err
	}
	if inc.state != entry.IncidentAuthorized { // REG-9
		return conflict("incident", "incident %d is %s, not AUTHORIZED", inc.opened, inc.state)
	}
	f := inc.current
	switch {
	case !slices.Contains(roles, entry.RoleCoordinator) && now <= f.deadline:
		return entry.Refuse(entry.UnauthorizedRole, "iss", "approvers may record after the deadline at %d", f.deadline)
	case r.Decision != s.logRef(f.index):
		return conflict("decision", "entry %d is not the decision in force, which is entry %d", r.Decision.Index, f.index)
	case s.pending(inc, now) != nil:
		return conflict("incident", "an amend of incident %d is proposed", inc.opened).WithRemedy("wait until it is decided or expires")
	}
	if err := s.settled(inc, now); err != nil {
		return err
	}
	if err := s.checkDispositions(inc, r.Dispositions); err != nil {
		return err
	}
	return s.checkRecord(r, inc)
}

// settled returns why an incident is not settled; nil: every member has an outcome. A member that
// an override withheld is not settled before the latest exp of the decisions, because its agent may
// have started the undo before the override.
func (s *State) settled(inc *incident, now int64) error {
	for i := range inc.current.members {
		m := &inc.current.members[i]
		if m.result == "" {
			return conflict("tally", "%s has no outcome", s.refOf(m.exec))
		}
		if m.overridden() && now < inc.current.expMax {
			return conflict("tally", "%s may have been started before the override, until %d", s.refOf(m.exec), inc.current.expMax)
		}
	}
	return nil
}

// checkRecord compares what the record says with what follows from the log.
func (s *State) checkRecord(r *entry.Record, inc *incident) error {
	state, tally := inc.current.verdict()
	for i := range r.Dispositions {
		if err := s.checkVerdict(inc, &r.Dispositions[i], fmt.Sprintf("dispositions[%d].", i)); err != nil {
			return err
		}
	}
	switch {
	case r.State != state:
		return conflict("state", "%s, but the outcomes make it %s", r.State, state)
	case !maps.Equal(r.Tally, tally):
		return conflict("tally", "%v, but the outcomes are %v", r.Tally, tally)
	case r.Unresolved != s.unresolved(inc.current):
		return conflict("unresolved", "not the head over the members that were not undone, %d in number", s.unresolved(inc.current).Size)
	case r.Review != int64(len(inc.current.review)):
		return conflict("review", "%d, but the executions to be reviewed are %d in number", r.Review, len(inc.current.review))
	}
	return nil
}

// verdict returns the state that follows from the outcomes of a plan, and their tally. If nothing
// had to be undone, the state is not Recovered.
func (f *decisionInForce) verdict() (state entry.IncidentState, tally map[entry.Result]int64) {
	tally = map[entry.Result]int64{}
	undoneOnes, effective, effectiveUndone := 0, 0, 0
	for i := range f.members {
		m := &f.members[i]
		tally[m.result]++
		done := m.result.Undone()
		if done {
			undoneOnes++
		}
		if m.method != scope.Invalid && m.method != scope.Cancel {
			effective++
			if done {
				effectiveUndone++
			}
		}
	}
	switch {
	case tally[entry.NotExecuted] == int64(len(f.members)):
		return entry.IncidentNoEffects, tally
	case undoneOnes == len(f.members):
		return entry.IncidentRecovered, tally
	case undoneOnes == 0, effective > 0 && effectiveUndone == 0:
		return entry.IncidentFailed, tally
	}
	return entry.IncidentPartial, tally
}

// unresolved returns the head of the tree over the members that were not undone.
func (s *State) unresolved(f *decisionInForce) merkle.Head {
	var leaves []merkle.Hash
	for i := range f.members {
		if m := &f.members[i]; !m.result.Undone() {
			planned := s.planMember(m.exec, m.method, m.checkpoint)
			leaves = append(leaves, merkle.HashLeaf(planned.AppendJSON(nil)))
		}
	}
	return merkle.HeadOf(leaves)
}

func (s *State) applyRecord(r *entry.Record, issuer uint32, index uint64, now int64) {
	number := s.mustIncident(r.Incident)
	inc := s.incidents[number]
	state, _ := inc.current.verdict()
	inc.missed = s.missedAnswerOf(inc, now)
	s.dispose(r.Dispositions, index)
	s.tookPart(issuer, number, index)
	s.end(number, state, index)
}

// openIncidents returns the numbers of the open incidents, ascending.
func (s *State) openIncidents() []uint32 { return slices.Sorted(maps.Keys(s.open)) }
