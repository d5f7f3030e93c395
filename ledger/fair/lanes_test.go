package fair

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
	for range LaneDebt - 1 {
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
	for range LaneWidth {
		inside = append(inside, enter(t, l, "b", "a"))
	}
	on := l.owed["a"]
	if on.TryAcquire(1) {
		t.Fatal("there is room for more than LaneWidth")
	}
	entered := make(chan func(bool))
	go func() { entered <- enter(t, l, "a", "b") }()
	for waiting := 0; waiting <= LaneWidth; runtime.Gosched() {
		l.mu.Lock()
		waiting = on.inside
		l.mu.Unlock()
	}
	inside[0](false)
	inside[0] = <-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Enter(gone, "a"); !errors.Is(err, context.Canceled) || on.inside != LaneWidth {
		t.Errorf("who gives up: %v, %d are inside", err, on.inside)
	}
	on.inside = MaxPerKey
	_, err := l.Enter(t.Context(), "a")
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.RateLimited || refusal.RetryAfterMS <= 0 {
		t.Errorf("too many: %v", err)
	}
	on.inside = LaneWidth
	if l.Taken("a"); enter(t, l, "a") != nil {
		t.Error("the lane is narrow though enough were taken")
	}
	for _, leave := range inside {
		leave(false)
	}
	if on.inside != 0 || !on.TryAcquire(LaneWidth) {
		t.Errorf("%d are inside when all have left", on.inside)
	}
}

// TestADebtIsBounded makes a lane wide again after laneDebtMax less LaneDebt more
// were taken than refused, however long the flood was; then it is forgotten.
func TestADebtIsBounded(t *testing.T) {
	l := NewLanes[string](8)
	for range 100_000 {
		l.Refused("a", 7)
	}
	taken := 0
	for ; l.Owes("a") >= LaneDebt; taken++ {
		l.Taken("a")
	}
	if taken != laneDebtMax-LaneDebt+1 {
		t.Errorf("wide after %d", taken)
	}
	for range LaneDebt {
		l.Taken("a")
	}
	if !l.Idle() {
		t.Errorf("%d lanes are remembered", len(l.owed))
	}
}

// TestLanesAreBounded remembers a bounded number of senders, and rather those that
// have narrow lanes.
func TestLanesAreBounded(t *testing.T) {
	l := NewLanes[string](8)
	for _, k := range []string{"a", "b", "c"} {
		l.Refused(k, LaneDebt)
	}
	for i := range 1000 {
		l.Refused(fmt.Sprint(i), 1)
		if len(l.owed) > 8 {
			t.Fatalf("%d lanes", len(l.owed))
		}
	}
	for _, k := range []string{"a", "b", "c"} {
		if l.Owes(k) < LaneDebt {
			t.Errorf("%s is forgotten", k)
		}
	}
	for i := range 1000 {
		l.Refused(fmt.Sprint(i), LaneDebt)
	}
	if len(l.owed) != 8 || l.Owes("a") < LaneDebt {
		t.Errorf("%d lanes, a owes %d", len(l.owed), l.Owes("a"))
	}
}

// TestNarrow makes a lane narrow whatever was owed before, and no narrower than that.
func TestNarrow(t *testing.T) {
	for _, owed := range []int{0, 1, LaneDebt - 1, LaneDebt, laneDebtMax} {
		l := NewLanes[string](8)
		l.Refused("a", owed)
		if l.Narrow("a"); l.Owes("a") != max(owed, LaneDebt) {
			t.Errorf("%d were owed, then %d", owed, l.Owes("a"))
		}
	}
}

// TestLaneState counts narrow lanes, who is in them, and of which not all room is free.
func TestLaneState(t *testing.T) {
	l := NewLanes[string](8)
	l.Refused("wide", 1)
	l.Narrow("a")
	l.Narrow("b")
	var rooms []func(bool)
	for range LaneWidth {
		rooms = append(rooms, enter(t, l, "a"))
	}
	rooms = append(rooms, enter(t, l, "b"))
	if got := l.State(); got != (LaneState{Narrow: 2, Inside: LaneWidth + 1, Busy: 2}) {
		t.Errorf("%+v", got)
	}
	held := make(chan func(), len(rooms))
	l.Hold = func(release func()) { held <- release }
	for i, leave := range rooms {
		leave(i == 0) // the first was refused
	}
	if got := l.State(); got != (LaneState{Narrow: 2, Inside: 1, Busy: 1}) {
		t.Errorf("while a refusal keeps its room: %+v", got)
	}
	(<-held)()
	if got := l.State(); got != (LaneState{Narrow: 2}) {
		t.Errorf("in the end: %+v", got)
	}
}
