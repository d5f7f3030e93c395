//go:build !unix

package process

import (
	"os/exec"
	"syscall"
)

// Group leaves a command in the group of its parent.
func Group(*exec.Cmd) {}

// End kills a command that was started, whatever the signal.
func End(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }
