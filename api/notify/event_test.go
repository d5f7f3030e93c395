package notify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
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

// fails has a new task fail, and returns what the message about the failure says.
func (l *teller) fails(id string, retries int64, reason string) string {
	l.t.Helper()
	body := l.create(id, "", "new", retries)
	l.Put("o", &body)
	l.moves("o", body.Task, entry.TaskReassign, "by hand")
	l.moves("a", body.Task, entry.TaskStart, "begun")
	l.At += 120_000 // the lease is lost
	return l.tell(l.moves("k", body.Task, entry.TaskFail, reason))
}

// moves registers the next step of a task, which agent a works at.
func (l *teller) moves(iss entry.Principal, ref entry.Ref, op, reason string) *entry.Registered {
	l.t.Helper()
	task, _ := l.State.Task(ref)
	next, ok := task.Move(op, "a", reason)
	if !ok {
		l.t.Fatalf("%s: no %s", ref, op)
	}
	return &l.Entries[l.Put(iss, next)]
}

// blocks has the agent of a new task ask a person.
func (l *teller) blocks(id, reason string) string {
	l.t.Helper()
	body := l.create(id, "", "new", 1)
	l.Put("o", &body)
	l.moves("o", body.Task, entry.TaskReassign, reason)
	l.moves("a", body.Task, entry.TaskStart, reason)
	return l.tell(l.moves("a", body.Task, entry.TaskBlock, reason))
}

// TestNoSecrets writes a token into every free text that reaches a message: the message does not
// have it, and has the rest of the text.
func TestNoSecrets(t *testing.T) {
	const leaked = "hunter2hunter2"
	const text = "login failed: token=" + leaked + " \u202eand \u0085 ghp_0123456789abcdef0123456789abcdef0123"
	l := &teller{Log: foldlog.New(t), t: t}
	advice := regexp.MustCompile(`"remediation":"[^"]*"`).ReplaceAllString(string(recovery.Default().JSON()), `"remediation":"login failed: token=`+leaked+`"`)
	policy, at := l.State.Chain().Policy()
	next := *policy
	next.Header, next.Previous, next.Recovery = entry.Header{}, &at, []byte(advice)
	l.Put("root", &next)

	said := map[string]string{}
	l.Do("a", "pay", entry.EffectIrrevocable)
	incident := l.Signal("a", "a#pay")
	d, err := l.State.Draft(coord.Order{Incident: incident, Act: entry.ActEscalate, Reason: text}, l.At+1000)
	if err != nil {
		t.Fatal(err)
	}
	said["the reason of a decision"] = l.put("k", d)
	open := *d
	open.Reason, open.NotFenced = "test", text // nothing in so small a log cannot be fenced
	said["why nothing is fenced"] = l.tell(&entry.Registered{Entry: l.Sign("k", &open), Index: l.State.Size()})
	said["the reason of a rollout's end"] = l.tell(&entry.Registered{Entry: l.Sign("o", &entry.Rollout{Rollout: "r", Op: entry.RolloutAbort, Reason: text}), Index: l.State.Size()})
	untyped := l.create("untyped", "", text, 1)
	said["the reason of a new task"] = l.put("o", &untyped)
	said["the reason of a blocked task"] = l.blocks("blocked", text)
	said["the reason of the last failure"] = l.fails("spent", 0, text)
	said["the advice of the policy"] = l.fails("failed", 1, "it failed")
	for what, says := range said {
		if !strings.Contains(says, "login failed: token=[secret]") {
			t.Errorf("%s: %q", what, says)
		}
		for _, bad := range []string{leaked, "ghp_", "\u202e", "\u0085"} {
			if strings.Contains(says, bad) {
				t.Errorf("%s: %q in %q", what, bad, says)
			}
		}
	}
}

// TestNamesStay has names that are random, as ids of agents often are: messages show them as the
// log does.
func TestNamesStay(t *testing.T) {
	const id, kind = "3f2c9a1e-7b4d-4c0a-9e1f-2d3c4b5a6978", "ingest-8f14e45fceea167a5a36dedd4bea2543"
	l := &teller{Log: foldlog.New(t), t: t}
	l.Do("a", id, entry.EffectIrrevocable)
	incident := l.Signal("a", entry.NewRef("a", id))
	todo, _ := l.State.Next(l.At + 1000)
	if says, want := l.put("k", todo[0]), "a#"+id+" cannot be undone"; !strings.HasSuffix(says, ": "+want) {
		t.Errorf("incident %d: %q", incident, says)
	}
	if says, want := written(l.State, "2 members of signaler a, the limit is 1, of "+id+", ann@example.org", l.At), "2 members of signaler a, the limit is 1, of [key], [mail]"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
	named := testlog.NewKey(t, id, "named")
	l.Put("root", &entry.Agent{Principal: id, Op: entry.Enrol, Key: named.Public, Roles: []entry.Role{entry.RoleAgent}, Domain: "d", Span: entry.SpanWorkflow})
	if says, want := written(l.State, "2 members of signaler "+id+", the limit is 1", l.At), "2 members of signaler "+id+", the limit is 1"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
	task := l.create(id, kind, "new", 1)
	if says, want := l.put("o", &task), "No agent can get task o#"+id+": no agent has the capability "+kind; !strings.HasPrefix(says, want) {
		t.Errorf("%q, want %q", says, want)
	}
	other := l.Sign("a", &entry.Checkpoint{Checkpoint: "c", Digest: entry.DigestOf("other")})
	line := `{"detail":"` + id + ` of a is entry 4, which has other bytes","index":4,"envelope":` + string(other.AppendEnvelope(nil)) + `}`
	v, ok := equivocation([]byte(line))
	if says := l.message(&v); !ok || !strings.HasSuffix(says, id+" of a is entry 4, which has other bytes") {
		t.Errorf("%q", says)
	}
	head := l.Head(3)
	detail := fmt.Sprintf("the log of size 3 here, root %s, does not continue that of size 3, root %s", head.Root, head.Root)
	v, ok = fork(fmt.Appendf(nil, `{"kind":"fork","detail":"%s: https://hook.example/?token=hunter2hunter2","at":1}`, detail))
	if says, want := l.message(&v), detail+": https://hook.example/?token=[secret]"; !ok || !strings.HasSuffix(says, want) {
		t.Errorf("%q, want %q", says, want)
	}
}

// TestLaggingEndpoint: an endpoint that reads entries long after they came is told once of a task
// that no agent can get, at the last entry that took the capability.
func TestLaggingEndpoint(t *testing.T) {
	l := &teller{Log: foldlog.New(t), t: t}
	change := func(op entry.AgentOp, name entry.Principal) uint64 {
		return l.Put("root", &entry.Agent{Principal: name, Op: op, Key: testlog.NewKey(t, name, string(name)).Public, Roles: []entry.Role{entry.RoleAgent}, Domain: "d",
			Span: entry.SpanWorkflow, Capabilities: []string{"bake"}})
	}
	change(entry.Enrol, "pp")
	change(entry.Enrol, "qq")
	task := l.create("t", "bake", "new", 1)
	indexes := []uint64{l.Put("o", &task), change(entry.Revoke, "pp"), change(entry.Revoke, "qq")}
	for i, index := range indexes {
		if events, want := eventsOf(&l.Entries[index], l.State, new(coord.Rules), l.At), i == 2; len(events) == 1 != want {
			t.Errorf("entry %d: %+v", index, events)
		}
	}
}

// TestUntyped says why a task without a type waits, and for what.
func TestUntyped(t *testing.T) {
	l := &teller{Log: foldlog.New(t), t: t}
	task := l.create("t2", "", "count the boxes", 1)
	if says, want := l.put("o", &task), "Task o#t2 waits for an operator: it has no type to choose an agent by: count the boxes"; says != want {
		t.Errorf("%q, want %q", says, want)
	}
}
