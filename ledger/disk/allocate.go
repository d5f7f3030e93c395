package disk

import (
	"errors"
	"os"
)

// allocate gives an empty file size bytes of the disk. A file that only has a length has no space:
// a file system takes the space of a hole when a process writes there.
func allocate(file *os.File, size int64) error {
	err := reserveBlocks(file, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return writeZeros(file, size)
	}
	return err
}

// writeZeros fills a file on a file system without allocation.
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
