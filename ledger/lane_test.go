package ledger

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"recoveryledger/ledger/entry"
)

// settled is a submission of the entries of which the order took the first n, and
// refused the one behind them as rate-limited.
func settled(n int, entries ...*entry.Entry) *submission {
	s := &submission{entries: entries}
	s.answer.Registered = make([]Registered, n)
	if n < len(entries) {
		s.answer.Refused = entry.Refuse(entry.RateLimited, "iss", "refused by the test")
	}
	return s
}

// TestLanes narrows the lane of what was refused for its quota, for its key and
// kind alone, and widens it when one is taken.
func TestLanes(t *testing.T) {
	of := func(key string, kind entry.Kind) *entry.Entry { return &entry.Entry{KeyID: key, Kind: kind} }
	signal, other, work := of("a", entry.KindSignal), of("b", entry.KindSignal), of("a", entry.KindExecution)
	l := newLanes()
	enter := func(e *entry.Entry) func() {
		t.Helper()
		leave, err := l.enter(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	if enter(signal) != nil {
		t.Error("a lane is narrow from the start")
	}
	l.settle(settled(1, work, signal))
	if enter(other) != nil || enter(work) != nil {
		t.Error("the lane of another key or kind is narrow")
	}
	var inside []func()
	for range laneWidth {
		inside = append(inside, enter(signal))
	}
	on := l.narrow[laneOf(signal)]
	if on.TryAcquire(1) {
		t.Fatal("there is room for more than laneWidth")
	}
	entered := make(chan func())
	go func() { entered <- enter(signal) }()
	for waiting := 0; waiting <= laneWidth; runtime.Gosched() {
		l.mu.Lock()
		waiting = on.inside
		l.mu.Unlock()
	}
	inside[0]()
	inside[0] = <-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.enter(gone, signal); !errors.Is(err, context.Canceled) || on.inside != laneWidth {
		t.Errorf("who gives up: %v, %d are inside", err, on.inside)
	}
	on.inside = maxPerKey
	_, err := l.enter(t.Context(), signal)
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.RateLimited || refusal.RetryAfterMS <= 0 {
		t.Errorf("too many: %v", err)
	}
	on.inside = laneWidth
	l.settle(settled(0, signal))
	again := settled(1, signal)
	again.answer.Registered[0].Duplicate = true
	if l.settle(again); l.narrow[laneOf(signal)] != on {
		t.Error("a refusal or a duplicate more has changed the lane")
	}
	l.settle(settled(1, signal))
	if enter(signal) != nil {
		t.Error("the lane is narrow though one was taken")
	}
	for _, leave := range inside {
		leave()
	}
	if on.inside != 0 || !on.TryAcquire(laneWidth) {
		t.Errorf("%d are inside when all have left", on.inside)
	}
}
