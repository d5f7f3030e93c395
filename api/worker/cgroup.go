package worker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// group is a control group that counts processes killed for want of memory. In
// version 2 the counter is in memory.events, in version 1 in memory.oom_control
// (Linux 4.13 and newer).
type group struct {
	dir     string
	version int
}

// counterName is the counter's, in both versions.
const counterName = "oom_kill"

// ownGroup returns the control group of memory that this process is in, as /proc
// names it below root; ok is false where there is none that can be read.
func ownGroup(root string) (g group, ok bool) {
	text, err := readSmall(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return group{}, false
	}
	mount := filepath.Join(root, "sys", "fs", "cgroup")
	for _, candidate := range groupsOf(text) {
		bases := []string{mount}
		if candidate.version == 1 {
			bases = []string{filepath.Join(mount, "memory")}
		} else {
			bases = append(bases, filepath.Join(mount, "unified"))
		}
		for _, base := range bases {
			// Where the hierarchy of a container is shown from its own root, the
			// path from the machine's root is not there.
			for _, dir := range []string{filepath.Join(base, candidate.dir), base} {
				g := group{dir, candidate.version}
				if _, err := g.kills(); err == nil {
					return g, true
				}
			}
		}
	}
	return group{}, false
}

// groupsOf reads /proc/PID/cgroup: lines "id:controllers:path", id 0 without
// controllers being version 2. Version 1 comes first: where it has the controller
// of memory, version 2 has not.
func groupsOf(text string) (all []group) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		path := filepath.Clean(parts[2])
		switch {
		case parts[0] == "0" && parts[1] == "":
			all = append(all, group{path, 2})
		case strings.Contains(","+parts[1]+",", ",memory,"):
			all = append([]group{{path, 1}}, all...)
		}
	}
	return all
}

// file is where the counter stands.
func (g group) file() string {
	if g.version == 1 {
		return filepath.Join(g.dir, "memory.oom_control")
	}
	return filepath.Join(g.dir, "memory.events")
}

// kills is how many processes of the group were killed for want of memory.
func (g group) kills() (int64, error) {
	text, err := readSmall(g.file())
	if err != nil {
		return 0, err
	}
	n, ok := counter(text, counterName)
	if !ok {
		return 0, fmt.Errorf("worker: read %s: no counter %s", g.file(), counterName)
	}
	return n, nil
}

// counter reads one line "name number" among others.
func counter(text, name string) (int64, bool) {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || key != name {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}

// within makes a group of its own below g with a limit of memory in bytes, so that
// nobody else's end is taken for that of the process in it.
func (g group) within(name string, limit int64) (group, error) {
	own := group{filepath.Join(g.dir, name), g.version}
	if err := os.Mkdir(own.dir, 0o755); err != nil {
		return group{}, fmt.Errorf("worker: make control group: %w", err)
	}
	limits := map[string]string{"memory.max": strconv.FormatInt(limit, 10), "memory.swap.max": "0"}
	needed := "memory.max"
	if g.version == 1 {
		limits = map[string]string{"memory.limit_in_bytes": strconv.FormatInt(limit, 10)}
		needed = "memory.limit_in_bytes"
	}
	for file, value := range limits {
		err := os.WriteFile(filepath.Join(own.dir, file), []byte(value), 0)
		if err != nil && (file == needed || !errors.Is(err, fs.ErrNotExist)) {
			return group{}, errors.Join(fmt.Errorf("worker: limit control group: %w", err), own.remove())
		}
	}
	return own, nil
}

// ownMark is what the names of groups begin with that this package makes. The id
// of the process that made it follows.
const ownMark = "arl-"

// ownName is the name of a new group.
func ownName() string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails
	return ownMark + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(name)
}

// sweep removes the groups below g that are empty and were made by processes that
// are no more: a supervisor that is killed leaves its group.
func (g group) sweep() {
	found, _ := filepath.Glob(filepath.Join(g.dir, ownMark+"*-*")) // a name of the kernel's is no pattern that matches more
	for _, dir := range found {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), ownMark), "-")
		if pid, err := strconv.Atoi(owner); err == nil && gone(pid) {
			_ = group{dir, g.version}.remove() // one that is not empty stays
		}
	}
}

// end kills all processes of a group, and waits until it is empty.
func (g group) end() {
	for until := time.Now().Add(drainMax); time.Now().Before(until); time.Sleep(time.Millisecond) {
		_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // version 2, Linux 5.14 and newer
		text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		members := strings.Fields(string(text))
		if err != nil || len(members) == 0 {
			return
		}
		for _, word := range members {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				kill(pid)
			}
		}
	}
}

// remove removes a group that no process is in any more.
func (g group) remove() error {
	if err := os.Remove(g.dir); err != nil {
		return fmt.Errorf("worker: remove control group: %w", err)
	}
	return nil
}

// readSmall reads a file of the kernel.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("worker: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text := make([]byte, kernelMax)
	n, err := f.Read(text)
	if err != nil {
		return "", fmt.Errorf("worker: read %s: %w", path, err)
	}
	return string(text[:n]), nil
}
