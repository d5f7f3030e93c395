//go:build unix && !linux

package main_test

import (
	"os/exec"
	"strconv"
	"strings"
)

// resident is the memory that a running console holds, in bytes.
func resident(c *consoleProcess) int64 {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(c.process.Process.Pid)).Output()
	c.m.must(err)
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	c.m.must(err)
	return kib << 10
}
