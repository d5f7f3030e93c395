package mcp_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/api/conformance/stage"
	"recoveryledger/api/mcp"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// proxyVariable has, in the environment of a child process that is a proxy: the ledger's URL, the
// directory of state, root and key, the server's directory, after how many steps it kills itself,
// and, if all goes over HTTP, the server's URL.
const proxyVariable = "ARL_MCP_PROXY"

// killedFile declares the tools so that every call and every compensation can be found out.
const killedFile = `
tools:
  put:
    before: {tool: get, arguments: {name: "${arguments/name}"}}
    idempotent: true
    probe: {tool: get, arguments: {name: "${arguments/name}"}, done: {content/0/text: "${arguments/text}"}}
    compensation:
      - when: before.done
        tool: put
        arguments: {name: "${arguments/name}", text: "${before/content/0/text}"}
      - when: before.failed
        tool: del
        arguments: {name: "${arguments/name}"}
  del:
    effect: irrevocable
    probe: {tool: get, arguments: {name: "${arguments/name}"}, done: error}
`

// suicide ends this process as a crash does, at the n-th thing that it does.
type suicide struct{ steps chan int }

func (s *suicide) tick() {
	left := <-s.steps - 1
	if left == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
	s.steps <- left
}

type killedStore struct {
	agent.Store
	*suicide
}

// Save implements [agent.Store].
func (k killedStore) Save(name string, data []byte) error {
	k.tick()
	defer k.tick()
	return k.Store.Save(name, data)
}

type killedLedger struct {
	*agent.Server
	*suicide
}

// Submit implements [mcp.Ledger].
func (k killedLedger) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	k.tick()
	defer k.tick()
	return k.Server.Submit(ctx, e)
}

// around has a process end before a hook, or after.
func (s *suicide) around(f agent.Func) agent.Func {
	return func(ctx context.Context, c *agent.Call) (*agent.Report, error) {
		s.tick()
		defer s.tick()
		return f(ctx, c)
	}
}

// childMain is a proxy with an agent that obeys, in a process of its own.
func childMain(args []string) error {
	left, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(args[1], "root.json"))
	if err != nil {
		return err
	}
	root, err := verify.ParseRoot(text)
	if err != nil {
		return err
	}
	der, err := os.ReadFile(filepath.Join(args[1], "key"))
	if err != nil {
		return err
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return err
	}
	signer, err := keys.NewSigner(private)
	if err != nil {
		return err
	}
	c, err := client.New(args[0], root, nil)
	if err != nil {
		return err
	}
	store, err := agent.OpenDir(filepath.Join(args[1], "state"))
	if err != nil {
		return err
	}
	end := &suicide{make(chan int, 1)}
	end.steps <- left
	server := killedLedger{&agent.Server{Client: c, Agent: stage.Agent}, end}
	tools, err := mcp.ParseTools("tools.yaml", []byte(killedFile))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tell := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	connect := mcp.Command([]string{"/usr/bin/env", "-u", proxyVariable, serverVariable + "=" + args[2], self}, os.Stderr, nil)
	if args[4] != "" {
		connect = remote(args[4])
	}
	proxy, err := mcp.New(&mcp.Config{Agent: stage.Agent, Origin: stage.Origin, Secret: make([]byte, 32), Sign: signer.Sign, NewID: uuid.NewString, Ledger: server, Tools: tools,
		Dir: filepath.Join(args[1], "state"), Connect: connect,
		Patience: time.Minute, Limit: time.Minute, Ask: time.Minute, Tell: tell})
	if err != nil {
		return err
	}
	proxy.Tighten(-1<<40, mcp.MaxJournal) // each call replaces the journal
	hooks := proxy.Hooks()
	hooks.Drain, hooks.Compensate, hooks.Probe = end.around(hooks.Drain), end.around(hooks.Compensate), end.around(hooks.Probe)
	runtime, err := agent.Open(&agent.Config{Root: root, Agent: stage.Agent, Secret: make([]byte, 32), Sign: signer.Sign, NewID: uuid.NewString, Ledger: server, Log: server.Server,
		Second: &agent.Mirror{Client: c, Head: func(context.Context) (string, error) { return root.Seen, nil }}, Store: killedStore{store, end}, Hooks: hooks, LookMS: 20,
		Tell: func(e agent.Event) { tell("%s %s %s %v", e.Kind, e.Exec, e.Text, e.Err) }}, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = agent.Run(ctx, runtime, server.Server) }()
	go func() { _ = proxy.Run(ctx) }()
	if args[4] != "" {
		return serveUntilEnd(proxy)
	}
	connection, err := new(sdk.StdioTransport).Connect(ctx)
	if err != nil {
		return err
	}
	return proxy.Serve(ctx, connection)
}

// TestChaosKill kills the proxy with SIGKILL at each thing that it does: at entries, at notes of
// the runtime, and around hooks. Another process goes on. In the end the files are as before, and
// nothing was undone twice.
func TestChaosKill(t *testing.T) {
	killEach(t, budget.Budget{Short: 46, Usual: 7, Chaos: 1}.Now(), false)
}

// TestChaosKillHTTP does so with a proxy between a client and a server that are both reached over
// HTTP. The server outlives the proxy.
func TestChaosKillHTTP(t *testing.T) {
	killEach(t, budget.Budget{Short: 46, Usual: 11, Chaos: 1}.Now(), true)
}

func killEach(t *testing.T, every int, web bool) {
	t.Helper()
	points := 0
	for n := 1 + int(budget.Seed(t)%uint64(every)); ; n += every {
		died := false
		t.Run(strconv.Itoa(n), func(t *testing.T) { died = killedAt(t, n, web) })
		if !died {
			break
		}
		points++
	}
	t.Logf("%d points", points)
	if points < 3 && every == 1 {
		t.Errorf("%d points", points)
	}
}

// killedAt lets a proxy die at its n-th step, and reports whether it did.
func killedAt(t *testing.T, n int, web bool) (died bool) {
	t.Helper()
	w := newWorld(t)
	root, err := w.stage.Root.Encode()
	must(t, err)
	der, err := w.stage.Private(stage.Agent)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(w.dir, "root.json"), root, 0o600))
	must(t, os.WriteFile(filepath.Join(w.dir, "key"), der, 0o600))
	store, err := agent.OpenDir(filepath.Join(w.dir, "state"))
	must(t, err)
	must(t, agent.Init(store, w.stage.Root, stage.Agent, time.Now().UnixMilli()))
	must(t, store.Close())
	must(t, os.WriteFile(filepath.Join(w.files, "notes", "a"), []byte("zero"), 0o600))
	before := w.notes()
	far := ""
	if web {
		far = w.notesOverHTTP()
	}
	defer w.coordinate()()
	var said bytes.Buffer
	first, err := w.front(t, w.child(t, n, far, &said), web)
	var incident uint64
	if err == nil {
		if err = first.putTwo(t); err == nil {
			if incident = w.signalFirst(first.dead); incident != 0 {
				died = w.endOrRecord(first.dead, incident)
			} else {
				died = true
			}
		}
		_ = first.leave() // the process may be dead
	}
	died = died || err != nil
	if died {
		second, err := w.front(t, w.child(t, 0, far, &said), web)
		if err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		if incident == 0 {
			incident = w.signalFirst(second.dead)
		}
		if incident != 0 && w.endOrRecord(second.dead, incident) {
			t.Fatalf("the second process died\n%s", said.String())
		}
		must(t, second.leave())
	}
	if got := w.notes(); !maps.Equal(got, before) {
		t.Errorf("notes %v, before %v\n%s\n%s", got, before, w.done(), said.String())
	}
	if again := strings.Count(w.done(), "del b"); again > 1 {
		t.Errorf("b was removed %d times\n%s", again, w.done())
	}
	if again := strings.Count(w.done(), "put a"); again > 2 {
		t.Errorf("a was written %d times, and once to undo that\n%s", again-1, w.done())
	}
	if removed := strings.Index(w.done(), "del b"); removed >= 0 && removed > strings.LastIndex(w.done(), "put a") {
		t.Errorf("a was undone before b, which was done after it\n%s", w.done())
	}
	return died
}

// coordinate has the ledger decide until the function that it returns is called.
func (w *world) coordinate() (end func()) {
	ctx, stop := context.WithCancel(w.tb.Context())
	coordinated := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := w.stage.Coordinate(ctx, nil); err != nil && ctx.Err() == nil {
				coordinated <- err
				return
			}
			time.Sleep(5 * time.Millisecond) // as a coordinator's looks
		}
		coordinated <- nil
	}()
	return func() {
		stop()
		must(w.tb, <-coordinated)
	}
}

// child makes the process of a proxy.
func (w *world) child(t *testing.T, left int, far string, said *bytes.Buffer) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), proxyVariable+"="+strings.Join([]string{w.stage.URL, w.dir, w.files, strconv.Itoa(left), far}, "|"))
	cmd.Stderr = said
	return cmd
}

// ended returns a channel that is closed when the process of a session has ended.
func ended(session *sdk.ClientSession) <-chan struct{} {
	dead := make(chan struct{})
	go func() {
		_ = session.Wait() // how it ended does not matter
		close(dead)
	}()
	return dead
}

// signalFirst waits until every execution in the log has ended, and signals the first one. It
// returns the incident; 0: no execution is there to signal, or the process has died.
func (w *world) signalFirst(dead <-chan struct{}) uint64 {
	w.tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		all, err := w.stage.Entries(0)
		must(w.tb, err)
		newest := map[entry.Ref]*entry.Execution{}
		var order []entry.Ref
		for _, e := range all {
			if x, ok := e.Body.(*entry.Execution); ok {
				if newest[x.Ref()] == nil {
					order = append(order, x.Ref())
				}
				newest[x.Ref()] = x
			}
		}
		open := slices.ContainsFunc(order, func(r entry.Ref) bool { return !newest[r].Progress.Final() })
		if !open {
			for _, r := range order {
				if newest[r].Progress == entry.Cancelled {
					continue
				}
				signal := stage.Signal(r, entry.StandingExecutor, time.Now().UnixMilli())
				signal.Wid = newest[r].Wid
				return w.submit(signal).Index
			}
			return 0
		}
		select {
		case <-dead:
			return 0
		default:
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("an execution has not ended: %v", newest)
		}
	}
}

// endOrRecord waits until an incident has its record, or the process of a session has died.
func (w *world) endOrRecord(dead <-chan struct{}, incident uint64) (died bool) {
	w.tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if w.recorded(incident) != nil {
			return false
		}
		select {
		case <-dead:
			return true
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("incident %d has no record", incident)
		}
	}
}
