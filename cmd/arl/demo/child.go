package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/ledger/process"
)

// child is a process that the conductor started.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	args  []string
	done  chan struct{} // closed at the end of the process
	err   error         // error of that end; valid after done
}

// heard is an event: a line of a child, the end of a child, an entry of the log, or the end of the
// log.
type heard struct {
	from  *child
	line  []byte // nil, and entry is nil: the child has ended
	entry *client.Entry
	err   error
}

// troupe has the children, in the order of their starts.
type troupe struct {
	dir      directory
	binary   string
	children []*child
	ears     chan heard // has room for all events: no child waits after the conductor stops listening
}

// environment returns the environment of the children. The settings of the caller do not apply to
// the demo.
func (t *troupe) environment() []string {
	kept := slices.DeleteFunc(os.Environ(), func(setting string) bool { return strings.HasPrefix(setting, "ARL_") })
	return append(kept, "ARL_HOME="+t.dir.path("home"))
}

// start starts a process of this program in a process group of its own. On Ctrl-C, the conductor
// therefore ends the process.
func (t *troupe) start(name string, args ...string) (*child, error) {
	c := &child{name: name, args: args, cmd: exec.CommandContext(context.Background(), t.binary, args...), done: make(chan struct{})}
	c.cmd.Env = t.environment()
	process.Group(c.cmd)
	log, err := os.OpenFile(t.dir.log(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	c.cmd.Stderr = log
	stdout, err := c.cmd.StdoutPipe()
	if err == nil {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", name, err)
	}
	t.children = append(t.children, c)
	go t.listen(c, stdout)
	return c, nil
}

func (d directory) log(name string) string { return d.path("logs", name+".log") }

// Until returns a context that also ends with an input. If the conductor is killed, its end of the
// pipe closes, and the processes of the demo end.
func Until(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input) // an error is the end, too
		cancel()
	}()
	return ctx, cancel
}

// listen passes on the output of a child until the child ends.
func (t *troupe) listen(c *child, stdout io.Reader) {
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		t.ears <- heard{from: c, line: append([]byte{}, scanner.Bytes()...)}
	}
	_, _ = io.Copy(io.Discard, stdout) // the child must not block on a line that is too long
	c.err = c.cmd.Wait()
	close(c.done)
	t.ears <- heard{from: c}
}

// patience is the time that a process has to end by itself.
const patience = 10 * time.Second

// end ends all children but the first ones, the newest child first. but is the number of the
// children that stay. end waits for each child, and kills a child that does not end by itself.
func (t *troupe) end(but int) (failed error) {
	for _, c := range slices.Backward(t.children[min(but, len(t.children)):]) {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // the child may have ended
		_ = c.stdin.Close()
		select {
		case <-c.done:
		case <-time.After(patience):
			_ = c.cmd.Process.Kill() // the child may just have ended
			<-c.done
			failed = errors.Join(failed, fmt.Errorf("demo: %s did not end within %s", c.name, patience))
		}
	}
	t.children = t.children[:min(but, len(t.children))]
	return failed
}

// run runs a command to its end, checks the exit code, and returns the output.
func (t *troupe) run(ctx context.Context, want int, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Env = t.environment()
	process.Group(cmd)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		return nil, fmt.Errorf("%w: arl %s: exit code %d, want %d: %s", errDied, strings.Join(args[:2], " "), code, want, lastLine(said.Bytes()))
	}
	return out, nil
}

// diedOf returns the error of a child that ended unexpectedly.
func (t *troupe) diedOf(c *child) error {
	said, _ := os.ReadFile(t.dir.log(c.name)) // without a file: nothing
	why := cmp.Or(lastLine(said), "it said nothing")
	return fmt.Errorf("%w: %s: %v: %s (its words are in %s)", errDied, c.name, cmp.Or(c.err, errors.New("exit code 0")), why, t.dir.log(c.name))
}

func lastLine(text []byte) string {
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range all {
		if strings.HasPrefix(line, "arl: ") {
			return line
		}
	}
	return all[len(all)-1]
}

// killed reports whether SIGKILL ended the child. The child must have ended.
func (c *child) killed() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
