package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/durable"
)

// ReadInput reads a file, or standard input for "-", up to a limit in bytes.
func (c *Terminal) ReadInput(name string, limit int64) ([]byte, error) {
	var data []byte
	var readErr error
	err := c.WithInput(name, func(in io.Reader) error {
		data, readErr = io.ReadAll(io.LimitReader(in, limit+1))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if readErr != nil {
		return nil, exit.With(exit.IO, readErr)
	}
	if int64(len(data)) > limit {
		return nil, exit.Usagef("%s: larger than %d bytes", name, limit)
	}
	return data, nil
}

// RegularInput reports whether an input can be read more than once. Standard input, a named pipe
// and <(…) can be read only once.
func RegularInput(path string) (bool, error) {
	if path == "-" {
		return false, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		return false, exit.Usagef("%s is a directory: name a file in this directory", path)
	case !info.Mode().IsRegular():
		return false, nil
	default:
		var f *os.File
		if f, err = os.Open(path); err == nil {
			return true, f.Close()
		}
	}
	return false, fmt.Errorf("%w: name a file that exists and that you can read", err)
}

// ReadGiven reads a small file that a flag names.
func (c *Terminal) ReadGiven(path string, limit int64) ([]byte, error) {
	if _, err := RegularInput(path); err != nil {
		return nil, err
	}
	return c.ReadInput(path, limit)
}

// Spool keeps input that can be read only once in a file, because a scenario is read twice. The
// file is in the directory of the run, where arl replay finds it, or in a temporary directory.
func (c *Terminal) Spool(ctx context.Context, file, dir string) (path string, clean func(), err error) {
	clean = func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "arl-recover-"); err != nil {
			return "", clean, err
		}
		clean = func() { _ = os.RemoveAll(dir) } // an error here has no remedy
	}
	path, err = filepath.Abs(filepath.Join(dir, "scenario.ndjson"))
	if err != nil {
		return "", clean, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", clean, fmt.Errorf("%w; the scenario is kept there: choose another directory", err)
	}
	copied := make(chan error, 1)
	go func() { // opening and reading do not end with ctx
		copied <- exit.With(exit.IO, errors.Join(c.WithInput(file, func(in io.Reader) error { _, err := io.Copy(f, in); return err }), f.Close()))
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return path, clean, err
}

// WithInput calls use with a file or, for "-", with standard input.
func (c *Terminal) WithInput(file string, use func(io.Reader) error) error {
	if file == "-" {
		return use(c.In)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return exit.Usagef("%s is a directory: name the files in it", file)
	}
	return use(f)
}

// WriteOut writes a file, or standard output if path is empty.
func (c *Terminal) WriteOut(path string, content []byte) error {
	if path == "" {
		return c.PrintText(string(content))
	}
	return WriteFile(path, content)
}

// CheckOut finds out whether a file can be written, before the action whose result goes into the
// file. An empty name means no file.
func CheckOut(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return exit.With(exit.IO, fmt.Errorf("write %s: it is a directory: name a file", path))
	}
	f, err := durable.Begin("", path, 0o644)
	if err != nil {
		return exit.Output(path, err)
	}
	return exit.Output(path, f.Discard())
}

// WriteFile writes a file that other users may read, whole or not at all.
func WriteFile(path string, content []byte) error {
	return exit.Output(path, durable.Write(path, content, 0o644))
}
