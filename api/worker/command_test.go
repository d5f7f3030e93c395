//go:build unix

package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/ledger/redact"
)

// TestMain is also the program that tests run: with a part to play it plays it.
func TestMain(m *testing.M) {
	switch os.Getenv("SUPERVISE_PART") {
	case "":
		os.Exit(m.Run())
	case "eat":
		eat(os.Getenv("SUPERVISE_BYTES"), false)
	case "eat-and-die":
		eat(os.Getenv("SUPERVISE_BYTES"), true)
	case "panic":
		panic("no way with " + os.Getenv("SECRET_TOKEN"))
	}
}

// eat takes memory for good, and is killed then if it is to be.
func eat(most string, die bool) {
	bytes, _ := strconv.Atoi(most)
	var kept [][]byte
	for total := 0; total < bytes; total += 1 << 20 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 512 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
	if die {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	runtime.KeepAlive(kept)
}

func part(name string, bytes int) Command {
	return Command{Argv: []string{os.Args[0]}, Env: []string{"SUPERVISE_PART=" + name, "SUPERVISE_BYTES=" + strconv.Itoa(bytes), "GOMEMLIMIT=off"}}
}

func script(text string) Command { return Command{Argv: []string{"/bin/sh", "-c", text}} }

// However a program ends, it is noticed, and told in the words of the taxonomy.
func TestCommandEndings(t *testing.T) {
	for _, c := range []struct {
		desc, want string
		command    Command
	}{
		{"well", "none, exit 0, signal 0, , ", script("echo fine >&2")},
		{"an exit code", "crash.panic, exit 3, signal 0, exit code 3, exit code 3: no luck", script("echo no luck >&2; exit 3")},
		{"kill -9", "crash.lost, exit -1, signal 9, signal 9, signal 9: on it", script("echo on it >&2; kill -9 $$")},
		{"kill -9 of the shell's child", "crash.lost, exit 137, signal 9, signal 9", script("sh -c 'kill -9 $$'; exit $?")},
		{"a crash", "crash.panic, exit -1, signal 11, signal 11", script("kill -SEGV $$")},
		{"an abort", "crash.panic, exit -1, signal 6, signal 6", script("kill -ABRT $$")},
		{"SIGTERM from somebody else", "crash.lost, exit -1, signal 15, signal 15", script("kill -TERM $$")},
		{"words of memory", "crash.oom, exit 1, signal 0, its last words, its last words: MemoryError", script("echo Traceback >&2; echo MemoryError >&2; exit 1")},
		{"words of Go", "crash.oom, exit 2, signal 0, its last words, its last words: fatal error: runtime: out of memory", script("echo 'fatal error: runtime: out of memory' >&2; exit 2")},
		{"a panic of Go", "crash.panic, exit 2, signal 0, exit code 2, exit code 2: panic: no way with [secret]", func() Command {
			c := part("panic", 0)
			c.Env = append(c.Env, "SECRET_TOKEN=hunter2-hunter2")
			c.Redact = redact.New([]string{"hunter2-hunter2"})
			return c
		}()},
		{"no such program", "request.invalid, exit -1, signal 0, could not be started", Command{Argv: []string{"/not/there"}}},
		{"a deadline", "transient.timeout, exit -1, signal 15, the deadline is over", func() Command { c := script("exec sleep 600"); c.Deadline = 50 * time.Millisecond; return c }()},
	} {
		e := c.command.Run(t.Context())
		got := fmt.Sprintf("%v, exit %d, signal %d, %s, %s", e.Failure, e.Exit, e.Signal, e.How, e.Text)
		if !strings.HasPrefix(got, c.want) || e.OK() != strings.HasPrefix(c.want, "none") {
			t.Errorf("%s: %s\nwant %s", c.desc, got, c.want)
		}
	}
}

// A program that is asked to end and does counts as interrupted, however it ends;
// one that does not heed it is killed with all it started, and one whose lease is
// lost at once.
func TestCommandIsStopped(t *testing.T) {
	for _, c := range []struct {
		desc, script string
		cause        error
		want         string
	}{
		{"it ends", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", context.Canceled, "crash.interrupted 0 0"},
		{"it ends badly", "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done", context.Canceled, "crash.interrupted 5 0"},
		{"it dies of it", "echo up; exec sleep 600", context.Canceled, "crash.interrupted -1 15"},
		{"it does not heed it", "trap '' TERM; echo up; while :; do sleep 0.01; done", context.Canceled, "crash.interrupted -1 9"},
		{"its lease is lost", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", ErrLeaseLost, "crash.lost -1 9"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		command := script(c.script)
		command.Grace, command.Stdout = 100*time.Millisecond, writer(func() { cancel(c.cause) })
		e := command.Run(ctx)
		if got := fmt.Sprintf("%v %d %d", e.Failure, e.Exit, e.Signal); got != c.want {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
		cancel(nil)
	}
}

// writer calls a function when something is written.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// What a program started goes with it.
func TestCommandLeavesNothingBehind(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // waits for nobody who writes
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if e := script("exec 3> " + pipe + "; sleep 600 & exit 4").Run(t.Context()); e.Exit != 4 {
		t.Errorf("ending %+v", e)
	}
	if _, err := io.ReadAll(end); err != nil { // ends when the last writer is gone
		t.Error(err)
	}
}

// A program that takes more memory than it may have is told from one that
// somebody killed, on whatever machine this is.
func TestCommandRunsOutOfMemory(t *testing.T) {
	c := part("eat", 512<<20)
	c.Memory = 64 << 20
	e := c.Run(t.Context())
	t.Logf("%v: %s (peak %d MiB)", e.Failure, e.How, e.Peak>>20)
	if e.Failure != OutOfMemory || e.Text == "" {
		t.Errorf("ending %+v: %s", e, e.Output)
	}
}

// In a real control group of its own the kernel's counter tells: it grows by the
// process that the kernel killed, and not by one that somebody else did. The
// group is gone afterwards. Machines differ in which version they have; the other
// one is tried on files alone ([TestOwnGroupOnFixtures]).
func TestCommandInRealControlGroup(t *testing.T) {
	m := watchMemory("/", 64<<20)
	if !m.own {
		t.Skip("no control group with a limit on memory can be made here: that needs its controller and the right to make groups")
	}
	version, parent := m.group.version, filepath.Dir(m.group.dir)
	m.close()
	before, _ := filepath.Glob(filepath.Join(parent, "arl-*")) // of others, and of supervisors that were killed
	c := part("eat", 512<<20)
	c.Memory = 64 << 20
	want := fmt.Sprintf("oom_kill of the control group (version %d) grew from 0 to 1", version)
	if e := c.Run(t.Context()); e.Failure != OutOfMemory || e.How != want || e.Signal != 9 || e.Peak > 128<<20 { // shared pages count too
		t.Errorf("%v: %s, signal %d, peak %d; want %s", e.Failure, e.How, e.Signal, e.Peak, want)
	}
	c = part("eat-and-die", 16<<20)
	c.Memory = 256 << 20 // far more than it takes, also with the race detector, which has five times as much
	if e := c.Run(t.Context()); e.Failure != Lost || e.Signal != 9 {
		t.Errorf("a plain kill: %v: %s", e.Failure, e.How)
	}
	child := script(`"$0" & wait $!; exit $?`) // the kernel kills a child of the program
	child.Argv, child.Env, child.Memory = append(child.Argv, os.Args[0]), part("eat", 512<<20).Env, 64<<20
	if e := child.Run(t.Context()); e.Failure != OutOfMemory || e.How != want || e.Exit != 137 {
		t.Errorf("a child: %v: %s, exit code %d", e.Failure, e.How, e.Exit)
	}
	left, err := filepath.Glob(filepath.Join(parent, "arl-*"))
	if left = slices.DeleteFunc(left, func(dir string) bool { return slices.Contains(before, dir) }); err != nil || len(left) > 0 {
		t.Errorf("control groups are left: %v, %v", left, err)
	}
}

// Where no control group can be read, what a killed program had tells: most of
// what it could have, or far less.
func TestCommandOutOfMemoryWithoutGroups(t *testing.T) {
	for _, c := range []struct {
		eats int
		want Failure
	}{{256, OutOfMemory}, {16, Lost}} { // with the race detector, 16 MiB are some 90
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "proc"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc", "meminfo"), []byte("MemTotal: 262144 kB\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		command := part("eat-and-die", c.eats<<20)
		command.Root = root
		if e := command.Run(t.Context()); e.Failure != c.want || e.Signal != 9 {
			t.Errorf("%d MiB: %+v", c.eats, e)
		}
	}
	command := Command{Argv: []string{"python3", "-c", "x = 'a' * (2 << 30)"}} // this program cannot begin so with the race detector
	command.Root, command.Memory = t.TempDir(), 1<<30
	if e := command.Run(t.Context()); e.Failure != OutOfMemory || e.How != "its last words" {
		t.Errorf("under a limit of address space: %v, %s, %s", e.Failure, e.How, e.Text)
	}
}

// The end of standard error is kept, to its limit, and all of it passed on.
func TestTailIsBounded(t *testing.T) {
	for _, size := range []int{OutputMax, OutputMax + 1, 3 * OutputMax} {
		var all bytes.Buffer
		kept := &tail{next: &all}
		for rest := size; rest > 0; rest -= 1000 {
			if _, err := kept.Write(bytes.Repeat([]byte{byte('a' + rest%26)}, min(rest, 1000))); err != nil {
				t.Fatal(err)
			}
		}
		if all.Len() != size || len(kept.bytes()) != min(size, OutputMax) || !bytes.HasSuffix(all.Bytes(), kept.bytes()) {
			t.Errorf("%d bytes: %d passed on, %d kept", size, all.Len(), len(kept.bytes()))
		}
	}
}

// python3 and node end as they really do when they run into their own limits.
func TestInterpretersEnd(t *testing.T) {
	for _, c := range []struct {
		program, code string
		want          Failure
	}{
		{"python3", "raise KeyError('booking')", Panicked},
		{"python3", "import os; os.abort()", Panicked},
		{"node", "throw new Error('booking')", Panicked},
	} {
		path, err := exec.LookPath(c.program)
		if err != nil {
			t.Errorf("%s is not on this machine: %v", c.program, err)
			continue
		}
		flag := map[string]string{"python3": "-c", "node": "-e"}[c.program]
		if e := (Command{Argv: []string{path, flag, c.code}}).Run(t.Context()); e.Failure != c.want || c.code[0] == 'r' &&
			!strings.Contains(e.Text, "KeyError: 'booking'") || c.code[0] == 't' && !strings.Contains(e.Text, "Error: booking") {
			t.Errorf("%s %s: %v, %s, %s", c.program, c.code, e.Failure, e.How, e.Text)
		}
	}
}
