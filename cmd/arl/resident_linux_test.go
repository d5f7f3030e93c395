package main_test

import "syscall"

// resident is the most memory that an ended console held, in bytes.
func resident(c *consoleProcess) int64 {
	return c.process.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10 // in KiB, getrusage(2)
}
