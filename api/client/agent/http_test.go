package agent_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// node is a real ledger on a memory disk with a clerk that decides, behind a real
// server.
type node struct {
	tb      testing.TB
	log     *ledger.Log
	coord   *coord.Coordinator
	url     string
	root    verify.Root
	signers map[entry.Principal]*keys.Signer
}

// nodeLog is what a clerk sees of a ledger.
type nodeLog struct{ *ledger.Log }

// Submit implements [coord.Log].
func (l nodeLog) Submit(ctx context.Context, e *entry.Entry) error {
	answer, err := l.Log.Submit(ctx, e)
	if err == nil && answer.Refused != nil {
		return answer.Refused
	}
	return err
}

func newNode(tb testing.TB) *node {
	tb.Helper()
	ledgerKeys, err := keys.GenerateLedger(tb.TempDir(), origin, nil)
	must(tb, err)
	verifier, err := keys.NewVerifier(0)
	must(tb, err)
	n := &node{tb: tb, coord: coord.New(origin, verifier.Check), signers: map[entry.Principal]*keys.Signer{}}
	opened := time.Now()
	n.log, err = ledger.Open("db", &ledger.Config{Origin: origin, Signer: ledgerKeys.Signer, Verifier: ledgerKeys.Verifier, Cosigner: ledgerKeys.Cosigner,
		FS: vfs.NewMem(), Fatal: func(err error) { panic(err) }, Now: time.Now, Uptime: func() time.Duration { return time.Since(opened) },
		NewFold: func() ledger.Fold { return n.coord.NewFold() }, Precheck: n.coord.Precheck, Committed: n.coord.Committed})
	must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- n.log.Run(ctx) }()
	s, err := server.New(&server.Config{Origin: origin, VerifierKeys: ledgerKeys.VerifierKeys[:], Log: n.log, Coordinator: n.coord, Rate: -1})
	must(tb, err)
	web := httptest.NewServer(s.Handler())
	n.url = web.URL
	policy := coord.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: n.signer("root").Public()})
	for _, c := range []*entry.Cap{&policy.Limits.Incident, &policy.Limits.Signaler, &policy.Limits.Victim} {
		c.Members, c.FencedMS = 1_000_000, 1<<40
	}
	policy.Quotas.SignalsPerHour = 100_000
	n.write("root", policy)
	n.write("root", &entry.Agent{Principal: "coordinator", Op: entry.Enrol, Key: n.signer("coordinator").Public(), Roles: []entry.Role{entry.RoleCoordinator},
		Domain: "d", Span: entry.SpanWorkflow})
	n.write("root", &entry.Agent{Principal: "worker", Op: entry.Enrol, Key: n.signer("worker").Public(), Roles: []entry.Role{entry.RoleAgent}, Domain: "d",
		Span: entry.SpanWorkflow})
	first, err := n.log.Receipt(0)
	must(tb, err)
	n.root = verify.Root{Origin: origin, LedgerKeys: ledgerKeys.VerifierKeys[:], Genesis: merkle.HashLeaf(first.Leaf), Signature: verifier.Check}
	clerk := &coord.Clerk{Coordinator: n.coord, Log: nodeLog{n.log}, Principal: "coordinator", Seal: n.signer("coordinator").Sign}
	clerkCtx, stopClerk := context.WithCancel(ctx)
	go func() { done <- clerk.Run(clerkCtx) }()
	tb.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		stopClerk()
		must(tb, <-done)
		cancel()
		must(tb, <-done)
		must(tb, n.log.Close())
	})
	return n
}

// signer returns the key of a principal, the same one in every process.
func (n *node) signer(name entry.Principal) *keys.Signer {
	n.tb.Helper()
	if n.signers[name] == nil {
		n.signers[name] = signerOf(name)
	}
	return n.signers[name]
}

func signerOf(name entry.Principal) *keys.Signer {
	signer, err := keys.NewSigner(ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%32s", name))))
	if err != nil {
		panic(err)
	}
	return signer
}

func (n *node) write(iss entry.Principal, body entry.Body) uint64 {
	n.tb.Helper()
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: iss, Aud: origin, Iat: time.Now().Unix(), Wid: h.Wid}
	if h.Wid == "" && body.Kind() != entry.KindPolicy && body.Kind() != entry.KindAgent {
		h.Wid = "flow"
	}
	e, err := entry.New(body)
	must(n.tb, err)
	must(n.tb, n.signer(iss).Sign(e))
	answer, err := n.log.Submit(n.tb.Context(), e)
	must(n.tb, err)
	if answer.Refused != nil {
		n.tb.Fatal(answer.Refused)
	}
	return answer.Registered[0].Index
}

// fails registers something compensable that the worker did and its signal, and
// returns the incident.
func (n *node) fails(id string) uint64 {
	n.tb.Helper()
	for _, progress := range []entry.Progress{entry.Dispatched, entry.Confirmed} {
		n.write("worker", &entry.Execution{Exec: id, Effect: entry.EffectCompensable, Progress: progress, Parents: []entry.Parent{}, IdempotencyKey: zero})
	}
	return n.write("worker", &entry.Signal{Subject: entry.NewRef("worker", id), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
}

// client returns a client under the pinned root.
func (n *node) client() *client.Client {
	n.tb.Helper()
	c, err := client.New(n.url, n.root, nil)
	must(n.tb, err)
	return c
}

// closed waits until an incident has its record.
func (n *node) closed(ctx context.Context, incident uint64) error {
	for e, err := range n.client().Events(ctx, incident) {
		if err != nil {
			return err
		}
		if r, ok := e.Body.(*entry.Record); ok && r.Incident == incident {
			return nil
		}
	}
	return ctx.Err()
}

// TestOverHTTP: agents on a real ledger, by real HTTP, from the signal to the
// record.
func TestOverHTTP(t *testing.T) {
	n := newNode(t)
	head, err := n.client().Head(t.Context())
	must(t, err)
	store, err := agent.OpenDir(t.TempDir())
	must(t, err)
	must(t, agent.Init(store, n.root, "worker", time.Now().UnixMilli()))
	world := newOutside()
	s := &agent.Server{Client: n.client(), Agent: "worker"}
	a, err := agent.Open(&agent.Config{Root: n.root, Agent: "worker", Secret: make([]byte, 16), Sign: n.signer("worker").Sign, NewID: uuid.NewString,
		Ledger: s, Log: s, Second: &agent.Mirror{Client: n.client(), Head: func(context.Context) (string, error) { return head.Note, nil }},
		Store: store, Hooks: world.hooks(bare)}, time.Now().UnixMilli())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, a, s) }()
	for i := range 3 {
		must(t, n.closed(ctx, n.fails(fmt.Sprintf("x%d", i))))
	}
	cancel()
	must(t, <-done)
	if len(world.effects) != 6 || world.effects["compensate worker#x1"] != 1 {
		t.Errorf("%v", world.effects)
	}
	must(t, store.Close())
}

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
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
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
// at which step it kills itself. Its compensation appends a line to a file and is
// not idempotent; Probe reads that file.
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
	effects := filepath.Join(args[2], "effects")
	s := &agent.Server{Client: c, Agent: "worker"}
	a, err := agent.Open(&agent.Config{Root: root, Agent: "worker", Secret: make([]byte, 16), Sign: signerOf("worker").Sign, NewID: uuid.NewString,
		Ledger: killedLedger{s, end}, Log: s, Store: killedStore{store, end},
		Second: &agent.Mirror{Client: c, Head: func(context.Context) (string, error) { return string(head), nil }},
		Hooks: agent.Hooks{Compensate: func(_ context.Context, c *agent.Call) (*agent.Report, error) {
			_ = end.tick("hook")
			err := appendLine(effects, c.Key+" "+string(c.Members[0].Exec))
			_ = end.tick("hook!")
			return &agent.Report{Status: agent.Done}, err
		}, Probe: func(_ context.Context, c *agent.Call) (*agent.Report, error) {
			_ = end.tick("probe")
			done, err := os.ReadFile(effects)
			if err == nil && strings.Contains(string(done), c.Keys[0]) {
				return &agent.Report{Status: agent.Done}, nil
			}
			return &agent.Report{Status: agent.NoEffect}, nil
		}}}, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return agent.Run(context.Background(), a, s)
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
// step and from outside at any moment. Its hook is not idempotent: each incident
// ends with the effect there once, and said to be there. ARL_CHAOS=1 does it
// 2,000 times.
func TestChaosKill(t *testing.T) {
	kills := 50
	if os.Getenv("ARL_CHAOS") != "" {
		kills = 2000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := newNode(t)
	dir := t.TempDir()
	text, err := n.root.Encode()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "root"), text, 0o600))
	head, err := n.client().Head(t.Context())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "head"), []byte(head.Note), 0o600))
	store, err := agent.OpenDir(filepath.Join(dir, "store"))
	must(t, err)
	must(t, agent.Init(store, n.root, "worker", time.Now().UnixMilli()))
	must(t, store.Close())
	binary, err := os.Executable()
	must(t, err)
	start := func(step int) *exec.Cmd {
		child := exec.Command(binary)
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d", childVariable, n.url, filepath.Join(dir, "root"), dir, step))
		child.Stderr = os.Stderr
		must(t, child.Start())
		return child
	}
	killed, incidents := 0, 0
	for killed < kills {
		incident := n.fails(fmt.Sprintf("x%d", incidents))
		incidents++
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		recorded := make(chan error, 1)
		go func() { recorded <- n.closed(ctx, incident) }()
		for ended := false; !ended; {
			step := 1 + (killed+rng.IntN(3))%20
			if killed%3 == 2 { // from outside, at any moment of about as many steps
				step = 0
			}
			child := start(step)
			died := make(chan struct{})
			go func() {
				_ = child.Wait() // it is killed
				close(died)
			}()
			if step == 0 {
				time.AfterFunc(time.Duration(20+rng.IntN(60))*time.Millisecond, func() { _ = child.Process.Kill() })
			}
			select {
			case <-died:
				killed++
			case err := <-recorded:
				must(t, err)
				ended = true
				_ = child.Process.Kill()
				<-died
			}
		}
		cancel()
	}
	n.eachOnce(t, filepath.Join(dir, "effects"), incidents)
	t.Logf("%d kills in %d incidents", killed, incidents)
}

// eachOnce checks that every incident ended recovered, with its effect there once.
func (n *node) eachOnce(t *testing.T, file string, incidents int) {
	t.Helper()
	effects, err := os.ReadFile(file)
	must(t, err)
	for i := range incidents {
		if got := strings.Count(string(effects), fmt.Sprintf("worker#x%d\n", i)); got != 1 {
			t.Errorf("x%d was compensated %d times", i, got)
		}
	}
	for e, err := range n.client().Entries(t.Context(), client.Query{Kind: entry.KindRecord}) {
		must(t, err)
		if r, ok := e.Body.(*entry.Record); ok && r.State != "RECOVERED" {
			t.Errorf("incident %d: %s, %v", r.Incident, r.State, r.Tally)
		}
	}
}
