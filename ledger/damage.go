package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/engine"
)

// openError says why the database does not open. An error that is neither "in use" nor an error
// of the system is damage, because the engine has no class for most kinds of damage.
func openError(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process") {
		return fmt.Errorf("%w: %s: stop the process that has the ledger open", ErrInUse, dir)
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	if ofSystem(err) {
		return fmt.Errorf("ledger: open %s: %w", dir, err)
	}
	return fmt.Errorf("%w: open %s: %s", ErrCorrupt, dir, engine.FirstLine(err))
}

// ofSystem reports whether an error is about the machine. After such an error, another read of
// the same bytes may succeed. A file that is missing, or is a directory, is not such an error.
func ofSystem(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok && !disk.Absent(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, context.Canceled)
}

// checkOptions reads the engine's list of its own options, as opening the database does. The
// ledger needs nothing in the list, so it removes a damaged list, unless the database is open
// for reading only.
func checkOptions(dir string, cfg *Config, options *pebble.Options) error {
	options.EnsureDefaults() // the list is compared with them
	names, err := cfg.FS.List(dir)
	if err != nil {
		return openError(dir, err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		path := cfg.FS.PathJoin(dir, name)
		text, err := disk.ReadFile(cfg.FS, path)
		if err != nil {
			return openError(dir, err)
		}
		if err = options.CheckCompatibility(dir, string(text)); err == nil {
			err = engine.CheckOptionsEnd(string(text), options.String())
		}
		if err == nil {
			continue
		}
		if options.ReadOnly {
			return &DamageError{Name: path, What: engine.FirstLine(err), Spare: true}
		}
		cfg.Logger.Warn("a damaged options file of the storage engine is removed: the ledger does not need it", "path", path, "error", engine.FirstLine(err))
		if err := cfg.FS.Remove(path); err != nil {
			return openError(dir, err)
		}
	}
	return nil
}
