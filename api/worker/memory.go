package worker

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// memory tells whether a process ended for want of memory.
type memory struct {
	group   *group // whose counter tells; nil: none can be read
	own     bool   // it is the process's alone
	before  int64  // what the counter showed
	limit   int64  // that the process was given; 0: none
	machine int64  // memory of the machine; 0: not known
}

// LimitsMemory reports whether a program can be given a limit on memory on a system,
// which is named as in [runtime.GOOS]. macOS does not keep to limits on address space,
// and Windows has none that a program could give itself.
func LimitsMemory(goos string) bool { return goos != "darwin" && goos != "windows" }

// watchMemory looks at the counters before a process begins, and makes it a group
// of its own where it is to have a limit.
func watchMemory(root string, limit int64) *memory {
	m := &memory{limit: limit}
	if text, err := readSmall(filepath.Join(root, "proc", "meminfo")); err == nil {
		m.machine = totalOf(text)
	}
	g, ok := ownGroup(root)
	if !ok {
		return m
	}
	g.sweep()
	if limit > 0 {
		if own, err := g.within(ownName(), limit); err == nil {
			g, m.own = own, true
		}
	}
	if before, err := g.kills(); err == nil {
		m.group, m.before = &g, before
	}
	return m
}

// close ends what is left in the process's own group, whatever session it is in,
// and removes the group.
func (m *memory) close() {
	if m.own {
		m.group.end()
		_ = m.group.remove() // an empty directory of the kernel's, which nothing depends on
	}
}

// wrap returns a command line that puts itself under the limit before it becomes
// the program, so that no allocation comes before it.
func (m *memory) wrap(argv []string) []string {
	if m.limit == 0 || len(argv) == 0 {
		return argv
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return argv // it cannot be started, and says so
	}
	script, arg := `ulimit -v "$0" && exec "$@"`, strconv.FormatInt(m.limit>>10, 10)
	if m.own {
		script, arg = `echo $$ > "$0" && exec "$@"`, filepath.Join(m.group.dir, "cgroup.procs")
	}
	return append([]string{"/bin/sh", "-c", script, arg}, argv...)
}

// killed says that the kernel counted a process that it killed, and where; empty
// if it did not.
func (m *memory) killed() string {
	if m.group == nil {
		return ""
	}
	now, err := m.group.kills()
	if err != nil || now <= m.before {
		return ""
	}
	return fmt.Sprintf("%s of the control group (version %d) grew from %d to %d", counterName, m.group.version, m.before, now)
}

// likely says that a process that somebody killed had probably no memory left,
// where no counter can be read: it had most of what there was. Empty: it had not.
func (m *memory) likely(peak int64) string {
	most := m.limit
	if most == 0 {
		most = m.machine
	}
	if m.group != nil || most == 0 || peak < most/5*4 {
		return ""
	}
	return fmt.Sprintf("signal 9 at %d of %d MiB, and no control group to ask", peak>>20, most>>20)
}

// totalOf reads the memory of the machine in bytes from /proc/meminfo.
func totalOf(text string) int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 && n < 1<<50 {
			return n << 10
		}
	}
	return 0
}
