package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/entry"
)

// far is a server over streamable HTTP, behind a proxy with one client.
type far struct {
	*world
	server  *sdk.Server
	web     *httptest.Server
	life    *life
	changes chan struct{} // a change of the list of tools reached the client
	gets    atomic.Int64  // streams that were asked for
}

// newFar makes the server. Get answers a request for the stream of the server; nil: the server
// does.
func newFar(t *testing.T, get http.HandlerFunc) *far {
	t.Helper()
	f := &far{world: newWorld(t), changes: make(chan struct{}, 1), server: sdk.NewServer(&sdk.Implementation{Name: "far", Version: "1"}, nil)}
	sdk.AddTool(f.server, &sdk.Tool{Name: "mail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sent"}}}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.server }, nil)
	f.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			f.gets.Add(1)
			if get != nil {
				get(w, r)
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.web.CloseClientConnections()
		f.web.Close()
	})
	config := f.config("tools:\n  mail: {effect: irrevocable}\n")
	config.Connect = remote(f.web.URL)
	f.life = f.begin(config, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
		select {
		case f.changes <- struct{}{}:
		default:
		}
	}})
	return f
}

// heard has the server change its tools until the client hears of it.
func (f *far) heard() {
	f.tb.Helper()
	for i := range 200 {
		f.server.AddTool(&sdk.Tool{Name: fmt.Sprintf("tool-%d", i), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
		select {
		case <-f.changes:
			return
		case <-time.After(50 * time.Millisecond): // the stream may not be open yet
		}
	}
	f.tb.Fatalf("the client did not hear of it; %d streams; told %v", f.gets.Load(), f.told)
}

// TestServerStream: what a remote server sends outside of calls reaches the client, its requests
// too, and does so again after the stream has broken off.
func TestServerStream(t *testing.T) {
	t.Parallel()
	f := newFar(t, nil)
	f.heard()
	for session := range f.server.Sessions() {
		if err := session.Ping(t.Context(), nil); err != nil {
			t.Errorf("a request of the server: %v", err)
		}
	}
	opened := f.gets.Load()
	f.web.CloseClientConnections()
	for f.gets.Load() == opened { // a change of before may come late
		f.heard()
	}
	f.heard()
	if text, exec, failed := f.life.call("mail", nil); text != "sent" || failed || len(f.entries(exec, entry.Confirmed)) != 2 {
		t.Errorf("%q", text)
	}
}

// TestServerStreamFaults: a server without a stream is asked once. Junk on the stream ends the
// session, with an error for the client.
func TestServerStreamFaults(t *testing.T) {
	t.Parallel()
	stream := func(text io.Reader) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.Copy(w, text) // the proxy leaves before the end
		}
	}
	for _, c := range []struct {
		name string
		get  http.HandlerFunc
		want string // in what is told; empty: the session goes on
	}{
		{"none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, ""},
		{"not found", http.NotFound, ""},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, ""},
		{"no message", stream(strings.NewReader("data: junk\n\n")), "an event of the server is no message"},
		{"endless", stream(io.MultiReader(strings.NewReader("data: "), strings.NewReader(strings.Repeat("x", 17<<20)))), "an event of more than 16777216 bytes"},
		{"endless lines", stream(strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17))), "an event of more than 16777216 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t, c.get)
			if c.want != "" {
				select {
				case <-ended(f.life.client):
				case <-time.After(time.Minute):
					t.Fatal("the session goes on")
				}
				f.life.end()
				if !f.wasTold(c.want) {
					t.Errorf("told %v", f.told)
				}
				return
			}
			if text, _, failed := f.life.call("mail", nil); text != "sent" || failed {
				t.Errorf("%q", text)
			}
			f.life.end()
			if n := f.gets.Load(); n != 1 {
				t.Errorf("%d streams were asked for", n)
			}
		})
	}
}
