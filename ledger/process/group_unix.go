//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Group puts a command, and the processes that it starts, into a group of their own.
func Group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// End sends a signal to the group of a command that was started. One that is gone
// needs none.
func End(cmd *exec.Cmd, signal syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, signal) }

// Inherit gives a command, and the processes that it starts, a file as descriptor 3.
func Inherit(cmd *exec.Cmd, file *os.File) { cmd.ExtraFiles = []*os.File{file} }
