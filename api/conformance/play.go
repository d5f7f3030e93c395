package conformance

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/process"
)

// noContext is for what ends by other means than a context: with the case.
var noContext = context.Background()

// A fault is what an agent does wrong in a case.
type fault struct{ expected, got string }

// Error implements error.
func (f *fault) Error() string { return "expected " + f.expected + ", got " + f.got }

// play is one case as it is played: the ledger, the world, and the agent's process. Its verbs do
// nothing once something went wrong.
type play struct {
	over  <-chan struct{} // closed when the run is to end
	kit   *Agent
	stage *stage.Stage
	world *world
	dir   string // the agent's files
	err   error  // a *fault, or what the kit could not do

	incident uint64
	process  *agentProcess
	starts   int
}

// agentProcess is one life of the agent.
type agentProcess struct {
	cmd   *exec.Cmd
	steps io.WriteCloser
	said  *process.Head
	ended chan struct{} // closed with the end
}

// maxSaid is how much of what an agent prints is kept for the report, in bytes.
const maxSaid = 2000

// settleDefault is [Agent.Settle] where it is 0.
const settleDefault = 1200 * time.Millisecond

// newPlay makes a stage, and the files that the agent is given.
func newPlay(ctx context.Context, kit *Agent, change func(*entry.Policy)) (*play, error) {
	s, err := stage.New(change)
	if err != nil {
		return nil, err
	}
	p := &play{over: ctx.Done(), kit: kit, stage: s}
	if p.world, err = newWorld(s); err == nil {
		p.world.started = p.undeclared
		p.dir, err = os.MkdirTemp("", "arl-conformance-")
	}
	if err == nil {
		err = p.files(s.Root.Encode)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// files writes the root, the key and the secret.
func (p *play) files(root func() ([]byte, error)) error {
	text, err := root()
	if err != nil {
		return err
	}
	key, err := p.stage.Private(stage.Agent)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"root.json": append(text, '\n'), "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"secret": []byte(strings.Repeat("5e", 32) + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(p.dir, "state"), 0o700)
}

func (p *play) close() {
	p.end(syscall.SIGKILL)
	if p.world != nil {
		p.world.close()
	}
	p.stage.Close()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // what a program left there that cannot be removed stays in the temporary directory
	}
}

// fail notes what the agent did wrong, unless something was wrong before.
func (p *play) fail(expected, got string, args ...any) {
	if p.err == nil {
		p.err = &fault{expected, fmt.Sprintf(got, args...)}
	}
}

// must notes what the kit could not do.
func (p *play) must(err error) {
	if p.err == nil && err != nil {
		p.err = err
	}
}

// start begins a life of the agent.
func (p *play) start() {
	if p.err != nil {
		return
	}
	cmd := exec.CommandContext(noContext, p.kit.Argv[0], p.kit.Argv[1:]...)
	process.Group(cmd)
	life := "again"
	if p.starts == 0 {
		life = "first"
	}
	p.starts++
	file := func(name string) string { return filepath.Join(p.dir, name) }
	cmd.Env = append(os.Environ(), "KIT_LEDGER="+p.stage.URL, "KIT_ROOT="+file("root.json"), "KIT_AGENT="+string(stage.Agent), "KIT_KEY="+file("key.pem"),
		"KIT_SECRET="+file("secret"), "KIT_STATE="+file("state"), "KIT_EFFECTS="+p.world.url, "KIT_START="+life)
	a := &agentProcess{cmd: cmd, said: &process.Head{Limit: maxSaid}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = a.said, a.said, time.Second
	var err error
	if a.steps, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.fail("a program that starts", "%v", err)
		return
	}
	p.process = a
	go func() {
		_ = cmd.Wait() // its end is what counts
		close(a.ended)
		p.stage.Announce()
	}()
}

// end ends the agent with all that it has started. SIGTERM is followed by SIGKILL.
func (p *play) end(signal syscall.Signal) {
	a := p.process
	if a == nil {
		return
	}
	p.process = nil
	process.End(a.cmd, signal)
	if signal != syscall.SIGKILL {
		timer := time.NewTimer(2 * time.Second)
		defer timer.Stop()
		select {
		case <-a.ended:
		case <-timer.C:
		}
	}
	process.End(a.cmd, syscall.SIGKILL)
	<-a.ended
	_ = a.steps.Close() // nobody reads it
}

// again ends the agent in good order and starts it.
func (p *play) again() {
	if p.err == nil {
		p.end(syscall.SIGTERM)
		p.start()
	}
}

// gone reports whether the agent has ended by itself.
func (p *play) gone() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.process.ended:
		return true
	default:
		return false
	}
}

// said is what the agent printed last, for a report.
func (p *play) said() string {
	if p.process == nil {
		return ""
	}
	text := ""
	if p.gone() {
		text = fmt.Sprintf(": the program ended (%s): %s", p.process.cmd.ProcessState, strings.TrimSpace(string(p.process.said.Text)))
	}
	return text
}

// until waits until a condition holds; where it does not, the agent is at fault.
func (p *play) until(expected string, holds func() bool) {
	if p.err != nil {
		return
	}
	held := p.stage.Until(p.over, p.kit.Limit, func() bool { return holds() || p.gone() })
	switch {
	case held && holds():
	case p.gone():
		p.fail(expected, "nothing of it%s", p.said())
	default:
		p.kit.idle.Add(1)
		p.fail(expected, "nothing of it within %s; %s", p.kit.Limit, p.happened())
	}
}

// happened says what the agent did so far.
func (p *play) happened() string {
	asked, refused := 0, ""
	for _, r := range p.stage.Seen() {
		asked++
		if r.Method == http.MethodPost && r.Status >= http.StatusBadRequest {
			refused = fmt.Sprintf(", the last refused entry with status %d: %s", r.Status, shortened(string(r.Body)))
		}
	}
	return fmt.Sprintf("the agent made %d requests, and the world had the effects %v%s", asked, p.world.undone(), refused)
}

// entries returns the entries of the agent since the incident, or since the start.
func (p *play) entries() []*entry.Registered {
	list, err := p.stage.Entries(p.incident)
	p.must(err)
	var own []*entry.Registered
	for _, e := range list {
		if e.Header.Iss == stage.Agent && e.Index > p.incident {
			own = append(own, e)
		}
	}
	return own
}

// run plays a case and says how it ended.
func (p *play) run(c *agentCase) (fault, bool, error) {
	c.play(p)
	p.invariants()
	var f *fault
	switch {
	case p.err == nil:
		return fault{}, true, nil
	case errors.As(p.err, &f):
		return *f, false, nil
	default:
		return fault{}, false, p.err
	}
}
