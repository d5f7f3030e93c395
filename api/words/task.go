package words

import (
	"cmp"
	"fmt"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TaskRetries says how often a task was tried again, and how often it may be.
func TaskRetries(t *api.Task) string { return fmt.Sprintf("%d of %d", t.RetryCount, t.MaxRetries) }

// TaskLease says until when an agent holds a task without a renewal.
func TaskLease(l *api.Lease) string {
	return fmt.Sprintf("until %s, %s a term", Instant(l.ExpiresAt), time.Duration(l.TermMS)*time.Millisecond)
}

// TaskWaitsFor says in a few words what a task waits for.
func TaskWaitsFor(t *api.Task) string {
	switch {
	case t.State.Over():
		return ""
	case t.Waits == "":
		return "its agent"
	case t.State == entry.TaskBlocked:
		return "operator: " + t.Reason
	}
	why, found := HoldsUpTask(t)
	if t.Type == "" && !t.HeldUp() {
		why, found = untyped(t, cmp.Or(why, t.Reason)), true
	}
	if found {
		return t.Waits + ": " + why
	}
	return t.Waits
}

// untyped says why the coordinator gives a task without a type to nobody. A task about a case asks
// people: its reason is the question.
func untyped(t *api.Task, reason string) string {
	switch {
	case t.About != nil && reason != "":
		return reason
	case reason != "":
		return "it has no type to choose an agent by: " + reason
	}
	return "it has no type to choose an agent by"
}

// HoldsUpTask says what holds up a task that is not blocked.
func HoldsUpTask(t *api.Task) (why string, found bool) {
	switch {
	case t.Gate != "":
		return t.Gate, true
	case t.Unassignable && t.Recovery != nil:
		return TaskRecovery(t.Recovery) + "; " + NobodyFor(t), true
	case t.Unassignable:
		return NobodyFor(t), true
	case t.Recovery != nil:
		return TaskRecovery(t.Recovery), true
	case t.HeldUp(): // with no gate, its retries are spent
		return TaskRetries(t) + " retries used: " + t.Reason, true
	}
	return "", false
}

// TaskRecovery says what the policy wants done about a task, where that stands, and
// what people can do.
func TaskRecovery(r *api.TaskRecovery) string {
	if r == nil {
		return "the policy says nothing"
	}
	text := fmt.Sprintf("%s: %s (%s)", r.Strategy, r.Reason, r.Rule)
	if r.Remediation != "" {
		text += ": " + r.Remediation
	}
	return text
}

// NobodyFor says that no agent can be given a task.
func NobodyFor(t *api.Task) string {
	who := "no agent"
	if t.Recovery != nil && t.Recovery.Another {
		who += " but " + string(t.Agent) + ", which failed at it just now,"
	}
	return fmt.Sprintf("%s has the capability %s: enrol one (arl agent enrol)", who, t.Type)
}
