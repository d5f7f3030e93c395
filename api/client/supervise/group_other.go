//go:build !unix

package supervise

import (
	"os"
	"os/exec"
	"syscall"
)

// ownProcessGroup leaves a process in the group of its parent.
func ownProcessGroup(*exec.Cmd) {}

// endGroup ends a process; what it started is not reached.
func endGroup(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }

// peak is not known.
func peak(*os.ProcessState) int64 { return 0 }
