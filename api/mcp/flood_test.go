package mcp_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/mcp"
	"recoveryledger/testdata/budget"
)

// rawClient is a client that sends and reads messages as they are, and answers nothing by itself.
type rawClient struct {
	tb         testing.TB
	connection sdk.Connection
	served     chan error
}

// raw connects another client.
func (l *life) raw() *rawClient {
	l.tb.Helper()
	near, far := sdk.NewInMemoryTransports()
	connection, err := far.Connect(l.tb.Context())
	must(l.tb, err)
	r := &rawClient{tb: l.tb, served: make(chan error, 1)}
	go func() { r.served <- l.proxy.Serve(context.Background(), connection) }()
	r.connection, err = near.Connect(l.tb.Context())
	must(l.tb, err)
	return r
}

func (r *rawClient) send(text string) {
	r.tb.Helper()
	m, err := jsonrpc.DecodeMessage([]byte(text))
	must(r.tb, err)
	must(r.tb, r.connection.Write(r.tb.Context(), m))
}

func (r *rawClient) read() string {
	r.tb.Helper()
	m, err := r.connection.Read(r.tb.Context())
	must(r.tb, err)
	text, err := jsonrpc.EncodeMessage(m)
	must(r.tb, err)
	return string(text)
}

// end ends the session.
func (r *rawClient) end() {
	r.tb.Helper()
	must(r.tb, r.connection.Close())
	if err := <-r.served; err != nil {
		r.tb.Error(err)
	}
}

// call calls a tool, and returns the answer and the number of requests of the server before it.
func (r *rawClient) call(id int, tool, text string) (answer string, requests int) {
	r.tb.Helper()
	r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, tool, text))
	for {
		switch got := r.read(); {
		case strings.Contains(got, fmt.Sprintf(`"id":%d`, id)):
			return got, requests
		case strings.Contains(got, `"method":"roots/list"`):
			requests++
		}
	}
}

// TestInterrogation has a server ask more than its client answers: requests above the limit are
// refused with an error, and the client gets the next one after an answer.
func TestInterrogation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw := w.begin(w.config(notesFile), nil).raw()
	answer, requests := raw.call(1, "interrogate", fmt.Sprint(mcp.MaxRequests+100))
	if requests != mcp.MaxRequests || !strings.Contains(answer, "interrogated") {
		t.Errorf("%d requests reached the client: %s", requests, answer)
	}
	for id := 2; ; id++ { // a refusal and a call may overtake one another
		if answer, _ = raw.call(id, "refused", ""); strings.Contains(answer, `"text":"100"`) {
			break
		}
	}
	if _, requests = raw.call(-1, "ask", ""); requests != 0 {
		t.Error("a request above the limit reached the client")
	}
	raw.send(`{"jsonrpc":"2.0","id":"q-7","result":{"roots":[]}}`)
	if _, requests = raw.call(-2, "ask", ""); requests != 1 {
		t.Error("no request reached the client after an answer")
	}
	raw.end()
	if !w.wasTold("1024 requests of the server wait for the client: roots/list is refused") || !w.wasTold("requests above the limit: further ones are not told of") {
		t.Errorf("told %v", w.told)
	}
}

// TestInterrogationUnread has a server ask again and again without reading an answer: the session
// goes on, and the server misses refusals.
func TestInterrogationUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw := w.begin(w.config(notesFile), nil).raw()
	times := budget.Budget{Short: 10_000, Usual: 50_000}.Now() // some 1,000 refusals fill the pipe
	answer, requests := raw.call(1, "interrogate", strconv.Itoa(times))
	if requests != mcp.MaxRequests || !strings.Contains(answer, "interrogated") {
		t.Errorf("%d requests reached the client: %s", requests, answer)
	}
	if answer, _ = raw.call(2, "get", ""); !strings.Contains(answer, "isError") {
		t.Errorf("%s", answer)
	}
	raw.end()
	if !w.wasTold("the server reads no answers") {
		t.Errorf("told %v", w.told)
	}
}
