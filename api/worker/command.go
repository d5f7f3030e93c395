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
	"sync"
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
	// Stdin, Stdout and Stderr are the streams of the program. nil: an empty input, a
	// discarded output. The ending keeps the end of the standard error too.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Deadline is the longest time of a run; 0: as long as the context.
	Deadline time.Duration
	// Grace is the time that the program has to end after SIGTERM. Then Run kills the
	// program and its children. 0: 10 s. Windows has no SIGTERM: there Run kills the
	// program at once, and the program's children go on.
	Grace time.Duration
	// Memory is the memory limit of the program, in bytes; 0: no limit. A control group
	// of its own sets the limit if one can be made. Else the system's limit on address
	// space sets it. See [LimitsMemory].
	Memory int64
	// Sole says that every new child of this process belongs to the program while the
	// program runs. On Linux this process then inherits the processes that the program
	// leaves in other process groups and sessions, and kills them too. Sole must be false
	// in a process that starts other programs meanwhile.
	Sole bool
	// Root is the directory of /proc and /sys; empty: "/".
	Root string
	// Redact takes secrets out of texts; nil: it takes out secrets of well-known forms.
	Redact *redact.Redactor
	// Started, if not nil, is called with the process id.
	Started func(pid int)
}

// Run runs the program and returns how it ended. The process of the program and its children
// form a process group, which is gone when Run returns. Processes that left the group are
// gone too if the program had its own control group, or with [Command.Sole]. When the
// context ends, Run asks the program to end with SIGTERM. If the cause is [ErrLeaseLost],
// Run kills the program at once, since its further work is void.
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

// prepare makes the command, inside its memory limit.
func (c Command) prepare(m *memory, tail *tail) *exec.Cmd {
	argv := m.wrap(c.Argv)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // ended by signals, in order
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, c.Stdin, c.Stdout, tail
	cmd.WaitDelay = drainMax
	process.Group(cmd)
	return cmd
}

// wait waits until the program ends, and ends the program when the context ends. asked
// reports whether wait ended the program.
func (c Command) wait(ctx context.Context, cmd *exec.Cmd, left *orphans) (asked bool) {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process state says how it ended
		close(done)
	}()
	defer process.End(cmd, syscall.SIGKILL) // the processes that the program left behind
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
	case <-done: // the program ended by itself, at the same instant
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

// judge fills in how the process ended. The kernel's counter comes first. Then comes the
// cause that ended the run. The signal or the exit code comes last.
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
		// The context did not end, so this is no interruption. Else a program could end
		// itself with a signal and get endless retries.
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

// shellSignal is the offset of a shell's exit code after a signal ended its program. The
// exit code is the offset plus the number of the signal: 137 is SIGKILL.
const shellSignal = 128

// signalOf returns the signal that ended a process, or the child of a shell; 0: no signal
// ended it.
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

// saysMemory reports whether a program's last words say that it had no memory left.
// Interpreters write such words when an allocation fails.
func saysMemory(words string) bool {
	for _, sign := range []string{"MemoryError", "heap out of memory", "runtime: out of memory", "cannot allocate memory", "std::bad_alloc", "OutOfMemoryError"} {
		if strings.Contains(strings.ToLower(words), strings.ToLower(sign)) {
			return true
		}
	}
	return false
}

// lastWords returns the line that says what went wrong. It is the last line, or the line
// that Go or Node writes for the error.
func lastWords(output []byte) string {
	var said, last, failed string
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		last = line
		if failed == "" && errorLine().MatchString(line) {
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

// errorLine matches the line with which JavaScript names a thrown error.
var errorLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:Uncaught )?\w*Error\b`) })

// tail passes its input on to the next writer, and keeps the end of the input.
type tail struct {
	next io.Writer
	kept []byte
}

// Write implements [io.Writer]. It ignores errors of the next writer.
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
