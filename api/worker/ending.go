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
	// Panicked: a panic, an error that nobody handled, an abort, an exit code.
	Panicked = Failure{"crash", "panic"}
	// OutOfMemory: the system or a limit ended it for want of memory.
	OutOfMemory = Failure{"crash", "oom"}
	// Lost: it was killed, or its lease is lost.
	Lost = Failure{"crash", "lost"}
	// Interrupted: it was asked to end. That costs no retry.
	Interrupted = Failure{"crash", "interrupted"}
	// TimedOut: its deadline was over.
	TimedOut = Failure{"transient", "timeout"}
	// Unstartable: it could not be begun, and would not another time.
	Unstartable = Failure{"request", "invalid"}
	// Unfinished: it ended as if it were done, and left open what it had begun.
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
	// Text says what happened, redacted, on one line of at most [redact.Max]
	// bytes; empty if the agent ended well.
	Text string
	// How says by what the failure is known.
	How string
	// Exit is the exit code of a process, Signal the number of the signal that
	// ended it. Exit is -1 where there is none.
	Exit, Signal int
	// Peak is the most memory that was resident, in bytes; 0: not known.
	Peak int64
	// Output is the end of what a program wrote to standard error, not redacted:
	// it is for the digest of a snapshot, and never for a log.
	Output []byte
	// Abandoned says that a function did not return when it was to. It may still
	// be running, so that its agent must not be started in this process again.
	Abandoned bool
	Started   time.Time
	Ended     time.Time
}

// OK reports whether the agent ended well.
func (e *Ending) OK() bool { return e.Failure == Failure{} }

// ErrLeaseLost is the cause to cancel the context of a run with when the lease is
// lost: the run is ended at once, and counts as lost, not as interrupted.
var ErrLeaseLost = errors.New("worker: the lease is lost")

// stopped is the failure of a run whose context ended.
func stopped(ctx context.Context) (Failure, string) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrLeaseLost):
		return Lost, "its lease is lost"
	case errors.Is(cause, context.DeadlineExceeded):
		return TimedOut, "its deadline is over"
	}
	return Interrupted, "it was asked to end"
}
