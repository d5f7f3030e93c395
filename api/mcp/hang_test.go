package mcp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/mcp"
	"recoveryledger/ledger/entry"
)

// soon is how long a server has for an answer in these tests.
const soon = 2 * time.Second

// faults has the server go wrong from now on, once for each line.
func (w *world) faults(lines string) {
	w.tb.Helper()
	must(w.tb, os.WriteFile(filepath.Join(w.files, "fault"), []byte(lines), 0o600))
}

// TestToolsNotListed has a server hang or die where it is asked for its tools: the call that asked
// goes on with the tools file alone, and those after it do not wait again.
func TestToolsNotListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config(notesFile)
	config.Ask = soon
	w.faults("LATE tools/list")
	l := w.begin(config, nil)
	for tool, effect := range map[string]entry.Effect{"bare": entry.EffectUndeclared, "get": entry.EffectUndeclared, "mail": entry.EffectIrrevocable} {
		_, exec, _ := l.call(tool, map[string]any{"name": "x"})
		if x := w.entries(exec, map[bool]entry.Progress{true: entry.Failed, false: entry.Confirmed}[tool == "get"]); x[0].Effect != effect {
			t.Errorf("%s: %s, want %s", tool, x[0].Effect, effect)
		}
	}
	if done := w.done(); !w.wasTold("the list of tools: context deadline exceeded; a tool that nothing is known of counts as undeclared") || strings.Count(done, "\n") != 4 {
		t.Errorf("told %v; done %s", w.told, done)
	}
}

// TestDiesListing has a server die where it is asked for its tools: the tool is not reached.
func TestDiesListing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults("DIE tools/list")
	l := w.begin(w.config(notesFile), nil)
	if text, _, failed := l.call("mail", nil); !failed || !strings.Contains(text, "the tool was not reached") {
		t.Errorf("%q", text)
	}
	w.entries(w.only(), entry.Cancelled)
	if l.client.Ping(t.Context(), nil) == nil {
		t.Error("the session goes on with a server that has ended")
	}
}

// TestHangsBefore has the call before a call hang: the tool is not reached, and the log has
// nothing.
func TestHangsBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config(notesFile)
	config.Ask = soon
	w.faults("LATE get")
	l := w.begin(config, nil)
	text, _, failed := l.call("put", map[string]any{"name": "a", "text": "x"})
	if !failed || !strings.Contains(text, "put was not called: it could not be undone: get: context deadline exceeded") || len(w.notes()) > 0 || w.only() != "" {
		t.Errorf("%q: %v", text, w.notes())
	}
	if text, _, failed = l.call("put", map[string]any{"name": "a", "text": "x"}); failed {
		t.Errorf("after it: %q", text)
	}
}

// TestCompensationFaults has a server hang and die in a compensation and in its probe. What may
// have been done is done again only where that has no further effect, or where a probe says that it
// was not done. Where nothing says so, the outcome is unknown.
func TestCompensationFaults(t *testing.T) {
	t.Parallel()
	const probe = `probe: {tool: get, arguments: {name: "${arguments/name}"}, done: {content/0/text: "${arguments/text}"}}`
	for _, c := range []struct {
		put, faults string
		want        entry.Result
		tried       int // compensations that the server made
	}{
		{"idempotent: false", "LATE put", entry.ResultUnknown, 1},
		{"idempotent: false", "DIE put", entry.ResultUnknown, 0},
		{"idempotent: true", "LATE put", entry.Compensated, 2},
		{"idempotent: true", "DIE put", entry.Compensated, 1},
		{probe, "LATE put", entry.Compensated, 1},
		{probe, "DIE put", entry.Compensated, 1},
		{probe, "HANG put", entry.Compensated, 1}, // the probe is asked in a session of the proxy's own
		{probe, "LATE put\nLATE get", entry.ResultUnknown, 1},
		{probe, "LATE put\nDIE get", entry.ResultUnknown, 1},
	} {
		t.Run(c.put[:5]+" "+strings.ReplaceAll(c.faults, "\n", " "), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			config := w.config(strings.Replace(notesFile, "  put:\n", "  get: {effect: none}\n  put:\n    "+c.put+"\n", 1))
			config.Limit, config.Ask = soon, soon
			l := w.begin(config, nil)
			l.call("put", map[string]any{"name": "a", "text": "one"})
			_, bad, _ := l.call("put", map[string]any{"name": "a", "text": "two"})
			w.entries(bad, entry.Confirmed)
			before := strings.Count(w.done(), "put a\n")
			w.faults(c.faults)
			if results := l.obey(bad); results[bad] != c.want {
				t.Errorf("%s, want %s; told %v", results[bad], c.want, w.told)
			}
			if tried := strings.Count(w.done(), "put a\n") - before; tried != c.tried || (w.notes()["a"] == "one") != (c.tried > 0) {
				t.Errorf("%d compensations: %v\n%s", tried, w.notes(), w.done())
			}
		})
	}
}

// TestDeafServer has a server read nothing more: calls end all the same, and so does the session.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config(notesFile)
	config.Limit, config.Ask = soon, soon
	w.faults("DEAF mail")
	l := w.begin(config, nil)
	for _, text := range []string{"", strings.Repeat("x", 1<<20), "more"} { // the second one fills the pipe
		if got, _, failed := l.call("mail", map[string]any{"text": text}); !failed || !strings.Contains(got, "no answer within 2s. The call may have had its effect") {
			t.Errorf("%.300q", got)
		}
	}
	l.end()
}

// TestHeldOverHTTP has a server over HTTP not even begin its answer, to a call and to another
// request: the call ends in time, and other calls do not wait.
func TestHeldOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := sdk.NewServer(&sdk.Implementation{Name: "far", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "mail"}, func(context.Context, *sdk.CallToolRequest, struct{ Name string }) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sent"}}}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	held := make(chan struct{}, 2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte("held")) && !bytes.Contains(body, []byte("cancelled")) {
			held <- struct{}{}
			<-r.Context().Done()
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	config := w.config("tools:\n  mail: {effect: irrevocable}\n")
	config.Connect, config.Limit = mcp.Remote(web.URL), soon
	l := w.begin(config, nil)
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _, _ = l.client.ReadResource(reading, &sdk.ReadResourceParams{URI: "held:1"}) }() // never ends
	<-held
	if text, _, failed := l.call("mail", map[string]any{"Name": "held"}); !failed || !strings.Contains(text, "no answer within 2s") {
		t.Errorf("%q", text)
	}
	if text, _, failed := l.call("mail", map[string]any{"Name": "x"}); failed || text != "sent" {
		t.Errorf("%q", text)
	}
}
