package fair

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"recoveryledger/ledger/entry"
)

// busyGate returns a gate whose places are all taken.
func busyGate(t *testing.T) (g *Gate, places int) {
	t.Helper()
	g = NewGate()
	places = g.free
	for range places {
		if err := g.Acquire(t.Context(), "busy"); err != nil {
			t.Fatal(err)
		}
	}
	return g, places
}

// queue lets n checks of a key wait, and reports the key of each whose turn has
// come.
func queue(t *testing.T, g *Gate, key string, n int, turns chan<- string) {
	t.Helper()
	for range n {
		g.mu.Lock()
		waiting := g.waiting
		g.mu.Unlock()
		go func() {
			if g.Acquire(context.Background(), key) == nil {
				turns <- key
			}
		}()
		for waits := waiting; waits == waiting; runtime.Gosched() {
			g.mu.Lock()
			waits = g.waiting
			g.mu.Unlock()
		}
	}
}

// TestKeysTakeTurns floods the gate under one key. The others wait one round, not
// behind the flood.
func TestKeysTakeTurns(t *testing.T) {
	g, _ := busyGate(t)
	turns := make(chan string)
	queue(t, g, "flood", 500, turns)
	queue(t, g, "a", 2, turns)
	queue(t, g, "b", 1, turns)
	var order []string
	for range 7 {
		g.Release()
		order = append(order, <-turns)
	}
	if got, want := fmt.Sprint(order), "[flood a b flood a flood flood]"; got != want {
		t.Fatalf("turns %s, want %s", got, want)
	}
	for range 496 {
		g.Release()
		<-turns
	}
}

// TestWaitingIsBounded fills the queue of one key, and then all queues.
func TestWaitingIsBounded(t *testing.T) {
	g, places := busyGate(t)
	turns := make(chan string, maxWaiting)
	refused := func(key string) {
		t.Helper()
		refusal, ok := errors.AsType[*entry.Refusal](g.Acquire(t.Context(), key))
		if !ok || refusal.Problem != entry.RateLimited || refusal.RetryAfterMS <= 0 {
			t.Fatalf("%s: %v", key, refusal)
		}
	}
	for key := range maxWaiting / MaxPerKey {
		name := fmt.Sprint(key)
		queue(t, g, name, MaxPerKey-1, turns)
		queue(t, g, name, 1, turns) // the last one there is room for
		refused(name)
	}
	refused("another")
	for range maxWaiting + places {
		g.Release()
	}
	for range maxWaiting {
		<-turns
	}
	if g.free != places || g.waiting != 0 || len(g.queues) != 0 || len(g.turns) != 0 {
		t.Fatalf("%d places, %d wait, %d queues, %d turns", g.free, g.waiting, len(g.queues), len(g.turns))
	}
}

// TestWhoGivesUpPassesTheTurnOn loses no place to those whose context ends.
func TestWhoGivesUpPassesTheTurnOn(t *testing.T) {
	g, places := busyGate(t)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	for range 10 {
		go func() { gaveUp <- g.Acquire(ctx, "a") }()
	}
	for waiting := 0; waiting < 10; runtime.Gosched() {
		g.mu.Lock()
		waiting = g.waiting
		g.mu.Unlock()
	}
	turns := make(chan string)
	queue(t, g, "a", 1, turns)
	cancel()
	for range 10 {
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	g.Release() // ten pass it on
	<-turns
	for range places {
		g.Release()
	}
	if g.free != places {
		t.Fatalf("%d places, were %d", g.free, places)
	}
}
