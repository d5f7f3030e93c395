package access

import (
	"context"
	"errors"
	"sync"
	"testing"

	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// heads is a source of one tree head.
type heads struct {
	logSource
	head verify.SignedHead
}

func (h heads) Head(context.Context) (verify.SignedHead, error) { return h.head, nil }

// TestLookHoldsAnOlderHeadToTheFold has a server show heads that are not newer than what was
// folded: its own are nothing new, and those of another log are a fork.
func TestLookHoldsAnOlderHeadToTheFold(t *testing.T) {
	l, other := foldlog.New(t), foldlog.New(t)
	for _, id := range []string{"x", "y"} { // the logs part here
		l.Do("a", id, entry.EffectNone)
		other.Do("b", id, entry.EffectNone)
	}
	f := &Fold{Follower: audit.NewFollower(testlog.Origin)}
	var err error
	f.Report, err = f.Follower.Follow(t.Context(), func(yield func(entry.Registered, error) bool) {
		for i := range l.Entries {
			if !yield(l.Entries[i], nil) {
				return
			}
		}
	}, nil)
	if err != nil || f.Finding != nil {
		t.Fatalf("finding %+v, error %v", f.Finding, err)
	}
	size := len(l.Leaves)
	f.Head = verify.SignedHead{Head: l.Head(size), Note: l.Signed(size)}
	look := func(shown *foldlog.Log, size int) error {
		source := heads{head: verify.SignedHead{Head: shown.Head(size), Note: shown.Signed(size)}}
		ahead, err := new(Machine).Look(t.Context(), &Log{logSource: source}, f, new(sync.RWMutex))
		if ahead != nil {
			t.Errorf("size %d is ahead of the fold", size)
		}
		return err
	}
	for _, size := range []int{size, size - 1} {
		if err := look(l, size); err != nil {
			t.Errorf("the log's own head of size %d: %v", size, err)
		}
		if _, fork := errors.AsType[*verify.ForkError](look(other, size)); !fork {
			t.Errorf("another log's head of size %d is believed", size)
		}
	}
}
