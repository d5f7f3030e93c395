package ledger_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
)

// ended submits copies of entries, as each request has its own, and checks what
// became of them: how many were taken, and the problem of the one behind.
func (r *running) ended(name string, taken int, problem entry.Problem, entries ...*entry.Entry) {
	r.t.Helper()
	answer, err := r.Submit(context.Background(), copies(entries)...)
	must(r.t, err)
	var refused entry.Problem
	if answer.Refused != nil {
		refused = answer.Refused.Problem
	}
	if len(answer.Registered) != taken || refused != problem {
		r.t.Errorf("%s: %d registered, refused as %q; want %d, %q", name, len(answer.Registered), refused, taken, problem)
	}
}

// releaseAtOnce lets refusals keep no room.
func releaseAtOnce(r *running) { ledger.HoldLanes(r.Log, func(release func()) { release() }) }

func limited(tb testing.TB) *entry.Entry {
	tb.Helper()
	return newExec(tb, "limit-me")
}

// TestANarrowLaneIsLeft has submissions pass a narrow lane that are refused
// before the order and in it, are there already, or are taken in part: each gives
// its room back, and a new entry alone widens the lane.
func TestANarrowLaneIsLeft(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	cfg.Precheck = func(e *entry.Entry) error {
		if e.Body.(*entry.Execution).Exec == "forged" {
			return entry.Refuse(entry.BadSignature, "", "refused by the test")
		}
		e.SignatureChecked = true
		return nil
	}
	r := start(t, "log", cfg)
	releaseAtOnce(r)
	known := newEntry(t)
	r.ended("known", 1, "", known)
	for _, test := range []struct {
		name    string
		taken   int
		problem entry.Problem
		entries []*entry.Entry
	}{
		{"limited", 0, entry.RateLimited, []*entry.Entry{limited(t)}},
		{"limited again", 0, entry.RateLimited, []*entry.Entry{limited(t), newEntry(t)}},
		{"forged", 0, entry.BadSignature, []*entry.Entry{newExec(t, "forged")}},
		{"refused by the order", 0, entry.StateConflict, []*entry.Entry{newExec(t, "refuse-me")}},
		{"another under a known id", 0, entry.IDConflict, []*entry.Entry{conflicting(t, known)}},
		{"there already", 1, "", []*entry.Entry{known}},
		{"there already, before another key's", 2, "", []*entry.Entry{known, newUnsigned(t)}},
		{"limited behind another key's", 1, entry.RateLimited, []*entry.Entry{newUnsigned(t), limited(t), limited(t)}},
		{"refused behind another key's", 1, entry.StateConflict, []*entry.Entry{newUnsigned(t), newExec(t, "refuse-me")}},
		{"forged behind another key's", 1, entry.BadSignature, []*entry.Entry{newUnsigned(t), newExec(t, "forged")}},
		{"limited behind what is there", 2, entry.RateLimited, []*entry.Entry{newUnsigned(t), known, limited(t)}},
	} {
		r.ended(test.name, test.taken, test.problem, test.entries...)
		if lanes := ledger.LanesOf(r.Log); lanes != (fair.LaneState{Narrow: 1}) {
			t.Errorf("%s: lanes %+v", test.name, lanes)
		}
	}
	r.ended("taken, then limited", 1, entry.RateLimited, newEntry(t), limited(t))
	if lanes := ledger.LanesOf(r.Log); lanes.Narrow != 1 {
		t.Errorf("the lane is wide though the quota was used up again")
	}
	r.ended("taken", 2, "", newEntry(t), newEntry(t))
	if lanes := ledger.LanesOf(r.Log); lanes.Narrow != 0 {
		t.Errorf("the lane is narrow though one was taken")
	}
}

// TestACrowdedLane refuses what finds a lane full of those that wait, costs a
// batch the entries from there on alone, and others nothing.
func TestACrowdedLane(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.ended("limited", 0, entry.RateLimited, limited(t))
	e, emptied := newEntry(t), make(chan struct{})
	crowd := func(ctx context.Context) {
		if leave, err := ledger.EnterLane(ctx, r.Log, e); err == nil {
			<-emptied
			leave(false)
		}
	}
	var group sync.WaitGroup
	for range fair.MaxPerKey - 1 {
		group.Go(func() { crowd(t.Context()) })
	}
	untilInside(r, fair.MaxPerKey-1)
	gone, cancel := context.WithCancel(t.Context())
	group.Go(func() { crowd(gone) })
	untilInside(r, fair.MaxPerKey)
	_, err := r.Submit(t.Context(), newEntry(t), newUnsigned(t))
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.RateLimited || refusal.RetryAfterMS <= 0 {
		t.Errorf("into a full lane: %v", err)
	}
	r.ended("behind another key's", 2, entry.RateLimited, newUnsigned(t), newUnsigned(t), newEntry(t))
	r.ended("of another key", 1, "", newUnsigned(t))
	for cancel(); ledger.LanesOf(r.Log).Inside >= fair.MaxPerKey; {
		runtime.Gosched() // until one has given up
	}
	group.Go(func() { r.ended("the last that may wait", 1, "", newEntry(t)) })
	untilInside(r, fair.MaxPerKey)
	close(emptied)
	group.Wait()
}

// TestAFloodAtTheEnd ends a log while a commit is held, a narrow lane is full and
// many wait for it: some give up, and everybody is answered.
func TestAFloodAtTheEnd(t *testing.T) {
	disk := newGatedDisk(vfs.NewMem())
	defer disk.open()
	r := start(t, "log", config(t, disk))
	releaseAtOnce(r)
	r.ended("limited", 0, entry.RateLimited, limited(t))
	disk.close()
	var group, impatient sync.WaitGroup
	group.Go(func() { r.ended("the commit that is held", 1, "", newUnsigned(t)) })
	<-disk.waiting
	const waiting = 40
	for range fair.LaneWidth + waiting {
		group.Go(func() {
			answer, err := r.Submit(context.Background(), newUnsigned(t), limited(t))
			stopped := errors.Is(err, ledger.ErrStopped)
			if !stopped && (err != nil || len(answer.Registered) != 1 || answer.Refused == nil || answer.Refused.Problem != entry.RateLimited) {
				t.Errorf("answer %+v, %v", answer, err)
			}
		})
	}
	untilInside(r, fair.LaneWidth+waiting)
	gone, cancel := context.WithCancel(t.Context())
	for range waiting {
		impatient.Go(func() {
			if _, err := r.Submit(gone, limited(t)); !errors.Is(err, context.Canceled) {
				t.Errorf("who gives up: %v", err)
			}
		})
	}
	untilInside(r, fair.LaneWidth+2*waiting)
	cancel()
	impatient.Wait()
	if lanes := ledger.LanesOf(r.Log); lanes.Inside != fair.LaneWidth+waiting {
		t.Errorf("lanes %+v after some gave up", lanes)
	}
	group.Go(r.end)
	disk.open()
	group.Wait()
	if lanes := ledger.LanesOf(r.Log); lanes != (fair.LaneState{Narrow: 1}) {
		t.Errorf("lanes %+v when all is over", lanes)
	}
	if _, err := r.Submit(t.Context(), limited(t)); !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
	r.checkAll()
}

// untilInside waits until n submissions are in narrow lanes or wait for them.
func untilInside(r *running, n int) {
	for ledger.LanesOf(r.Log).Inside < n {
		runtime.Gosched()
	}
}

// TestARepeatedRefusalWaits has one key send an entry that is refused again and
// again, as many at a time as it can, while an honest client waits for one commit.
// Of the flood no more than the narrow lane lets in is in front of the honest
// client, whatever the reason of the refusal; when it is over, what the flooder
// sends in good order is taken, and its lane is wide again.
func TestARepeatedRefusalWaits(t *testing.T) {
	disk := newGatedDisk(vfs.NewMem())
	defer disk.open()
	r := start(t, "log", config(t, disk))
	releaseAtOnce(r)
	same := newExec(t, "refuse-me")
	for range fair.LaneDebt {
		r.ended("the flood begins", 0, entry.StateConflict, same)
	}
	disk.close()
	var group sync.WaitGroup
	group.Go(func() { r.ended("the commit that is held", 1, "", newUnsigned(t)) })
	<-disk.waiting
	const flood = 100
	for range flood {
		group.Go(func() { r.ended("the flood", 0, entry.StateConflict, same) })
	}
	untilInside(r, flood)
	group.Go(func() { r.ended("the honest client", 1, "", newUnsigned(t)) })
	for ledger.Queued(r.Log) <= fair.LaneWidth {
		runtime.Gosched() // until the honest client is behind all of the flood that is let in
	}
	if queued := ledger.Queued(r.Log); queued != fair.LaneWidth+1 {
		t.Errorf("%d submissions wait for the order", queued)
	}
	disk.open()
	group.Wait()
	for range 2 * fair.LaneDebt {
		r.ended("in good order", 1, "", newEntry(t))
	}
	if lanes := ledger.LanesOf(r.Log); lanes.Narrow != 0 {
		t.Errorf("lanes %+v", lanes)
	}
	r.checkAll()
}

// TestAnHonestClientKeepsItsShare counts what a flood of 64 that is refused gets
// while an honest client has its entries taken one by one: as many refusals as
// there is room for, and no more before that is released, however many entries are
// taken meanwhile. Entries of the flooder's key that are taken keep no room.
func TestAnHonestClientKeepsItsShare(t *testing.T) {
	var refusals atomic.Int64
	cfg := config(t, vfs.NewMem())
	cfg.NewFold = func() ledger.Fold {
		return &watched{tally: new(tally), admits: func(e *entry.Entry) {
			if e.Body.(*entry.Execution).Exec == "refuse-me" {
				refusals.Add(1)
			}
		}}
	}
	r := start(t, "log", cfg)
	held := make(chan func(), 64)
	ledger.HoldLanes(r.Log, func(release func()) { held <- release })
	same := newExec(t, "refuse-me")
	for range fair.LaneDebt {
		r.ended("the flood begins", 0, entry.StateConflict, same)
	}
	refusals.Store(0)
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() { r.ended("the flood", 0, entry.StateConflict, same) })
	}
	var rooms []func()
	for round := 1; round <= 16; round++ {
		for len(rooms) < fair.LaneWidth {
			rooms = append(rooms, <-held)
		}
		for range 20 {
			r.ended("the honest client", 1, "", newUnsigned(t))
		}
		if got := refusals.Load(); got != int64(round*fair.LaneWidth) {
			t.Fatalf("the flood had %d entries looked at, and there was room for %d", got, round*fair.LaneWidth)
		}
		for _, release := range rooms {
			release()
		}
		rooms = nil
	}
	group.Wait()
	for range 2 * fair.LaneDebt {
		r.ended("in good order", 1, "", newEntry(t))
	}
	if len(held) > 0 {
		t.Errorf("%d entries that were taken keep their room", len(held))
	}
}

// TestAnHonestRetryIsNotStarved has a client try an entry that a fence refuses
// again and again, beside its other work: its lane stays wide as long as most of
// its entries are taken; and in a narrow lane other work and, once the fence is
// lifted, the entry itself are taken at once.
func TestAnHonestRetryIsNotStarved(t *testing.T) {
	fenced := true // read by the order, changed between two submissions
	cfg := config(t, vfs.NewMem())
	cfg.NewFold = func() ledger.Fold { return &fencedTally{fenced: &fenced} }
	r := start(t, "log", cfg)
	releaseAtOnce(r)
	waits := newExec(t, "refuse-me")
	for range 3 * fair.LaneDebt {
		r.ended("behind the fence", 0, entry.StateConflict, waits)
		r.ended("other work", 1, "", newEntry(t))
	}
	if lanes := ledger.LanesOf(r.Log); lanes.Narrow != 0 {
		t.Errorf("lanes %+v though as many were taken", lanes)
	}
	for range 3 * fair.LaneDebt {
		r.ended("behind the fence", 0, entry.StateConflict, waits)
	}
	if lanes := ledger.LanesOf(r.Log); lanes.Narrow != 1 {
		t.Errorf("lanes %+v", lanes)
	}
	r.ended("other work in the narrow lane", 1, "", newEntry(t))
	fenced = false
	r.ended("behind the fence that was lifted", 1, "", waits)
}

// fencedTally is a tally that refuses only while there is a fence.
type fencedTally struct {
	tally
	fenced *bool
}

func (f *fencedTally) Admit(e *entry.Entry, index uint64, at int64) error {
	if !*f.fenced {
		return nil
	}
	return f.tally.Admit(e, index, at)
}

// TestAForgedFloodCostsItsKeyNothing lets a client claim the key of another: what
// it is refused for a signature that is not good narrows no lane.
func TestAForgedFloodCostsItsKeyNothing(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	cfg.Precheck = func(e *entry.Entry) error {
		return entry.Refuse(entry.BadSignature, "", "refused by the test")
	}
	r := start(t, "log", cfg)
	for range 3 * fair.LaneDebt {
		r.ended("forged", 0, entry.BadSignature, newEntry(t))
	}
	if lanes := ledger.LanesOf(r.Log); lanes != (fair.LaneState{}) {
		t.Errorf("lanes %+v", lanes)
	}
}
