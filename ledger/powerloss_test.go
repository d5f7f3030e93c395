package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/sync/errgroup"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// TestPowerLossChaosEveryOperation runs a log on a disk that remembers what is
// synced and takes the power away before every operation that changes the disk,
// with nothing, half and all of the unsynced data kept. The disk as it was then
// is opened again, in parallel, and must hold up: see [outage.check]. One run
// makes some 1,500 states: first start, batches, tiles, snapshots, anchors,
// restarts with flush and compaction; runs differ in their seeds.
// Draft: LOG-3.
func TestPowerLossChaosEveryOperation(t *testing.T) {
	budget.Unraced(t, "one submission after the other; TestRandomLives has the goroutines of a log")
	want := int64(budget.Budget{Short: 300, Usual: 700, Chaos: 200_000}.Now())
	seed := budget.Seed(t)
	states := int64(0)
	for ; states < want; seed++ {
		states += enumerateOutages(t, seed, newPlan(t, seed), &quietStart{})
	}
	t.Logf("%d states", states)
}

// TestPowerLossChaosAtTheSecondLevel does the same where the 16th tile is completed,
// and with ARL_CHAOS where the 256th is. Each state is a large log: without ARL_CHAOS
// there are few.
func TestPowerLossChaosAtTheSecondLevel(t *testing.T) {
	budget.Unraced(t, "one submission after the other; TestRandomLives has the goroutines of a log")
	states := int64(budget.Budget{Short: 1, Usual: 6, Chaos: 150}.Now())
	full := budget.Budget{Short: 4_096, Usual: 4_096, Chaos: 65_536}.Now()
	var plan [][]*entry.Entry
	for size := 0; size < full-1; size += len(plan[len(plan)-1]) {
		batch := make([]*entry.Entry, min(4096, full-1-size))
		for i := range batch {
			batch[i] = newUnsigned(t)
		}
		plan = append(plan, batch)
	}
	quiet := len(plan)
	for range 12 {
		plan = append(plan, []*entry.Entry{newEntry(t), newEntry(t)})
	}
	if got := enumerateOutages(t, 1, plan, &quietStart{quiet, states}); got < states {
		t.Errorf("%d states, want %d", got, states)
	}
}

// outage is the disk at the moment when the power goes.
type outage struct {
	seed    uint64
	number  int64
	op      errorfs.Op
	percent int // of the unsynced data that is kept
	disk    *vfs.MemFS

	acknowledged int         // submissions of the plan
	served       merkle.Head // what readers saw
	receipts     []*verify.Receipt
}

// powerless runs a plan on a disk and hands out its outages.
type powerless struct {
	t       *testing.T
	seed    uint64
	plan    [][]*entry.Entry
	outages chan outage
	log     atomic.Pointer[ledger.Log]
	enough  int64 // states; 0: never

	// mu guards what follows; while it is held, nothing is acknowledged.
	mu           sync.Mutex
	rng          *rand.Rand
	acknowledged int
	receipts     []*verify.Receipt
	states       atomic.Int64
}

// quietStart has no outages during the first submissions of a plan and the start
// behind them. The log is large then, and a compaction has no end of operations:
// enough bounds the states.
type quietStart struct {
	submissions int
	enough      int64
}

// enumerateOutages runs one plan and checks all its outages.
func enumerateOutages(t *testing.T, seed uint64, plan [][]*entry.Entry, quiet *quietStart) int64 {
	t.Helper()
	rng := newRNG(seed)
	p := &powerless{t: t, seed: seed, rng: rng, plan: plan, outages: make(chan outage, 8), enough: quiet.enough}
	disk := vfs.NewCrashableMem()
	if quiet.submissions > 0 {
		p.submit(start(t, "log", powerlessConfig(t, disk)), plan[:quiet.submissions], len(plan))
		p.log.Store(nil)
	}
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for o := range p.outages {
				if err := o.check(t, p.plan); err != nil {
					for range p.outages { // let the plan end
					}
					return fmt.Errorf("seed %d, state %d, before op %d on %s with %d %% kept: %w", o.seed, o.number, o.op.Kind, o.op.Path, o.percent, err)
				}
			}
			return nil
		})
	}
	r := start(t, "log", powerlessConfig(t, p.watch(disk)))
	p.submit(r, plan[quiet.submissions:], 5+rng.IntN(10))
	close(p.outages)
	must(t, group.Wait())
	return p.states.Load()
}

// newPlan makes many small submissions; in every third plan, a large one brings
// them across the border of a tile.
func newPlan(t *testing.T, seed uint64) [][]*entry.Entry {
	t.Helper()
	rng := newRNG(seed)
	sizes := []int{1}
	if seed%3 == 0 {
		sizes = append(sizes, 240+rng.IntN(15))
	}
	for range 25 - 5*len(sizes) {
		sizes = append(sizes, 1+rng.IntN(3))
	}
	plan := make([][]*entry.Entry, len(sizes))
	for i, size := range sizes {
		for range size {
			plan[i] = append(plan[i], newEntry(t))
		}
	}
	return plan
}

// watch returns the disk with an outage before every change of it.
func (p *powerless) watch(disk *vfs.MemFS) vfs.FS {
	every := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			p.outage(disk, op)
		}
		return nil
	})
	return everyFile{errorfs.Wrap(disk, every), every}
}

// submit submits a part of the plan, with restarts in between, and stops.
func (p *powerless) submit(r *running, plan [][]*entry.Entry, restartEvery int) {
	p.log.Store(r.Log)
	for i, entries := range plan {
		if i%restartEvery == restartEvery-1 {
			r.stop()
			r = r.again()
			p.log.Store(r.Log)
		}
		answer, err := r.Submit(context.Background(), copies(entries)...)
		must(p.t, err)
		receipt, err := answer.Receipt(answer.Registered[0].Index)
		must(p.t, err)
		p.mu.Lock()
		p.acknowledged++
		p.receipts = append(p.receipts, receipt)
		p.mu.Unlock()
	}
	r.stop()
}

func powerlessConfig(tb testing.TB, fs vfs.FS) *ledger.Config {
	tb.Helper()
	cfg := config(tb, fs)
	cfg.SnapshotEvery = 16
	cfg.CommitTimeout = time.Hour // commits wait while states are checked
	_, err := fs.Stat(usedMark)
	cfg.Used = err == nil
	cfg.Begun = func() error { return markUsed(fs) }
	return cfg
}

// usedMark says on the disk of a log what arl says beside the keys.
const usedMark = "log.used"

func markUsed(fs vfs.FS) error {
	file, err := fs.Create(usedMark, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	dir, err := fs.OpenDir("")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// everyFile also sees what is done to a write-ahead log that is used again,
// which errorfs does not.
type everyFile struct {
	vfs.FS
	inject errorfs.Injector
}

func (fs everyFile) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, fs.inject), nil
}

// outage hands out the disk as it is before op.
func (p *powerless) outage(disk *vfs.MemFS, op errorfs.Op) {
	if p.enough > 0 && (p.log.Load() == nil || p.states.Load() >= p.enough) {
		return
	}
	for _, percent := range []int{0, 50, 100} {
		p.mu.Lock()
		o := outage{seed: p.seed, number: p.states.Add(1), op: op, percent: percent, acknowledged: p.acknowledged, receipts: slices.Clip(p.receipts)}
		if log := p.log.Load(); log != nil {
			o.served = log.Head().Head
		}
		o.disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: p.rng})
		p.mu.Unlock()
		p.outages <- o
	}
}

// check opens the log after the outage. What was acknowledged is there, what was
// not is there as a whole or not at all; head and tree are those of a reference,
// and continue the head that readers saw; receipts from before hold; what was in
// flight can be submitted again, and is registered once; fsck finds nothing.
func (o outage) check(t *testing.T, plan [][]*entry.Entry) error {
	t.Helper()
	cfg := powerlessConfig(t, o.disk)
	if !cfg.Used && (o.acknowledged > 0 || o.served.Size > 0) {
		return errors.New("a tree head left, but its keys count as unused")
	}
	log, err := ledger.Open("log", following(cfg)) // used keys with an empty log would be ErrLost
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	err = o.checkLog(log, plan)
	cancel()
	if err != nil {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	_, err = ledger.Check(context.Background(), "log", cfg, nil)
	return err
}

func (o outage) checkLog(log *ledger.Log, plan [][]*entry.Entry) error {
	entries := slices.Concat(plan...)
	head := log.Head()
	registered, size := 0, uint64(0) // submissions that are in the log
	for ; registered < len(plan) && size < head.Size; registered++ {
		size += uint64(len(plan[registered]))
	}
	if size != head.Size || registered < o.acknowledged || registered > o.acknowledged+1 {
		return fmt.Errorf("size %d: %d submissions with %d entries, acknowledged were %d", head.Size, registered, size, o.acknowledged)
	}
	var leaves []merkle.Hash
	var leaf []byte
	for e, err := range log.Entries(context.Background(), 0, head.Size) {
		if err != nil {
			return err
		}
		if string(e.PAE()) != string(entries[e.Index].PAE()) {
			return fmt.Errorf("entry %d is another one", e.Index)
		}
		leaf = e.AppendLeaf(leaf[:0])
		leaves = append(leaves, merkle.HashLeaf(leaf))
	}
	if root := referenceRoot(leaves); root != head.Root || uint64(len(leaves)) != head.Size {
		return fmt.Errorf("root %s over %d entries, signed is %s", root, len(leaves), head.Root)
	}
	if size := o.served.Size; size > head.Size || size > 0 && referenceRoot(leaves[:size]) != o.served.Root {
		return fmt.Errorf("head %v was served, now it is %v", o.served, head)
	}
	for i := len(o.receipts) - 1; i >= 0; i /= 2 { // some old, some new
		if err := checkReceipt(log, o.receipts[i], leaves); err != nil {
			return err
		}
		if i == 0 {
			break
		}
	}
	return resubmit(log, plan[registered:min(registered+1, len(plan))], head.Size)
}

// checkReceipt checks a receipt from before against the log of now.
func checkReceipt(log *ledger.Log, receipt *verify.Receipt, leaves []merkle.Hash) error {
	older, err := parseNote(receipt.Head)
	if err != nil {
		return err
	}
	leaf := merkle.HashLeaf(receipt.Leaf)
	if leaf != leaves[receipt.Index] {
		return fmt.Errorf("entry %d has another leaf than in its receipt", receipt.Index)
	}
	if err := merkle.CheckInclusion(receipt.Index, leaf, older, receipt.Proof); err != nil {
		return err
	}
	path, err := log.Consistency(older.Size, log.Head().Size)
	if err != nil {
		return err
	}
	return merkle.CheckConsistency(older, log.Head().Head, path)
}

// copies returns entries that several logs may be given at the same time: an
// entry remembers the hash of its leaf.
func copies(entries []*entry.Entry) (all []*entry.Entry) {
	for _, e := range entries {
		one := *e
		all = append(all, &one)
	}
	return all
}

// resubmit submits what was in flight, twice: it is registered once.
func resubmit(log *ledger.Log, inFlight [][]*entry.Entry, size uint64) error {
	for again := range 2 {
		for _, entries := range inFlight {
			answer, err := log.Submit(context.Background(), copies(entries)...)
			if err != nil {
				return err
			}
			if len(answer.Registered) != len(entries) || answer.Refused != nil {
				return fmt.Errorf("resubmission: %+v", answer)
			}
			for i, r := range answer.Registered {
				if r.Index != size+uint64(i) || r.Duplicate != (again == 1) {
					return fmt.Errorf("resubmission %d at size %d: entry %d is %+v", again, size, i, r)
				}
			}
		}
	}
	return nil
}
