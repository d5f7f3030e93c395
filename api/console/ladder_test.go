package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestTaskWork lists the executions of a task alone, and what the policy says to each failure.
func TestTaskWork(t *testing.T) {
	l := foldlog.New(t)
	task := entry.NewRef("o", "dinner")
	l.Do("a", "before", entry.EffectNone)
	l.Put("o", &entry.Task{Task: task, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
	does := func(by entry.Principal, op string) {
		t.Helper()
		l.At += 120_000 // the lease is over
		v, _ := l.State.Task(task)
		b, ok := v.Move(op, "b", "test")
		if !ok {
			t.Fatalf("%+v", v)
		}
		l.Put(by, b)
	}
	c, _ := signing(t, l, "o")
	signed(t, c, "/tasks/o%23dinner/act/reassign", map[string][]string{"agent": {"b"}})
	l.Do("b", "other", entry.EffectNone)
	for _, id := range []string{"first", "second"} {
		for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
			x := foldlog.Execution(id, entry.EffectNone)
			x.Task, x.Progress = task, progress
			l.Put("b", x)
		}
	}
	_, body := get(t, pages(t, l, ""), "/tasks/o%23dinner")
	webpage.Check(t, "/tasks", body)
	_, table, _ := strings.Cut(body, `<h2 id="executions">`)
	second, first := strings.Index(table, "<bdi>b#second</bdi>"), strings.Index(table, "<bdi>b#first</bdi>")
	if second < 0 || first < second || strings.Contains(table, "before") || strings.Contains(table, "other") || !strings.Contains(table, "✓ confirmed") || strings.Contains(table, "Not all") {
		t.Errorf("executions: %s", table)
	}
	for n := range 3 {
		if n == 0 { // of which the rules may go on twice
			l.Put("b", &entry.Checkpoint{Checkpoint: entry.CheckpointName(task) + "1", Digest: entry.DigestOf("saved"), Loc: "file:///saved"})
		}
		does("k", entry.TaskFail)
		_, body = get(t, pages(t, l, ""), "/tasks/o%23dinner")
		webpage.Check(t, "/tasks", body)
		wants := regexp.MustCompile(`The policy wants <strong>(.+?)</strong>:.*rule <bdi>(.+?)\[(\d+)\]</bdi>`).FindStringSubmatch(body)
		if wants == nil {
			t.Fatalf("the policy wants nothing: %s", body)
		}
		if resumes := wants[1] == string(recovery.CheckpointResume); resumes != (n < 2) {
			t.Errorf("after %d failures the policy wants %s", n+1, wants[1])
		}
		_, table, _ = strings.Cut(body, `<h2 id="failures">`)
		table, _, _ = strings.Cut(table, "</table>")
		if got := strings.Count(table, "<tr><td>crash.lost"); got != n+1 {
			t.Errorf("%d failures: %s", got, table)
		}
		cells := "<td><bdi>" + wants[2] + "</bdi></td><td>" + wants[3] + "</td><td>" + wants[1] + "</td>"
		if newest := table[strings.LastIndex(table, "<tr><td>"):]; !strings.Contains(newest, cells) {
			t.Errorf("the newest failure is without %s: %s", cells, newest)
		}
		does("k", entry.TaskAssign)
	}
}

// TestTaskOfBusyWorkflow lists the executions of a task, however many others its workflow has begun
// since, and says when it has more executions than the page lists.
func TestTaskOfBusyWorkflow(t *testing.T) {
	l := foldlog.New(t)
	task := entry.NewRef("o", "dinner")
	l.Put("o", &entry.Task{Task: task, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
	c, _ := signing(t, l, "o")
	signed(t, c, "/tasks/o%23dinner/act/reassign", map[string][]string{"agent": {"b"}})
	work := func(id string) {
		x := foldlog.Execution(id, entry.EffectNone)
		x.Task = task
		l.Put("b", x)
	}
	shows := func(listed int, more bool) {
		t.Helper()
		_, body := get(t, pages(t, l, ""), "/tasks/o%23dinner")
		webpage.Check(t, "/tasks", body)
		_, table, _ := strings.Cut(body, `<h2 id="executions">`)
		if got := strings.Count(table, "<bdi>b#of-task"); got != listed || strings.Contains(table, "Not all") != more || strings.Contains(table, "other") {
			t.Errorf("%d executions, want %d: %s", got, listed, table)
		}
	}
	work("of-task")
	for i := range 410 {
		l.Put("a", foldlog.Execution(fmt.Sprint("other", i), entry.EffectNone))
	}
	shows(1, false)
	for i := range 100 {
		work(fmt.Sprint("of-task-", i))
	}
	shows(100, true)
}
