package disk

import (
	"errors"
	"os"
)

// allocate gives an empty file size bytes of the disk. A file that is only long has
// none: the space of a hole is taken when somebody writes there.
func allocate(file *os.File, size int64) error {
	err := reserveBlocks(file, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return writeZeros(file, size)
	}
	return err
}

// writeZeros writes what a file system without allocation has to be given.
func writeZeros(file *os.File, size int64) error {
	zeros := make([]byte, min(size, 1<<20))
	for size > 0 {
		n, err := file.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
