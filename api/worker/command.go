package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"recoveryledger/ledger/process"
	"recoveryledger/ledger/redact"
)

// Command is an agent that is a program.
type Command struct {
	Argv []string
	Env  []string // as in [exec.Cmd]; nil: that of this process
	Dir  string   // where it runs; empty: here
	// Stdin, Stdout and Stderr are its streams; nil: none, nowhere. The end of its
	// standard error is kept in the ending too.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Deadline is how long it may take; 0: as long as the context.
	Deadline time.Duration
	// Grace is how long it may take to end after SIGTERM; then it and all that it
	// started is killed. 0: 10 s. Windows has no SIGTERM: there the program is killed
	// at once, and what it has started goes on.
	Grace time.Duration
	// Memory is how much memory it may have, in bytes: by a control group of its
	// own where one can be made, else by the system's limit on address space.
	// 0: no limit. See [LimitsMemory].
	Memory int64
	// Sole says that every child that this process gets while the program runs is
	// of the program's: on Linux it then inherits what the program leaves behind in
	// other process groups and sessions, and kills that too. In a process that
	// starts others meanwhile it must be false.
	Sole bool
	// Root is where /proc and /sys are; empty: "/".
	Root string
	// Redact takes secrets out of texts; nil: those that anybody knows.
	Redact *redact.Redactor
	// Started is told the process id; nil: nobody is.
	Started func(pid int)
}

// Run runs the program to its end and tells how that was. Its process, and those
// that it starts, form a group that is gone when Run returns; so are those that
// left the group, where it had a control group of its own, or is [Command.Sole]. An
// ended context asks it to end with SIGTERM; a cause of [ErrLeaseLost] kills it at once, since
// whatever it does then is void.
func (c Command) Run(ctx context.Context) Ending {
	if c.Redact == nil {
		c.Redact = redact.New(nil)
	}
	if c.Root == "" {
		c.Root = "/"
	}
	e := Ending{Exit: -1, Started: time.Now()}
	if c.Memory > 0 && !LimitsMemory(runtime.GOOS) {
		e.Failure, e.How, e.Ended = Unstartable, "could not be started", time.Now()
		e.Text = "this system (" + runtime.GOOS + ") has no limit on the memory of a program: leave the limit out"
		return e
	}
	if c.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Deadline)
		defer cancel()
	}
	m := watchMemory(c.Root, c.Memory)
	defer m.close()
	left := new(orphans)
	if c.Sole {
		left = adopt()
		defer left.end()
	}
	tail := &tail{next: c.Stderr}
	cmd := c.prepare(m, tail)
	if err := cmd.Start(); err != nil {
		e.Failure, e.How, e.Text, e.Ended = Unstartable, "could not be started", c.Redact.Text(err.Error()), time.Now()
		return e
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	asked := c.wait(ctx, cmd, left)
	e.Ended, e.Output = time.Now(), tail.bytes()
	if cmd.ProcessState != nil {
		c.judge(ctx, &e, cmd.ProcessState, asked, m)
	}
	return e
}

// prepare makes the command, inside its limit of memory.
func (c Command) prepare(m *memory, tail *tail) *exec.Cmd {
	argv := m.wrap(c.Argv)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // ended by signals, in order
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, c.Stdin, c.Stdout, tail
	cmd.WaitDelay = drainMax
	process.Group(cmd)
	return cmd
}

// wait waits for the end, and brings it about when the context ends. It reports
// whether it did.
func (c Command) wait(ctx context.Context, cmd *exec.Cmd, left *orphans) (asked bool) {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what there is to know is in the state
		close(done)
	}()
	defer process.End(cmd, syscall.SIGKILL) // what it left behind
	for running := true; running; {
		select {
		case <-done:
			return false
		case <-left.died:
			left.bury(cmd.Process.Pid)
		case <-ctx.Done():
			running = false
		}
	}
	select {
	case <-done: // by itself, at the same instant
		return false
	default:
	}
	if !errors.Is(context.Cause(ctx), ErrLeaseLost) {
		process.End(cmd, syscall.SIGTERM)
		grace := time.NewTimer(orDefault(c.Grace))
		defer grace.Stop()
		select {
		case <-done:
			return true
		case <-grace.C:
		}
	}
	process.End(cmd, syscall.SIGKILL)
	<-done
	return true
}

// judge tells how the process ended. What the kernel counted is believed first,
// then who ended it, then how it ended.
func (c Command) judge(ctx context.Context, e *Ending, state *os.ProcessState, asked bool, m *memory) {
	e.Exit, e.Signal, e.Peak = state.ExitCode(), signalOf(state), peak(state)
	words := lastWords(e.Output)
	if killed := m.killed(); killed != "" && (e.Signal == int(syscall.SIGKILL) || e.Signal == 0 && e.Exit != 0) {
		e.Failure, e.How = OutOfMemory, killed
		e.Text = c.Redact.Text("out of memory: " + killed)
		return
	}
	switch {
	case asked:
		e.Failure, e.How = stopped(ctx)
	case e.Signal == 0 && e.Exit == 0:
		return
	case e.Signal == int(syscall.SIGKILL):
		e.Failure, e.How = Lost, "signal 9"
		if how := m.likely(e.Peak); how != "" {
			e.Failure, e.How = OutOfMemory, how
		}
	case e.Signal == int(syscall.SIGTERM), e.Signal == int(syscall.SIGINT), e.Signal == int(syscall.SIGHUP):
		// Nobody asked the supervisor: else a program could have endless retries by
		// ending itself so.
		e.Failure, e.How = Lost, "signal "+strconv.Itoa(e.Signal)
	case saysMemory(words):
		e.Failure, e.How = OutOfMemory, "its last words"
	case e.Signal != 0:
		e.Failure, e.How = Panicked, "signal "+strconv.Itoa(e.Signal)
	default:
		e.Failure, e.How = Panicked, "exit code "+strconv.Itoa(e.Exit)
	}
	e.Text = c.Redact.Text(strings.TrimSuffix(fmt.Sprintf("%s: %s", e.How, words), ": "))
}

// shellSignal is what a shell adds to the number of the signal that ended a
// program, to make its own exit code: 137 is SIGKILL.
const shellSignal = 128

// signalOf is the signal that ended a process, or a child of it if it is a shell;
// 0: none did.
func signalOf(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return 0
	case status.Signaled():
		return int(status.Signal())
	case status.ExitStatus() > shellSignal && status.ExitStatus() <= shellSignal+64:
		return status.ExitStatus() - shellSignal
	}
	return 0
}

// saysMemory reports whether a program's last words are that it had no memory
// left, as interpreters say when an allocation fails.
func saysMemory(words string) bool {
	for _, sign := range []string{"MemoryError", "heap out of memory", "runtime: out of memory", "cannot allocate memory", "std::bad_alloc", "OutOfMemoryError"} {
		if strings.Contains(strings.ToLower(words), strings.ToLower(sign)) {
			return true
		}
	}
	return false
}

// lastWords is the line that says what went wrong: the last one, or where Go and
// Node put it.
func lastWords(output []byte) string {
	var said, last, failed string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		last = line
		if failed == "" && errorLine.MatchString(line) {
			failed = line
		}
		for _, sign := range []string{"panic: ", "fatal error: ", "FATAL ERROR: ", "runtime: "} {
			if strings.HasPrefix(line, sign) && said == "" {
				said = line
			}
		}
	}
	switch {
	case said != "":
		return said
	case strings.HasPrefix(last, "Node.js v") && failed != "":
		return failed
	}
	return last
}

// errorLine is how JavaScript names what was thrown.
var errorLine = regexp.MustCompile(`^(?:Uncaught )?\w*Error\b`)

// tail passes on what is written, and keeps the end of it.
type tail struct {
	next io.Writer
	kept []byte
}

// Write implements [io.Writer]. That nobody takes what is passed on changes
// nothing.
func (t *tail) Write(p []byte) (int, error) {
	if t.next != nil {
		_, _ = t.next.Write(p)
	}
	t.kept = append(t.kept, p[max(0, len(p)-OutputMax):]...)
	if over := len(t.kept) - OutputMax; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.kept }
