//go:build unix

package supervise

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownProcessGroup puts a process, and those that it will start, into a group of
// their own.
func ownProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup sends a signal to a process and all that it started.
func endGroup(cmd *exec.Cmd, signal syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, signal) }

// peak is the most memory that a process had, in bytes.
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
