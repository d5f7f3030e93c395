package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"recoveryledger/coord/recovery/run"
)

// regularInput reports whether an input can be read as often as one likes.
// Standard input, a named pipe, <(…) cannot.
func regularInput(flag, path string) (bool, error) {
	if path == "-" {
		return false, nil
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return false, fmt.Errorf("%w; pass with %s a file that is there and that you may read", err, flag)
	case info.IsDir():
		return false, usage("%s %s is a directory; name a file in it", flag, path)
	default:
		return info.Mode().IsRegular(), nil
	}
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
func (a *app) readCase(e *engine, file string) (c run.Case, err error) {
	err = a.withInput(file, func(in io.Reader) error {
		c, err = e.ReadCase(file, in)
		return err
	})
	return c, err
}
