package agent

import "recoveryledger/ledger/entry"

// Event is news for people. Nothing depends on it.
type Event struct {
	Kind     EventKind
	Incident uint64    // 0: of none
	Exec     entry.Ref // empty: of none
	Text     string
	Err      error // nil: nothing went wrong
}

// EventKind is the subject of an event.
type EventKind string

// The kinds of event.
const (
	EventAccepted EventKind = "accepted" // a decision verified; Text has the warnings, if any
	EventStarted  EventKind = "started"  // a hook is about to run
	EventEnded    EventKind = "ended"    // a hook has reported
	EventLogged   EventKind = "logged"   // the log has an entry
	EventRefused  EventKind = "refused"  // a bundle, a member or an entry was refused
	EventRetry    EventKind = "retry"    // something failed, and the agent tries it again
	EventHidden   EventKind = "hidden"   // the log has a decision for the agent that the server does not give
	EventLost     EventKind = "lost"     // the store is lost, or damaged
	EventFork     EventKind = "fork"     // two logs
)
