package agent_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// renames applies a policy that names the ledger's keys.
func (b *book) renames(keys ...string) {
	b.tb.Helper()
	inForce, previous := b.state.Chain().Policy()
	next := *inForce
	next.Header, next.Previous, next.LedgerKeys = entry.Header{}, &previous, keys
	b.write("root", &next)
}

// rotated is a book whose ledger's key has changed, and players that were there.
func rotated(t *testing.T, between func(b *book, there []*player), names ...entry.Principal) (b *book, there []*player, old note.Signer) {
	t.Helper()
	b = newBook(t)
	for _, name := range names {
		there = append(there, b.player(name, probing))
	}
	play(t, b, b.now+1, nil, there...)
	skey, nextKey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte("next"), 10)), origin)
	must(t, err)
	next, err := note.NewSigner(skey)
	must(t, err)
	old = b.signers[0]
	b.signers = []note.Signer{old, next}
	b.renames(b.root.LedgerKeys[0], nextKey)
	between(b, there)
	b.signers = []note.Signer{next}
	b.renames(nextKey)
	return b, there, old
}

func follow(b *book, there []*player) {
	b.tb.Helper()
	play(b.tb, b, b.now+120_000, nil, there...)
}

// poke steps a player many times, whatever comes of it, and returns what it was
// told.
func (p *player) poke(b *book) []agent.Event {
	p.events = nil
	for range 50 {
		p.agent.Poke()
		b.now += 1000
		_, _ = p.agent.Step(context.Background(), b.now)
	}
	return p.events
}

func tellsOf(events []agent.Event, text string) bool {
	return slices.ContainsFunc(events, func(e agent.Event) bool { return e.Err != nil && strings.Contains(e.Err.Error(), text) })
}

// TestLedgerKeyChanges is an agent that sees the change of the ledger's key: it
// goes on with the new one, in a new life too, which pins the old one still. Who
// has stolen the old one gets nothing undone.
func TestLedgerKeyChanges(t *testing.T) {
	b, there, old := rotated(t, follow, "worker", "writer")
	play(t, b, b.now+120_000, nil, there...)
	worker, writer := there[0], there[1]
	worker.open()

	thief := b.clone()
	thief.signers = []note.Signer{old}
	thief.pipeline()
	thief.signal("source#read")
	thief.coordinate()
	worker.desk.book = thief
	if events := worker.poke(thief); !tellsOf(events, "TRU-5") || len(worker.world.calls) > 0 {
		t.Fatalf("by the retired key it did %v and was told %v", worker.world.calls, events)
	}

	worker.desk.book = b
	b.now = max(b.now, thief.now)
	b.pipeline()
	d := &damage{b, nil, b.signal("source#read")}
	d.ends(t, b, restoredAll(), worker, writer)
}

// TestLedgerKeyChangesMeanwhile is an agent that was away while both keys were in
// force: it takes nothing by the new one, until it is given the new root.
func TestLedgerKeyChangesMeanwhile(t *testing.T) {
	b, there, _ := rotated(t, func(*book, []*player) {}, "worker", "writer")
	b.pipeline()
	d := &damage{b, nil, b.signal("source#read")}
	b.coordinate()
	for _, p := range there {
		if events := p.poke(b); !tellsOf(events, "TRU-5") || len(p.world.calls) > 0 {
			t.Fatalf("%s did %v and was told %v", p.name, p.world.calls, events)
		}
		p.change = func(c *agent.Config) { c.Root = c.Root.Follow(b.state.Chain()) }
		p.open()
		if p.told(agent.EventLost) {
			t.Errorf("%s lost its store: %v", p.name, p.events)
		}
	}
	d.ends(t, b, restoredAll(), there...)
}
