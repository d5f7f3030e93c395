package exit

import "golang.org/x/sys/windows"

// The errors of the system that the exit codes and remedies know. A call on Windows never returns
// the errors that package syscall declares under the names of Unix.
const (
	errRefused   = windows.WSAECONNREFUSED // no process listens there
	errAddress   = windows.WSAEADDRINUSE
	errFiles     = windows.ERROR_TOO_MANY_OPEN_FILES // of the process
	errAllFiles  = windows.WSAEMFILE
	errFull      = windows.ERROR_DISK_FULL
	errDevice    = windows.ERROR_IO_DEVICE
	errNoFolder  = windows.ERROR_DIRECTORY
	errFullOther = windows.ERROR_HANDLE_DISK_FULL
)
