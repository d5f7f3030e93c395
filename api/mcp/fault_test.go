package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
)

// TestServerFaults has a server hang, die, answer with too much and answer nonsense: each call has
// a clear outcome for the client, and an end in the log.
func TestServerFaults(t *testing.T) {
	for _, c := range []struct {
		tool, tools string
		want        string // in the result
		progress    entry.Progress
		dead        bool // the session ends with it
	}{
		{"hang", "", "no answer within 300ms. The call may have had its effect", entry.Failed, false},
		{"hang", "probe: {tool: get, arguments: {name: x}, done: error}", "Its probe says that the call had its effect", entry.Confirmed, false},
		{"hang", "probe: {tool: get, arguments: {name: x}, done: ok}", "The call had no effect", entry.Cancelled, false},
		{"hang", "probe: {tool: get, arguments: {name: x}, done: {content/0/text: y}}", "The call may have had its effect", entry.Failed, false},
		{"die", "", "the server has ended. The call may have had its effect", entry.Failed, true},
		{"die", "probe: {tool: get, arguments: {name: x}, done: ok}", "The call had no effect", entry.Cancelled, true},
		{"huge", "", "the server has ended. The tool only reads", entry.Failed, true},
		{"fail", "", "it failed", entry.Failed, false},
		{"fail", "errors: no_effect", "it failed", entry.Cancelled, false},
		{"wrong", "", "wrong arguments", entry.Cancelled, false},
	} {
		t.Run(c.tool+" "+c.tools, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tools := "tools:\n  get: {effect: none}\n"
			if c.tools != "" {
				tools += "  " + c.tool + ": {" + c.tools + "}\n"
			}
			config := w.config(tools)
			if c.tool == "hang" {
				config.Limit = 300 * time.Millisecond
			}
			l := w.begin(config, nil)
			text, _, failed := l.call(c.tool, nil)
			if !failed || !strings.Contains(text, c.want) {
				t.Errorf("%q, want %q; told %v", text, c.want, w.told)
			}
			w.entries(w.only(), c.progress)
			switch err := l.client.Ping(t.Context(), nil); {
			case c.dead && err == nil:
				t.Error("the session goes on with a server that has ended")
			case !c.dead && err != nil:
				t.Errorf("the session has ended: %v", err)
			}
		})
	}
}

// only returns the one execution in the log.
func (w *world) only() (only entry.Ref) {
	w.tb.Helper()
	all, err := w.stage.Entries(0)
	must(w.tb, err)
	for _, e := range all {
		if x, ok := e.Body.(*entry.Execution); ok {
			if only != "" && only != x.Ref() {
				w.tb.Fatalf("%s and %s", only, x.Ref())
			}
			only = x.Ref()
		}
	}
	return only
}

// TestSecondAnswer has a server answer twice, and a request that nobody made: the first answer
// counts, and the session goes on.
func TestSecondAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	if text, exec, failed := l.call("twice", nil); text != "first" || failed || len(w.entries(exec, entry.Confirmed)) != 2 {
		t.Errorf("%q", text)
	}
	if text, _, _ := l.call("mail", map[string]any{"name": "x"}); text == "" {
		t.Error("the session has ended")
	}
	for _, want := range []string{"waits for no answer: the answer is dropped"} {
		if !w.wasTold(want) {
			t.Errorf("not told of %q: %v", want, w.told)
		}
	}
}

// TestFlood has a server send 20,000 messages before its answer: all of them pass, in order.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var next atomic.Int64
	//nolint:staticcheck // servers log all the same
	l := w.begin(w.config(notesFile), &sdk.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
		if n, ok := r.Params.Data.(float64); ok && int64(n) == next.Load() {
			next.Add(1)
		}
	}})
	if text, _, failed := l.call("flood", nil); text != "flooded" || failed {
		t.Fatalf("%q", text)
	}
	for deadline := time.Now().Add(time.Minute); next.Load() != 20_000 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // the handler runs beside the answer
	}
	if next.Load() != 20_000 {
		t.Errorf("%d of 20000 messages, in order", next.Load())
	}
}

// TestAnnotations: hints of the server count as far as they agree, and a server cannot make a tool
// harmless later. What the file says counts before them.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config("tools:\n  mail: {effect: undeclared}\n"), nil)
	for _, c := range []struct {
		tool   string
		effect entry.Effect
	}{{"get", entry.EffectNone}, {"twice", entry.EffectIrrevocable}, {"bare", entry.EffectUndeclared}, {"nosuch", entry.EffectUndeclared},
		{"liar", entry.EffectIrrevocable}, {"mail", entry.EffectUndeclared},
		{"turncoat", entry.EffectIrrevocable}, {"turncoat", entry.EffectIrrevocable}} {
		got, err := l.client.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: map[string]any{"name": "x"}})
		must(t, err)
		name, _ := got.Meta["agent-recovery/execution"].(string)
		progress := entry.Confirmed
		if got.IsError {
			progress = entry.Failed
		}
		if x := w.entries(entry.Ref(name), progress); x[0].Effect != c.effect || (x[0].IdempotencyKey == "") != (c.effect == entry.EffectNone) {
			t.Errorf("%s: %s with key %q, want %s", c.tool, x[0].Effect, x[0].IdempotencyKey, c.effect)
		}
	}
	for _, want := range []string{"it only reads, and that it is destructive", "said irrevocable before, and says none now: it counts as irrevocable"} {
		if !w.wasTold(want) {
			t.Errorf("not told %q: %v", want, w.told)
		}
	}
	distrust := w.config("trust_annotations: false\ntools:\n  mail: {effect: irrevocable}\n")
	distrust.Dir = t.TempDir()
	_, exec, _ := w.begin(distrust, nil).call("twice", nil)
	if x := w.entries(exec, entry.Confirmed); x[0].Effect != entry.EffectUndeclared {
		t.Errorf("without trust: %s", x[0].Effect)
	}
}

// TestKey: the server gets the idempotency key whose digest the log has, as metadata and as the
// argument that the file names.
func TestKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	text, exec, _ := l.call("mail", map[string]any{"name": "x"})
	meta, argument, _ := strings.Cut(text, " ")
	if x := w.entries(exec, entry.Confirmed); meta != argument || x[0].IdempotencyKey != entry.DigestOf(meta) {
		t.Errorf("%q, in the log %s", text, x[0].IdempotencyKey)
	}
}

// away is a ledger that does not answer while it is away.
type away struct {
	*world
	gone atomic.Bool
}

func (a *away) Submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	if a.gone.Load() {
		return entry.LogRef{}, errors.New("no answer")
	}
	return a.agent.Submit(ctx, e)
}

func (a *away) Plan(ctx context.Context, incident uint64) ([]entry.Member, error) {
	return a.agent.Plan(ctx, incident)
}

// TestLedgerAway: no call reaches the server while the ledger does not answer, and the client is
// told. What the log lacks is sent later.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ledger := &away{world: w}
	config := w.config(notesFile)
	config.Ledger, config.Patience = ledger, 2*time.Second
	l := w.begin(config, nil)
	if _, _, failed := l.call("put", map[string]any{"name": "a", "text": "one"}); failed {
		t.Fatal(w.told)
	}
	ledger.gone.Store(true)
	for _, tool := range []string{"mail", "get"} {
		text, _, failed := l.call(tool, map[string]any{"name": "a"})
		if !failed || !strings.Contains(text, tool+" was not called: the call cannot be logged: the ledger has not answered within 2s") {
			t.Errorf("%q", text)
		}
	}
	if done := w.done(); strings.Contains(done, "mail") || done != "get a\nput a\n" {
		t.Errorf("the server was asked %q", done)
	}
	ledger.gone.Store(false)
	if _, exec, failed := l.call("mail", map[string]any{"name": "a"}); failed || len(w.entries(exec, entry.Confirmed)) != 2 {
		t.Errorf("the ledger is back: %v", w.told)
	}
}

// TestFence: a call that rests on what an incident holds does not reach the tool, and says what the
// incident waits for.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	_, mail, _ := l.call("mail", map[string]any{"name": "x"})
	x := w.entries(mail, entry.Confirmed)
	signal := stage.Signal(mail, entry.StandingExecutor, time.Now().UnixMilli())
	signal.Wid = x[0].Wid
	w.submit(signal)
	must(t, w.stage.Coordinate(t.Context(), nil)) // an irrevocable effect: people are asked
	done := w.done()
	got, err := l.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "put", Arguments: map[string]any{"name": "a", "text": "one"}})
	must(t, err)
	text, _ := got.Content[0].(*sdk.TextContent)
	if !got.IsError || !strings.Contains(text.Text, "and waits for 0 of 2 approvals") || got.Meta["agent-recovery/not-called"] != "fenced-dependency" {
		t.Errorf("%v %v", text, got.Meta)
	}
	if now := w.done(); now != done+"get a\n" { // what the compensation needs is read before
		t.Errorf("the server was asked %q", now)
	}
}

// TestParents: calls side by side do not rest on each other, and what comes after rests on all of
// them. What is for information alone is a soft parent.
func TestParents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config("tools:\n  get: {effect: none, informational: true}\n  mail: {effect: irrevocable}\n"), nil)
	_, info, _ := l.call("get", map[string]any{"name": "x"})
	type answer struct {
		exec entry.Ref
		err  error
	}
	answers := make(chan answer, 3)
	for range 3 {
		go func() {
			got, err := l.client.CallTool(context.Background(), &sdk.CallToolParams{Name: "mail", Arguments: map[string]any{"name": "x"}})
			if err != nil {
				answers <- answer{err: err}
				return
			}
			name, _ := got.Meta["agent-recovery/execution"].(string)
			answers <- answer{exec: entry.Ref(name)}
		}()
	}
	together := map[entry.Ref]bool{}
	for range 3 {
		a := <-answers
		must(t, a.err)
		together[a.exec] = true
	}
	_, last, _ := l.call("mail", map[string]any{"name": "x"})
	parents := w.entries(last, entry.Confirmed)[0].Parents
	hard := 0
	for _, p := range parents {
		if p.Dep == entry.Hard && together[p.Exec] {
			hard++
		} else if p.Dep != entry.Soft || p.Exec != info {
			t.Errorf("parent %v", p)
		}
	}
	if hard == 0 {
		t.Errorf("parents %v, want the newest of %v", parents, together)
	}
}

// TestPassThrough: what is no call of a tool passes unchanged, in both directions.
func TestPassThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config(notesFile)
	config.Limit = 300 * time.Millisecond
	l := w.begin(config, nil)
	raw := l.raw()
	send, read := raw.send, raw.read
	send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x","future":[1.50]}}`)
	if got := read(); !strings.Contains(got, `"echo":"resources/read"`) || !strings.Contains(got, `"future":[1.50]`) {
		t.Errorf("%s", got)
	}
	send(`{"jsonrpc":"2.0","id":"2","method":"vendor/unknown","params":{}}`)
	if got := read(); !strings.Contains(got, `"id":"2"`) || !strings.Contains(got, `"echo":"vendor/unknown"`) {
		t.Errorf("%s", got)
	}
	send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
	asked := read()
	if !strings.Contains(asked, `"method":"roots/list"`) {
		t.Fatalf("%s", asked)
	}
	if got := read(); !strings.Contains(got, `"asked"`) {
		t.Errorf("%s", got)
	}
	send(`{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`) // the server says that it heard
	if got := read(); !strings.Contains(got, "heard") {
		t.Errorf("%s", got)
	}
	send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"hang"}}`)
	send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"get"}}`)
	if got := read(); !strings.Contains(got, "not answered yet") {
		t.Errorf("%s", got)
	}
	send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"get","arguments":[]}}`)
	if got := read(); !strings.Contains(got, `"code":-32602`) {
		t.Errorf("%s", got)
	}
	raw.end()
}

// TestCancel: a call that the client cancels ends in the log, though the server never answers.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config(notesFile)
	config.Limit = 300 * time.Millisecond
	l := w.begin(config, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !strings.Contains(w.done(), "hang") {
			time.Sleep(time.Millisecond) // the server has no event for this
		}
		cancel()
	}()
	if _, err := l.client.CallTool(ctx, &sdk.CallToolParams{Name: "hang"}); err == nil {
		t.Fatal("an answer")
	}
	l.end() // which ends the session, and with it the wait for the server
	w.entries(w.only(), entry.Failed)
}

// TestOverHTTP: clients over streamable HTTP, and a server over streamable HTTP behind the proxy,
// which a rollback reaches as well.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	front := w.begin(w.config(notesFile), nil)
	first := serveHTTP(t, front.proxy)
	behind := w.config(notesFile)
	behind.Dir, behind.Connect = t.TempDir(), remote(first)
	back := w.begin(behind, nil)
	second := serveHTTP(t, back.proxy)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: second}, nil)
	if err != nil {
		t.Fatal(err, w.told)
	}
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "put", Arguments: map[string]any{"name": "a", "text": "one"}})
	must(t, err)
	name, _ := got.Meta["agent-recovery/execution"].(string)
	w.entries(entry.Ref(name), entry.Confirmed)
	if w.notes()["a"] != "one" {
		t.Errorf("%v", w.notes())
	}
	must(t, session.Close())
	if results := back.obey(entry.Ref(name)); results[entry.Ref(name)] != entry.Compensated || len(w.notes()) != 0 {
		t.Errorf("after the rollback %v: %v", w.notes(), results)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, second, strings.NewReader(`{}`))
	must(t, err)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	refused, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, refused.Body.Close())
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %s", refused.Status)
	}
	unknown, err := http.NewRequestWithContext(t.Context(), http.MethodPost, second, strings.NewReader(`{}`))
	must(t, err)
	unknown.Header.Set("Mcp-Session-Id", uuid.NewString())
	gone, err := http.DefaultClient.Do(unknown)
	must(t, err)
	must(t, gone.Body.Close())
	if gone.StatusCode != http.StatusNotFound {
		t.Errorf("a session that is over: %s", gone.Status)
	}
}

// TestMetaKept: the metadata of client and server stay beside those of the proxy.
func TestMetaKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.begin(w.config(notesFile), nil)
	got, err := l.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "mail", Meta: sdk.Meta{"vendor/x": json.Number("1")}, Arguments: map[string]any{"name": "x"}})
	must(t, err)
	if got.Meta["agent-recovery/execution"] == nil || got.StructuredContent == nil {
		t.Errorf("%v", got)
	}
}
