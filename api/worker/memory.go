package worker

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// memory tells whether a process ended for lack of memory.
type memory struct {
	group   *group // its counter tells; nil: no counter can be read
	own     bool   // the group is the process's alone
	before  int64  // the counter before the process began
	limit   int64  // of the process; 0: none
	machine int64  // memory of the machine; 0: not known
}

// LimitsMemory reports whether a system can limit the memory of a program. goos names the
// system as [runtime.GOOS] does. macOS does not keep to limits on address space. Windows has
// no limit that a program could set for itself.
func LimitsMemory(goos string) bool { return goos != "darwin" && goos != "windows" }

// watchMemory reads the counter before a process begins. If the process has a limit,
// watchMemory makes a control group for it.
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

// close kills the processes that are left in the process's own group, in any session, and
// removes the group.
func (m *memory) close() {
	if m.own {
		m.group.end()
		_ = m.group.remove() // nothing depends on an empty directory of the kernel
	}
}

// wrap returns a command line that sets the limit on itself and then becomes the program.
// So the program allocates nothing before the limit holds.
func (m *memory) wrap(argv []string) []string {
	if m.limit == 0 || len(argv) == 0 {
		return argv
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return argv // Start of the program fails with a clear error
	}
	script, arg := `ulimit -v "$0" && exec "$@"`, strconv.FormatInt(m.limit>>10, 10)
	if m.own {
		script, arg = `echo $$ > "$0" && exec "$@"`, filepath.Join(m.group.dir, "cgroup.procs")
	}
	return append([]string{"/bin/sh", "-c", script, arg}, argv...)
}

// killed says that the kernel's counter grew, and where. It is empty if the counter did not
// grow.
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

// likely says that a killed process probably had no memory left, because it used most of its
// limit or of the machine's memory. It is empty if that is not so, or if a counter can be read.
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
