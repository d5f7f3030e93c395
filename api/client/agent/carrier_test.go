package agent_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// carrier is a proxy between an agent and its ledger. It alters the steps of the first bundles that
// it carries, as many as left says.
type carrier struct {
	*httptest.Server

	left, altered atomic.Int64
	anew          atomic.Int64 // altered bundles were asked for again, past caches
	connections   atomic.Int64
}

// step finds a step from a signal. It is altered to lead nowhere.
var step = regexp.MustCompile(`"exec":(\d+),"rule":"SCO-3","from":\d+`)

func newCarrier(t *testing.T, to string, left int64) *carrier {
	t.Helper()
	c := &carrier{}
	c.left.Store(left)
	target, err := url.Parse(to)
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if strings.HasSuffix(r.In.URL.Path, "/bundle") && r.In.Header.Get("Cache-Control") == "no-cache" {
				c.anew.Add(1)
			}
			r.Out.Header.Set("Accept-Encoding", "identity")
		},
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, "/bundle") || r.StatusCode != http.StatusOK {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			if changed := step.ReplaceAll(body, []byte(`"exec":$1,"rule":"SCO-1","from":$1`)); !bytes.Equal(changed, body) && c.left.Add(-1) >= 0 {
				c.altered.Add(1)
				body = changed
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			return nil
		},
	}
	c.Server = httptest.NewUnstartedServer(proxy)
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.connections.Add(1)
		}
	}
	c.Start()
	t.Cleanup(c.Close)
	return c
}

// hurry is [agent.Run] on a clock that jumps over the pauses after failures. These are shorter than
// the time between two looks, which is an hour.
func hurry(ctx context.Context, a *agent.Agent, w agent.Waiter) error {
	jumped := int64(0)
	for ctx.Err() == nil {
		now := time.Now().UnixMilli() + jumped
		next, err := a.Step(ctx, now)
		switch {
		case err != nil:
			return err
		case next <= now:
		case next-now <= time.Minute.Milliseconds():
			jumped += next - now
		default:
			if err := w.Wait(ctx, time.Duration(next-now)*time.Millisecond); err != nil && ctx.Err() == nil {
				return err
			}
			a.Poke()
		}
	}
	return nil
}

// TestACarrierAltersBundles has a proxy alter the steps of a bundle, once and for ever. Altered
// once, the agent gets the right bundle over another connection, and undoes the execution. Altered
// for ever, the agent answers refused, after asking again.
// Draft: AGT-9.
func TestACarrierAltersBundles(t *testing.T) {
	for left, want := range map[int64]entry.Result{1: entry.Compensated, 1 << 20: entry.Refused} {
		n := newNode(t)
		c := newCarrier(t, n.url, left)
		through, err := client.New(c.URL, n.root, nil)
		must(t, err)
		head, err := n.client().Head(t.Context())
		must(t, err)
		store, err := agent.OpenDir(t.TempDir())
		must(t, err)
		must(t, agent.Init(store, n.root, "worker", time.Now().UnixMilli()))
		s := &agent.Server{Client: through, Agent: "worker"}
		a, err := agent.Open(&agent.Config{Root: n.root, Agent: "worker", Secret: make([]byte, 16), Sign: n.signer("worker").Sign, NewID: uuid.NewString,
			Ledger: s, Log: s, Second: &agent.Mirror{Client: n.client(), Head: func(context.Context) (string, error) { return head.Note, nil }},
			Store: store, Hooks: newOutside().hooks(bare), LookMS: time.Hour.Milliseconds()}, time.Now().UnixMilli())
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- hurry(ctx, a, s) }()
		incident := n.fails("x")
		must(t, n.closed(ctx, incident))
		view, err := n.client().Incident(ctx, incident)
		must(t, err)
		if view.Decision.Tally[want] == 0 || c.altered.Load() < min(left, 6) || c.anew.Load() == 0 || c.connections.Load() < 2 {
			t.Errorf("altered %d of %d: %v, want %s; %d times asked anew, %d connections", c.altered.Load(), left, view.Decision.Tally, want, c.anew.Load(), c.connections.Load())
		}
		cancel()
		must(t, <-done)
		must(t, store.Close())
	}
}
