package worker

import (
	"context"
	"errors"
	"time"
)

// Failure is a class of the taxonomy with its code; both are empty if the agent
// ended well.
type Failure struct{ Class, Code string }

// The failures that this package tells apart.
var (
	// Panicked: a panic, an unhandled error, an abort, or an exit code.
	Panicked = Failure{"crash", "panic"}
	// OutOfMemory: the system or a limit ended the agent for lack of memory.
	OutOfMemory = Failure{"crash", "oom"}
	// Lost: the agent was killed, or its lease is lost.
	Lost = Failure{"crash", "lost"}
	// Interrupted: the agent was asked to end. An interruption costs no retry.
	Interrupted = Failure{"crash", "interrupted"}
	// TimedOut: the agent's deadline was over.
	TimedOut = Failure{"transient", "timeout"}
	// Unstartable: the agent could not be started. Another attempt would fail too.
	Unstartable = Failure{"request", "invalid"}
	// Unfinished: the agent ended as if it were done, and left a step open.
	Unfinished = Failure{"progress", "premature_end"}
)

// String gives "class.code", or "none".
func (f Failure) String() string {
	if f == (Failure{}) {
		return "none"
	}
	return f.Class + "." + f.Code
}

// Ending is how a run of an agent ended.
type Ending struct {
	Failure Failure
	// Text says what happened, redacted, on one line of at most 1 KiB; empty if the agent ended
	// well.
	Text string
	// How names the evidence of the failure.
	How string
	// Exit is the exit code of a process; -1: there is none. Signal is the number of the
	// signal that ended the process.
	Exit, Signal int
	// Peak is the most memory that was resident, in bytes; 0: not known.
	Peak int64
	// Output is the end of a program's standard error, not redacted. It is for the digest
	// of a snapshot, and never for a log.
	Output []byte
	// Abandoned says that a function did not return in time. The function may still run,
	// so its agent must not be started in this process again.
	Abandoned bool
	Started   time.Time
	Ended     time.Time
}

// OK reports whether the agent ended well.
func (e *Ending) OK() bool { return e.Failure == Failure{} }

// ErrLeaseLost is the cause with which a caller cancels the context of a run when the lease
// is lost. The run then ends at once. It counts as lost, not as interrupted.
var ErrLeaseLost = errors.New("worker: the lease is lost")

// stopped is the failure of a run whose context ended.
func stopped(ctx context.Context) (Failure, string) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrLeaseLost):
		return Lost, "the agent lost its lease"
	case errors.Is(cause, context.DeadlineExceeded):
		return TimedOut, "the deadline is over"
	}
	return Interrupted, "the agent was asked to end"
}
