package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
)

// TestFree: a directory has some, and one that is not there is named.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	if free, err := disk.Free(dir); err != nil || free == 0 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if _, err := disk.Free(dir + "/no"); err == nil || !strings.Contains(err.Error(), dir+"/no") {
		t.Errorf("no directory: %v", err)
	}
}

// usage answers with the free space that it is told.
type usage struct {
	vfs.FS
	free uint64
	err  error
}

// GetDiskUsage implements [vfs.FS].
func (u *usage) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: u.free}, u.err
}

// TestSpace: there is room from the reserve on, none where the free space is not
// known, and a file system that knows of none is not asked for it.
func TestSpace(t *testing.T) {
	for name, test := range map[string]struct {
		free uint64
		err  error
		want string // of the refusal; empty: there is room
	}{
		"the reserve is free": {free: 1000},
		"a byte less":         {free: 999, want: "999 bytes free, the reserve is 1000"},
		"full":                {want: "0 bytes free"},
		"nobody knows":        {free: 1 << 40, err: syscall.EIO, want: "not known"},
		"no such thing":       {err: vfs.ErrUnsupported},
	} {
		s := disk.NewSpace(&usage{vfs.NewMem(), test.free, test.err}, "db", 1000)
		refusal := s.Check()
		if s.Enough() != (test.want == "") || refusal == nil != (test.want == "") {
			t.Errorf("%s: %v", name, refusal)
		}
		if refusal != nil && (refusal.Problem != entry.InsufficientStorage || !strings.Contains(refusal.Error(), test.want)) {
			t.Errorf("%s: %v", name, refusal)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBallast: it is made where there is room for it, a quarter of the reserve, and
// is gone in the end.
func TestBallast(t *testing.T) {
	dir := t.TempDir()
	ballast := filepath.Join(dir, "BALLAST")
	s := disk.NewSpace(vfs.Default, dir, 4096)
	if refusal := s.Check(); refusal != nil {
		t.Fatal(refusal)
	}
	if info, err := os.Stat(ballast); err != nil || info.Size() != 1024 {
		t.Errorf("the ballast: %v, %v", info, err)
	}
	for range 2 { // the second time there is none
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if refusal := s.Check(); refusal != nil { // a request that was under way asks late
			t.Error(refusal)
		}
		if _, err := os.Stat(ballast); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the ballast is left: %v", err)
		}
	}
	s = disk.NewSpace(vfs.Default, dir, 1<<62)
	if s.Enough() {
		t.Error("there is room for more than any disk has")
	}
	if _, err := os.Stat(ballast); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ballast without room: %v", err)
	}
}

// TestReadOnly asks a directory that takes writes, and one that is not there. A file system that
// takes none is in the drill of disk-read-only.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if closed, err := disk.ReadOnly(dir); closed || err != nil {
		t.Errorf("%v, %v", closed, err)
	}
	if closed, err := disk.ReadOnly(filepath.Join(dir, "none")); closed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v, %v", closed, err)
	}
}
