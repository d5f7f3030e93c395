package ledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// roll is a fold that remembers every entry's id: its snapshots take several
// chunks.
type roll struct {
	ids []string
}

func (f *roll) Admit(*entry.Entry, uint64, int64) error { return nil }

func (f *roll) Apply(e *entry.Entry, _ uint64, _ int64) { f.ids = append(f.ids, e.Header.JTI) }

func (f *roll) Snapshot(w io.Writer) error {
	for _, id := range f.ids {
		if _, err := io.WriteString(w, id); err != nil {
			return err
		}
	}
	return nil
}

func (f *roll) Restore(r io.Reader) error {
	var ids []string
	id := make([]byte, 36)
	for {
		if _, err := io.ReadFull(r, id); err == io.EOF {
			f.ids = ids
			return nil
		} else if err != nil {
			return err
		}
		ids = append(ids, string(id))
	}
}

func rollConfig(t *testing.T, disk vfs.FS) *ledger.Config {
	t.Helper()
	cfg := newClocks().on(config(t, disk)) // registered_at stands still
	cfg.NewFold = func() ledger.Fold { return new(roll) }
	cfg.SnapshotEvery = 1000
	return cfg
}

// snapshotsIn returns the chunks of the fold snapshots in a store.
func snapshotsIn(t *testing.T, disk *vfs.MemFS) map[string]string {
	t.Helper()
	all := dump(t, disk)
	maps.DeleteFunc(all, func(key, _ string) bool { return key[0] != 's' })
	return all
}

// The bytes of a snapshot follow from the log and the size alone: batches,
// restarts and what was restored make no difference.
func TestSnapshotsDependOnTheLogAlone(t *testing.T) {
	budget.Unraced(t, "TestSnapshotsAreWrittenWhileTheLogGrows has the goroutines")
	var entries []*entry.Entry
	for range 5000 {
		entries = append(entries, newUnsigned(t))
	}
	var want map[string]string
	shapes := []struct {
		batch, restart int
		forget         bool
	}{{4000, 1 << 20, false}, {500, 3, true}, {237, 2, false}, {1000, 1 << 20, false}}
	for _, shape := range shapes[:budget.Budget{Short: 2, Usual: len(shapes)}.Now()] {
		disk := vfs.NewCrashableMem()
		cfg := rollConfig(t, disk)
		r := start(t, "log", cfg)
		for i, batch := range slices.Collect(slices.Chunk(entries, shape.batch)) {
			_, err := r.Submit(t.Context(), batch...)
			must(t, err)
			if i%shape.restart == shape.restart-1 {
				r.stop()
				if shape.forget {
					forgetSnapshots(t, disk)
				}
				r = start(t, "log", cfg)
			}
		}
		r.stop() // writes a snapshot of all 5000, unless there is one
		got := snapshotsIn(t, disk)
		if want == nil {
			want = got
		}
		if len(got) < 4 || !maps.Equal(got, want) {
			t.Fatalf("shape %+v: %d chunks, or other bytes than %d", shape, len(got), len(want))
		}
	}
}

// forgetSnapshots takes the snapshots away: the next start builds the fold from
// the first entry on.
func forgetSnapshots(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	must(t, db.DeleteRange([]byte("s"), []byte("t"), pebble.Sync))
	must(t, db.Close())
}

// A fold that was restored from a snapshot and one that was built from the first
// entry on write the same next snapshot.
func TestRestoredAndRebuiltFoldsAreEqual(t *testing.T) {
	budget.Unraced(t, "TestSnapshotsAreWrittenWhileTheLogGrows has the goroutines")
	disk := vfs.NewCrashableMem()
	cfg := rollConfig(t, disk)
	r := start(t, "log", cfg)
	r.bulk(3300)
	r.stop()
	restored, rebuilt := snapshotOf(disk), snapshotOf(disk)
	forgetSnapshots(t, rebuilt)
	more := make([]*entry.Entry, 2000)
	for i := range more {
		more[i] = newUnsigned(t)
	}
	var told []uint64
	for _, disk := range []*vfs.MemFS{restored, rebuilt} {
		cfg, size := rollConfig(t, disk), uint64(0)
		cfg.Rebuild = func(done, total uint64) error { told, size = append(told, done), total; return nil }
		r := start(t, "log", cfg)
		if disk == rebuilt && (size != r.Head().Size || uint64(len(told)) != size || !slices.IsSorted(told) || told[size-1] != size) {
			t.Errorf("told of %d entries of %d, up to %d", len(told), size, told[len(told)-1])
		}
		told = told[:0]
		_, err := r.Submit(t.Context(), more...)
		must(t, err)
		r.stop()
	}
	one, other := snapshotsIn(t, restored), snapshotsIn(t, rebuilt)
	if len(one) == 0 || !maps.Equal(one, other) {
		t.Fatalf("%d chunks and %d, or other bytes", len(one), len(other))
	}
}

// Snapshots are written while entries come in: after a crash, a start replays
// the tail alone.
func TestSnapshotsAreWrittenWhileTheLogGrows(t *testing.T) {
	disk := vfs.NewCrashableMem()
	cfg := rollConfig(t, disk)
	cfg.SnapshotEvery = 100
	r := start(t, "log", cfg)
	newest := uint64(0)
	for range 300 { // the snapshots come behind the entries
		r.add(5)
		newest = newestSnapshot(t, r.crashed(disk))
		if newest > 0 && r.Head().Size > 300 {
			break
		}
	}
	if newest == 0 || newest > r.Head().Size {
		t.Fatalf("newest snapshot at %d, size is %d", newest, r.Head().Size)
	}
	applied := 0
	crashed := config(t, r.crashed(disk))
	crashed.NewFold = func() ledger.Fold { return &countingFold{applied: &applied} }
	log, err := ledger.Open("log", crashed)
	must(t, err)
	size := log.Head().Size
	must(t, log.Close())
	if want := int(size - newestSnapshot(t, crashed.FS.(*vfs.MemFS))); applied != want {
		t.Errorf("%d entries were replayed, want %d of %d", applied, want, size)
	}
}

// countingFold counts what is applied to it.
type countingFold struct {
	roll
	applied *int
}

func (f *countingFold) Apply(e *entry.Entry, index uint64, at int64) {
	*f.applied++
	f.roll.Apply(e, index, at)
}

// crashed returns the disk as it would be after a crash now.
func (r *running) crashed(disk *vfs.MemFS) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{})
}

// newestSnapshot returns the size of the newest complete snapshot in a store.
func newestSnapshot(t *testing.T, disk *vfs.MemFS) (size uint64) {
	t.Helper()
	for key, value := range snapshotsIn(t, snapshotOf(disk)) {
		if _, last := ledger.ChunkData([]byte(key), []byte(value)); last {
			size = max(size, binary.BigEndian.Uint64([]byte(key)[1:]))
		}
	}
	return size
}

// picky is a fold of a later version: it does not know the snapshots of today.
type picky struct{ tally }

func (*picky) Restore(io.Reader) error { return errors.New("a snapshot of another version") }

// A snapshot that the fold does not know is no reason not to start: the state is
// built again from the log, and entries are taken.
func TestASnapshotOfAnotherVersionIsRebuilt(t *testing.T) {
	disk := vfs.NewMem()
	cfg := config(t, disk)
	cfg.SnapshotEvery = 16
	r := start(t, "log", cfg)
	r.add(50)
	r.stop()
	admitting, made := new(picky), atomic.Int32{}
	cfg.NewFold = func() ledger.Fold {
		if made.Add(1) == 1 {
			return admitting
		}
		return new(picky)
	}
	r = start(t, "log", cfg)
	if admitting.size != 50 {
		t.Fatalf("the fold has %d entries, want 50", admitting.size)
	}
	r.add(10)
	r.checkAll()
}

// TestRebuildEndsWhenAsked opens a log without a snapshot, and asks for the end on the way: Open
// returns what asked, and the next Open builds the state.
func TestRebuildEndsWhenAsked(t *testing.T) {
	budget.Unraced(t, "one goroutine builds a fold")
	disk := logOf(t, 3000)
	forgetSnapshots(t, disk)
	cfg, asked, told := config(t, disk), errors.New("asked to end"), uint64(0)
	cfg.Rebuild = func(done, total uint64) error {
		if told = done; done >= 100 && total == 3000 {
			return asked
		}
		return nil
	}
	if _, err := ledger.Open("log", cfg); !errors.Is(err, asked) || told >= 3000 {
		t.Fatalf("%v after %d entries", err, told)
	}
	cfg.Rebuild = func(done, _ uint64) error { told = done; return nil }
	r := start(t, "log", cfg)
	if told != 3000 {
		t.Errorf("built from %d entries", told)
	}
	r.checkAll()
}

// strict is a fold that cannot take up the fourth entry.
type strict struct{ tally }

func (f *strict) Apply(e *entry.Entry, index uint64, at int64) {
	if index == 3 {
		panic("a reference to nothing")
	}
	f.tally.Apply(e, index, at)
}

// A log that breaks the rules of its fold is refused, with the entry.
func TestALogThatNoStateFollowsFromIsRefused(t *testing.T) {
	disk := logOf(t, 5)
	forgetSnapshots(t, disk)
	cfg := config(t, disk)
	cfg.NewFold = func() ledger.Fold { return new(strict) }
	if _, err := ledger.Open("log", cfg); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "entry 3") {
		t.Fatal(err)
	}
}

// later is a fold of a later version, which has another form of snapshot.
type later struct{ roll }

func (f *later) Snapshot(w io.Writer) error {
	if _, err := io.WriteString(w, "later"); err != nil {
		return err
	}
	return f.roll.Snapshot(w)
}

func (f *later) Restore(r io.Reader) error {
	form := make([]byte, len("later"))
	if _, err := io.ReadFull(r, form); err != nil || string(form) != "later" {
		return errors.New("a snapshot of another version")
	}
	return f.roll.Restore(r)
}

// TestASnapshotOfAnotherVersionIsReplacedWhole crashes before every commit by
// which the snapshot of another version gives way to one of the same size.
func TestASnapshotOfAnotherVersionIsReplacedWhole(t *testing.T) {
	budget.Unraced(t, "TestSnapshotsAreWrittenWhileTheLogGrows has the same goroutines")
	disk := vfs.NewCrashableMem()
	r := start(t, "log", rollConfig(t, disk))
	r.bulk(6000)
	r.stop()

	cfg := rollConfig(t, disk)
	cfg.NewFold = func() ledger.Fold { return new(later) }
	var mu sync.Mutex
	var crashes []*vfs.MemFS
	before, uptime := r, cfg.Uptime
	cfg.Uptime = func() time.Duration { // asked at every commit; the first may come as soon as the log runs
		mu.Lock()
		defer mu.Unlock()
		crashes = append(crashes, before.crashed(disk))
		return uptime()
	}
	start(t, "log", cfg).stop()
	if len(crashes) < 4 {
		t.Fatalf("%d commits", len(crashes))
	}
	for _, crash := range append(crashes, disk) {
		cfg := rollConfig(t, crash)
		cfg.NewFold = func() ledger.Fold { return new(later) }
		start(t, "log", cfg).stop()
	}
}

// brimful is a disk without room while full is set.
type brimful struct {
	vfs.FS
	full *atomic.Bool
}

func (d brimful) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

// careless is a frozen fold that makes little of errors. The disk is full while
// it writes all but its first chunk and what comes behind its second.
type careless struct {
	roll
	full *atomic.Bool
	tell func(error) error // makes of an error what Snapshot returns
	over chan struct{}
}

func (f *careless) Snapshot(w io.Writer) (err error) {
	defer close(f.over)
	for i, id := range f.ids {
		f.full.Store(i >= 2000 && i < 4000)
		if _, failed := io.WriteString(w, id); failed != nil {
			err = f.tell(failed)
		}
	}
	return err
}

// TestASnapshotWithAGapIsNone has no room for the second chunk of a snapshot: it
// does not count, whatever the fold says of it, and the ledger goes on.
func TestASnapshotWithAGapIsNone(t *testing.T) {
	budget.Unraced(t, "TestSnapshotsAreWrittenWhileTheLogGrows has the same goroutines")
	for name, tell := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"hidden":   func(err error) error { return errors.New("hidden: " + err.Error()) },
		"ignored":  func(error) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			disk, full := vfs.NewMem(), new(atomic.Bool)
			cfg := rollConfig(t, brimful{disk, full})
			cfg.SnapshotEvery = 6000
			admitting := new(roll)
			newFold := sync.OnceValue(func() ledger.Fold { return admitting })
			cfg.NewFold = func() ledger.Fold { return newFold() }
			var committed atomic.Pointer[[]string]
			cfg.Committed = func(head verify.SignedHead) {
				ids := admitting.ids[:head.Size:head.Size]
				committed.Store(&ids)
			}
			over := make(chan struct{})
			cfg.Frozen = func() (ledger.Fold, uint64) {
				ids := *committed.Load()
				return &careless{roll{ids}, full, tell, over}, uint64(len(ids))
			}
			log, err := ledger.Open("log", cfg)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- log.Run(ctx) }()
			submit := func(count int) {
				entries := make([]*entry.Entry, count)
				for i := range entries {
					entries[i] = newUnsigned(t)
				}
				_, err := log.Submit(ctx, entries...)
				must(t, err)
			}
			submit(3000)
			submit(3000)
			<-over
			submit(10)
			cancel()
			must(t, <-done)
			must(t, log.Close())
			start(t, "log", rollConfig(t, disk)).stop()
		})
	}
}
