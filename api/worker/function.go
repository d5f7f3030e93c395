package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"recoveryledger/ledger/redact"
)

// Function is an agent that is a function of this process.
type Function struct {
	// Do works until it is done, or its context ends.
	Do func(ctx context.Context) error
	// Deadline is the longest time of a run; 0: as long as the caller's context.
	Deadline time.Duration
	// Grace is the time that Do has to return after its context ended; 0: 10 s.
	Grace time.Duration
	// Redact takes secrets out of texts; nil: it takes out secrets of well-known forms.
	Redact *redact.Redactor
}

// graceDefault is the time that an agent has to end after it is asked to end.
const graceDefault = 10 * time.Second

// ended is the report of a goroutine about its own end.
type ended struct {
	returned bool
	err      error
	panicked any // nil with returned false: the function called runtime.Goexit
	stack    []byte
}

// Run calls the function and returns how it ended. The function runs in a goroutine of its
// own. If the function does not return when its context ends, Run leaves it behind, and the
// ending says so.
func (f Function) Run(ctx context.Context) Ending {
	if f.Redact == nil {
		f.Redact = redact.New(nil)
	}
	e := Ending{Exit: -1, Started: time.Now()}
	ctx, cancel := f.bound(ctx)
	defer cancel()
	done := make(chan ended, 1)
	go f.call(ctx, done)
	var last ended
	select {
	case last = <-done:
	case <-ctx.Done():
		grace := time.NewTimer(orDefault(f.Grace))
		defer grace.Stop()
		select {
		case last = <-done:
		case <-grace.C:
			e.Abandoned = true
		}
	}
	e.Ended = time.Now()
	f.tell(ctx, &e, &last)
	return e
}

func (f Function) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.Deadline > 0 {
		return context.WithTimeout(ctx, f.Deadline)
	}
	return context.WithCancel(ctx)
}

func orDefault(grace time.Duration) time.Duration {
	if grace == 0 {
		return graceDefault
	}
	return grace
}

// call runs the function. The deferred part of call also runs on runtime.Goexit. recover
// then returns nil.
func (f Function) call(ctx context.Context, done chan<- ended) {
	var last ended
	defer func() {
		if !last.returned {
			if last.panicked = recover(); last.panicked != nil {
				last.stack = debug.Stack()
			}
		}
		done <- last
	}()
	last.err = f.Do(ctx)
	last.returned = true
}

// tell fills in how the function ended. An error that the function returns after its context
// ended is no failure of the function. A panic is a failure at any time. The error value comes
// from the function too, and its Error method may panic: fmt recovers from that.
func (f Function) tell(ctx context.Context, e *Ending, last *ended) {
	switch {
	case last.panicked != nil:
		e.Failure, e.How, e.Output = Panicked, "recovered panic", last.stack
		e.Text = f.Redact.Text(fmt.Sprintf("panic: %v", last.panicked))
	case e.Abandoned:
		e.Failure, e.How = stopped(ctx)
		e.Text = e.How + ", and it did not return"
	case !last.returned:
		e.Failure, e.How, e.Text = Panicked, "runtime.Goexit", "its goroutine ended without returning"
	case ctx.Err() != nil && last.err != nil:
		e.Failure, e.How = stopped(ctx)
		e.Text = f.Redact.Text(fmt.Sprintf("%s: %v", e.How, last.err))
	case last.err != nil:
		e.Failure, e.How = Panicked, "returned error"
		e.Text = f.Redact.Text(fmt.Sprint(last.err))
	}
}
