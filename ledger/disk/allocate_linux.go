package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserveBlocks takes blocks of the disk without writing them. A file system that
// cannot do that reports [errors.ErrUnsupported].
func reserveBlocks(file *os.File, size int64) error {
	return unix.Fallocate(int(file.Fd()), 0, 0, size)
}
