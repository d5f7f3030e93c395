package main_test

import (
	"fmt"
	"os"
	"strings"
)

// resident is the most memory that a running console has held, in bytes. What wait(2) says is no
// measure: a child that shares the memory of the test until its exec has the peak of the test.
func resident(c *consoleProcess) (bytes int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.Process.Pid))
	c.m.must(err)
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	c.m.must(fmt.Errorf("%s has no VmHWM", status))
	return 0
}
