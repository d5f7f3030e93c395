package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"recoveryledger/ledger/durable"
)

// createFile writes a new file that only its owner may read. After a crash the whole file is there,
// or nothing. After createFile returned, the file is there. A crash in between may leave a copy
// with a name that begins with a dot.
func createFile(path string, content []byte) error {
	return withoutName(durable.Create(path, content, 0o600))
}

// withoutName is an error without the name of the file, which the caller names.
func withoutName(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// readFile reads a file that its owner alone may read, at most [maxFile] bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	// The mode of the open file counts, and not that of the path: no process can change the open
	// file's in between.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if mode := info.Mode(); OthersMay(mode, runtime.GOOS) {
		return nil, fmt.Errorf("with mode %04o other users can read or write the private key: run chmod 600 %s", mode.Perm(), path)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("the file is larger than a key file may be, which is %d bytes", maxFile)
	}
	return content, nil
}

// OthersMay reports whether a mode lets others than the owner at a file, on a system
// as in [runtime.GOOS]. On Windows it reports false: access lists say there who may,
// no mode tells them, and this package does not read them.
func OthersMay(mode fs.FileMode, goos string) bool {
	return goos != "windows" && mode.Perm()&0o077 != 0
}
