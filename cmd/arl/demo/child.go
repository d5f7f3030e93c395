package demo

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/process"
)

// child is a process that the conductor has started.
type child struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	args   []string
	ending bool          // it was told to end, or ends by itself
	done   chan struct{} // closed when it has ended
	err    error         // how; after done
}

// heard is a line of a child, or its end.
type heard struct {
	from *child
	line []byte // nil: it has ended
}

// troupe are the children. They are ended by their ids, in the order in which
// nobody misses who went before.
type troupe struct {
	dir      directory
	binary   string
	children []*child
	ears     chan heard
	quit     chan struct{} // closed when nobody listens any more
	deafen   func()
}

func newTroupe(dir directory, binary string) *troupe {
	t := &troupe{dir: dir, binary: binary, ears: make(chan heard), quit: make(chan struct{})}
	t.deafen = sync.OnceFunc(func() { close(t.quit) })
	return t
}

// environment is that of the children: the settings of whoever runs the demo do
// not count in it.
func (t *troupe) environment() []string {
	var kept []string
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "ARL_") {
			kept = append(kept, setting)
		}
	}
	return append(kept, "ARL_HOME="+t.dir.path("home"))
}

// start starts a process of this program. It is in a process group of its own,
// so that Ctrl-C ends it by way of the conductor.
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

// Until returns ctx, that ends with an input too. What the demo starts ends by it
// when the conductor is killed: nobody holds the other end of the pipe then.
func Until(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input) // it ends, however
		cancel()
	}()
	return ctx, cancel
}

// listen passes on what a child prints, until it ends.
func (t *troupe) listen(c *child, stdout io.Reader) {
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, MaxLine)
	for scanner.Scan() {
		t.hear(heard{c, append([]byte{}, scanner.Bytes()...)})
	}
	_, _ = io.Copy(io.Discard, stdout) // so that it is not held up by a line too long
	c.err = c.cmd.Wait()
	close(c.done)
	t.hear(heard{from: c})
}

func (t *troupe) hear(h heard) {
	select {
	case t.ears <- h:
	case <-t.quit:
	}
}

// patience is how long a process may take to end by itself.
const patience = 10 * time.Second

// end ends children, all at once, and waits for them. What does not end by itself
// is killed. From now on nobody is listened to.
func (t *troupe) end(children ...*child) error {
	t.deafen()
	for _, c := range children {
		c.ending = true
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.stdin.Close()
	}
	var failed error
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, c := range children {
		select {
		case <-c.done:
		case <-late.C:
			_ = c.cmd.Process.Kill() // it may just have ended
			<-c.done
			failed = errors.Join(failed, fmt.Errorf("demo: %s did not end within %s", c.name, patience))
		}
	}
	return failed
}

// running returns the children that have not ended, but for those given.
func (t *troupe) running(but ...string) (list []*child) {
	for _, c := range t.children {
		select {
		case <-c.done:
			continue
		default:
		}
		excepted := false
		for _, name := range but {
			excepted = excepted || name == c.name
		}
		if !excepted {
			list = append(list, c)
		}
	}
	return list
}

// close ends everybody: those who use the ledger first.
func (t *troupe) close() error {
	return errors.Join(t.end(t.running(serverName)...), t.end(t.running()...))
}

// run runs a command to its end and wants an exit code.
func (t *troupe) run(ctx context.Context, name string, want int, args ...string) error {
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Env = t.environment()
	process.Group(cmd)
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		return fmt.Errorf("%w: %s: exit code %d, want %d: %s", ErrDied, name, code, want, lastLine(said))
	}
	return nil
}

// diedOf says how a child has ended that should not have.
func (t *troupe) diedOf(c *child) error {
	said, _ := os.ReadFile(t.dir.log(c.name)) // or nothing
	why := cmp.Or(lastLine(said), "it said nothing")
	return fmt.Errorf("%w: %s: %v: %s (its words are in %s)", ErrDied, c.name, cmp.Or(c.err, errors.New("exit code 0")), why, t.dir.log(c.name))
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

// expect returns the first line that a child prints, decoded.
func (t *troupe) expect(ctx context.Context, c *child, into any) error {
	for {
		select {
		case h := <-t.ears:
			switch {
			case h.line == nil && !h.from.ending:
				return t.diedOf(h.from)
			case h.from == c:
				return json.Unmarshal(h.line, into)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// killed reports whether the child was ended by SIGKILL; it has ended.
func (c *child) killed() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func readMessage(text []byte) (m message, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("demo: %q is not a message: %w", text, err)
	}
	return m, nil
}
