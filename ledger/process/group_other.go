//go:build !unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Group leaves a command in the group of its parent.
func Group(*exec.Cmd) {}

// End kills a command that was started, at once, whatever the signal. What the command
// has started goes on.
func End(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }

// Inherit does nothing: a program here inherits its three streams alone.
func Inherit(*exec.Cmd, *os.File) {}
