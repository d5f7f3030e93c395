package ledger

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"recoveryledger/ledger/entry"
)

// lanes keep a flood that is refused from costing others much: when the order
// refuses a key's entry as rate-limited, the key's entries of that kind have a
// narrow lane from then on, until one of them is taken.
type lanes struct {
	mu     sync.Mutex
	narrow map[laneID]*lane
}

type laneID struct {
	key  string
	kind entry.Kind
}

// lane lets laneWidth submissions be under way; the others wait.
type lane struct {
	*semaphore.Weighted
	inside int // those that wait included; guarded by lanes.mu
}

func newLanes() *lanes { return &lanes{narrow: map[laneID]*lane{}} }

func laneOf(e *entry.Entry) laneID { return laneID{e.KeyID, e.Kind} }

// enter waits until there is room for a submission with the entry, and returns
// what gives the room back; nil if the lane is not narrow. The error is
// rate-limited if too many wait, or that of ctx.
func (l *lanes) enter(ctx context.Context, e *entry.Entry) (leave func(), _ error) {
	l.mu.Lock()
	on := l.narrow[laneOf(e)]
	full := on != nil && on.inside >= maxPerKey
	if on != nil && !full {
		on.inside++
	}
	l.mu.Unlock()
	switch {
	case on == nil:
		return nil, nil
	case full:
		return nil, overloaded("entries wait of a key that has used its quota")
	}
	return l.wait(ctx, on)
}

func (l *lanes) wait(ctx context.Context, on *lane) (leave func(), _ error) {
	err := on.Acquire(ctx, 1)
	leave = func() {
		if err == nil {
			on.Release(1)
		}
		l.mu.Lock()
		on.inside--
		l.mu.Unlock()
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// settle narrows and widens lanes by what the order said of a submission.
func (l *lanes) settle(s *submission) {
	taken, refused := s.entries[:len(s.answer.Registered)], s.entries[len(s.answer.Registered):]
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i < len(taken) && len(l.narrow) > 0; i++ {
		if !s.answer.Registered[i].Duplicate {
			delete(l.narrow, laneOf(taken[i]))
		}
	}
	if len(refused) == 0 || s.answer.Refused.Problem != entry.RateLimited {
		return
	}
	if id := laneOf(refused[0]); l.narrow[id] == nil {
		l.narrow[id] = &lane{Weighted: semaphore.NewWeighted(laneWidth)}
	}
}
