package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserveBlocks takes blocks of the disk without writing them. F_PREALLOCATE takes
// blocks behind the end of the file, and leaves the end where it is; the truncation
// moves the end over the blocks. A file system that cannot do that reports
// [errors.ErrUnsupported].
func reserveBlocks(file *os.File, size int64) error {
	store := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size}
	if err := unix.FcntlFstore(file.Fd(), unix.F_PREALLOCATE, &store); err != nil {
		return err
	}
	return file.Truncate(size)
}
