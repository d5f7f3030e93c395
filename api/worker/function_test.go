package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"recoveryledger/ledger/redact"
)

// However a function ends, it is noticed, and told in the words of the taxonomy.
func TestFunctionEndings(t *testing.T) {
	var nobody map[string]int
	var nothing any
	for _, c := range []struct {
		desc string
		f    Function
		want string
	}{
		{"well", Function{Do: func(context.Context) error { return nil }}, "none, , "},
		{"an error", Function{Do: func(context.Context) error { return fmt.Errorf("read: %w", io.ErrUnexpectedEOF) }}, "crash.panic, returned error, read: unexpected EOF"},
		{"an error with a secret", Function{Do: func(context.Context) error { return errors.New("login of ann@example.org with hunter2-hunter2") },
			Redact: redact.New([]string{"hunter2-hunter2"})}, "crash.panic, returned error, login of [mail] with [secret]"},
		{"an error that is none", Function{Do: func(context.Context) error { return (*fs.PathError)(nil) }}, "crash.panic, returned error, <nil>"},
		{"a panic", Function{Do: func(context.Context) error { panic("no way") }}, "crash.panic, recovered panic, panic: no way"},
		{"a panic with an error", Function{Do: func(context.Context) error { panic(io.EOF) }}, "crash.panic, recovered panic, panic: EOF"},
		{"a panic with nil", Function{Do: func(context.Context) error { panic(nothing) }}, "crash.panic, recovered panic, panic: panic called with nil argument"},
		{"the runtime's panic", Function{Do: func(context.Context) error { nobody["x"] = 1; return nil }}, "crash.panic, recovered panic, panic: assignment to entry in nil map"},
		{"runtime.Goexit", Function{Do: func(context.Context) error { runtime.Goexit(); return nil }}, "crash.panic, runtime.Goexit, its goroutine ended without returning"},
		{"a deadline", Function{Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, Deadline: time.Minute},
			"transient.timeout, the deadline is over, the deadline is over: context deadline exceeded"},
		{"a deadline that it does not heed", Function{Do: func(context.Context) error { time.Sleep(time.Hour); return nil }, Deadline: time.Minute},
			"transient.timeout, the deadline is over, the deadline is over, and it did not return"},
		{"well, if late", Function{Do: func(ctx context.Context) error { <-ctx.Done(); return nil }, Deadline: time.Minute}, "none, , "},
		{"a panic after the deadline", Function{Do: func(ctx context.Context) error { <-ctx.Done(); panic("late") }, Deadline: time.Minute}, "crash.panic, recovered panic, panic: late"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := c.f.Run(t.Context())
			if got := fmt.Sprintf("%v, %s, %s", e.Failure, e.How, e.Text); got != c.want || e.OK() != strings.HasPrefix(c.want, "none") {
				t.Errorf("%s: %s\nwant %s", c.desc, got, c.want)
			}
			if e.Abandoned != strings.Contains(c.want, "did not return") || e.Ended.Before(e.Started) {
				t.Errorf("%s: %+v", c.desc, e)
			}
			time.Sleep(2 * time.Hour) // the abandoned one ends too
		})
	}
}

// Who ends the context decides how it counts.
func TestFunctionIsStopped(t *testing.T) {
	for cause, want := range map[error]Failure{context.Canceled: Interrupted, ErrLeaseLost: Lost} {
		ctx, cancel := context.WithCancelCause(t.Context())
		e := Function{Do: func(ctx context.Context) error {
			cancel(cause)
			<-ctx.Done()
			return ctx.Err()
		}}.Run(ctx)
		if e.Failure != want {
			t.Errorf("%v: %v", cause, e.Failure)
		}
	}
}

// A limit on memory is refused where there is none, and not taken for kept.
func TestLimitsMemory(t *testing.T) {
	for system, want := range map[string]bool{"linux": true, "freebsd": true, "darwin": false, "windows": false} {
		if got := LimitsMemory(system); got != want {
			t.Errorf("%s: %v", system, got)
		}
	}
}
