package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/mcp"
)

// front is a client at the process of a proxy.
type front struct {
	client *sdk.ClientSession
	dead   <-chan struct{} // closed when the process has ended
	leave  func() error    // ends the session, and the process
}

// front starts the process of a proxy, and connects a client by standard input and output, or over
// HTTP.
func (w *world) front(t *testing.T, cmd *exec.Cmd, web bool) (*front, error) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	if !web {
		// The transport kills a process that has not ended by then, and fails if it has.
		session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, nil)
		if err != nil {
			return nil, err
		}
		return &front{session, ended(session), session.Close}, nil
	}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	dead := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	url, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(dead)
		stop()
	}()
	end := func() {
		_ = in.Close() // the process may be dead
		<-dead
	}
	if err == nil {
		var session *sdk.ClientSession
		session, err = client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: strings.TrimSpace(url), MaxRetries: -1}, nil)
		if err == nil {
			leave := func() error {
				defer end()
				return session.Close()
			}
			return &front{session, dead, leave}, nil
		}
	}
	end()
	return nil, err
}

// putTwo has two notes written. The error says that the process is dead.
func (f *front) putTwo(t *testing.T) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		select {
		case <-f.dead: // over HTTP the client would wait for another stream
			stop()
		case <-ctx.Done():
		}
	}()
	for _, name := range []string{"a", "b"} {
		if _, err := f.client.CallTool(ctx, &sdk.CallToolParams{Name: "put", Arguments: map[string]any{"name": name, "text": "new"}}); err != nil {
			return err
		}
	}
	return nil
}

// serveUntilEnd serves clients over HTTP on loopback, tells the URL, and ends when standard input
// has ended.
func serveUntilEnd(p *mcp.Proxy) error {
	h := mcp.NewHandler(p)
	web := httptest.NewServer(h)
	fmt.Println(web.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
	h.Close()
	web.CloseClientConnections()
	web.Close()
	return nil
}

// notesOverHTTP serves the tools of the note server for files over HTTP, and returns the URL.
func (w *world) notesOverHTTP() string {
	w.tb.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	var one sync.Mutex
	for _, name := range []string{"get", "put", "del"} {
		var hints sdk.ToolAnnotations
		must(w.tb, json.Unmarshal([]byte(noteTools[name]), &hints))
		server.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: &hints}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			one.Lock()
			defer one.Unlock()
			return w.asked(r.Params)
		})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	w.tb.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// asked has the note server carry out a call.
func (w *world) asked(call *sdk.CallToolParamsRaw) (*sdk.CallToolResult, error) {
	params, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	s := &noteServer{dir: w.files, out: bufio.NewWriter(&out)}
	s.call(&message{ID: json.RawMessage("1"), Params: params})
	if err := s.out.Flush(); err != nil {
		return nil, err
	}
	var answer struct {
		Result sdk.CallToolResult `json:"result"`
	}
	err = json.Unmarshal(out.Bytes(), &answer)
	return &answer.Result, err
}
