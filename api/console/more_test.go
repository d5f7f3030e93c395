package console_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestMore says that a table leaves lines out where it does, and only there: the tasks of an agent,
// the incidents of a workflow, the executions of a task.
func TestMore(t *testing.T) {
	l := foldlog.New(t)
	task := func(n int) entry.Ref { return entry.NewRef("o", fmt.Sprint("t", n)) }
	grow := func(from, to int) {
		for n := from; n < to; n++ {
			l.Put("o", &entry.Task{Task: task(n), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
			v, _ := l.State.Task(task(n))
			b, ok := v.Move(entry.TaskReassign, "b", "test")
			if !ok {
				t.Fatalf("%+v", v)
			}
			l.Put("o", b)
			x := foldlog.Execution(fmt.Sprint("x", n), entry.EffectNone)
			x.Task = task(0)
			l.Put("b", x)
			l.Signal("b", entry.NewRef("b", fmt.Sprint("x", n)))
		}
	}
	says := func(want bool) {
		t.Helper()
		c := pages(t, l, "")
		for path, text := range map[string]string{"/agents/b": "All of its open tasks", "/workflows/w": "All incidents of the workflow", "/tasks/o%23t0": "Not all executions are listed"} {
			_, body := get(t, c, path)
			webpage.Check(t, path, body)
			if strings.Contains(body, text) != want {
				t.Errorf("%s: says %q: %v, want %v", path, text, !want, want)
			}
		}
		if _, body := get(t, c, "/"); strings.Contains(body, "The newest incidents were looked at") {
			t.Error("the overview leaves out incidents that are over, and none is")
		}
	}
	grow(0, 100)
	says(false)
	grow(100, 101)
	says(true)
}
