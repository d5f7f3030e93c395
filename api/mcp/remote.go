package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Remote returns what reaches a server over streamable HTTP at a URL.
func Remote(url string) func() sdk.Transport {
	return func() sdk.Transport {
		client := &http.Client{Transport: new(versioned)}
		return &remote{sdk.StreamableClientTransport{Endpoint: url, HTTPClient: client}}
	}
}

// remote is a server over streamable HTTP.
type remote struct{ sdk.StreamableClientTransport }

// Connect implements [sdk.Transport].
func (r *remote) Connect(ctx context.Context) (sdk.Connection, error) {
	connection, err := r.StreamableClientTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &remoteConnection{Connection: connection, url: r.Endpoint, client: r.HTTPClient, stop: stop, messages: make(chan jsonrpc.Message), ended: make(chan struct{})}
	c.readers.Go(func() { c.read(running) })
	c.ready = sync.OnceFunc(func() { c.readers.Go(func() { c.listen(running) }) })
	return c, nil
}

// remoteConnection is a session at a remote server. It also reads the stream on which the server
// sends what belongs to no request: the SDK opens that stream only for a client of its own.
type remoteConnection struct {
	sdk.Connection
	url     string
	client  *http.Client
	stop    context.CancelFunc // of the readers
	readers sync.WaitGroup
	ready   func() // begins to listen

	messages chan jsonrpc.Message
	once     sync.Once
	ended    chan struct{} // closed when err is set
	err      error
}

// Read implements [sdk.Connection].
func (c *remoteConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.ended:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [sdk.Connection]. A session whose client is ready has a stream of the server.
func (c *remoteConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if request, is := m.(*jsonrpc.Request); is && err == nil && request.Method == "notifications/initialized" {
		c.ready()
	}
	return err
}

// Close implements [sdk.Connection].
func (c *remoteConnection) Close() error {
	err := c.Connection.Close()
	c.stop()
	c.end(io.EOF)
	c.readers.Wait()
	return err
}

// end has Read return an error from now on.
func (c *remoteConnection) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.ended)
	})
}

// give hands a message to Read, and reports whether the session goes on.
func (c *remoteConnection) give(m jsonrpc.Message) bool {
	select {
	case c.messages <- m:
		return true
	case <-c.ended:
		return false
	}
}

// read takes up the answers of the server.
func (c *remoteConnection) read(ctx context.Context) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.end(err)
			return
		}
		if !c.give(m) {
			return
		}
	}
}

// listen reads the stream of the server, and opens the stream again where it breaks off, behind the
// last message that it had. A server without such a stream says so at once.
func (c *remoteConnection) listen(ctx context.Context) {
	last, pause := "", sendFirst
	for {
		before := last
		ask, err := c.listenOnce(ctx, &last)
		if errors.Is(err, errNoStream) || ctx.Err() != nil {
			return
		}
		if tooLarge, is := errors.AsType[*EventError](err); is {
			c.end(tooLarge)
			return
		}
		if last != before {
			pause = sendFirst
		}
		select {
		case <-time.After(max(pause, min(ask, sendMost))):
		case <-c.ended:
			return
		}
		pause = min(2*pause, sendMost)
	}
}

// errNoStream reports a server that sends nothing outside of requests.
var errNoStream = errors.New("mcp: the server has no stream of its own")

// listenOnce reads one stream to its end. Last is the id of the last event, which is kept. Ask is
// how long the server asks to wait before the next stream.
func (c *remoteConnection) listenOnce(ctx context.Context, last *string) (ask time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", eventStream)
	if id := c.SessionID(); id != "" {
		request.Header.Set(sessionHeader, id)
	}
	if *last != "" {
		request.Header.Set("Last-Event-ID", *last)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests:
		return 0, fmt.Errorf("mcp: the stream of the server: %s", response.Status)
	case response.StatusCode != http.StatusOK || media != eventStream:
		return 0, errNoStream
	}
	err = readEvents(response.Body, func(e event) bool {
		if e.id != "" {
			*last = e.id
		}
		if e.retry > 0 {
			ask = e.retry
		}
		if len(e.data) == 0 || e.name != "" && e.name != "message" {
			return true
		}
		m, err := jsonrpc.DecodeMessage(e.data)
		if err != nil {
			c.end(fmt.Errorf("mcp: an event of the server is no message: %w", err))
			return false
		}
		return c.give(m)
	})
	return ask, err
}

// versionHeader names the version of the protocol that initialize has agreed on. Every later
// request of a session carries it.
const versionHeader = "Mcp-Protocol-Version"

// versioned adds the version of the protocol to requests that lack it: the SDK adds the version
// only for a client of its own.
type versioned struct {
	mu      sync.Mutex
	version string // that the client asked for in initialize. Guarded by mu
}

// RoundTrip implements [http.RoundTripper].
func (v *versioned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close() // it is read to its end
		v.note(body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	v.mu.Lock()
	version := v.version
	v.mu.Unlock()
	if version != "" && r.Header.Get(versionHeader) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(versionHeader, version)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// note takes the version from a request to initialize.
func (v *versioned) note(body jsontext.Value) {
	var request struct {
		Method string `json:"method"`
		Params struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &request) == nil && request.Method == "initialize" {
		v.mu.Lock()
		v.version = request.Params.ProtocolVersion
		v.mu.Unlock()
	}
}
