package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/testdata/budget"
)

// REG-2 across restarts: an old entry in one batch with new ones.
func TestAnOldEntryAmongNewOnesIsRegisteredOnce(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	r := start(t, "log", cfg)
	old := newEntry(t)
	_, err := r.Submit(t.Context(), old)
	must(t, err)
	r.stop()
	r = start(t, "log", cfg)
	answer, err := r.Submit(t.Context(), newEntry(t), old, newEntry(t))
	must(t, err)
	var indexes []uint64
	for _, registered := range answer.Registered {
		indexes = append(indexes, registered.Index)
	}
	if !slices.Equal(indexes, []uint64{1, 0, 2}) || !answer.Registered[1].Duplicate {
		t.Fatalf("%+v", answer.Registered)
	}
}

// REG-2: another payload under the same issuer and jti is a conflict, wherever
// the first one is found: in the same submission, among the recent, in the store.
// Draft: REG-2b.
func TestAConflictingEntryIsRefused(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	r := start(t, "log", cfg)
	first := newEntry(t)
	second := conflicting(t, first)
	refused := func(entries ...*entry.Entry) {
		t.Helper()
		answer, err := r.Submit(t.Context(), entries...)
		must(t, err)
		if answer.Refused == nil || answer.Refused.Problem != entry.IDConflict || len(answer.Registered) != len(entries)-1 {
			t.Fatalf("answer %+v", answer)
		}
	}
	refused(first, second)
	refused(second)
	refused(newEntry(t), second)
	r.stop()
	r = start(t, "log", cfg)
	refused(second)
	refused(newEntry(t), second)
	refused(newEntry(t), first, second)
	if size := r.Head().Size; size != 4 {
		t.Fatalf("size %d", size)
	}
}

// TestManyEntriesAreFoundAgain submits more entries than the order remembers, and
// then all of them again, in batches with something new in each.
func TestManyEntriesAreFoundAgain(t *testing.T) {
	budget.Unraced(t, "TestALateDuplicateIsFound has the same goroutines, and one that waits")
	r := start(t, "log", config(t, vfs.NewMem()))
	var all []*entry.Entry
	for range 20_000 {
		all = append(all, newUnsigned(t))
	}
	for batch := range slices.Chunk(all, 1000) {
		_, err := r.Submit(t.Context(), batch...)
		must(t, err)
	}
	for i, batch := range slices.Collect(slices.Chunk(all, 4000)) {
		answer, err := r.Submit(t.Context(), append([]*entry.Entry{newUnsigned(t)}, batch[:len(batch)-1]...)...)
		must(t, err)
		for j, registered := range answer.Registered[1:] {
			if want := uint64(4000*i + j); registered.Index != want || !registered.Duplicate {
				t.Fatalf("entry %d is %+v", want, registered)
			}
		}
	}
	if size := r.Head().Size; size != 20_005 {
		t.Fatalf("size %d", size)
	}
}

// TestALateDuplicateIsFound holds a submission between its look-up and the order,
// until the same entry is registered and forgotten by the order's memory.
func TestALateDuplicateIsFound(t *testing.T) {
	e := newEntry(t)
	var once sync.Once
	looked, release := make(chan struct{}), make(chan struct{})
	cfg := config(t, vfs.NewMem())
	cfg.Precheck = func(checked *entry.Entry) error {
		if checked == e {
			once.Do(func() {
				close(looked)
				<-release
			})
		}
		return nil
	}
	r := start(t, "log", cfg)
	late := make(chan *ledger.Answer)
	go func() {
		answer, err := r.Submit(context.Background(), e)
		must(t, err)
		late <- answer
	}()
	<-looked
	same := *e
	answer, err := r.Submit(t.Context(), &same)
	must(t, err)
	if answer.Registered[0].Duplicate {
		t.Fatalf("%+v", answer.Registered)
	}
	r.bulk(20_000)
	close(release)
	if got := (<-late).Registered[0]; got.Index != answer.Registered[0].Index || !got.Duplicate {
		t.Fatalf("%+v, want a duplicate of %+v", got, answer.Registered[0])
	}
}

// TestConcurrentDuplicatesAreRegisteredOnce lets many submit the same entries at
// the same time.
func TestConcurrentDuplicatesAreRegisteredOnce(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	var entries []*entry.Entry
	for range 50 {
		entries = append(entries, newEntry(t))
	}
	var mu sync.Mutex
	indexes := map[*entry.Entry]map[uint64]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, e := range entries {
				answer, err := r.Submit(t.Context(), copies([]*entry.Entry{e})...)
				must(t, err)
				mu.Lock()
				if indexes[e] == nil {
					indexes[e] = map[uint64]bool{}
				}
				indexes[e][answer.Registered[0].Index] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, found := range indexes {
		if len(found) != 1 {
			t.Fatalf("one entry at %v", found)
		}
	}
	if size := r.Head().Size; size != 50 {
		t.Fatalf("size %d", size)
	}
}

func TestABatchPastTheLimitIsRefused(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	r.bulk(ledger.MaxBatch)
	batch := make([]*entry.Entry, ledger.MaxBatch+1)
	_, err := r.Submit(t.Context(), batch...)
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.TooLarge {
		t.Fatal(err)
	}
	if answer, err := r.Submit(t.Context()); err != nil || len(answer.Registered) != 0 {
		t.Fatalf("empty submission: %+v, %v", answer, err)
	}
}

// submitUntilStopped has many submit until the log says that it has stopped, and returns
// once it has 200 entries. What it returns waits for them, and returns what was answered.
func submitUntilStopped(t *testing.T, log *ledger.Log) (answered func() []*entry.Entry) {
	t.Helper()
	const submitters = 32
	by := make([][]*entry.Entry, submitters)
	var group sync.WaitGroup
	for i := range submitters {
		group.Go(func() {
			for {
				e := newEntry(t)
				_, err := log.Submit(context.Background(), e)
				if errors.Is(err, ledger.ErrStopped) {
					return
				}
				must(t, err)
				by[i] = append(by[i], e)
			}
		})
	}
	must(t, log.Wait(t.Context(), 200))
	return func() []*entry.Entry {
		group.Wait()
		return slices.Concat(by...)
	}
}

// allThere submits entries again, and wants the log to have them.
func (r *running) allThere(all []*entry.Entry) {
	r.t.Helper()
	for _, e := range all {
		answer, err := r.Submit(context.Background(), e)
		must(r.t, err)
		if !answer.Registered[0].Duplicate {
			r.t.Fatal("an answered entry is not there")
		}
	}
}

// TestStopAnswersWhatWasAccepted stops a log while many submit. Everybody gets an
// answer: a receipt for what is in the log, ErrStopped for what is not.
func TestStopAnswersWhatWasAccepted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	disk := vfs.NewMem()
	r := start(t, "log", config(t, disk))
	answered := submitUntilStopped(t, r.Log)
	r.end()
	all := answered()
	if err := r.Ready(); !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("ready after the end: %v", err)
	}
	r.stop()
	r = start(t, "log", config(t, disk))
	if size := r.Head().Size; size != uint64(len(all)) {
		t.Errorf("%d entries, %d were answered", size, len(all))
	}
	r.allThere(all)
	r.stop()
	if _, err := r.Submit(t.Context(), newEntry(t)); !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// TestAHangingCommitEndsTheProcess holds the disk at a sync.
func TestAHangingCommitEndsTheProcess(t *testing.T) {
	hold, held := make(chan struct{}), false
	var mu sync.Mutex
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		wait := held && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
		mu.Unlock()
		if wait {
			<-hold
		}
		return nil
	}))
	cfg := config(t, fs)
	cfg.CommitTimeout = 1 // it hangs from the beginning
	dead := make(chan error, 1)
	cfg.Fatal = func(err error) {
		select {
		case dead <- err:
		default:
		}
	}
	log, err := ledger.Open("log", cfg)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	mu.Lock()
	held = true
	mu.Unlock()
	submitted := make(chan error, 1)
	go func() {
		_, err := log.Submit(ctx, newEntry(t))
		submitted <- err
	}()
	t.Log(<-dead)
	mu.Lock()
	held = false
	mu.Unlock()
	close(hold)
	must(t, <-submitted)
	cancel()
	must(t, <-done)
	must(t, log.Close())
}

// An error of the fold that is no refusal is the end, not an answer.
func TestTheProcessEndsOnAnErrorOfTheFold(t *testing.T) {
	cfg := config(t, vfs.NewMem())
	cfg.NewFold = func() ledger.Fold { return new(failing) }
	if err := killedBy(t, cfg, func(*ledger.Log) {}); !errors.Is(err, errFold) {
		t.Fatal(err)
	}
}

// A tree that changed in memory is not signed.
func TestTheProcessEndsOnAChangedTree(t *testing.T) {
	disk := logOf(t, 3)
	if err := killedBy(t, config(t, disk), ledger.ForgetTree); !errors.Is(err, ledger.ErrCorrupt) {
		t.Fatal(err)
	}
	fsck(t, "log", config(t, snapshotOf(disk)))
}

// killedBy returns what ends the process when an entry is submitted.
func killedBy(t *testing.T, cfg *ledger.Config, before func(*ledger.Log)) error {
	t.Helper()
	dead := make(chan error, 1)
	cfg.Fatal = func(err error) {
		dead <- err
		select {}
	}
	log, err := ledger.Open("log", cfg)
	must(t, err)
	before(log)
	go func() { _ = log.Run(context.Background()) }()
	go func() {
		if answer, err := log.Submit(context.Background(), newEntry(t)); err == nil {
			dead <- fmt.Errorf("acknowledged: %+v", answer)
		}
	}()
	return <-dead
}

var errFold = errors.New("the state is broken")

// failing is a fold that cannot admit.
type failing struct{ tally }

func (f *failing) Admit(*entry.Entry, uint64, int64) error {
	return fmt.Errorf("admit: %w", errFold)
}

// conflicting returns another entry of the same issuer and jti.
func conflicting(tb testing.TB, e *entry.Entry) *entry.Entry {
	tb.Helper()
	body := *e.Body.(*entry.Execution)
	body.Exec += "-other"
	other, err := entry.New(&body)
	must(tb, err)
	other.Seal(e.KeyID, e.Sig)
	return other
}

// watched is a tally that tells what comes to it.
type watched struct {
	*tally
	admits func(*entry.Entry)
}

func (w *watched) Admit(e *entry.Entry, index uint64, at int64) error {
	w.admits(e)
	return w.tally.Admit(e, index, at)
}

// TestAFloodThatIsRefusedWaits holds a commit while a key floods the log with
// what its quota does not allow: few of them are on their way into the order, and
// entries under other keys pass.
func TestAFloodThatIsRefusedWaits(t *testing.T) {
	disk := newGatedDisk(vfs.NewMem())
	defer disk.open()
	var inside, most, others atomic.Int64
	change := func(e *entry.Entry, by int64) {
		x := e.Body.(*entry.Execution)
		if x.Exec != "limit-me" {
			others.Add(1)
		} else if n := inside.Add(by); n > most.Load() {
			most.Store(n)
		}
	}
	cfg := config(t, disk)
	cfg.Precheck = func(e *entry.Entry) error { e.SignatureChecked = true; change(e, 1); return nil }
	cfg.NewFold = func() ledger.Fold { return &watched{tally: new(tally), admits: func(e *entry.Entry) { change(e, -1) }} }
	r := start(t, "log", cfg)
	flood := func() {
		answer, err := r.Submit(context.Background(), newExec(t, "limit-me"))
		must(t, err)
		if answer.Refused == nil || answer.Refused.Problem != entry.RateLimited {
			t.Errorf("answer %+v", answer)
		}
	}
	flood()
	disk.close()
	var group sync.WaitGroup
	good := func() {
		_, err := r.Submit(context.Background(), newUnsigned(t))
		must(t, err)
	}
	until := func(n *atomic.Int64, least int64) {
		for n.Load() < least {
			runtime.Gosched()
		}
	}
	group.Go(good)
	until(&others, 2) // it is in a commit, which goes no further
	for range 10 * fair.LaneWidth {
		group.Go(flood)
	}
	until(&inside, fair.LaneWidth)
	group.Go(good)
	until(&others, 3)
	disk.open()
	group.Wait()
	if most.Load() != fair.LaneWidth || inside.Load() != 0 {
		t.Errorf("%d at a time were on their way, %d still are; want at most %d", most.Load(), inside.Load(), fair.LaneWidth)
	}
}
