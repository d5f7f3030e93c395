package worker

import "fmt"

// Reason says in one word why a worker, or a step of its program, did not come to a
// good end.
type Reason int

const (
	// ReasonInvalid says that the call is wrong as it stands.
	ReasonInvalid Reason = iota + 1
	// ReasonConflict says that the task is over, assigned to another agent, or no longer
	// held at this epoch; or that the log has ended the step in another way.
	ReasonConflict
	// ReasonRejected says that the program failed, and that the policy makes no further
	// attempt here. The task is handed back, or waits for a person.
	ReasonRejected
	// ReasonInterrupted says that the worker was asked to end. The task is handed back.
	ReasonInterrupted
	// ReasonFile says that a file of this machine cannot be read or written.
	ReasonFile
	// ReasonPolicy says that no policy is in force yet.
	ReasonPolicy
)

// Error is an error whose reason this package knows. Errors of the client and of the
// callbacks of a [Worker] are returned as they are.
type Error struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error beneath.
func (e *Error) Unwrap() error { return e.Err }

func failed(reason Reason, format string, args ...any) error {
	return &Error{reason, fmt.Errorf(format, args...)}
}
