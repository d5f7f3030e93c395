package metrics

import (
	"cmp"
	"slices"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// results are the results of a step of recovery that was carried out.
var results = []recovery.Result{recovery.ResultOK, recovery.ResultFailed, recovery.ResultNotObserved, recovery.ResultUnverified}

// strategies are the strategies of the recovery engine.
var strategies = texts(recovery.Strategies())

// noArm is the arm of an attempt that belongs to no rollout.
const noArm = "none"

// arms returns the arms of attempts.
func arms() []string {
	return append(texts([]entry.Arm{entry.ArmControl, entry.ArmCanary, entry.ArmShadow}), noArm)
}

// armOf returns the arm of an attempt.
func armOf(a *entry.Attempt) string { return cmp.Or(string(a.Arm), noArm) }

// operations are the operations on a task.
var operations = []string{entry.TaskCreate, entry.TaskReassign, entry.TaskRelease, entry.TaskCancel, entry.TaskAssign, entry.TaskFail,
	entry.TaskInterrupt, entry.TaskStart, entry.TaskReview, entry.TaskComplete, entry.TaskBlock}

// acts returns the acts of decisions.
func acts() []string {
	return texts([]entry.Act{entry.ActContain, entry.ActEscalate, entry.ActAuthorize, entry.ActAmend, entry.ActDeny, entry.ActOverride, entry.ActRelease})
}

// ended returns the states of incidents that are over.
func ended() (names []string) {
	for _, state := range entry.IncidentStates() {
		if !state.Open() {
			names = append(names, string(state))
		}
	}
	return names
}

// within returns a word if a list has it, and other if not.
func within(list []string, word string) string {
	if slices.Contains(list, word) {
		return word
	}
	return other
}

// failure returns the labels of a failure. A class outside the taxonomy counts as unknown (SIG-2).
func failure(class, code string) (boundClass, boundCode string) {
	if !slices.Contains(entry.Classes(), class) {
		class = entry.ClassUnknown
	}
	return class, within(entry.Codes(class), code)
}

// escalation is a reason for which people are asked about a plan.
type escalation struct {
	reason  string
	meaning string
	says    []string // parts of the texts that the coordinator writes
}

// escalations are the reasons. The first one whose text a decision has is its reason.
var escalations = []escalation{
	{"evidence", "Too few principals support the signals, or none with evidence.", []string{"no signal comes from", "too few signalers reported", "signalers of domain"}},
	{"irrevocable", "An effect cannot be undone.", []string{"cannot be undone"}},
	{"line", "A member is one only because its line goes back to a checkpoint.", []string{"its line goes back"}},
	{"limits", "The plan exceeds a limit of the policy.", []string{"the limit is", "a fence may have"}},
	{"overlap", "Another incident in force has members of the plan.", []string{"has members in common"}},
	{"changed", "The plan has changed since the proposal before.", []string{"the plan has changed"}},
	{"void", "The key of the proposal before was revoked as compromised.", []string{"the proposal before is void"}},
	{"unapproved", "The proposal before was not approved: people are asked whether the plan in force goes on.", []string{"does the plan in force go on"}},
}

// byCoordinator and byPeople say who decided. byPeople is also the reason of a proposal that the
// coordinator did not make.
const (
	byCoordinator = "coordinator"
	byPeople      = "people"
)

// reasons returns the reasons of escalations.
func reasons() (list []string) {
	for _, e := range escalations {
		list = append(list, e.reason)
	}
	return append(list, byPeople, other)
}

// reasonOf returns the reason of an escalate that the coordinator wrote.
func reasonOf(text string) string {
	for _, e := range escalations {
		if slices.ContainsFunc(e.says, func(part string) bool { return strings.Contains(text, part) }) {
			return e.reason
		}
	}
	return other
}
