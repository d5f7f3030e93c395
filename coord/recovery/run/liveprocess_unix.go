//go:build unix

package run

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a process and the children it will have into a group of their
// own, which is killed as a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
