package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// fill takes all but the given space of the file system away.
func fill(t *testing.T, path string, leave uint64) {
	t.Helper()
	usage, err := vfs.Default.GetDiskUsage(filepath.Dir(path))
	must(t, err)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer file.Close()
	for left := usage.AvailBytes; left > leave; {
		n, err := file.Write(make([]byte, min(left-leave, 1<<20)))
		if left -= uint64(n); err != nil {
			return // full
		}
	}
}

// TestFullDisk fills a small disk while a log is on it: to below the reserve, and
// to the last byte. Entries are refused and nothing hangs, reads go on, and
// service is back with the space.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "64m")
	cfg := config(t, nil)
	cfg.Reserve = 16 << 20
	cfg.SnapshotEvery = 64
	r := start(t, dir+"/log", cfg)
	r.add(100)
	if _, err := os.Stat(dir + "/log/BALLAST"); err != nil {
		t.Errorf("no ballast: %v", err)
	}
	size := uint64(100)
	for _, leave := range []uint64{12 << 20, 0} {
		fill(t, dir+"/junk", leave)
		answer, err := r.Submit(t.Context(), newEntry(t))
		must(t, err)
		if answer.Refused == nil || answer.Refused.Problem != entry.InsufficientStorage || answer.Refused.Remedy == "" {
			t.Fatalf("%+v", answer)
		}
		if refusal, ok := errors.AsType[*entry.Refusal](r.Ready()); !ok || refusal.Problem != entry.InsufficientStorage {
			t.Errorf("ready: %v", r.Ready())
		}
		r.checkAll() // reads and proofs go on
		if r.Head().Size != size {
			t.Fatalf("size %d, want %d", r.Head().Size, size)
		}
		must(t, os.Remove(dir+"/junk"))
		must(t, r.Ready())
		r.add(50)
		size += 50
	}
	r.checkAll()
}

// TestStopOnAFullDisk ends a log that has no room to flush: it must not try for
// ever, and nothing is lost.
func TestStopOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "64m")
	cfg := config(t, nil)
	cfg.Reserve = 16 << 20
	cfg.SnapshotEvery = 8
	r := start(t, dir+"/log", cfg)
	r.add(100)
	fill(t, dir+"/junk", 0)
	if r.Ready() == nil {
		t.Error("ready on a full disk")
	}
	fill(t, dir+"/junk", 0) // what the ballast gave up
	r.stop()
	must(t, os.Remove(dir+"/junk"))
	again := start(t, dir+"/log", cfg)
	if size := again.Head().Size; size != 100 {
		t.Errorf("size %d", size)
	}
	again.add(1)
}

// TestUnknownFreeSpaceRefuses does not take entries when the disk cannot tell.
func TestUnknownFreeSpaceRefuses(t *testing.T) {
	disk := &deafDisk{FS: vfs.NewMem()}
	cfg := atOnce(config(t, disk))
	r := start(t, "log", cfg)
	r.add(1)
	disk.deaf = true
	answer, err := r.Submit(t.Context(), newEntry(t))
	must(t, err)
	if answer.Refused == nil || answer.Refused.Problem != entry.InsufficientStorage {
		t.Fatalf("%+v", answer)
	}
	disk.deaf = false
	r.add(1)
}

// deafDisk does not answer when it is asked for its free space.
type deafDisk struct {
	vfs.FS
	deaf bool
}

func (d *deafDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.deaf {
		return vfs.DiskUsage{}, syscall.EIO
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

func (d *deafDisk) Unwrap() vfs.FS { return d.FS }

// scarceDisk has as much free space as a test says.
type scarceDisk struct {
	vfs.FS
	free atomic.Uint64
}

func (d *scarceDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load()}, nil
}

func (d *scarceDisk) Unwrap() vfs.FS { return d.FS }

// TestClusterReserve: a node whose disk is at its reserve follows no further, says so, and catches
// up when it has room. A leader says why the cluster takes no entries. What is registered is
// answered nevertheless.
func TestClusterReserve(t *testing.T) {
	s, scarce := newShared(t), &scarceDisk{FS: vfs.NewMem()}
	scarce.free.Store(1 << 40)
	var unable atomic.Pointer[entry.Refusal]
	a := s.join("a", vfs.NewMem(), func(c *ledger.Config) { c.Cluster.Unable = unable.Load })
	b := s.join("b", vfs.NewMem(), func(c *ledger.Config) { c.FS, c.Reserve = scarce, 1<<20 })
	a.lead()
	known := batchOf(t, 1)
	a.registered(known, 0, false)
	equal(t, a, b)

	scarce.free.Store(1<<20 - 1)
	if refusal, ok := errors.AsType[*entry.Refusal](b.Ready()); !ok || refusal.Problem != entry.InsufficientStorage || b.Space() == nil || a.Space() != nil {
		t.Errorf("a follower without room: %v", b.Ready())
	}
	for i := range uint64(5) {
		a.registered(batchOf(t, 1), 1+i, false)
		must(t, b.Alive(t.Context()))
	}
	if size := b.Size(); size > 2 { // it may have waited for one batch already
		t.Errorf("a follower without room takes %d entries", size)
	}
	b.registered(resent(t, known), 0, true)
	scarce.free.Store(1 << 40)
	equal(t, a, b)

	unable.Store(entry.Refuse(entry.InsufficientStorage, "", "no majority has room"))
	if answer, err := a.Submit(t.Context(), newUnsigned(t)); err != nil || answer.Refused != unable.Load() || !errors.Is(a.Ready(), unable.Load()) {
		t.Errorf("a cluster without room: %+v, %v, ready: %v", answer, err, a.Ready())
	}
	a.registered(resent(t, known), 0, true)
	unable.Store(nil)
	a.registered(batchOf(t, 1), 6, false)
	equal(t, a, b)
	a.stop()
	b.stop()
}
