package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The counter is found and read in both versions of control groups, also where a
// container shows them from its own root; where there is none, it is said so.
func TestOwnGroupOnFixtures(t *testing.T) {
	for _, c := range []struct {
		root    string
		version int // 0: none
		kills   int64
	}{{"v2", 2, 3}, {"v1", 1, 7}, {"nested", 2, 1}, {"none", 0, 0}, {"old", 0, 0}, {"missing", 0, 0}} {
		g, ok := ownGroup(filepath.Join("testdata", c.root))
		if ok != (c.version != 0) || g.version != c.version {
			t.Errorf("%s: group %+v, %v", c.root, g, ok)
			continue
		}
		if !ok {
			continue
		}
		if n, err := g.kills(); err != nil || n != c.kills {
			t.Errorf("%s: %d kills, %v", c.root, n, err)
		}
	}
}

// A counter that grew means that the kernel killed for want of memory, one that
// did not that it was somebody else; without one, memory that was nearly used up
// tells.
func TestMemoryJudges(t *testing.T) {
	for version, file := range map[int]string{1: "memory.oom_control", 2: "memory.events"} {
		dir := t.TempDir()
		write := func(text string) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("oom_kill 4\n")
		m := &memory{group: &group{dir, version}, before: 4, machine: 100}
		if how := m.killed() + m.likely(100); how != "" {
			t.Errorf("version %d: nothing was counted, and it says %s", version, how)
		}
		write("oom_kill 5\n")
		if how := m.killed(); !strings.Contains(how, "grew from 4 to 5") {
			t.Errorf("version %d: %q", version, how)
		}
		write("oom_kill many\n")
		if how := m.killed(); how != "" {
			t.Errorf("version %d: a counter that is none says %s", version, how)
		}
	}
	for _, c := range []struct {
		limit, machine, peak int64
		likely               bool
	}{{100, 1000, 80, true}, {100, 1000, 79, false}, {0, 1000, 800, true}, {0, 1000, 799, false}, {0, 0, 1 << 40, false}} {
		m := &memory{limit: c.limit, machine: c.machine}
		if got := m.likely(c.peak) != ""; got != c.likely {
			t.Errorf("%+v: likely %v", c, got)
		}
	}
}

func TestTotalOf(t *testing.T) {
	for text, want := range map[string]int64{"MemTotal: 16 kB\n": 16 << 10, "MemTotal: x kB\n": 0, "MemTotal:\n": 0, "": 0, "MemFree: 1 kB\n": 0, "MemTotal: 99999999999999999 kB\n": 0} {
		if got := totalOf(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// A file of the kernel is read to its limit, and no further.
func TestReadSmallIsBounded(t *testing.T) {
	for _, size := range []int{kernelMax, kernelMax + 1} {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := readSmall(file); err != nil || len(text) != kernelMax {
			t.Errorf("of %d bytes %d, %v", size, len(text), err)
		}
	}
}

// FuzzGroups: whatever /proc says, a path stays below the mount, and a counter is
// no negative number.
func FuzzGroups(f *testing.F) {
	f.Add("4:memory:/docker/abc\n0::/\n", "oom_kill 3\n")
	f.Add("0::/../../x", "oom_kill -1")
	f.Add("::", "oom_kill 99999999999999999999")
	f.Fuzz(func(t *testing.T, groups, counters string) {
		for _, g := range groupsOf(groups) {
			if joined := filepath.Clean("/m" + g.dir); joined != "/m" && !strings.HasPrefix(joined, "/m/") {
				t.Fatalf("%q leads to %s", g.dir, joined)
			}
		}
		if n, ok := counter(counters, counterName); ok && n < 0 {
			t.Fatalf("%d", n)
		}
		if totalOf(counters) < 0 {
			t.Fatal("negative memory")
		}
	})
}
