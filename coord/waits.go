package coord

import (
	"fmt"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// waits returns what an incident waits for; nil: for nothing. A closed incident waits for nothing,
// unless no approver answered in time and no person has acknowledged that.
func (s *State) waits(inc *incident, now int64) *api.Waits {
	p, f := s.waiting(inc, now), inc.current
	switch {
	case !inc.state.Open() && inc.missed.isOpen():
		return acknowledgement()
	case !inc.state.Open():
		return nil
	case inc.mergedInto != 0:
		return &api.Waits{For: api.ForMerge, Who: api.WaitsCoordinator, Incident: inc.mergedInto}
	case p != nil:
		approve, _ := s.answersTo(inc, p, now)
		w := &api.Waits{For: api.ForApprovals, Who: api.WaitsApprovers, Have: int64(len(approve)), Want: s.policyFor(inc).quorum.Approve,
			Until: s.answerUntil(inc, p), Then: "silence denies the proposal"}
		switch {
		case f == nil:
		case f.override != 0:
			w.Then = "the plan stays stopped by the override"
		default:
			w.Then = "the plan in force goes on without the amend"
		}
		return w
	case f == nil:
		return &api.Waits{For: api.ForCoordinator, Who: api.WaitsCoordinator, Until: inc.openedAt + s.policyFor(inc).windows.DecideMS,
			Then: "people may propose the plan in the place of the coordinator"}
	}
	if open := f.open(); open > 0 {
		return &api.Waits{For: api.ForOutcomes, Who: api.WaitsAgents, Have: int64(len(f.members) - open), Want: int64(len(f.members)), Until: f.deadline,
			Then: "members without an outcome become unknown, and the incident is closed"}
	}
	return &api.Waits{For: api.ForRecord, Who: api.WaitsCoordinator}
}

// asksPeople reports whether an open incident waits for approvals: it is escalated,
// or an amend is proposed while the plan in force is carried out.
func asksPeople(v *api.Incident) bool {
	return v.State == entry.IncidentEscalated || v.State.Open() && v.Proposal != nil
}

// WaitsForPeople returns what an incident asks people for; nil: nothing. It asks for approvals, or
// for a person who acknowledges that no approver answered, whatever it waits for beside that. An
// escalated incident asks for nothing if it waits for the coordinator: an older incident took it
// up, or its proposal is void or has expired.
func WaitsForPeople(v *api.Incident) *api.Waits {
	switch {
	case v.AsksPeople && v.Waits.Who != api.WaitsCoordinator:
		return v.Waits
	case v.Unacknowledged():
		return acknowledgement()
	}
	return nil
}

func acknowledgement() *api.Waits {
	return &api.Waits{For: api.ForAcknowledgement, Who: api.WaitsPeople}
}

// taskWaits returns whose entry a task waits for. It is an operator's if the task is blocked, its
// retries are spent, its effects are not known, it has no type, no agent can do its type, or the
// policy leaves it to people. It is empty if an agent holds the task or the task is over.
func taskWaits(v *api.Task, people bool) string {
	switch {
	case v.State.Held() || v.State.Over():
		return ""
	case answeredFor(v), v.Type == "", v.Unassignable, people:
		return api.WaitsOperator
	}
	return api.WaitsCoordinator
}

// answeredFor reports whether an operator must release a task before it can continue.
func answeredFor(v *api.Task) bool {
	return v.State == entry.TaskBlocked || v.State == entry.TaskFailed && v.RetriesSpent() || v.Gate != ""
}

// givenBy returns the operation by which an operator gives a task to an agent. It is release if
// the operator must answer for the reason that holds the task up, else reassign. It is empty if
// an agent holds the task or the task is over.
func givenBy(v *api.Task) string {
	switch {
	case v.State.Held() || v.State.Over():
		return ""
	case answeredFor(v):
		return entry.TaskRelease
	}
	return entry.TaskReassign
}

// reassignment returns the agent that an operator may give a task to by reassign. It is nil if
// the table of tasks has no reassign. The table itself (protocol.md, section 9) has no rule about
// the agent. The policy binds the choice of the agent, here as in [State.Route].
func reassignment(v *api.Task) *api.Reassignment {
	if _, ok := v.Standing().Move(entry.TaskReassign, "", false); !ok {
		return nil
	}
	r := &api.Reassignment{}
	if another(v) {
		r.Except = v.Agent
	}
	switch {
	case len(v.Candidates) > 0:
		r.Agent = v.Candidates[0].Agent
	case v.Type == "":
		r.Obstacle = api.ObstacleUntyped
	case v.Unassignable:
		r.Obstacle = api.ObstacleUnassignable
	case v.State != entry.TaskCreated && v.Recovery == nil: // no claim but a release
		r.Obstacle = api.ObstacleRelease
	default:
		r.Obstacle = api.ObstacleBusy
	}
	return r
}

// open returns how many members have no outcome.
func (f *decisionInForce) open() (count int) {
	for i := range f.members {
		if f.members[i].result == "" {
			count++
		}
	}
	return count
}

// stillFenced returns the number of members of a closed incident that stay fenced until an
// approver releases them.
func (inc *incident) stillFenced() (count int) {
	if inc.state.Open() || inc.current == nil {
		return 0
	}
	for i := range inc.current.members {
		if !inc.current.members[i].released {
			count++
		}
	}
	return count
}

// describeState says, for a refusal, what an incident waits for, or that the incident is closed.
func (s *State) describeState(inc *incident, now int64) string {
	if inc.state.Open() {
		return fmt.Sprintf("which is %s and waits for %s", inc.state, s.waits(inc, now))
	}
	return fmt.Sprintf("which is closed (%s)", inc.state)
}

// refuseOnFenced refuses an entry that depends on a fenced execution, or continues one. If the
// execution was undone, the agent has nothing to wait for: it does the step again.
func (s *State) refuseOnFenced(field string, ref entry.Ref, by fence, now int64) *entry.Refusal {
	inc := by.inc
	release := fmt.Sprintf("an approver who does not own that execution lifts its fence: arl incident release %d --member %s", inc.opened, ref)
	again := fmt.Sprintf("do %[1]s again under a new id, with parents that are not fenced, and depend on the new execution; or, to use %[1]s as it is, %[2]s", ref, release)
	if field == "progress" {
		again = fmt.Sprintf("do the step again under a new id, with parents that are not fenced; or, to continue this execution, %s", release)
	}
	var result entry.Result
	if len(by.members) > 0 {
		result = by.members[0].result
	}
	switch {
	case result.Undone():
		return s.refuseFor(by, now, field, "%s was undone (%s) by incident %d, %s", ref, result, inc.opened, s.describeState(inc, now)).WithRemedy(again)
	case !inc.state.Open():
		return s.refuseFor(by, now, field, "%s could not be undone (%s) by incident %d, %s", ref, result, inc.opened, s.describeState(inc, now)).WithRemedy(again)
	}
	return s.refuseFor(by, now, field, "%s is fenced by incident %d, %s", ref, inc.opened, s.describeState(inc, now)).WithRemedy(s.fenceRemedy(by, now))
}

// refuseOnLine refuses an execution that joins a fenced line.
func (s *State) refuseOnLine(field string, agent entry.Principal, by fence, now int64) *entry.Refusal {
	inc := by.inc
	if inc.state.Open() {
		return s.refuseFor(by, now, field, "the line of %s is fenced by incident %d, %s", agent, inc.opened, s.describeState(inc, now)).WithRemedy(s.fenceRemedy(by, now))
	}
	var members, results []string
	for _, m := range by.members {
		members = append(members, string(s.refOf(m.exec)))
		results = append(results, fmt.Sprintf("%s (%s)", s.refOf(m.exec), m.result))
		if len(members) == releaseMax {
			break
		}
	}
	return s.refuseFor(by, now, field, "the line of %s was not restored by incident %d, %s: %s", agent, inc.opened, s.describeState(inc, now), strings.Join(results, ", ")).
		WithRemedy(fmt.Sprintf("repair the agent's state; then an approver who does not own the members lifts the fence: arl incident release %d --member %s",
			inc.opened, strings.Join(members, ",")))
}

// releaseMax is the largest number of members that a refusal names as keeping a line fenced.
const releaseMax = 8

// refuseFor returns a refusal by a fence.
func (s *State) refuseFor(by fence, now int64, field, format string, args ...any) *entry.Refusal {
	refusal := entry.Refuse(entry.FencedDependency, field, format, args...)
	refusal.Incident = by.inc.opened
	if by.inc.state.Open() { // a closed incident waits for nothing that lifts a fence
		refusal.WaitsFor = s.waits(by.inc, now).String()
	}
	return refusal
}

// fenceRemedy says what to do about a fence that stands.
func (s *State) fenceRemedy(by fence, now int64) string {
	id := by.inc.opened
	switch {
	case len(by.members) > 0:
		return fmt.Sprintf("wait until incident %d is closed (arl incident show %d), and then do the undone executions again under new ids", id, id)
	case by.inc.state == entry.IncidentAuthorized:
		return fmt.Sprintf("wait until the approvers have answered the amend: arl incident approve %d, or with --refuse", id)
	case s.waiting(by.inc, now) != nil:
		return fmt.Sprintf("wait until the approvers have answered: arl incident approve %d puts the plan into force, and arl incident deny %d lifts the fence", id, id)
	}
	return fmt.Sprintf("wait for the decision (arl incident show %d); or an approver lifts the fence: arl incident deny %d", id, id)
}
