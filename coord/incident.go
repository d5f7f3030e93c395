package coord

import (
	"cmp"
	"iter"
	"slices"

	"recoveryledger/coord/ascending"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// incident holds what the rules need of an incident. Its state follows from the entries that
// name it.
type incident struct {
	// A census of many incidents reads these, of every one.
	state     entry.IncidentState
	proposal  *proposal        // the escalate that waits for answers
	current   *decisionInForce // from the authorize on
	missed    missedAnswer     // see missedAnswerOf
	notFenced string           // why the newest proposal fences nothing; empty: it does
	hold      hold             // the fence of a contain or a proposal

	opened   uint64 // index of its opening signal: its id
	openedAt int64
	workflow uint32
	policy   int // in force at its opening, among State.policies
	epoch    int64
	signals  []uint32 // numbers of the signals that it disposes of, in log order
	entries  []uint32 // indexes of the other entries about it, ascending
	fencedMS int64    // for how long holds have fenced, or will have
	pinned   uint64   // size of the newest pin of a decision

	charge     charge     // against the limits of signalers and victims
	mergedInto uint64     // the older incident that took its signals; 0: none
	overrides  []approval // votes to stop it
	stopped    uint64     // index of the newest override of a plan of it; 0: none
	recorded   uint64     // index of the record, or of the deny that is one
}

// decided is the part of a decision that says whether the decision is in force.
type decided struct {
	index uint64
	keyID string
	exp   int64 // Unix milliseconds
}

// hold is the set of executions and lines that a contain or a proposal fences until it ends.
type hold struct {
	decided
	members []uint32 // ascending
	lines   []uint32 // ascending
}

// proposal is an escalate in force, with the answers to it.
type proposal struct {
	// A census reads these, too.
	decided
	at      int64
	members []uint32 // ascending; an owner of a member may not answer

	issuer      uint32
	pin         merkle.Head
	signals     merkle.Head
	dismissed   []uint64 // indexes of signals
	rollbackSet merkle.Head
	signalers   []uint32 // ascending; issuers of the signals that it rests on
	approvals   []approval
}

// approval is an answer to a proposal.
type approval struct {
	decided
	issuer uint32
	refuse bool
}

// decisionInForce is the decision in force of an authorized incident, with the state of its
// members.
type decisionInForce struct {
	decided
	epoch         int64
	first         uint64   // index of the authorize
	decisions     []uint64 // indexes of the authorize and the amends
	expMax        int64    // the latest exp among the decisions
	deadline      int64
	override      uint64   // index of the override of the open members; 0: none
	proposal      uint64   // index of the approved proposal; 0: the coordinator decided alone
	approvals     []uint64 // indexes, ascending
	consents      []consent
	pin           uint64          // the decision rests on the signals before it
	dismissed     []uint64        // indexes of the signals that it does not believe
	review        []uint32        // soft dependents of members, ascending
	members       []member        // descending by exec, as in the plan
	alreadyUndone []alreadyUndone // undone before, and passed by the walk: descending by exec

	order
}

// consent is what people have approved of an incident: the signals that the proposal rested on
// and believed, and the answers of its quorum.
type consent struct {
	signals []uint32 // numbers, ascending
	answers []approval
}

// reason is why an execution first came into a plan in force.
type reason struct {
	scope.Why
	signal uint32 // of a seed: the number of the signal that names it
}

// alreadyUndone is an execution that was undone before and leads to members.
type alreadyUndone struct {
	exec uint32
	why  reason
}

// member is a member of a plan in force.
type member struct {
	exec       uint32
	why        reason
	method     scope.Method
	checkpoint uint32 // 1 + the checkpoint to restore; 0: none
	direct     bool
	drain      bool   // was in flight when it became a member
	since      uint64 // index of the decision that made it a member
	opened     uint64 // index of the decision that opened it last
	openedAt   int64
	releasedAt int64  // when its undo could begin (INC-7); 0: not yet
	releasedBy uint64 // index of the entry that released it
	result     entry.Result
	resultAt   uint64 // index of the entry that gave the result; 0: none yet
	own        bool   // whether its agent gave the result
	released   bool   // whether its fence was lifted
	blocked    int32  // dependents in the plan beyond which something must come first; derived
}

// findIncident returns the incident with an id.
func (s *State) findIncident(id uint64) (number uint32, inc *incident, ok bool) {
	i, ok := slices.BinarySearchFunc(s.incidents, id, func(inc *incident, id uint64) int { return cmp.Compare(inc.opened, id) })
	if !ok {
		return 0, nil, false
	}
	return uint32(i), s.incidents[i], true
}

func (s *State) mustIncident(id uint64) uint32 {
	number, _, ok := s.findIncident(id)
	if !ok {
		s.impossible("incident %d is unknown", id)
	}
	return number
}

// admitIncident finds the incident that an entry names and belongs to.
func (s *State) admitIncident(id uint64, h *entry.Header) (*incident, uint32, error) {
	number, inc, ok := s.findIncident(id)
	if !ok {
		return nil, 0, unknown("incident", "no incident %d in the log", id).WithRemedy("name the index of the incident's opening signal")
	}
	if wid := string(s.workflows.Text(inc.workflow)); wid != string(h.Wid) {
		return nil, 0, conflict("wid", "incident %d belongs to workflow %s", id, wid)
	}
	return inc, number, nil
}

// find returns the member that an execution is.
func (f *decisionInForce) find(exec uint32) (*member, bool) {
	i, ok := f.place(exec)
	if !ok {
		return nil, false
	}
	return &f.members[i], true
}

// place returns the place in the plan of the member that an execution is.
func (f *decisionInForce) place(exec uint32) (int, bool) {
	return slices.BinarySearchFunc(f.members, exec, func(m member, exec uint32) int { return cmp.Compare(exec, m.exec) })
}

// findAlreadyUndone returns the place of an execution that was undone before.
func (f *decisionInForce) findAlreadyUndone(exec uint32) (int, bool) {
	return slices.BinarySearchFunc(f.alreadyUndone, exec, func(p alreadyUndone, exec uint32) int { return cmp.Compare(exec, p.exec) })
}

// concerns reports whether an execution or a task is a subject of the incident
// or, as an execution, a member of a plan of it.
func (s *State) concerns(inc *incident, exec uint32) bool {
	for _, number := range inc.signals {
		if s.isAbout(&s.signals[number], exec) {
			return true
		}
	}
	if inc.current != nil {
		if _, ok := inc.current.find(exec); ok {
			return true
		}
	}
	return ascending.Has(inc.hold.members, exec) || inc.proposal != nil && ascending.Has(inc.proposal.members, exec)
}

// joins returns the open incident that a signal about the subject belongs to. It is the lowest
// one that the subject concerns and that was not merged. No principal would judge a signal that
// joins a merged incident.
func (s *State) joins(subject uint32) (number uint32, ok bool) {
	for number := range s.incidentsAbout(subject) {
		if inc := s.incidents[number]; inc.state.Open() && inc.mergedInto == 0 && s.concerns(inc, subject) {
			return number, true
		}
	}
	return 0, false
}

// incidentsAbout yields the incidents that may concern a subject or, for an execution, its task:
// ascending numbers.
func (s *State) incidentsAbout(subject uint32) iter.Seq[uint32] {
	var ofTask []uint32
	if task, of := s.tasks.of[subject]; of {
		ofTask = s.incidentsByExecution[taskBit|task]
	}
	return ascending.Union(s.incidentsByExecution[subject], ofTask)
}

// signalsAbout yields the signals about an execution or its task, each with every incident that
// disposes of it, in the order of the incidents.
func (s *State) signalsAbout(exec uint32) iter.Seq2[*incident, *signal] {
	return func(yield func(*incident, *signal) bool) {
		for number := range s.incidentsAbout(exec) {
			for _, n := range s.incidents[number].signals {
				if sig := &s.signals[n]; s.isAbout(sig, exec) && !yield(s.incidents[number], sig) {
					return
				}
			}
		}
	}
}

// indexExecutions notes that an incident may concern executions. A note is never removed: each
// reader of the index looks at the incident.
func (s *State) indexExecutions(number uint32, execs ...uint32) {
	for _, exec := range execs {
		s.incidentsByExecution[exec] = ascending.Add(s.incidentsByExecution[exec], number)
	}
}

// indexLines notes that an incident may fence lines.
func (s *State) indexLines(number uint32, lines ...uint32) {
	for _, line := range lines {
		s.incidentsByLine[line] = ascending.Add(s.incidentsByLine[line], number)
	}
}

// void reports whether a decision or an approval is void: its key was revoked as compromised
// since its index or an earlier one (TRU-4).
func (s *State) void(d *decided) bool { return s.chain.Compromised(d.keyID, d.index) }

// waiting returns the proposal of an incident that may still be answered.
func (s *State) waiting(inc *incident, now int64) *proposal {
	if p := inc.proposal; p != nil && now < p.exp && !s.void(&p.decided) {
		return p
	}
	return nil
}

// pending returns the proposal of an amend that the incident waits for. Because silence denies,
// the incident waits until answer_ms is over or refusals make a quorum impossible. For a proposal
// of an approver it waits no longer than the deadline, so that no approver can keep an incident
// open by proposing.
func (s *State) pending(inc *incident, now int64) *proposal {
	p := s.waiting(inc, now)
	if p == nil || now >= s.answerUntil(inc, p) || s.quorumImpossible(inc, now) {
		return nil
	}
	return p
}

// answerUntil returns the instant at which the time to answer a proposal is over.
func (s *State) answerUntil(inc *incident, p *proposal) int64 {
	until := p.at + s.policyFor(inc).windows.AnswerMS
	if key, _ := s.chain.KeyInfo(p.keyID); inc.current == nil || slices.Contains(key.Roles, entry.RoleCoordinator) {
		return until
	}
	return min(until, inc.current.deadline)
}

// ref points at an entry of this log.
func (s *State) logRef(index uint64) entry.LogRef {
	return entry.LogRef{Index: index, LeafHash: s.tree.Leaf(uint32(index))}
}

// isRef reports whether a reference points at the entry at its index.
func (s *State) isRef(ref entry.LogRef) bool {
	return ref.Index < s.size && ref == s.logRef(ref.Index)
}
