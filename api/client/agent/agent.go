// Package agent carries out what proven decisions tell an agent to undo:
// protocol.md, section 7, AGT-1 to AGT-5.
//
// The core is a state machine without goroutine, clock, network or randomness of its own.
// Ledger, store, hooks, keys and time come from outside. [Agent.Step] does at most the next
// thing, and returns when it wants to be called again. [Run] is a thin loop around Step that
// waits. Each step does one of:
//
//	look      ask for commands
//	log       what a hook did, or what there is nothing to do about: one entry from the outbox
//	reconcile what was started and not ended: ask Probe, run what may run again, or say unknown
//	ask       for one page of a bundle or of news, check it, store what is accepted
//	confirm   the head of a first contact by a second source
//	begin     one hook: note it as started, run it, note what it reported and the entries that say so
//	follow    one page of the log itself, and the plans of decisions that nobody announced
//
// # What is stored
//
// A [Store] holds small documents, each replaced whole and durably:
//
//	agent     whose store it is, when it was made, what counts as lost
//	accepted  [bundle.Accepted]: head, policies and keys with revocations, epochs
//	work-*    one undertaking each: members, method, checkpoint, how far it has come, the entries to be logged
//	followed  how far the log was read
//	fork      two heads that nothing reconciles: while it is there the agent does nothing
//
// Each document begins with a line that names the format and the SHA-256 of the content. A
// document that does not match is damaged. Undertakings are numbered, so that a missing one
// between others is noticed. A damaged store counts as lost, and so does a store that the log
// is ahead of.
//
// # What a crash means
//
// Between any two steps and within each, the store says which of these holds:
//
//	noted     nothing was started: the undertaking begins again, if the decision still stands
//	started   the hook may have run, wholly, in part or not: the agent reconciles it
//	done      the hook has ended and its report is kept: only entries are to be logged
//	closed    the log has the entries
//
// An undertaking is marked as started on disk before its hook runs, so that a hook that is not
// idempotent never runs twice. Entries are signed and stored before they are sent, so that the
// agent sends the same bytes until the log has them.
package agent

import (
	"context"
	"errors"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// Config names the agent and its tools. Open copies it. Root, Agent, Ledger, Store, Sign, NewID and
// Secret are required.
type Config struct {
	Root  verify.Root
	Agent entry.Principal
	// Secret makes the keys of compensations (EXE-4), so it must outlast the store. It has 16
	// bytes or more that only the agent knows.
	Secret []byte
	Sign   func(*entry.Entry) error // with the agent's key
	NewID  func() string            // a new UUID in lower case, for each entry

	Ledger Ledger
	Log    Log    // nil: the log is not followed, and a hidden decision stays unseen
	Second Source // nil: first contact needs a witness quorum
	Store  Store
	Hooks  Hooks
	Tell   func(Event) // nil: events are dropped

	// Absences says that the agent obeys only bundles that prove that they leave nothing out
	// (ABS-1 to ABS-4), under every policy.
	Absences bool
	// LookMS is the time between two questions to the ledger without [Agent.Poke], in
	// milliseconds. 0: 30,000.
	LookMS int64
	// Attempts is the number of tries of a hook whose report says that it had no effect. 0: 3.
	Attempts int
}

// Ledger is the ledger that the agent acts by. The core checks all that a Ledger returns,
// except receipts: Submit has verified them.
type Ledger interface {
	// Commands returns hints: the incidents that may have commands for the agent.
	Commands(ctx context.Context) (*Hints, error)
	// Bundle returns a page of the bundle of an incident for the agent, or news
	// if incident is 0, from the size it accepted last. next is where the next
	// page begins; 0: there is none.
	Bundle(ctx context.Context, q Query) (page *bundle.Bundle, next uint64, err error)
	// Submit registers a signed entry, and returns when it holds a verified receipt. An
	// [*entry.Refusal] says that the ledger did not take the entry. After any other error the
	// ledger may have taken it, and the agent submits the same bytes again.
	Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error)
}

// Query names the bundle that the agent asks for.
type Query struct {
	Incident uint64 // 0: news only
	Head     string // accepted, a signed note; empty: none
	From     uint64 // size of that head; 0: none
	After    uint64 // where the page before ended; 0: the first
	// Whole says that links are missing. The bundle must then have all policies and keys, as
	// for a new agent, but must begin at From with the consistency proof from Head.
	Whole bool
	// Absences says that the bundle must prove that it leaves nothing out.
	Absences bool
	// Anew says that the answer before did not verify. Who carried it may have altered it, so the
	// question takes another connection, and no answer that a cache keeps.
	Anew bool
}

// Hints are the server's word about bundles to fetch.
type Hints struct {
	Size     uint64 // of the log that they are as of
	News     uint64 // index of the newest policy, key or override to know of; 0: none
	Commands []Hint
}

// Hint is an incident in force with open members of the agent.
type Hint struct {
	Incident uint64
	Decision uint64 // index of the one in force
	Changed  uint64 // index of the newest entry that changed the commands of the agent
}

// Log is the log itself. A server cannot leave an entry out of it unseen.
type Log interface {
	// Follow returns the entries from an index on, without a gap, or none if the log ends
	// there. The page has the signed head that proves the entries, and the consistency proof
	// between the accepted head and that head.
	Follow(ctx context.Context, from uint64, accepted string) (*Page, error)
	// Plan returns all members of the plan in force of an incident.
	Plan(ctx context.Context, incident uint64) ([]entry.Member, error)
}

// Page is a piece of the log.
type Page struct {
	Entries []verify.Entry          // ascending by one, proven under the newer head of Proof
	Proof   verify.ConsistencyProof // between the accepted head and that of the page; empty if they are one, or none was accepted
}

// Source shows a head that did not come from the ledger's server alone. Examples are a mirror
// and a monitor.
type Source interface {
	// Confirm returns a consistency proof between the given head and the source's head.
	Confirm(ctx context.Context, head string) (verify.ConsistencyProof, error)
}

// Store keeps documents by name. A name is lower-case letters, digits and "-".
type Store interface {
	Names() ([]string, error)
	Load(name string) ([]byte, error)
	// Save replaces a document. The new document is durable when Save returns nil. After an
	// error or a crash the store has the old or the new document, whole.
	Save(name string, data []byte) error
}

// ErrStopped reports that the agent has stopped and does nothing more: the store failed, the key
// did not sign, or the ledger has forked.
var ErrStopped = errors.New("agent: stopped")

// ForkError reports two signed heads of the ledger that nothing reconciles. The document fork
// of the store holds the heads. The agent does nothing while that document is there.
type ForkError struct{ verify.Evidence }

// Error implements error.
func (e *ForkError) Error() string {
	return "agent: the ledger shows two logs: " + e.Detail + " (nothing is undone; show both heads to others, and remove the document fork of the store when it is settled)"
}

// Unwrap returns [ErrStopped].
func (*ForkError) Unwrap() error { return ErrStopped }
