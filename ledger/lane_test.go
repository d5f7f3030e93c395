package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"recoveryledger/ledger/entry"
)

// enter enters lanes that have room.
func enter(t *testing.T, l *Lanes[string], of ...string) (leave func(refused bool)) {
	t.Helper()
	leave, err := l.Enter(t.Context(), of...)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// TestLanes narrows the lane of who was refused more often than taken, and nobody
// else's, lets the others of that lane wait, and widens it again.
func TestLanes(t *testing.T) {
	l := NewLanes[string](8)
	for range laneDebt - 1 {
		l.Refused("a", 1)
	}
	if enter(t, l, "a") != nil {
		t.Error("a lane is narrow too soon")
	}
	l.Taken("a", "b")
	l.Refused("a", 1)
	if enter(t, l, "a") != nil {
		t.Error("what was taken does not count")
	}
	l.Refused("a", 1)
	if enter(t, l, "b") != nil {
		t.Error("the lane of another is narrow")
	}
	var inside []func(bool)
	for range laneWidth {
		inside = append(inside, enter(t, l, "b", "a"))
	}
	on := l.owed["a"]
	if on.TryAcquire(1) {
		t.Fatal("there is room for more than laneWidth")
	}
	entered := make(chan func(bool))
	go func() { entered <- enter(t, l, "a", "b") }()
	for waiting := 0; waiting <= laneWidth; runtime.Gosched() {
		l.mu.Lock()
		waiting = on.inside
		l.mu.Unlock()
	}
	inside[0](false)
	inside[0] = <-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Enter(gone, "a"); !errors.Is(err, context.Canceled) || on.inside != laneWidth {
		t.Errorf("who gives up: %v, %d are inside", err, on.inside)
	}
	on.inside = maxPerKey
	_, err := l.Enter(t.Context(), "a")
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.RateLimited || refusal.RetryAfterMS <= 0 {
		t.Errorf("too many: %v", err)
	}
	on.inside = laneWidth
	if l.Taken("a"); enter(t, l, "a") != nil {
		t.Error("the lane is narrow though enough were taken")
	}
	for _, leave := range inside {
		leave(false)
	}
	if on.inside != 0 || !on.TryAcquire(laneWidth) {
		t.Errorf("%d are inside when all have left", on.inside)
	}
}

// TestADebtIsBounded makes a lane wide again after laneDebtMax less laneDebt more
// were taken than refused, however long the flood was; then it is forgotten.
func TestADebtIsBounded(t *testing.T) {
	l := NewLanes[string](8)
	for range 100_000 {
		l.Refused("a", 7)
	}
	taken := 0
	for ; l.owes("a") >= laneDebt; taken++ {
		l.Taken("a")
	}
	if taken != laneDebtMax-laneDebt+1 {
		t.Errorf("wide after %d", taken)
	}
	for range laneDebt {
		l.Taken("a")
	}
	if !l.idle() {
		t.Errorf("%d lanes are remembered", len(l.owed))
	}
}

// TestLanesAreBounded remembers a bounded number of senders, and rather those that
// have narrow lanes.
func TestLanesAreBounded(t *testing.T) {
	l := NewLanes[string](8)
	for _, k := range []string{"a", "b", "c"} {
		l.Refused(k, laneDebt)
	}
	for i := range 1000 {
		l.Refused(fmt.Sprint(i), 1)
		if len(l.owed) > 8 {
			t.Fatalf("%d lanes", len(l.owed))
		}
	}
	for _, k := range []string{"a", "b", "c"} {
		if l.owes(k) < laneDebt {
			t.Errorf("%s is forgotten", k)
		}
	}
	for i := range 1000 {
		l.Refused(fmt.Sprint(i), laneDebt)
	}
	if len(l.owed) != 8 || l.owes("a") < laneDebt {
		t.Errorf("%d lanes, a owes %d", len(l.owed), l.owes("a"))
	}
}

// TestSettle counts what becomes of submissions: for which key, for which kind,
// and how much.
func TestSettle(t *testing.T) {
	of := func(key string, kind entry.Kind) *entry.Entry {
		return &entry.Entry{KeyID: key, Kind: kind, SignatureChecked: true}
	}
	signal, work, forged := of("a", entry.KindSignal), of("a", entry.KindExecution), of("a", entry.KindSignal)
	forged.SignatureChecked = false
	key, kind := lanesOf(signal)[0], lanesOf(signal)[1]
	for _, c := range []struct {
		desc      string
		entries   []*entry.Entry
		checked   int // of the entries, in front of the order
		taken     int
		duplicate bool
		problem   entry.Problem
		key, kind int // what is owed then, of 5 and 5 before
		proven    bool
	}{
		{"taken", []*entry.Entry{signal}, 1, 1, false, "", 4, 4, false},
		{"of another kind", []*entry.Entry{work}, 1, 1, false, "", 4, 5, false},
		{"there already", []*entry.Entry{signal}, 1, 1, true, "", 5, 5, false},
		{"refused", []*entry.Entry{signal}, 1, 0, false, entry.StateConflict, 6, 5, true},
		{"refused for a fence", []*entry.Entry{work}, 1, 0, false, entry.FencedDependency, 6, 5, true},
		{"taken, then refused", []*entry.Entry{work, signal}, 2, 1, false, entry.UnknownSubject, 5, 5, true},
		{"refused before two that were checked", []*entry.Entry{signal, signal, work}, 3, 0, false, entry.StateConflict, 8, 5, true},
		{"refused in front of the order", []*entry.Entry{signal, signal}, 0, 0, false, entry.StateConflict, 6, 5, true},
		{"over its quota", []*entry.Entry{signal}, 1, 0, false, entry.RateLimited, 5, laneDebt, true},
		{"a signature of somebody else", []*entry.Entry{forged}, 0, 0, false, entry.BadSignature, 5, 5, false},
		{"a clock that is off", []*entry.Entry{signal}, 1, 0, false, entry.NotReady, 5, 5, true},
		{"a full disk", []*entry.Entry{signal}, 1, 0, false, entry.InsufficientStorage, 5, 5, true},
	} {
		l := &Log{lanes: NewLanes[laneID](8)}
		l.lanes.Refused(key, 5)
		l.lanes.Refused(kind, 5)
		s := &submission{all: c.entries, entries: c.entries[:c.checked]}
		for range c.taken {
			s.answer.Registered = append(s.answer.Registered, Registration{Duplicate: c.duplicate})
		}
		if c.problem != "" {
			s.answer.Refused = entry.Refuse(c.problem, "", "by the test")
		}
		l.settle(s, &s.answer)
		if gotKey, gotKind := l.lanes.owes(key), l.lanes.owes(kind); gotKey != c.key || gotKind != c.kind || s.answer.Proven != c.proven {
			t.Errorf("%s: the key owes %d, with its kind %d, proven %t", c.desc, gotKey, gotKind, s.answer.Proven)
		}
	}
}
