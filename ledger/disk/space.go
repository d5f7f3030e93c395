package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
)

// Space refuses entries before the disk is full, because the storage engine would retry a flush
// without room for ever. If the room still runs out, Space removes a ballast file, so that the
// engine can flush its memory. Space makes the ballast file again when there is room. It is safe
// for concurrent use.
type Space struct {
	fs      vfs.FS
	dir     string
	reserve uint64

	mu      sync.Mutex // guards ballast, and orders changes of the file
	ballast string     // empty: no ballast, on file systems in memory and after Close
}

// NewSpace watches the file system of the database in dir. Below reserve, in bytes,
// there is no room for entries.
func NewSpace(fs vfs.FS, dir string, reserve uint64) *Space {
	s := &Space{fs: fs, dir: dir, reserve: reserve}
	if fs == vfs.Default {
		s.ballast = filepath.Join(dir, "BALLAST")
	}
	return s
}

// Check returns why entries are refused (insufficient-storage), nil if there is room
// for them. It asks the file system every time, a matter of a microsecond.
func (s *Space) Check() *entry.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage, err := s.fs.GetDiskUsage(s.dir)
	switch {
	case errors.Is(err, vfs.ErrUnsupported):
		return nil
	case err != nil:
		return entry.Refuse(entry.InsufficientStorage, "", "the free space of %s is not known: %v", s.dir, err)
	case usage.AvailBytes < s.reserve:
		if usage.AvailBytes < s.reserve/2 {
			s.drop()
		}
		return entry.Refuse(entry.InsufficientStorage, "", "%d bytes free, the reserve is %d", usage.AvailBytes, s.reserve).
			WithRemedy("free disk space: the ledger then takes entries again without a restart")
	case usage.AvailBytes > 2*s.reserve:
		s.load()
	}
	return nil
}

// Free returns how many bytes of disk space this process may still take in the
// file system of a directory, which is there. The error names the directory.
func Free(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, fmt.Errorf("disk: free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, nil
}

// ReadOnly reports whether the file system of a directory takes no writes: it is mounted read-only,
// or has failed. A file system that failed may be read-only without saying so, so the time of the
// directory is set anew, which writes nothing more. The error names the directory.
func ReadOnly(dir string) (bool, error) {
	err := os.Chtimes(dir, time.Time{}, time.Now())
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO) {
		return true, nil
	}
	return false, err
}

// Enough reports whether there is room for entries.
func (s *Space) Enough() bool { return s.Check() == nil }

// ballastMost is the largest ballast in bytes: the engine flushes its memory into less.
const ballastMost = 64 << 20

// load makes the ballast, a quarter of the reserve, if it is not there.
func (s *Space) load() {
	if s.ballast == "" {
		return
	}
	if _, err := os.Stat(s.ballast); err == nil {
		return
	}
	file, err := os.OpenFile(s.ballast, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // without ballast the reserve alone protects
	}
	err = allocate(file, int64(min(s.reserve/4, ballastMost)))
	if errors.Join(err, file.Close()) != nil {
		s.drop()
	}
}

// drop gives the ballast up; there is nothing better to do if that fails.
func (s *Space) drop() {
	if s.ballast != "" {
		_ = os.Remove(s.ballast)
	}
}

// Close removes the ballast. A check after it, as of a request that still runs, makes no other.
func (s *Space) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ballast := s.ballast
	if ballast == "" {
		return nil
	}
	s.ballast = ""
	if err := os.Remove(ballast); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("disk: remove ballast: %w", err)
	}
	return nil
}
