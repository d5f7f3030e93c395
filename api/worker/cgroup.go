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

// group is a control group. It counts the processes that the kernel killed for lack of
// memory. In version 2 the counter is in memory.events. In version 1 the counter is in
// memory.oom_control (Linux 4.13 and newer).
type group struct {
	dir     string
	version int
}

// counterName is the name of the counter in both versions.
const counterName = "oom_kill"

// ownGroup returns the memory control group of this process. It reads the group's name from
// /proc below root. ok is false if no such group can be read.
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
			// A container may show its hierarchy from its own root. The path from the
			// machine's root does not exist there.
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

// groupsOf reads /proc/PID/cgroup, whose lines are "id:controllers:path". A line with id 0
// and no controllers is version 2. A group of version 1 comes first: if version 1 has the
// memory controller, version 2 does not have it.
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

// file returns the path of the file with the counter.
func (g group) file() string {
	if g.version == 1 {
		return filepath.Join(g.dir, "memory.oom_control")
	}
	return filepath.Join(g.dir, "memory.events")
}

// kills returns the number of processes of the group killed for lack of memory.
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

// within makes a separate group below g, with a memory limit in bytes. The counter of the
// separate group does not count the end of other processes.
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

// ownMark is the prefix of the name of every group that this package makes. The id of the
// process that made the group follows.
const ownMark = "arl-"

// ownName returns the name of a new group.
func ownName() string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails
	return ownMark + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(name)
}

// sweep removes each empty group below g whose maker has ended. A killed supervisor leaves
// its group behind.
func (g group) sweep() {
	found, _ := filepath.Glob(filepath.Join(g.dir, ownMark+"*-*")) // the kernel's path has no pattern characters
	for _, dir := range found {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), ownMark), "-")
		if pid, err := strconv.Atoi(owner); err == nil && gone(pid) {
			_ = group{dir, g.version}.remove() // a group that is not empty stays
		}
	}
}

// end kills all processes of a group, and waits until the group is empty.
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

// remove removes an empty group.
func (g group) remove() error {
	if err := os.Remove(g.dir); err != nil {
		return fmt.Errorf("worker: remove control group: %w", err)
	}
	return nil
}

// readSmall reads a small file of the kernel.
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
