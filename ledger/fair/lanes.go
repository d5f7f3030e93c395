package fair

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Lanes keep a flood that is refused from costing others much. Whoever is refused
// LaneDebt times more than taken has a narrow lane: it has room for few submissions
// at a time, one that is refused keeps its room for laneHold, and the others wait,
// until enough are taken. So what a flood can have checked is bounded by time, not
// by how fast it is refused. Nobody is kept out: who was refused by mistake goes
// on, a few submissions at a time, and those that are taken keep no room.
type Lanes[K comparable] struct {
	// Hold calls release when a refusal has kept its room long enough: after 100 ms, by a
	// timer, unless it is set before the first use.
	Hold func(release func())

	max int // how many may be remembered

	mu   sync.Mutex
	owed map[K]*lane
}

// lane lets LaneWidth submissions be under way while it is narrow. Lanes.mu guards
// it.
type lane struct {
	*semaphore.Weighted
	debt   int // refusals not made up for; from LaneDebt on the lane is narrow
	inside int // submissions that are in the lane or wait for it
}

// NewLanes returns lanes that are all wide, and remember at most so many.
func NewLanes[K comparable](most int) *Lanes[K] {
	return &Lanes[K]{max: most, owed: map[K]*lane{}, Hold: func(release func()) { time.AfterFunc(laneHold, release) }}
}

// Enter waits until there is room for a submission in the first of the lanes that
// is narrow, and returns what gives the room back, at once or, if the submission
// was refused, after a while; nil if none is narrow. The error is rate-limited if
// too many wait, or that of ctx.
func (l *Lanes[K]) Enter(ctx context.Context, of ...K) (leave func(refused bool), _ error) {
	on, full := l.join(of)
	switch {
	case full:
		return nil, overloaded("entries wait of a sender that is refused again and again")
	case on == nil:
		return nil, nil
	}
	if err := on.Acquire(ctx, 1); err != nil {
		l.part(on)
		return nil, err
	}
	release := func() {
		on.Release(1)
		l.part(on)
	}
	return func(refused bool) {
		if refused { // a timer holds the room, and not the caller: a caller that goes away frees nothing
			l.Hold(release)
			return
		}
		release()
	}, nil
}

// part counts a submission as gone from a lane.
func (l *Lanes[K]) part(on *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	on.inside--
}

// join counts a submission in the first lane that is narrow, or says that the lane
// is full.
func (l *Lanes[K]) join(of []K) (on *lane, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range of {
		if on = l.owed[k]; on == nil || on.debt < LaneDebt {
			continue
		}
		if on.inside >= MaxPerKey {
			return nil, true
		}
		on.inside++
		return on, false
	}
	return nil, false
}

// Refused adds n to the debt, up to laneDebtMax.
func (l *Lanes[K]) Refused(k K, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	on := l.owed[k]
	if on == nil {
		if len(l.owed) >= l.max {
			l.forget()
		}
		if len(l.owed) >= l.max {
			return // as many are narrow: one more refused sender waits for no other
		}
		on = &lane{Weighted: semaphore.NewWeighted(LaneWidth)}
		l.owed[k] = on
	}
	on.debt = min(on.debt+n, laneDebtMax)
}

// Narrow makes the lane narrow, if it is wide.
func (l *Lanes[K]) Narrow(k K) { l.Refused(k, max(0, LaneDebt-l.Owes(k))) }

// Taken takes one refusal off each debt.
func (l *Lanes[K]) Taken(of ...K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range of {
		on := l.owed[k]
		if on == nil {
			continue
		}
		if on.debt--; on.debt <= 0 {
			delete(l.owed, k)
		}
	}
}

// Idle reports whether no sender has a debt.
func (l *Lanes[K]) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owed) == 0
}

// Owes returns how many refusals more than submissions taken are owed.
func (l *Lanes[K]) Owes(k K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on := l.owed[k]; on != nil {
		return on.debt
	}
	return 0
}

// LaneState says how lanes are used.
type LaneState struct {
	Narrow int // lanes that are narrow
	Inside int // submissions in the lanes, waiting submissions included
	Busy   int // lanes of which not all room is free
}

// State returns how the lanes are used.
func (l *Lanes[K]) State() (s LaneState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, on := range l.owed {
		if on.debt < LaneDebt {
			continue
		}
		s.Narrow++
		s.Inside += on.inside
		if !on.TryAcquire(LaneWidth) {
			s.Busy++
			continue
		}
		on.Release(LaneWidth)
	}
	return s
}

// forget forgets the lanes that are wide. The caller holds mu.
func (l *Lanes[K]) forget() {
	for k, on := range l.owed {
		if on.debt < LaneDebt {
			delete(l.owed, k)
		}
	}
}
