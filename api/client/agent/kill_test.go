package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// The environment of a child process: see childMain.
const childVariable = "ARL_AGENT_TEST"

// TestMain lets the test binary be an agent that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := childMain(strings.Split(os.Getenv(childVariable), "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// suicide ends this process as a crash does, at the n-th thing that it does.
type suicide struct{ left int }

func (s *suicide) tick(string) error {
	if s.left--; s.left == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
	return nil
}

// killed is a store, and a ledger, in which this process may end.
type killedStore struct {
	agent.Store
	*suicide
}

// Save implements [agent.Store].
func (k killedStore) Save(name string, data []byte) error {
	_ = k.tick("save")
	err := k.Store.Save(name, data)
	_ = k.tick("save!")
	return err
}

type killedLedger struct {
	agent.Ledger
	*suicide
}

// Submit implements [agent.Ledger].
func (k killedLedger) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	_ = k.tick("submit")
	ref, err := k.Ledger.Submit(ctx, e)
	_ = k.tick("submit!")
	return ref, err
}

// childMain is an agent in a process of its own: url, file of the root, directory,
// at which step it kills itself, what it can find out.
func childMain(args []string) error {
	left, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	root, err := verify.ParseRoot(text)
	if err != nil {
		return err
	}
	c, err := client.New(args[0], root, nil)
	if err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(args[2], "head"))
	if err != nil {
		return err
	}
	store, err := agent.OpenDir(filepath.Join(args[2], "store"))
	if err != nil {
		return err
	}
	end := &suicide{left}
	s := &agent.Server{Client: c, Agent: "worker"}
	a, err := agent.Open(&agent.Config{Root: root, Agent: "worker", Secret: make([]byte, 16), Sign: signerOf("worker").Sign, NewID: uuid.NewString,
		Ledger: killedLedger{s, end}, Log: s, Store: killedStore{store, end},
		Second: &agent.Mirror{Client: c, Head: func(context.Context) (string, error) { return string(head), nil }},
		Hooks:  end.hooks(filepath.Join(args[2], "effects"), kit(args[4]))}, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return agent.Run(context.Background(), a, s)
}

// hooks have their effects in a file: a line each. None of them is idempotent;
// Probe, where there is one, reads that file.
func (s *suicide) hooks(effects string, k kit) agent.Hooks {
	hook := func(_ context.Context, c *agent.Call) (*agent.Report, error) {
		_ = s.tick("hook")
		err := appendLine(effects, line(c.Hook, c))
		_ = s.tick("hook!")
		return &agent.Report{Status: agent.Done, Digest: c.Digest}, err
	}
	if k == bare {
		return agent.Hooks{Drain: hook, Restore: hook, Compensate: hook}
	}
	return agent.Hooks{Restore: hook, Compensate: hook, Probe: func(_ context.Context, c *agent.Call) (*agent.Report, error) {
		_ = s.tick("probe")
		done, err := os.ReadFile(effects)
		if err == nil && strings.Contains(string(done), line(c.Of, c)+"\n") {
			return &agent.Report{Status: agent.Done, Digest: c.Digest}, nil
		}
		return &agent.Report{Status: agent.NoEffect}, nil
	}}
}

func line(hook agent.Hook, c *agent.Call) string {
	return string(hook) + " " + string(c.Members[0].Exec)
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return f.Close()
}

// TestChaosKill kills the process of an agent with SIGKILL, by itself at each
// step and from outside at any moment. Its hooks are not idempotent. With Probe
// each incident ends with the effect there once, and said to be there; without,
// no effect is there twice, and none is said to be there or not that is not
// known. ARL_CHAOS=1 does it 2,000 times each.
func TestChaosKill(t *testing.T) {
	for _, k := range []kit{probing, bare} {
		t.Run(string(k), func(t *testing.T) {
			kills := budget.Budget{Short: 5, Usual: 15, Chaos: 2000}.Now()
			s := newSlaughter(t, k)
			killed := 0
			for killed < kills {
				killed += s.incident(killed)
			}
			s.check()
			t.Logf("%d kills in %d incidents", killed, s.incidents)
		})
	}
}

// slaughter is a ledger, and an agent that does not live long.
type slaughter struct {
	*node
	t         *testing.T
	kit       kit
	rng       *rand.Rand
	dir       string
	incidents int
}

func newSlaughter(t *testing.T, k kit) *slaughter {
	t.Helper()
	seed := budget.Seed(t)
	s := &slaughter{newNode(t), t, k, rand.New(rand.NewPCG(seed, 0)), t.TempDir(), 0}
	text, err := s.root.Encode()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "root"), text, 0o600))
	head, err := s.client().Head(t.Context())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.dir, "head"), []byte(head.Note), 0o600))
	store, err := agent.OpenDir(filepath.Join(s.dir, "store"))
	must(t, err)
	must(t, agent.Init(store, s.root, "worker", time.Now().UnixMilli()))
	must(t, store.Close())
	return s
}

// start starts the agent, to kill itself at a step; 0: at none.
func (s *slaughter) start(step int) *exec.Cmd {
	s.t.Helper()
	binary, err := os.Executable()
	must(s.t, err)
	child := exec.Command(binary)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d|%s", childVariable, s.url, filepath.Join(s.dir, "root"), s.dir, step, s.kit))
	child.Stderr = os.Stderr
	must(s.t, child.Start())
	return child
}

// incident begins one, and kills the agent until it has its record. It returns
// how often that was.
func (s *slaughter) incident(before int) (killed int) {
	s.t.Helper()
	id := fmt.Sprintf("x%d", s.incidents)
	fails := s.fails
	if s.incidents++; s.incidents%2 == 0 {
		fails = s.failsReversibly
	}
	incident := fails(id)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	recorded := make(chan error, 1)
	go func() { recorded <- s.closed(ctx, incident) }()
	for {
		step := 1 + (before+killed+s.rng.IntN(3))%20
		if (before+killed)%3 == 2 { // from outside, at any moment of about as many steps
			step = 0
		}
		child := s.start(step)
		died := make(chan struct{})
		go func() {
			_ = child.Wait() // it is killed
			close(died)
		}()
		if step == 0 {
			time.AfterFunc(time.Duration(20+s.rng.IntN(60))*time.Millisecond, func() { _ = child.Process.Kill() })
		}
		select {
		case <-died:
			killed++
		case err := <-recorded:
			must(s.t, err)
			_ = child.Process.Kill()
			<-died
			return killed
		}
	}
}

// failsReversibly is fails of something that a checkpoint lies before.
func (n *node) failsReversibly(id string) uint64 {
	n.tb.Helper()
	wid := entry.WorkflowID("flow-" + id)
	n.write("worker", &entry.Checkpoint{Header: entry.Header{Wid: wid}, Checkpoint: "before-" + id, Digest: zero})
	for _, progress := range []entry.Progress{entry.Started, entry.Confirmed} {
		n.write("worker", &entry.Execution{Header: entry.Header{Wid: wid}, Exec: id, Effect: entry.EffectReversible, Progress: progress, Parents: []entry.Parent{}})
	}
	return n.write("worker", &entry.Signal{Header: entry.Header{Wid: wid}, Subject: entry.NewRef("worker", id), Class: "tool", Code: "error",
		Standing: entry.StandingExecutor, Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
}

// check holds the outcomes to what is in the file.
func (s *slaughter) check() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "effects"))
	if !errors.Is(err, fs.ErrNotExist) { // a bare agent that always died before its effect has none
		must(s.t, err)
	}
	effects, said := map[string]int{}, map[entry.Ref]entry.Result{}
	for line := range strings.Lines(string(text)) {
		effects[strings.TrimSpace(line)]++
	}
	for e, err := range s.client().Entries(s.t.Context(), api.ListQuery{Kinds: []entry.Kind{entry.KindOutcome}}) {
		must(s.t, err)
		o, _ := e.Body.(*entry.Outcome)
		said[o.Exec] = o.Result
	}
	for _, effect := range slices.Sorted(maps.Keys(effects)) {
		if effects[effect] > 1 {
			s.t.Errorf("%s %d times", effect, effects[effect])
		}
	}
	for i := range s.incidents {
		exec := entry.NewRef("worker", fmt.Sprintf("x%d", i))
		undone := effects["compensate "+string(exec)]+effects["restore "+string(exec)] > 0
		switch got := said[exec]; {
		case undone && (got == entry.Compensated || got == entry.Restored):
		case s.kit == bare && got == entry.ResultUnknown: // it may have been
		default:
			s.t.Errorf("%s is said to be %q; undone: %t", exec, got, undone)
		}
	}
}
