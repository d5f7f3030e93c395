package ledger_test

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

func TestEntriesKeepTheirPlaceAcrossRestarts(t *testing.T) {
	fs := vfs.NewMem()
	cfg := config(t, fs)
	cfg.SnapshotEvery = 100
	total := 0
	for _, n := range []int{0, 1, 254, 1, 1, 300, 5} {
		r := start(t, "log", cfg)
		for i, index := range r.add(n) {
			if index != uint64(total+i) {
				t.Fatalf("entry %d has index %d", total+i, index)
			}
		}
		total += n
		r.checkAll()
		r.stop()
	}
}

func TestConcurrentSubmittersShareCommits(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() { r.add(20) })
	}
	group.Wait()
	r.checkAll()
}

func TestTheSameEntryIsRegisteredOnce(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	e := newEntry(t)
	first, err := r.Submit(t.Context(), e, newEntry(t), e)
	must(t, err)
	again, err := r.Submit(t.Context(), e)
	must(t, err)
	want := ledger.Registration{Index: 0, RegisteredAt: first.Registered[0].RegisteredAt, Duplicate: true}
	if first.Registered[2] != want || again.Registered[0] != want {
		t.Fatalf("registered %+v, then %+v", first.Registered, again.Registered)
	}
}

// TestTheFirstRefusalEndsTheBatch holds to the draft: REG-10.
func TestTheFirstRefusalEndsTheBatch(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	answer, err := r.Submit(t.Context(), newEntry(t), newExec(t, "refuse-me"), newEntry(t))
	must(t, err)
	if len(answer.Registered) != 1 || answer.Refused == nil || answer.Refused.Problem != entry.StateConflict {
		t.Fatalf("answer %+v", answer)
	}
	if size := r.Head().Size; size != 1 {
		t.Fatalf("size %d", size)
	}
}
