package notify

import (
	"encoding/json"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

// teller makes messages of the entries of a log.
type teller struct {
	*foldlog.Log
	t     *testing.T
	rules coord.Rules
}

// tell returns what the message about an entry says. The entry must make one event.
func (l *teller) tell(e *entry.Registered) string {
	l.t.Helper()
	events := eventsOf(e, l.State, &l.rules, l.At+1000)
	if len(events) != 1 {
		l.t.Fatalf("entry %d makes %d events", e.Index, len(events))
	}
	return l.message(&events[0])
}

func (l *teller) message(v *Event) string {
	l.t.Helper()
	body, err := v.Message(testlog.Origin)
	if err != nil {
		l.t.Fatal(err)
	}
	var m struct{ Data struct{ Says string } }
	if err := json.Unmarshal(body, &m); err != nil {
		l.t.Fatal(err)
	}
	return m.Data.Says
}

// put registers an entry, and returns what the message about it says.
func (l *teller) put(iss entry.Principal, body entry.Body) string {
	l.t.Helper()
	return l.tell(&l.Entries[l.Put(iss, body)])
}

// create registers a task.
func (l *teller) create(id, kind, reason string, retries int64) entry.Task {
	return entry.Task{Task: entry.NewRef("o", id), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: reason, Type: kind,
		MaxRetries: &retries, LeaseMS: new(int64(60_000))}
}

// TestUntyped says why a task without a type waits, and for what.
func TestUntyped(t *testing.T) {
	l := &teller{Log: foldlog.New(t), t: t}
	task := l.create("t2", "", "count the boxes", 1)
	if says, want := l.put("o", &task), "Task o#t2 waits for an operator: it has no type to choose an agent by: count the boxes"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
}
