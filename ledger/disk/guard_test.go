package disk_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"recoveryledger/ledger/disk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ended is what fatal panics with: nothing goes on behind it.
type ended struct{ error }

// TestGuard fails one operation after the other. Each one ends the process, and says
// which operation on which file failed; but for a table that finds the disk full.
func TestGuard(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f vfs.File) error
		on   errorfs.OpKind
		err  error
		ends string
	}{
		{"000001.log", func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, errorfs.OpFileWrite, syscall.EIO, "write 000001.log"},
		{"000001.log", func(f vfs.File) error { _, err := f.WriteAt([]byte("x"), 0); return err }, errorfs.OpFileWriteAt, syscall.EIO, "write 000001.log"},
		{"000001.log", vfs.File.Sync, errorfs.OpFileSync, syscall.EIO, "sync 000001.log"},
		{"000001.log", vfs.File.SyncData, errorfs.OpFileSyncData, syscall.EIO, "sync 000001.log"},
		{"000001.log", vfs.File.Sync, errorfs.OpFileSync, syscall.ENOSPC, "sync 000001.log"},
		{"000002.sst", vfs.File.Sync, errorfs.OpFileSync, syscall.EIO, "sync 000002.sst"},
		{"000002.sst", vfs.File.Sync, errorfs.OpFileSync, syscall.ENOSPC, ""},
		{"000002.sst", vfs.File.Sync, errorfs.OpFileClose, nil, ""},
	} {
		fails := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == c.on {
				return c.err
			}
			return nil
		})
		fs := disk.Guard(errorfs.Wrap(vfs.NewMem(), fails), func(err error) { panic(ended{err}) })
		f, err := fs.Create(c.name, vfs.WriteCategoryUnspecified)
		must(t, err)
		err, end := attempt(func() error { return c.do(f) })
		switch {
		case c.ends == "" && (end != nil || !errors.Is(err, c.err)):
			t.Errorf("%s, %v: %v, %v", c.name, c.err, err, end)
		case c.ends != "" && (!errors.Is(end, c.err) || end.Error() != fmt.Sprintf("disk: %s: %v", c.ends, c.err)):
			t.Errorf("%s, %v: ended by %v", c.name, c.err, end)
		}
	}
}

// attempt returns what do returns, or what fatal was told of.
func attempt(do func() error) (err, end error) {
	defer func() {
		if r := recover(); r != nil {
			end = r.(ended).error
		}
	}()
	return do(), nil
}

// TestGuardCreates: a write-ahead log that cannot be made ends the process, and what
// is no write-ahead log does not.
func TestGuardCreates(t *testing.T) {
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	fs := disk.Guard(errorfs.Wrap(vfs.NewMem(), full), func(err error) { panic(ended{err}) })
	for name, ends := range map[string]bool{"000001.log": true, "MANIFEST-000001": false} {
		for what, do := range map[string]func() error{
			"create": func() error { _, err := fs.Create(name, vfs.WriteCategoryUnspecified); return err },
			"reuse":  func() error { _, err := fs.ReuseForWrite("old", name, vfs.WriteCategoryUnspecified); return err },
		} {
			err, end := attempt(do)
			if ends != errors.Is(end, syscall.ENOSPC) || !ends && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s %s: %v, %v", what, name, err, end)
			}
		}
	}
}

// TestGuardSyncsBeforeAMarker takes the power away as soon as a marker is made: what
// it may refer to has its name.
func TestGuardSyncsBeforeAMarker(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := disk.Guard(mem, func(err error) { panic(ended{err}) })
	f, err := fs.Create("MANIFEST-000002", vfs.WriteCategoryUnspecified)
	must(t, err)
	must(t, f.Sync())
	there := func() bool {
		there, err := disk.Exists(mem.CrashClone(vfs.CrashCloneCfg{}), "MANIFEST-000002")
		must(t, err)
		return there
	}
	if there() {
		t.Fatal("a name that nobody synced outlives a crash")
	}
	_, err = fs.Create("marker.manifest.000002.MANIFEST-000002", vfs.WriteCategoryUnspecified)
	must(t, err)
	if !there() {
		t.Error("the marker is there before what it refers to")
	}
}

// TestSyncDir: a name outlives a crash when its directory is synced.
func TestSyncDir(t *testing.T) {
	mem := vfs.NewCrashableMem()
	f, err := mem.Create("a", vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write([]byte("content"))
	must(t, errors.Join(err, f.Sync(), f.Close()))
	must(t, disk.SyncDir(mem, ""))
	if content, err := disk.ReadFile(mem.CrashClone(vfs.CrashCloneCfg{}), "a"); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := disk.ReadFile(mem, "b"); err == nil {
		t.Error("a file that is not there is read")
	}
}
