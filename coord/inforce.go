package coord

import (
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// DecisionInForce is the decision in force of an incident, with its plan and the entries that led
// to it. Executions go by their numbers. It is valid until the state changes. Do not change it.
type DecisionInForce struct {
	Index     uint64   // of the authorize or of the last amend; 0: nothing was authorized
	Decisions []uint64 // indexes of the authorize and the amends
	Proposal  uint64   // index of the approved proposal; 0: the coordinator decided alone
	Approvals []uint64 // indexes of the approvals, ascending
	Override  uint64   // index of the override of the open members; 0: none
	Void      bool     // whether the key that signed it is compromised
	Signals   []uint64 // indexes of the incident's signals that it rests on
	Dismissed []uint64 // indexes of the signals that it does not believe
	Members   int      // number of members of the plan; a member's place is below that

	state   *State
	current *decisionInForce
}

// MemberInForce is a member of a plan in force, as it stands.
type MemberInForce struct {
	Exec       uint32
	Method     scope.Method
	Checkpoint uint32 // 1 + the checkpoint to restore; 0: none

	Result     entry.Result // empty: none yet
	ResultAt   uint64       // index of the entry that gave the result; 0: none yet
	Reported   bool         // whether an outcome entry gave it its result, not the rules
	Overridden bool         // whether an override withheld it, and its agent has not spoken since
	OpenedBy   uint64       // index of the decision that opened it last
	Waits      bool         // whether its dependents must be undone before it
	Released   bool         // whether its undo may begin
	HoldsLine  bool         // whether its line is restored only after it
}

// Reason is why an execution is in a plan, or leads to members.
type Reason struct {
	scope.Why
	Signal SignalRange // of a seed: the signal that names it
}

// SignalRange is a signal with the executions that it is about.
type SignalRange struct {
	Index   uint64
	Subject uint32
	Since   uint32 // 1 + the first; 0: the subject alone
}

// DecisionInForce returns the decision in force of an incident. The error is a
// [*entry.Refusal] if there is no such incident.
func (s *State) DecisionInForce(incident uint64) (*DecisionInForce, error) {
	_, inc, ok := s.findIncident(incident)
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", incident)
	}
	d, f := &DecisionInForce{state: s, current: inc.current}, inc.current
	if f == nil {
		return d, nil
	}
	d.Index, d.Decisions, d.Proposal, d.Approvals = f.index, f.decisions, f.proposal, f.approvals
	d.Override, d.Void, d.Dismissed, d.Members = f.override, s.void(&f.decided), f.dismissed, len(f.members)
	for _, n := range inc.signals {
		if index := s.signals[n].index; index < f.pin {
			d.Signals = append(d.Signals, index)
		}
	}
	return d, nil
}

// PlacesOf returns the places of the members of an agent, ascending.
func (d *DecisionInForce) PlacesOf(agent uint32) []int {
	if d.current == nil {
		return nil
	}
	return d.current.byAgent[agent]
}

// Member returns the member at a place.
func (d *DecisionInForce) Member(place int) MemberInForce {
	m := &d.current.members[place]
	return MemberInForce{Exec: m.exec, Method: m.method, Checkpoint: m.checkpoint, Result: m.result, ResultAt: m.resultAt,
		Reported: m.reported(), Overridden: m.overridden(), OpenedBy: m.opened, Waits: m.blocked != 0,
		Released: m.releasedAt != 0, HoldsLine: d.state.holdsLine(m) > 0}
}

// Planned returns the member at a place as the rollback set has it.
func (d *DecisionInForce) Planned(place int) entry.Member {
	m := &d.current.members[place]
	return d.state.planMember(m.exec, m.method, m.checkpoint)
}

// Place returns the place of the member that an execution is.
func (d *DecisionInForce) Place(exec uint32) (place int, ok bool) { return d.current.place(exec) }

// Why returns why an execution is in the plan, or leads to members. ok is false if the execution
// does neither.
func (d *DecisionInForce) Why(exec uint32) (why Reason, ok bool) {
	var found reason
	if m, member := d.current.find(exec); member {
		found = m.why
	} else if i, undone := d.current.findAlreadyUndone(exec); undone {
		found = d.current.alreadyUndone[i].why
	} else {
		return Reason{}, false
	}
	if why.Why = found.Why; found.Rule == scope.Seed {
		sig := &d.state.signals[found.signal]
		why.Signal = SignalRange{sig.index, sig.subject, sig.since}
	}
	return why, true
}

// reported reports whether an outcome entry gave a member its result. The rules give the result
// if there was nothing to undo, or if an override withheld the member.
func (m *member) reported() bool {
	return m.result != "" && (m.own || m.result == entry.ResultUnknown)
}

// overridden reports whether an override withheld a member, and its agent has
// not spoken since.
func (m *member) overridden() bool { return m.result == entry.Withheld && !m.own }
