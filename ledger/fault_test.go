package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// faulty is a disk on which one write or sync fails: it is not done, or it is
// done and says that it failed.
type faulty struct {
	mem *vfs.MemFS

	// persist says that the failing operation is done all the same.
	persist bool

	mu     sync.Mutex
	left   int    // operations until the one that fails
	failed string // what failed; empty before
}

// fault counts a write or sync.
func (f *faulty) fault(op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	if f.left == 0 {
		f.failed = op
	}
	return f.left == 0
}

func (f *faulty) what() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// faultyFS gives out files that fail.
type faultyFS struct {
	vfs.FS
	*faulty
}

func (fs faultyFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.wrap(name)(fs.FS.Create(name, category))
}

func (fs faultyFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.wrap(newname)(fs.FS.ReuseForWrite(oldname, newname, category))
}

func (fs faultyFS) OpenDir(name string) (vfs.File, error) {
	return fs.wrap(name)(fs.FS.OpenDir(name))
}

func (fs faultyFS) Unwrap() vfs.FS { return fs.FS }

func (fs faultyFS) wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return &faultyFile{file, name, fs.faulty}, nil
	}
}

type faultyFile struct {
	vfs.File
	name   string
	faulty *faulty
}

func (f *faultyFile) Write(p []byte) (n int, err error) {
	return n, f.do("write", func() error { n, err = f.File.Write(p); return err })
}

func (f *faultyFile) WriteAt(p []byte, at int64) (n int, err error) {
	return n, f.do("write", func() error { n, err = f.File.WriteAt(p, at); return err })
}

func (f *faultyFile) Sync() error     { return f.do("sync", f.File.Sync) }
func (f *faultyFile) SyncData() error { return f.do("sync", f.File.SyncData) }

func (f *faultyFile) do(what string, op func() error) error {
	fails := f.faulty.fault(what + " " + f.name)
	if fails && !f.faulty.persist {
		return errorfs.ErrInjected
	}
	err := op()
	if fails && err == nil {
		return errorfs.ErrInjected
	}
	return err
}

// TestEveryFailedWriteOrSyncStops lets the n-th write or sync fail, for every n
// of a log's life, before and after it is done. Either the log does not open, or
// it ends the process, or the storage engine gets over it; whatever it is, the
// log opens again without what failed, and holds all that was acknowledged. Once
// the write-ahead log has failed, nothing is acknowledged. In short it is every 15th n.
func TestEveryFailedWriteOrSyncStops(t *testing.T) {
	plan, every := newSmallPlan(t), budget.Budget{Short: 15, Usual: 1}.Now()
	for _, persist := range []bool{false, true} {
		outcomes := map[string]int{}
		for n := 1; ; n += every {
			disk := &faulty{mem: vfs.NewCrashableMem(), persist: persist, left: n}
			life := live(t, disk, plan)
			if disk.what() == "" {
				if life.end != ended {
					t.Fatalf("without any error: %s", life.end)
				}
				break
			}
			outcomes[life.end]++
			if life.late != "" {
				t.Fatalf("n=%d persist=%v: %s after %s had failed", n, persist, life.late, disk.what())
			}
			for i, left := range life.left {
				o := outage{disk: left, acknowledged: life.acknowledged}
				if err := o.check(t, plan); err != nil {
					t.Fatalf("n=%d persist=%v kept=%d: %s failed, %s; then: %v", n, persist, i, disk.what(), life.end, err)
				}
			}
		}
		t.Logf("persist=%v: %v", persist, outcomes)
		if outcomes[killed] == 0 {
			t.Fatal("no error ended the process")
		}
	}
}

func newSmallPlan(t *testing.T) [][]*entry.Entry {
	t.Helper()
	plan := make([][]*entry.Entry, 12)
	for i := range plan {
		for range 1 + i%3 {
			plan[i] = append(plan[i], newEntry(t))
		}
	}
	return plan
}

// The ways a life can end.
const (
	ended   = "came to its end"
	killed  = "Fatal was called"
	refused = "an error was returned"
	paniced = "the storage engine panicked"
)

// life is a log on a faulty disk, and what became of it.
type life struct {
	disk *faulty
	over chan struct{}

	// mu guards what follows; while it is held, nothing is acknowledged.
	mu           sync.Mutex
	end          string
	acknowledged int
	late         string        // acknowledged after the write-ahead log had failed
	left         [2]*vfs.MemFS // of the disk, with nothing and all of the unsynced data kept
}

// live submits the plan to a log on the disk, with a restart in the middle.
func live(t *testing.T, disk *faulty, plan [][]*entry.Entry) *life {
	t.Helper()
	l := &life{disk: disk, over: make(chan struct{})}
	cfg := powerlessConfig(t, faultyFS{disk.mem, disk})
	cfg.SnapshotEvery = 4
	cfg.Fatal = func(error) {
		l.ends(killed)
		select {} // as good as an exit: nothing of its caller runs any more
	}
	go func() {
		defer func() {
			if recover() != nil {
				l.ends(paniced)
			}
		}()
		for _, part := range [][][]*entry.Entry{plan[:6], plan[6:]} {
			if err := submitAll(cfg, part, l); err != nil {
				l.ends(refused)
				return
			}
		}
		l.ends(ended)
	}()
	select {
	case <-l.over:
	case <-time.After(30 * time.Second):
		t.Fatalf("hangs after %s", disk.what())
	}
	return l
}

// acknowledge notes that a submission was acknowledged. What had failed when it
// was submitted is given.
func (l *life) acknowledge(failed string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != "" {
		return // a process would be gone
	}
	l.acknowledged++
	if strings.HasSuffix(failed, ".log") {
		l.late = fmt.Sprintf("submission %d was acknowledged", l.acknowledged)
	}
}

// ends notes the first end and what it leaves; a process would be gone then.
func (l *life) ends(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != "" {
		return
	}
	l.end = how
	for i, percent := range []int{0, 100} {
		l.left[i] = l.disk.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: newRNG(0)})
	}
	close(l.over)
}

// submitAll opens a log, submits and closes.
func submitAll(cfg *ledger.Config, plan [][]*entry.Entry, l *life) error {
	log, err := ledger.Open("log", following(cfg))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	for _, entries := range plan {
		failed := l.disk.what()
		if _, err = log.Submit(ctx, copies(entries)...); err != nil {
			break
		}
		l.acknowledge(failed)
	}
	cancel()
	return errors.Join(err, <-done, log.Close())
}

// A read that fails is an error of the disk, not damage: no read of an open is
// taken for a difference from what was signed.
func TestAFailedReadIsNoDamage(t *testing.T) {
	disk := newStored(t).disk
	for n := 1; ; n++ {
		var reads atomic.Int64 // the storage engine reads in goroutines of its own, too
		cfg := config(t, errorfs.Wrap(snapshotOf(disk), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileRead && op.Kind != errorfs.OpFileReadAt {
				return nil
			}
			if reads.Add(1) == int64(n) {
				return &fs.PathError{Op: "read", Path: op.Path, Err: syscall.EIO} // as a failing disk does
			}
			return nil
		})))
		log, err := ledger.Open("log", cfg)
		if err == nil {
			must(t, log.Close())
		}
		if errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("read %d: %v", n, err)
		}
		if reads.Load() < int64(n) {
			t.Logf("%d reads", reads.Load())
			return
		}
	}
}
