//go:build unix

package worker

import (
	"os"
	"runtime"
	"syscall"
)

// peak returns the most resident memory that a process had, in bytes; 0: not known.
func peak(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}
