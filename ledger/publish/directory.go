package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"recoveryledger/ledger/durable"
)

// directory is a [Target] in a file system. The tag of a file is its hash.
type directory struct{ root string }

// lockName is the file that keeps two publishers from putting a file at once under a condition.
const lockName = ".arl-lock"

func (d *directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// Get implements [Target].
func (d *directory) Get(_ context.Context, name string) (data []byte, tag string, err error) {
	file, err := os.Open(d.path(name))
	if err != nil {
		return nil, "", fmt.Errorf("publish: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(file, maxObject+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, "", fmt.Errorf("publish: %w", err)
	}
	return data, tagOf(data), nil
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Put implements [Target].
func (d *directory) Put(ctx context.Context, name string, data []byte, o PutOptions) (tag string, err error) {
	if err := d.makeDirs(filepath.Dir(d.path(name))); err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	if o.IfTag != "" || o.IfAbsent {
		lock := flock.New(d.path(lockName))
		if err := lock.Lock(); err != nil {
			return "", fmt.Errorf("publish: %w", err)
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
		_, now, err := d.Get(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if now != o.IfTag {
			return "", fmt.Errorf("%w: %s", ErrChanged, d.path(name))
		}
	}
	return tagOf(data), durable.Write(d.path(name), data, 0o644)
}

// makeDirs makes a directory, and those above it, durable.
func (d *directory) makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := d.makeDirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// Delete implements [Target].
func (d *directory) Delete(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("publish: %w", err)
	}
	_ = os.Remove(filepath.Dir(d.path(name))) // of partial tiles, once it is empty
	return nil
}
