package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestAgents shows what an agent has to undo and holds, with the commands that prove it, and what
// is left of its signals: in the list, and on its own page.
func TestAgents(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Approve(id)
	task := entry.NewRef("o", "dinner")
	l.Put("o", &entry.Task{Task: task, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
	c, _ := signing(t, l, "o")
	shows := func(path string, want ...string) {
		t.Helper()
		_, body := get(t, c, path)
		webpage.Check(t, path, body)
		for _, text := range want {
			if !strings.Contains(html.UnescapeString(body), text) {
				t.Errorf("%s does not say %q: %s", path, text, body)
			}
		}
	}
	shows("/agents", "<td>0</td><td>3599 of 3600</td>", "<td>3600 of 3600</td>")
	signed(t, c, "/tasks/o%23dinner/act/reassign", map[string][]string{"agent": {"b"}})
	shows("/agents/a", "<dd>3599 of 3600</dd>")
	shows("/agents/b", "<dd>3600 of 3600</dd>", fmt.Sprintf("arl incident bundle %d --agent b > bundle-%d.json", id, id), fmt.Sprintf("arl verify bundle-%d.json", id),
		"Tasks that it holds", "o#dinner", "ASSIGNED")
	l.Compensate(id, "b#note")
	_, body := get(t, c, "/agents/b")
	if strings.Contains(body, "Has to undo") {
		t.Errorf("b has undone all: %s", body)
	}
	index := slices.IndexFunc(l.Entries, func(e entry.Registered) bool { return e.Kind == entry.KindOutcome })
	shows("/agents/b", fmt.Sprintf(`<td>compensated</td><td><a href="/log/%d">entry %d</a></td>`, index, index))
	if left := l.State.AgentCounts("a", l.At+3600_000).SignalsLeft; left != 3600 {
		t.Errorf("an hour later: %d signals are left", left)
	}
	if left := l.State.AgentCounts("a", l.At+3500_000).SignalsLeft; left != 3599 {
		t.Errorf("within the hour: %d signals are left", left)
	}
}

// TestHeldLongAgo lists a task that an agent holds, however many younger tasks the agent held last
// and holds no more.
func TestHeldLongAgo(t *testing.T) {
	l := foldlog.New(t)
	moves := func(task entry.Ref, by entry.Principal, op string) {
		t.Helper()
		v, _ := l.State.Task(task)
		b, ok := v.Move(op, "b", "test")
		if !ok {
			t.Fatalf("%+v", v)
		}
		l.Put(by, b)
	}
	begin := func(id string) entry.Ref {
		task := entry.NewRef("o", id)
		l.Put("o", &entry.Task{Task: task, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
		moves(task, "k", entry.TaskAssign)
		return task
	}
	begin("dinner")
	for i := range 100 {
		task := begin(fmt.Sprint("blocked", i))
		moves(task, "b", entry.TaskStart)
		moves(task, "b", entry.TaskBlock)
	}
	shows := func(listed int, more bool) {
		t.Helper()
		_, body := get(t, pages(t, l, ""), "/agents/b")
		webpage.Check(t, "/agents/b", body)
		_, table, _ := strings.Cut(body, `<h2 id="tasks">`)
		table, _, _ = strings.Cut(table, "</section>")
		if got := strings.Count(table, "ASSIGNED"); got != listed || strings.Contains(table, "BLOCKED") || strings.Contains(table, "All of its open tasks") != more {
			t.Errorf("%d tasks, want %d: %s", got, listed, table)
		}
	}
	shows(1, false)
	for i := range 100 {
		begin(fmt.Sprint("held", i))
	}
	shows(100, true)
}
