package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
)

// call is a request.
type call struct {
	method    string
	path      string // below the URL, percent-encoded, with the query
	mediaType string // of the body
	body      []byte
	limit     int64  // bytes that the answer may have
	answer    string // media type of the answer; empty: JSON
	static    bool   // the answer is a file: it may have any media type but that of a page
	anew      bool   // of another node if there is one, over a new connection, and not from a cache
	least     uint64 // size of the log that the answer needs, where that is more than the accepted one
}

// reply is an answer with a status of success.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do makes the call, and repeats it if a repetition can help: at every node at once, and then
// after a pause. The error is an [*api.Problem], [ErrMalformed], an error of the network, or the
// error of ctx.
func (c *Client) do(ctx context.Context, do call) (*reply, error) {
	for attempt := 1; ; attempt++ {
		r, err := c.round(ctx, do)
		if err == nil {
			return r, nil
		}
		if attempt >= c.cfg.Attempts || !c.pause(ctx, err, attempt) {
			return nil, fmt.Errorf("client: %s %s: %w", do.method, do.path, err)
		}
	}
}

// round makes the call at the node that answered last, and at the others while none answers.
func (c *Client) round(ctx context.Context, do call) (r *reply, err error) {
	for range c.servers {
		at := c.server.Load()
		if r, err = c.once(ctx, do); err == nil || !c.leave(ctx, at, err) {
			return r, err
		}
	}
	return nil, err
}

// leave goes on to the next node if another node may answer where this one gave the error.
func (c *Client) leave(ctx context.Context, at uint32, err error) bool {
	problem, answered := errors.AsType[*api.Problem](err)
	if ctx.Err() != nil || errors.Is(err, ErrMalformed) || answered && problem.Status != http.StatusServiceUnavailable {
		return false
	}
	c.server.CompareAndSwap(at, (at+1)%uint32(len(c.servers)))
	return true
}

// pause waits before the next attempt, at least as long as the server asks for. It reports false
// if a further attempt cannot help.
func (c *Client) pause(ctx context.Context, err error, attempt int) bool {
	if ctx.Err() != nil || errors.Is(err, ErrMalformed) {
		return false
	}
	wait := min(backoffMin<<min(attempt-1, 10), backoffMax)
	wait = wait/2 + rand.N(wait) //nolint:gosec // spreads requests, keeps no secret
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		asked := time.Duration(problem.RetryAfterMS) * time.Millisecond
		if !problem.Temporary() || asked > c.cfg.MaxWait {
			return false
		}
		wait = max(wait, asked)
	}
	return Pause(ctx, wait) == nil
}

// Pause waits for a time. The error is the cause of ctx if ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ErrMalformed reports an answer that no ledger gives. Another server is at the URL, or in
// between, or the server lies. The client does not repeat the request.
var ErrMalformed = errors.New("not the answer of a ledger (check the URL, and any proxy in between)")

// ErrNotServed reports that the server at the URL does not know a path. The server is no ledger,
// but may be a mirror that has only a log's tree head and tiles. An ErrNotServed is an
// [ErrMalformed].
var ErrNotServed = fmt.Errorf("%w: the server has nothing at this path", ErrMalformed)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// once makes the call once.
func (c *Client) once(ctx context.Context, do call) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	response, err := c.send(ctx, do)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, do.limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > do.limit {
		return nil, malformed("more than %d bytes", do.limit)
	}
	return &reply{response.StatusCode, response.Header, body}, nil
}

// send returns an answer with a status of success, its body unread.
func (c *Client) send(ctx context.Context, do call) (*http.Response, error) {
	if do.anew {
		c.server.Add(1)
		c.cfg.HTTP.CloseIdleConnections()
	}
	base := c.url()
	request, err := http.NewRequestWithContext(ctx, do.method, base+do.path, bytes.NewReader(do.body))
	if err != nil {
		return nil, err
	}
	least := max(do.least, c.reached.Load())
	if least > 0 && !do.static { // a server of files may refuse headers that it does not know
		request.Header.Set(api.HeaderMinLogSize, strconv.FormatUint(least, 10))
	}
	if do.mediaType != "" {
		request.Header.Set("Content-Type", do.mediaType)
	}
	if do.method == http.MethodPost { // receipts hardly shrink, and compression costs the ledger time
		request.Header.Set("Accept-Encoding", "identity")
	}
	if do.anew {
		request.Header.Set("Cache-Control", "no-cache")
	}
	response, err := c.cfg.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated {
		got, want := mediaType(response), cmp.Or(do.answer, api.MediaJSON)
		if named := got != "" && got != "text/html"; got != want && (!do.static || !named) {
			return nil, errors.Join(malformed("content type %.80q, want %s", got, want), response.Body.Close())
		}
		return response, nil
	}
	defer response.Body.Close()
	return nil, lagging(response, base, least, problemOf(response))
}

// url returns the URL of the node that answered last, without a slash at its end.
func (c *Client) url() string {
	return strings.TrimSuffix(c.servers[int(c.server.Load())%len(c.servers)].String(), "/")
}

// mediaType returns the media type of an answer, without parameters.
func mediaType(response *http.Response) string {
	name, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // a malformed type gives an empty name
	return name
}

// problemOf reads the problem in an answer.
func problemOf(response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil {
		return err
	}
	p := new(api.Problem)
	if mediaType(response) != api.MediaProblem || json.Unmarshal(body, p) != nil || p.Status != response.StatusCode {
		if response.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w: status %s, %.200q", ErrNotServed, response.Status, body)
		}
		if !fromBetween(response.StatusCode) {
			return malformed("status %s, %.200q", response.Status, body)
		}
		p = api.NewStatus(response.StatusCode, fmt.Sprintf("%.200q", body), "ask the operator of the proxy between this machine and the ledger")
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil && p.RetryAfterMS == 0 {
		p.RetryAfterMS = int64(seconds) * 1000
	}
	return p
}

// fromBetween reports whether a proxy may refuse with this status on its own. The proxy wants
// authentication, finds the request too large or too frequent, or does not reach the ledger.
func fromBetween(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return status >= http.StatusInternalServerError
}

// get asks for a JSON value.
func get[T any](ctx context.Context, c *Client, path string, limit int64) (*T, error) {
	return fetch[T](ctx, c, call{method: http.MethodGet, path: path, limit: limit})
}

// fetch makes a call for a JSON value.
func fetch[T any](ctx context.Context, c *Client, do call) (*T, error) {
	r, err := c.do(ctx, do)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(r.body, v); err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", do.method, do.path, malformed("%v", err))
	}
	return v, nil
}
