package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// escape is a script that leaves a process in a session of its own, whose parent
// is gone, tells its id, and ends.
const escape = `setsid -f sh -c 'echo $$; exec sleep 600' </dev/null 2>/dev/null; while ! test -s "$0"; do sleep 0.01; done; exit 3`

// escaped runs it to its end and returns the id.
func escaped(t *testing.T, change func(*Command)) int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "pid")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := script(escape)
	c.Argv, c.Stdout = append(c.Argv, out), f
	change(&c)
	if e := c.Run(t.Context()); e.Exit != 3 {
		t.Fatalf("%+v", e)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A program that leaves a process in another session, out of reach of signals to
// its group, does not outlive its run by it: it is inherited and killed, and
// children that were there before are not.
func TestCommandReachesOtherSessions(t *testing.T) {
	before := &orphans{before: children()} // what other tests have left to this process
	other := script("exec sleep 600")
	started, ended := make(chan int, 1), make(chan Ending)
	other.Started = func(pid int) { started <- pid }
	go func() { ended <- other.Run(t.Context()) }()
	bystander := <-started
	pid := escaped(t, func(c *Command) { c.Sole = true })
	if !gone(pid) {
		t.Errorf("process %d runs on", pid)
	}
	if gone(bystander) {
		t.Error("a child of before is gone")
	}
	kill(bystander)
	<-ended
	if left := before.left(); len(left) > 0 {
		t.Errorf("children %v", left)
	}
}

// The same in a control group, without inheriting anything: all that is in it is
// killed, and it is removed.
func TestCommandEmptiesItsControlGroup(t *testing.T) {
	if m := watchMemory("/", 64<<20); !m.own {
		t.Skip("no control group with a limit on memory can be made here: that needs its controller and the right to make groups")
	} else {
		m.close()
	}
	pid := escaped(t, func(c *Command) { c.Memory = 64 << 20 })
	for until := time.Now().Add(10 * time.Second); !dead(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("process %d runs on", pid)
		}
	}
}

// dead reports whether a process is gone, or is only waited for by who has
// inherited it.
func dead(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// Those that a program leaves behind and that end before it are buried: there is
// no child any more that has ended.
func TestCommandBuriesOrphans(t *testing.T) {
	dir := t.TempDir()
	c := script(`for i in 1 2 3; do setsid -f sh -c 'echo $$ > "$0"' "$0/$i"; done; while test -d "$0"; do sleep 0.01; done`)
	c.Argv, c.Sole = append(c.Argv, dir), true
	done := make(chan Ending)
	go func() { done <- c.Run(t.Context()) }()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		over := 0
		for _, name := range []string{"1", "2", "3"} {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && gone(pid) {
				over++
			}
		}
		if over == 3 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d of 3 are buried", over)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if e := <-done; !e.OK() {
		t.Errorf("%+v", e)
	}
}

// Empty groups of processes that are no more are removed; those of others, those
// that are not empty, and what is named otherwise stay.
func TestSweepRemovesGroupsOfTheDead(t *testing.T) {
	over := script("exit 0")
	dead := 0
	over.Started = func(pid int) { dead = pid }
	over.Run(t.Context())
	root := t.TempDir()
	stay := []string{"arl-" + strconv.Itoa(os.Getpid()) + "-aa", "arl-" + strconv.Itoa(dead) + "-full", "arl-x-aa", "arl--aa", "arl-0-aa", "arl-aa", "other-" + strconv.Itoa(dead) + "-aa"}
	for _, name := range append(stay, "arl-"+strconv.Itoa(dead)+"-full/process", "arl-"+strconv.Itoa(dead)+"-empty") {
		if err := os.MkdirAll(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	group{root, 2}.sweep()
	for _, name := range stay {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "arl-"+strconv.Itoa(dead)+"-empty")); err == nil {
		t.Error("the empty group of a dead process stays")
	}
}
