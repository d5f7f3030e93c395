//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks an open file, or reports that another process has locked it. The
// lock ends when all that has inherited the file has closed it.
func Lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
