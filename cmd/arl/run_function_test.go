//go:build unix

package main_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/worker"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// function is how a program in Go holds a task, as docs/tasks.md shows it.
func function(ctx context.Context, config *worker.Config, task entry.Ref, f worker.Function) error {
	c, err := worker.Wait(ctx, config, task, false)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	kept, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while it is told how it ended
	defer stop()
	held, lost := context.WithCancelCause(ctx)
	go c.Keep(kept, lost)
	e := f.Run(held)
	switch {
	case errors.Is(context.Cause(held), worker.ErrLeaseLost):
		return worker.ErrLeaseLost
	case e.OK():
		return c.Complete(kept, "done")
	}
	return c.GiveUp(kept, c.Snapshot(&e, worker.Progress{}, e.Output))
}

// TestFunctionIsAnAgent has functions of this process hold tasks of a real
// coordinator. However one ends, this process goes on, and the log says how, in a
// snapshot with none of its words.
func TestFunctionIsAnAgent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	signer, err := keys.Load(filepath.Join(m.home, "one.key"), nil)
	m.must(err)
	c, err := client.New(m.url, m.root(), nil)
	m.must(err)
	config := &worker.Config{Client: c, Origin: m.origin, Agent: "one", Signer: signer, Secret: []byte("a secret of one"), NewID: uuid.NewString}
	const words = "hunter2-of-a-function"
	for id, one := range map[string]struct {
		do   func(ctx context.Context) error
		want string // class and code of the snapshot; empty: it is completed
	}{
		"returns":   {func(context.Context) error { return nil }, ""},
		"fails":     {func(context.Context) error { return errors.New(words) }, "crash.panic"},
		"panics":    {func(context.Context) error { panic(words) }, "crash.panic"},
		"exits":     {func(context.Context) error { runtime.Goexit(); return nil }, "crash.panic"},
		"overstays": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "transient.timeout"},
	} {
		ref, _ := m.given(id, "--max-retries", "0")
		f := worker.Function{Do: one.do}
		if one.want == "transient.timeout" {
			f.Deadline = 100 * time.Millisecond
		}
		m.must(function(t.Context(), config, entry.Ref(ref), f))
		state := map[bool]entry.TaskState{true: entry.TaskCompleted, false: entry.TaskFailed}[one.want == ""]
		m.until(ref, func(t *api.Task) bool { return t.State == state })
		moves := entriesOf[entry.Task](m, entry.KindTask, "--task", ref)
		s := moves[len(moves)-1].Snapshot
		if (s == nil) != (one.want == "") || s != nil && s.Class+"."+s.Code != one.want {
			t.Errorf("%s: %+v", id, s)
		}
	}
	// asked to end, it hands back at no cost
	ref, _ := m.given("asked")
	ctx, cancel := context.WithCancel(t.Context())
	m.must(function(ctx, config, entry.Ref(ref), worker.Function{Do: func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }}))
	if now := m.until(ref, func(t *api.Task) bool { return len(t.Failures) == 1 }); now.Failures[0].Code != "interrupted" || now.RetryCount != 0 {
		t.Errorf("%+v", now)
	}
	if text := m.arl("entry", "list", "--output", "json"); strings.Contains(text, words) {
		t.Error("the log has its words")
	}
	m.arl("log", "audit")
	m.stop()
}

// TestWorkerIsEmbedded has a program in Go run a worker, as arl run does, on a real
// coordinator. What came of a claim is in the log, and in the reason of the error.
func TestWorkerIsEmbedded(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	signer, err := keys.Load(filepath.Join(m.home, "one.key"), nil)
	m.must(err)
	c, err := client.New(m.url, m.root(), nil)
	m.must(err)
	for _, one := range []struct {
		id, script string
		reason     worker.Reason // 0: no error
		state      entry.TaskState
		said       string
	}{
		{"succeeds", `test "$ARL_TASK" = operator#succeeds`, 0, entry.TaskCompleted, ""},
		{"fails", "echo no such customer >&2; exit 3", worker.ReasonRejected, entry.TaskFailed, "operator#fails: crash.panic: exit code 3: no such customer"},
		{"succeeds", "exit 0", worker.ReasonConflict, entry.TaskCompleted, ""}, // it is over
	} {
		ref := "operator#" + one.id
		if one.reason != worker.ReasonConflict {
			ref, _ = m.given(one.id, "--max-retries", "0")
		}
		var said []string
		w := worker.Worker{
			Config:  &worker.Config{Client: c, Origin: m.origin, Agent: "one", Signer: signer, Secret: []byte("a secret of one"), NewID: uuid.NewString},
			Command: worker.Command{Argv: []string{"sh", "-c", one.script}},
			Say:     func(line string) { said = append(said, line) },
		}
		err := w.Run(t.Context(), entry.Ref(ref))
		failed, typed := errors.AsType[*worker.Error](err)
		if (err == nil) != (one.reason == 0) || typed && failed.Reason != one.reason || err != nil && !typed {
			t.Errorf("%s: %v", one.id, err)
		}
		if one.said != "" && !slices.Contains(said, one.said) {
			t.Errorf("%s: said %q, want a line %q", one.id, said, one.said)
		}
		m.until(ref, func(t *api.Task) bool { return t.State == one.state })
	}
	m.arl("log", "audit")
	m.stop()
}
