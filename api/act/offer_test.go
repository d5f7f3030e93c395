package act_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/api/act"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

// keys are the keys of principals; an empty name is a key that is enrolled for nobody.
func keys(l *foldlog.Log, of ...entry.Principal) (list []act.Key) {
	for _, p := range of {
		list = append(list, act.Key{ID: l.Key(p).Public.KeyID(), Principal: p})
	}
	return list
}

// offered checks which verbs are offered to some keys. A verb that none of the keys may sign stands
// in brackets.
func offered(l *foldlog.Log, about act.Order, of []act.Key, want string) {
	l.TB.Helper()
	var got []string
	for _, offer := range known(l).Offers(about, of) {
		verb := string(offer.Verb)
		if !slices.Contains(offer.MayNot, nil) {
			verb = "(" + verb + ")"
		}
		got = append(got, verb)
	}
	if text := strings.Join(got, " "); text != want {
		l.TB.Errorf("offered: %s, want %s", text, want)
	}
}

// TestOffersOfAnIncident offers what fits the state of an incident, from its signal until its fence
// is lifted, and says of each key whether it may.
func TestOffersOfAnIncident(t *testing.T) {
	l := foldlog.New(t)
	id := incident(l)
	about, all := act.Order{Incident: id}, keys(l, "p", "k", "o")
	offered(l, about, all, "escalate deny")
	offered(l, about, keys(l, "a"), "(escalate) (deny)")
	offered(l, about, nil, "(escalate) (deny)")
	offered(l, about, keys(l, ""), "(escalate) (deny)")
	l.Decide(id, entry.ActEscalate)
	offered(l, about, all, "approve refuse escalate deny")
	l.Approve(id)
	offered(l, about, all, "escalate override release (record)")
	offered(l, about, keys(l, "o"), "(escalate) override (release) (record)")
	l.At += 48 * hour
	offered(l, about, all, "escalate override release record")
	do(l, "k", act.Order{Verb: act.Record, Incident: id})
	offered(l, about, all, "release")
	do(l, "p", act.Order{Verb: act.Release, Incident: id, Members: known(l).Releasable(id), Reason: "looked at"})
	offered(l, about, all, "")
	offered(l, act.Order{Incident: id + 1}, all, "")
	l.Do("b", "again", entry.EffectCompensable)
	other := l.Signal("b", "b#again")
	l.Decide(other, entry.ActEscalate)
	l.At += 48 * hour
	do(l, "k", act.Order{Verb: act.Deny, Incident: other, Reason: "nobody answered in time"})
	offered(l, act.Order{Incident: other}, all, "acknowledge")
	do(l, "o", act.Order{Verb: act.Acknowledge, Incident: other, Reason: "seen"})
	offered(l, act.Order{Incident: other}, all, "")
}

// TestSuppose drafts what a person has not chosen yet: all members, the agent that the coordinator
// would choose, or any agent, which the person must name.
func TestSuppose(t *testing.T) {
	l := foldlog.New(t)
	task := func(id, capability string) entry.Ref {
		ref := entry.NewRef("o", id)
		l.Put("o", &entry.Task{Task: ref, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "test", Type: capability,
			MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
		return ref
	}
	block := func(ref entry.Ref) {
		do(l, "o", act.Order{Verb: act.Reassign, Task: ref, Agent: "a", Reason: "test"})
		for _, op := range []string{entry.TaskStart, entry.TaskBlock} {
			v, _ := l.State.Task(ref)
			b, _ := v.Move(op, "", "test")
			l.Put("a", b)
		}
	}
	untyped := task("untyped", "")
	supposed := func(o act.Order, agent entry.Principal, unnamed bool) {
		t.Helper()
		d, err := known(l).Suppose(&o, "o")
		if err != nil {
			t.Fatal(err)
		}
		if d.Order.Agent != agent || d.Unnamed != unnamed || d.Order.Reason != act.YourReason {
			t.Errorf("%s: agent %q, unnamed %t, reason %q", o.Verb, d.Order.Agent, d.Unnamed, d.Order.Reason)
		}
		if err := known(l).May(d, "o", l.Key("o").Public.KeyID()); err != nil {
			t.Errorf("%s: %v", o.Verb, err)
		}
	}
	supposed(act.Order{Verb: act.Reassign, Task: untyped}, "a", true)
	supposed(act.Order{Verb: act.Reassign, Task: untyped, Agent: "b"}, "b", false)
	offered(l, act.Order{Task: untyped}, keys(l, "o"), "reassign cancel")
	block(untyped)
	supposed(act.Order{Verb: act.Release, Task: untyped}, "a", true)
	offered(l, act.Order{Task: untyped}, keys(l, "o"), "release cancel")
	_, err := known(l).Prepare(&act.Order{Verb: act.Release, Task: untyped, Reason: "test"}, "o")
	if err == nil || !strings.Contains(err.Error(), "name the agent") {
		t.Errorf("a release to nobody: %v", err)
	}
	for agent, other := range map[entry.Principal]entry.Principal{"a": "b", "b": "a"} { // who just failed does not get it
		failed := task("failed-by-"+string(agent), "")
		do(l, "o", act.Order{Verb: act.Reassign, Task: failed, Agent: agent, Reason: "test"})
		l.At += 60_000
		v, _ := l.State.Task(failed)
		lost, _ := v.Move(entry.TaskFail, "", "the lease was lost")
		l.Put("k", lost)
		supposed(act.Order{Verb: act.Reassign, Task: failed}, other, true)
		offered(l, act.Order{Task: failed}, keys(l, "o"), "reassign cancel")
		if _, err = known(l).Suppose(&act.Order{Verb: act.Reassign, Task: failed, Agent: agent}, "o"); err == nil || !strings.Contains(err.Error(), "just failed") {
			t.Errorf("to %s again: %v", agent, err)
		}
	}
	id := incident(l)
	l.Decide(id, entry.ActEscalate)
	_, err = known(l).Suppose(&act.Order{Verb: act.Release, Incident: id}, "p")
	if err == nil || !strings.Contains(err.Error(), "no member to release") {
		t.Errorf("a release of nothing: %v", err)
	}
}
