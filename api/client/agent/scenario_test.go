package agent_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// ends plays a worker and a writer to the end of an incident and compares what
// became of the worker's members.
func (d *damage) ends(t *testing.T, b *book, want map[entry.Ref]entry.Result, players ...*player) {
	t.Helper()
	play(t, b, b.now+200_000, nil, players...)
	got := b.results(d.incident)
	for exec, result := range want {
		if got[exec] != result {
			t.Errorf("%s: %q, want %q; refused %v", exec, got[exec], result, b.refused)
		}
	}
}

// restoredAll is the good end of the worker's members.
func restoredAll() map[entry.Ref]entry.Result {
	return map[entry.Ref]entry.Result{"worker#draft": entry.Restored, "worker#memo": entry.Restored, "worker#slow": entry.Restored,
		"worker#charge": entry.Compensated, "worker#later": entry.NotExecuted, "writer#page": entry.Compensated}
}

// TestLostStore: after the store is gone nothing is started before Probe has said
// that it was not, and without Probe it is unknown; other incidents are not
// affected.
// Draft: AGT-4d.
func TestLostStore(t *testing.T) {
	d := newDamage(t).ahead()
	for i, k := range []kit{probing, bare, idempotent} {
		for after := i; after < 50; after += 3 {
			b := d.clone()
			worker := d.player(b, "worker", k)
			for range after { // some of it was done before
				_, err := worker.agent.Step(context.Background(), b.now)
				must(t, err)
				b.coordinate()
			}
			worker.store = newMemory()
			worker.open()
			play(t, b, b.now+200_000, nil, worker)
			for name, count := range worker.world.effects {
				if count > 1 {
					t.Errorf("%s, lost after %d steps: %s %d times", k, after, name, count)
				}
			}
			for exec, got := range b.results(d.incident) {
				if got == "" || got == entry.ResultFailed || k == probing && got == entry.ResultUnknown {
					t.Errorf("%s, lost after %d steps: %s ended as %q; %v; refused %v", k, after, exec, got, worker, b.refused)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestDamagedStore: a document in which a bit has changed counts as lost, once.
func TestDamagedStore(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	play(t, b, b.now+200_000, nil, worker, writer)
	names, _ := worker.store.Names()
	for _, name := range names {
		again := &player{name: "worker", desk: worker.desk, store: &memory{docs: map[string][]byte{}}, world: worker.world, kit: probing}
		for other, data := range worker.store.docs {
			again.store.docs[other] = slices.Clone(data)
		}
		data := again.store.docs[name]
		data[len(data)/2] ^= 1
		again.open()
		if !again.told(agent.EventLost) {
			t.Errorf("%s: nobody was told", name)
		}
		play(t, b, b.now+1, nil, again)
		again.events = nil
		again.open()
		if again.told(agent.EventLost) {
			t.Errorf("%s: it is not mended: %v", name, again.events)
		}
		for name, count := range worker.world.effects {
			if count > 1 {
				t.Errorf("%s %d times", name, count)
			}
		}
	}
}

// TestOverride: what was not started is withheld, at once; what was started says
// what became of it.
// Draft: OVR-2.
func TestOverride(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	writer.desk.hide = true // so that the worker's compensation waits
	play(t, b, b.now+60_000, nil, worker, writer)
	o, err := b.state.Draft(coord.Order{Incident: d.incident, Act: entry.ActOverride, Reason: "stop"}, b.now)
	must(t, err)
	b.write("olga", o)
	d.ends(t, b, map[entry.Ref]entry.Result{"worker#draft": entry.Withheld, "worker#charge": entry.Withheld, "worker#later": entry.NotExecuted}, worker, writer)
	own := 0
	for _, leaf := range b.leaves {
		e, _, err := entry.DecodeLeaf(leaf)
		must(t, err)
		if o, ok := e.Body.(*entry.Outcome); ok && o.Result == entry.Withheld && o.Iss == "worker" {
			own++
		}
	}
	if own != 4 || worker.world.effects["restore worker#c0"] != 0 {
		t.Errorf("%d withheld by the worker itself, %v", own, worker)
	}
}

// TestExpired: nothing starts on a decision whose time is over, which the agent
// says.
func TestExpired(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	writer.desk.hide = true
	play(t, b, b.now+1000, nil, worker)
	view, _ := b.state.Incident(d.incident, b.now)
	play(t, b, view.Decision.ExpiresAt+1000, nil, worker)
	for _, exec := range []entry.Ref{"worker#draft", "worker#charge", "worker#memo"} {
		if got := b.results(d.incident)[exec]; got != entry.Withheld && got != entry.ResultUnknown {
			t.Errorf("%s: %q; refused %v", exec, got, b.refused)
		}
	}
	if worker.world.effects["restore worker#c0"]+worker.world.effects["compensate worker#charge"] > 0 {
		t.Error(worker)
	}
}

// TestHidden: a decision that the server keeps to itself is seen in the log.
func TestHidden(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	worker.desk.hide = true
	play(t, b, b.now+120_000, nil, worker, writer)
	if !worker.told(agent.EventHidden) || writer.told(agent.EventHidden) {
		t.Fatalf("worker: %v", worker.events)
	}
	worker.desk.hide = false
	d.ends(t, b, restoredAll(), worker, writer)
}

// TestFork: two logs under one key end everything, with both heads in the store.
// Draft: AGT-1b.
func TestFork(t *testing.T) {
	d := newDamage(t)
	one, two := d.clone(), d.clone()
	one.did("source#one", entry.EffectNone)
	two.did("source#two", entry.EffectNone)
	worker := d.player(one, "worker", probing)
	play(t, one, one.now+1, nil, worker)
	for range 50 {
		two.exec("source#two-"+two.id(), entry.EffectNone, entry.Planned)
	}
	two.write("coordinator", mustDraft(t, two, coord.Order{Incident: d.incident, Act: entry.ActAuthorize, Reason: "r"}))
	before := len(worker.world.calls)
	worker.desk.book = two
	for range 100 {
		worker.agent.Poke()
		one.now, two.now = one.now+1000, two.now+1000
		_, err := worker.agent.Step(context.Background(), two.now)
		if fork, ok := errors.AsType[*agent.ForkError](err); ok {
			if fork.Older == "" || fork.Newer == "" || fork.Older == fork.Newer || !errors.Is(err, agent.ErrStopped) {
				t.Fatalf("%+v", fork)
			}
			if err := worker.tryOpen(); !errors.Is(err, agent.ErrStopped) {
				t.Fatalf("it opens again: %v", err)
			}
			if len(worker.world.calls) != before {
				t.Fatalf("it went on: %v", worker.world.calls[before:])
			}
			return
		}
		must(t, err)
	}
	t.Fatalf("no fork: %v", worker.events)
}

func mustDraft(t *testing.T, b *book, o coord.Order) *entry.Decision {
	t.Helper()
	d, err := b.state.Draft(o, b.now)
	must(t, err)
	return d
}

// TestFirstContact: without a second source nothing is undone.
// Draft: AGT-1a.
func TestFirstContact(t *testing.T) {
	b := newBook(t)
	worker, writer := b.player("worker", probing), b.player("writer", probing)
	worker.change = func(c *agent.Config) { c.Second = nil }
	worker.open()
	play(t, b, b.now+1, nil, worker, writer)
	b.pipeline()
	incident := b.signal("source#read")
	play(t, b, b.now+60_000, nil, worker, writer)
	if len(worker.world.calls) > 0 {
		t.Fatalf("undone on the word of one server: %v", worker.world.calls)
	}
	worker.change = nil
	worker.open()
	(&damage{b, nil, incident}).ends(t, b, restoredAll(), worker, writer)
}

// TestCarried: a member is asked for again if whoever carried the bundle has left evidence out, or
// altered a step, which nobody signs; each time past what was given before. The member is refused
// only if that goes on. Draft: AGT-9.
func TestCarried(t *testing.T) {
	d := newDamage(t)
	for name, change := range map[string]func(v *bundle.Bundle){
		"left out": func(v *bundle.Bundle) { v.Steps = nil },
		"altered": func(v *bundle.Bundle) {
			for i := range v.Steps {
				s := &v.Steps[i] // it is there, and leads nowhere
				s.Rule, s.From, s.By, s.Checkpoint = bundle.RuleDependent, s.Exec, 0, 0
			}
		},
	} {
		for times, want := range map[int]entry.Result{1: entry.Restored, 2: entry.Restored, 100: entry.Refused} {
			b := d.clone()
			worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
			changed, asked := 0, 0
			worker.desk.forge = func(v *bundle.Bundle) {
				if v.Decision == 0 {
					return
				}
				if asked++; changed < times {
					changed++
					change(v)
				}
			}
			play(t, b, b.now+200_000, nil, worker, writer)
			if got := b.results(d.incident)["worker#draft"]; got != want {
				t.Errorf("%s %d times: %q, want %q; %v", name, times, got, want, b.refused)
			}
			if worker.desk.anew < min(times, 5) || times > 5 && changed < 6 {
				t.Errorf("%s %d times: asked %d times, %d of them anew", name, times, asked, worker.desk.anew)
			}
		}
	}
}

// TestHookResults: what a hook says becomes the outcome; nothing it says becomes
// more.
// Draft: AGT-4c.
func TestHookResults(t *testing.T) {
	d := newDamage(t)
	for status, want := range map[agent.Status]entry.Result{agent.Failed: entry.ResultFailed, agent.Unknown: entry.ResultUnknown, agent.NoEffect: entry.ResultFailed} {
		b := d.clone()
		worker, writer := d.player(b, "worker", bare), d.player(b, "writer", probing)
		worker.world.says[agent.Compensate], worker.world.says[agent.Restore], worker.world.says[agent.Cancel] = status, status, status
		d.ends(t, b, map[entry.Ref]entry.Result{"worker#draft": want, "worker#memo": want, "worker#charge": want, "worker#later": want}, worker, writer)
		tries := 0
		for _, call := range worker.world.calls {
			if strings.HasPrefix(call, "compensate") {
				tries++
			}
		}
		if limit := map[agent.Status]int{agent.NoEffect: 3}[status]; tries != max(1, limit) {
			t.Errorf("%s: %d tries", status, tries)
		}
	}
}

// TestLateTruth: the coordinator gave up on a member; when its agent knows it
// says so, in the place of unknown.
func TestLateTruth(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	blocked := false
	worker.desk.fault = func(call string) error {
		if blocked && strings.HasPrefix(call, "submit") {
			return errLost
		}
		return nil
	}
	worker.world.fault = func(call string) error {
		if call == "hook!" && slices.Contains(worker.world.calls, "restore worker#c0") {
			blocked = true
		}
		return nil
	}
	play(t, b, b.now+1000, nil, worker, writer)
	view, _ := b.state.Incident(d.incident, b.now)
	play(t, b, view.Decision.ExpiresAt+7_200_000, nil, worker, writer)
	if got := b.results(d.incident)["worker#draft"]; got != entry.ResultUnknown {
		t.Fatalf("draft: %q, refused %v", got, b.refused)
	}
	blocked = false
	worker.world.fault = nil
	play(t, b, b.now+3_000_000, nil, worker, writer)
	if got := b.results(d.incident)["worker#draft"]; got != entry.Restored {
		t.Errorf("draft: %q, refused %v", got, b.refused)
	}
}

// TestLateTruthOnLaterPages: what an agent that does not follow the log has to
// take the place of stands in pages of a bundle whose time is over.
func TestLateTruthOnLaterPages(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	b.page = 1
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	worker.change = func(c *agent.Config) { c.Log = nil }
	worker.open()
	reach := cutOff(worker)
	play(t, b, b.now+1000, nil, worker, writer)
	view, _ := b.state.Incident(d.incident, b.now)
	play(t, b, view.Decision.ExpiresAt+7_200_000, nil, worker, writer)
	for _, exec := range []entry.Ref{"worker#draft", "worker#memo", "worker#slow"} {
		if got := b.results(d.incident)[exec]; got != entry.ResultUnknown {
			t.Fatalf("%s: %q, refused %v", exec, got, b.refused)
		}
	}
	reach()
	d.ends(t, b, restoredAll(), worker, writer)
	if !worker.agent.Idle() {
		t.Errorf("it has not come to an end: %v", b.refused)
	}
}

// TestKeyReplaced revokes an agent's key between a hook and the entries that say
// what it did, and gives it another one later.
func TestKeyReplaced(t *testing.T) {
	d := newDamage(t)
	b := d.clone()
	b.private = maps.Clone(b.private)
	worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
	worker.change = func(c *agent.Config) { c.Sign = func(e *entry.Entry) error { return b.sign("worker")(e) } }
	worker.open()
	reach := cutOff(worker)
	play(t, b, b.now+1000, nil, worker, writer)
	key := func(op entry.AgentOp) *entry.Agent {
		return &entry.Agent{Principal: "worker", Op: op, Key: b.public("worker"), Roles: []entry.Role{entry.RoleAgent}, Domain: "d", Span: entry.SpanWorkflow}
	}
	b.write("root", key(entry.Revoke))
	reach()
	play(t, b, b.now+600_000, nil, worker, writer)
	if got := b.results(d.incident)["worker#draft"]; got != "" {
		t.Fatalf("draft: %q under a key that counts no more", got)
	}
	b.private["worker"] = ed25519.NewKeyFromSeed([]byte("another one of the worker's keys"))
	b.write("root", key(entry.Enrol))
	d.ends(t, b, restoredAll(), worker, writer)
	if !worker.agent.Idle() {
		t.Errorf("it has not come to an end: %v", b.refused)
	}
}

// TestClockBehind: an agent whose clock is far behind the ledger's is told so with
// the decision that it accepts.
func TestClockBehind(t *testing.T) {
	d := newDamage(t).ahead()
	for behind, warned := range map[int64]bool{1000: false, 400_000: true} {
		b := d.clone()
		worker := d.player(b, "worker", probing)
		worker.agent.Poke()
		for range 10 {
			_, err := worker.agent.Step(context.Background(), b.now-behind)
			must(t, err)
		}
		i := slices.IndexFunc(worker.events, func(e agent.Event) bool { return e.Kind == agent.EventAccepted })
		if i < 0 || strings.Contains(worker.events[i].Text, "behind the newest entry") != warned {
			t.Errorf("%d ms behind: %v", behind, worker.events)
		}
	}
}
