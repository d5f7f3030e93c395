package mcp_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
)

// TestMain lets the test binary be an MCP server, and a proxy that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if args := os.Getenv(proxyVariable); args != "" {
		if err := childMain(strings.Split(args, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// world is a ledger, an agent behind a proxy, and the files of a server.
type world struct {
	tb    testing.TB
	stage *stage.Stage
	sign  func(*entry.Entry) error
	agent *agent.Server
	dir   string // of the state
	files string // of the server

	mu   sync.Mutex
	told []string // guarded by mu
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	s, err := stage.New(nil)
	must(tb, err)
	tb.Cleanup(s.Close)
	der, err := s.Private(stage.Agent)
	must(tb, err)
	private, err := x509.ParsePKCS8PrivateKey(der)
	must(tb, err)
	signer, err := keys.NewSigner(private)
	must(tb, err)
	c, err := client.New(s.URL, s.Root, nil)
	must(tb, err)
	w := &world{tb: tb, stage: s, sign: signer.Sign, agent: &agent.Server{Client: c, Agent: stage.Agent}, dir: tb.TempDir(), files: tb.TempDir()}
	must(tb, os.Mkdir(filepath.Join(w.files, "notes"), 0o700))
	return w
}

// server starts the note server.
func (w *world) server() func() sdk.Transport {
	self, err := os.Executable()
	must(w.tb, err)
	return mcp.Command([]string{"/usr/bin/env", serverVariable + "=" + w.files, self}, os.Stderr, nil)
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *world) wasTold(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.told, "\n"), text)
}

// notesFile declares the tools of the note server.
const notesFile = `
tools:
  put:
    before: {tool: get, arguments: {name: "${arguments/name}"}}
    compensation:
      - when: before.done
        tool: put
        arguments: {name: "${arguments/name}", text: "${before/content/0/text}"}
      - when: before.failed
        tool: del
        arguments: {name: "${arguments/name}"}
  mail: {effect: irrevocable, key: key}
  fail: {errors: no_effect}
`

// config is the configuration of a proxy of the world.
func (w *world) config(tools string) *mcp.Config {
	w.tb.Helper()
	parsed, err := mcp.ParseTools("tools.yaml", []byte(tools))
	must(w.tb, err)
	return &mcp.Config{Agent: stage.Agent, Origin: stage.Origin, Secret: make([]byte, 32), Sign: w.sign, NewID: uuid.NewString, Ledger: w.agent, Tools: parsed,
		Dir: w.dir, Connect: w.server(), Patience: time.Minute, Limit: time.Minute, Ask: time.Minute, Tell: w.tell}
}

// life is a process of the proxy, with one client.
type life struct {
	*world
	proxy  *mcp.Proxy
	client *sdk.ClientSession
	served chan error
	end    func()
}

// begin opens a proxy, and connects a client.
func (w *world) begin(c *mcp.Config, options *sdk.ClientOptions) *life {
	w.tb.Helper()
	proxy, err := mcp.New(c)
	must(w.tb, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- proxy.Run(ctx) }()
	l := &life{world: w, proxy: proxy}
	l.end = sync.OnceFunc(func() {
		if l.client != nil {
			_ = l.client.Close() // the server may have ended before
			if err := <-l.served; err != nil {
				w.tell("served: %v", err)
			}
		}
		stop()
		must(w.tb, <-ran)
		must(w.tb, proxy.Flush(context.Background()))
		must(w.tb, proxy.Close())
	})
	w.tb.Cleanup(l.end)
	l.connect(options)
	return l
}

// connect connects another client.
func (l *life) connect(options *sdk.ClientOptions) {
	l.tb.Helper()
	near, far := sdk.NewInMemoryTransports()
	connection, err := far.Connect(context.Background())
	must(l.tb, err)
	served := make(chan error, 1)
	l.served = served
	go func() { served <- l.proxy.Serve(context.Background(), connection) }()
	l.client, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options).Connect(l.tb.Context(), near, nil)
	must(l.tb, err)
}

// call calls a tool, and returns the text of the result and the execution.
func (l *life) call(tool string, arguments map[string]any) (text string, exec entry.Ref, isError bool) {
	l.tb.Helper()
	got, err := l.client.CallTool(l.tb.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), "", true
	}
	for _, content := range got.Content {
		if t, ok := content.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	name, _ := got.Meta["agent-recovery/execution"].(string)
	return text, entry.Ref(name), got.IsError
}

// entries returns the entries about an execution once the newest has a progress.
func (w *world) entries(exec entry.Ref, progress entry.Progress) (found []*entry.Execution) {
	w.tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		all, err := w.stage.Entries(0)
		must(w.tb, err)
		found = nil
		for _, e := range all {
			if x, ok := e.Body.(*entry.Execution); ok && x.Ref() == exec {
				found = append(found, x)
			}
		}
		if len(found) > 0 && found[len(found)-1].Progress == progress {
			return found
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("%s is not %s: %v; told: %v", exec, progress, found, w.told)
		}
		time.Sleep(2 * time.Millisecond) // the log is asked, and has no event for this
	}
}

// obey runs an agent on the state of the proxy until the incident that a signal about an execution
// opens has its record. It returns the results.
func (l *life) obey(exec entry.Ref) map[entry.Ref]entry.Result {
	l.tb.Helper()
	x := l.entries(exec, entry.Confirmed)
	signal := stage.Signal(exec, entry.StandingExecutor, time.Now().UnixMilli())
	signal.Wid = x[0].Wid
	return l.follow(l.submit(signal).Index, l.proxy.Hooks())
}

// submit registers an entry of the agent.
func (w *world) submit(body entry.Body) entry.LogRef {
	w.tb.Helper()
	h := entry.HeaderOf(body)
	*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: stage.Agent, Aud: stage.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	e, err := entry.New(body)
	must(w.tb, err)
	must(w.tb, w.sign(e))
	ref, err := w.agent.Submit(w.tb.Context(), e)
	must(w.tb, err)
	return ref
}

// follow has hooks undo an incident to its record.
func (w *world) follow(incident uint64, hooks agent.Hooks) map[entry.Ref]entry.Result {
	w.tb.Helper()
	store, err := agent.OpenDir(w.dir)
	must(w.tb, err)
	defer store.Close()
	if names, err := store.Names(); err == nil && len(names) == 0 {
		must(w.tb, agent.Init(store, w.stage.Root, stage.Agent, time.Now().UnixMilli()))
	}
	second := &agent.Mirror{Client: w.agent.Client, Head: func(context.Context) (string, error) { return w.stage.Root.Seen, nil }}
	a, err := agent.Open(&agent.Config{Root: w.stage.Root, Agent: stage.Agent, Secret: make([]byte, 32), Sign: w.sign, NewID: uuid.NewString, Ledger: w.agent, Log: w.agent,
		Second: second, Store: store, Hooks: hooks, LookMS: 20, Tell: func(e agent.Event) { w.tell("%s %s %s %v", e.Kind, e.Exec, e.Text, e.Err) }}, time.Now().UnixMilli())
	must(w.tb, err)
	deadline := time.Now().Add(time.Minute)
	for {
		must(w.tb, w.stage.Coordinate(w.tb.Context(), nil))
		a.Poke()
		if _, err := a.Step(w.tb.Context(), time.Now().UnixMilli()); err != nil {
			w.tb.Fatal(err)
		}
		if results := w.recorded(incident); results != nil {
			return results
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("incident %d has no record: %v", incident, w.told)
		}
	}
}

// recorded returns the results of an incident once it has its record; nil before.
func (w *world) recorded(incident uint64) map[entry.Ref]entry.Result {
	w.tb.Helper()
	all, err := w.stage.Entries(0)
	must(w.tb, err)
	results, over := map[entry.Ref]entry.Result{}, false
	for _, e := range all {
		switch body := e.Body.(type) {
		case *entry.Outcome:
			results[body.Exec] = body.Result
		case *entry.Record:
			over = over || body.Incident == incident
		}
	}
	if !over {
		return nil
	}
	return results
}

// notes returns the files of the server.
func (w *world) notes() map[string]string {
	w.tb.Helper()
	found := map[string]string{}
	files, err := os.ReadDir(filepath.Join(w.files, "notes"))
	must(w.tb, err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(w.files, "notes", f.Name()))
		must(w.tb, err)
		found[f.Name()] = string(text)
	}
	return found
}

// done returns what the server was asked to do, a line each.
func (w *world) done() string {
	text, err := os.ReadFile(filepath.Join(w.files, "done"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.tb.Fatal(err)
	}
	return string(text)
}

// serveHTTP serves a proxy over HTTP, and returns the URL.
func serveHTTP(t *testing.T, p *mcp.Proxy) string {
	t.Helper()
	h := mcp.NewHandler(p)
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

func remote(url string) func() sdk.Transport { return mcp.Remote(url) }
