package console_test

import (
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestRecent counts what ended in the last 24 hours and what waits since less than an hour, as time
// goes on.
func TestRecent(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	deny, err := l.State.Draft(coord.Order{Incident: id, Act: entry.ActDeny, Reason: "test"}, l.At+1000)
	if err != nil {
		t.Fatal(err)
	}
	l.Put("p", deny)
	l.Do("a", "more", entry.EffectNone)
	second := l.Signal("a", "a#more")
	l.Decide(second, entry.ActEscalate)
	l.Put("o", &entry.Task{Task: "o#dinner", Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
	c := pages(t, l, "")
	says := func(want ...string) {
		t.Helper()
		_, body := get(t, c, "/")
		webpage.Check(t, "/", body)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("the overview does not say %q: %s", text, body)
			}
		}
	}
	says("Over, in the last 24 hours", "1 DISMISSED", "2 listed, +2 in the last hour", "Entries in the last 24 hours: "+decimal(l.State.Size())+"<")
	l.At += 2 * 60 * 60 * 1000
	l.Do("a", "later", entry.EffectNone)
	says("1 DISMISSED", "1 listed, +0 in the last hour", "o#dinner", "the coordinator; NOT FENCED") // the proposal has expired
	l.At += 23 * 60 * 60 * 1000
	l.Do("a", "latest", entry.EffectNone)
	says("No incident is over since then.", "Entries in the last 24 hours: 6<", "hours of the clock, the oldest first and the present one last: 3, 0, ", `, 0, 3"><rect`)
}
