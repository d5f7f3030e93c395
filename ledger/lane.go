package ledger

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"recoveryledger/ledger/entry"
)

// Lanes keep a flood that is refused from costing others much. Whoever is refused
// laneDebt times more than taken has a narrow lane: it has room for few submissions
// at a time, one that is refused keeps its room for laneHold, and the others wait,
// until enough are taken. So what a flood can have checked is bounded by time, not
// by how fast it is refused. Nobody is kept out: who was refused by mistake goes
// on, a few submissions at a time, and those that are taken keep no room.
type Lanes[K comparable] struct {
	max  int                  // how many may be remembered
	hold func(release func()) // calls release after laneHold

	mu   sync.Mutex
	owed map[K]*lane
}

// lane lets laneWidth submissions be under way while it is narrow. Lanes.mu guards
// it.
type lane struct {
	*semaphore.Weighted
	debt   int // refusals not made up for; from laneDebt on the lane is narrow
	inside int // submissions that are in it or wait for it
}

// NewLanes returns lanes that are all wide, and remember at most so many.
func NewLanes[K comparable](most int) *Lanes[K] {
	return &Lanes[K]{max: most, owed: map[K]*lane{}, hold: func(release func()) { time.AfterFunc(laneHold, release) }}
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
		if refused { // a timer holds the room, not the caller: who goes away frees nothing
			l.hold(release)
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
		if on = l.owed[k]; on == nil || on.debt < laneDebt {
			continue
		}
		if on.inside >= maxPerKey {
			return nil, true
		}
		on.inside++
		return on, false
	}
	return nil, false
}

// Refused adds n to what is owed; more than laneDebtMax is never owed.
func (l *Lanes[K]) Refused(k K, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	on := l.owed[k]
	if on == nil {
		if len(l.owed) >= l.max {
			l.forget()
		}
		if len(l.owed) >= l.max {
			return // as many are narrow: who is refused once more waits for nobody
		}
		on = &lane{Weighted: semaphore.NewWeighted(laneWidth)}
		l.owed[k] = on
	}
	on.debt = min(on.debt+n, laneDebtMax)
}

// Taken takes one refusal off what each of them owes.
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

// idle reports whether nobody owes anything.
func (l *Lanes[K]) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owed) == 0
}

// owes returns what is owed.
func (l *Lanes[K]) owes(k K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on := l.owed[k]; on != nil {
		return on.debt
	}
	return 0
}

// forget forgets the lanes that are wide. The caller holds mu.
func (l *Lanes[K]) forget() {
	for k, on := range l.owed {
		if on.debt < laneDebt {
			delete(l.owed, k)
		}
	}
}

// laneID is a key and a kind of entries, or a key alone.
type laneID struct {
	key  string
	kind entry.Kind
}

// lanesOf are the lanes of an entry: that of its key, and that of its key and
// kind, which has a quota of its own.
func lanesOf(e *entry.Entry) []laneID { return []laneID{{key: e.KeyID}, {e.KeyID, e.Kind}} }

// settle narrows and widens the lanes of keys by what became of a submission. A
// refusal counts against the key that signed the entry; where the signature was
// not found good, nobody knows whose it is, and Answer.Proven says so.
func (l *Log) settle(s *submission, a *Answer) {
	for i := 0; i < len(a.Registered) && !l.lanes.idle(); i++ {
		if !a.Registered[i].Duplicate {
			l.lanes.Taken(lanesOf(s.all[i])...)
		}
	}
	if a.Refused == nil || len(a.Registered) == len(s.all) {
		return
	}
	e := s.all[len(a.Registered)]
	if a.Proven = e.SignatureChecked; !a.Proven {
		return
	}
	own := lanesOf(e)
	switch a.Refused.Problem {
	case entry.NotReady, entry.InsufficientStorage: // the ledger's trouble
	case entry.RateLimited: // the quota is used up: the next one is refused too
		l.lanes.Refused(own[1], max(0, laneDebt-l.lanes.owes(own[1])))
	default: // with the entries behind it, which were checked for nothing
		l.lanes.Refused(own[0], max(1, len(s.entries)-len(a.Registered)))
	}
}
