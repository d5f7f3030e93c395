package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"recoveryledger/coord/recovery/scenario"
)

// regularInput reports whether an input can be read as often as one likes.
// Standard input, a named pipe, <(…) cannot.
func regularInput(path string) (bool, error) {
	if path == "-" {
		return false, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		return false, usage("%s is a directory; name a file in it", path)
	case !info.Mode().IsRegular():
		return false, nil
	default:
		var f *os.File
		if f, err = os.Open(path); err == nil {
			return true, f.Close()
		}
	}
	return false, fmt.Errorf("%w; name a file that is there and that you may read", err)
}

// readGiven reads a small file that a flag names.
func (a *app) readGiven(path string, limit int64) ([]byte, error) {
	if _, err := regularInput(path); err != nil {
		return nil, err
	}
	return a.readInput(path, limit)
}

// spool keeps what can be read only once in a file, because a scenario is read
// twice: in the directory of the run, where arl replay finds it, or in a
// temporary one.
func (a *app) spool(ctx context.Context, o *recoverOptions) (path string, clean func(), err error) {
	dir, clean := o.out, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "arl-recover-"); err != nil {
			return "", clean, err
		}
		clean = func() { _ = os.RemoveAll(dir) } // nothing can be done about it
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
	go func() { // neither opening nor reading hears of ctx
		copied <- withExit(exitIO, errors.Join(a.copyInput(f, o.scenario), f.Close()))
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

func (a *app) copyInput(to io.Writer, path string) error {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	_, err := io.Copy(to, in)
	return err
}

// readCase reads the one case of a file that an engine is to decide.
func (a *app) readCase(e *engineChoice, file string) (c scenario.Case, err error) {
	if _, err := regularInput(file); err != nil {
		return c, err
	}
	err = a.withInput(file, func(in io.Reader) error {
		c, err = e.ReadCase(file, in)
		return err
	})
	return c, err
}
