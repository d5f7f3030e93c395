package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"recoveryledger/ledger/durable"
)

// Dir is a [Store] in a directory, with one file for each document. Save syncs a new file,
// renames it over the old one, and then syncs the directory. One process at a time has a Dir.
type Dir struct {
	path string
	lock *flock.Flock
}

// lockFile keeps other processes out.
const lockFile = ".lock"

// ErrLocked reports a directory that another process uses as a store.
var ErrLocked = errors.New("agent: another process works with this store")

// OpenDir opens a directory as a store, and makes the directory if it is not there. The
// directory must be outside of all that the agent restores. The error may be [ErrLocked].
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("agent: open store: %w", err)
	}
	d := &Dir{path, flock.New(filepath.Join(path, lockFile))}
	held, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("agent: open store: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("%w: %s (end that process: fuser %s names it; another agent needs a store of its own)", ErrLocked, path, d.lock.Path())
	}
	return d, nil
}

// Close gives the directory free for other processes.
func (d *Dir) Close() error { return d.lock.Unlock() }

// Names implements [Store].
func (d *Dir) Names() ([]string, error) {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".doc"); ok && plainName(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Load implements [Store].
func (d *Dir) Load(name string) ([]byte, error) {
	file, err := d.file(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()                                            //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, int64(MaxDocument)+1)) // one byte more is damage
}

// Save implements [Store].
func (d *Dir) Save(name string, data []byte) error {
	file, err := d.file(name)
	if err != nil {
		return err
	}
	return durable.Write(file, data, 0o600)
}

func (d *Dir) file(name string) (string, error) {
	if !plainName(name) {
		return "", fmt.Errorf("agent: document %.140q: %w", name, fs.ErrInvalid)
	}
	return filepath.Join(d.path, name+".doc"), nil
}
