//go:build unix

package exit

import "syscall"

// The errors of the system that the exit codes and remedies know.
const (
	errRefused   = syscall.ECONNREFUSED // no process listens there
	errAddress   = syscall.EADDRINUSE
	errFiles     = syscall.EMFILE // of the process
	errAllFiles  = syscall.ENFILE // of the machine
	errFull      = syscall.ENOSPC
	errDevice    = syscall.EIO
	errNoFolder  = syscall.ENOTDIR
	errFullOther = syscall.EDQUOT
)
