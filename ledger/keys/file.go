package keys

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// createFile writes a new file that its owner alone may read. After a crash it
// is there whole or not at all; when createFile has returned, it is there. A
// crash in between may leave a copy beside it whose name begins with a dot.
func createFile(path string, content []byte) error {
	pending, err := renameio.TempFile(filepath.Dir(path), path)
	if err != nil {
		return withoutName(err)
	}
	defer pending.Cleanup() //nolint:errcheck // the second call, or an error came first
	if _, err := pending.Write(content); err != nil {
		return err
	}
	if err := pending.Sync(); err != nil {
		return err
	}
	// A link, not a rename: a rename would replace a key that stands there.
	if err := os.Link(pending.Name(), path); err != nil {
		return withoutName(err)
	}
	if err := pending.Cleanup(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// withoutName is an error without the name of the file that is only there for a
// moment.
func withoutName(err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFile reads a file that its owner alone may read, at most [maxFile] bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	// The open file is asked, not the path: nobody can change it in between.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("mode %04o lets others at the private key (chmod 600 %s)", mode, path)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("larger than a key file, which has at most %d bytes", maxFile)
	}
	return content, nil
}
