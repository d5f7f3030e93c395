package client_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
)

// An entry is submitted, its receipt verified; submitted again it is the same.
func TestSubmit(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	e := n.good()
	first, err := c.Submit(t.Context(), e)
	must(t, err)
	if first.Index != 2 || first.Duplicate || first.RegisteredAt == 0 {
		t.Fatalf("registered %+v", first)
	}
	again, err := c.Submit(t.Context(), e)
	must(t, err)
	if again.Index != first.Index || !again.Duplicate || again.RegisteredAt != first.RegisteredAt {
		t.Fatalf("again %+v, first %+v", again, first)
	}
	if accepted := c.Accepted(); accepted.Size != 3 || accepted.Note == "" {
		t.Fatalf("accepted %+v", accepted)
	}
}

// A refusal is a problem with its type; it is not tried again.
func TestSubmitRefused(t *testing.T) {
	n := start(t)
	var requests atomic.Int64
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		n.handler.ServeHTTP(w, r)
	})
	x := execution("agent-1")
	x.Aud = "elsewhere"
	_, err := n.client(nil).Submit(t.Context(), sign(t, n.agent, x))
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok || problem.Name() != entry.WrongAudience || problem.Field != "aud" || requests.Load() != 1 {
		t.Fatalf("error %v after %d requests", err, requests.Load())
	}
}

// Any number of entries goes in batches; a refusal leaves the prefix, and what
// was sent before is recognized.
func TestSubmitBatch(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	entries := n.goods(api.MaxBatchLines + 100)
	got, err := c.SubmitBatch(t.Context(), entries)
	must(t, err)
	if len(got) != len(entries) || got[len(got)-1].Index != uint64(len(entries))+1 {
		t.Fatalf("%d registered, the last %+v", len(got), got[len(got)-1].Index)
	}
	x := execution("agent-1")
	x.Iat -= 3600
	got, err = c.SubmitBatch(t.Context(), []*entry.Entry{entries[7], n.good(), sign(t, n.agent, x), n.good()})
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok || problem.Name() != entry.Stale || len(got) != 2 || !got[0].Duplicate || got[0].Index != 9 || got[1].Duplicate {
		t.Fatalf("%d registered, error %v", len(got), err)
	}
	if got, err = c.SubmitBatch(t.Context(), nil); err != nil || len(got) != 0 {
		t.Fatalf("an empty batch: %d registered, %v", len(got), err)
	}
}

// An entry that was registered under another valid signature has the receipt of
// that.
// Draft: REG-10a.
func TestSubmitBatchUnderAnotherSignature(t *testing.T) {
	n := start(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signer, err := keys.NewSigner(private)
	must(t, err)
	n.add(n.enrol("agent-2", signer))
	x := execution("agent-2")
	n.add(sign(t, signer, x))
	got, err := n.client(nil).SubmitBatch(t.Context(), []*entry.Entry{n.good(), sign(t, signer, x)})
	must(t, err)
	if len(got) != 2 || got[1].Index != 3 || !got[1].Duplicate {
		t.Fatalf("registered %+v", got)
	}
}

// Everything that can be read comes back proven, by keys of the chain.
func TestRead(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	list := n.goods(30)
	n.add(list...)
	for i, e := range list {
		found, err := c.Entry(t.Context(), uint64(i)+2)
		must(t, err)
		if !same(found.Entry.Entry, e) || !found.Signed || found.Receipt.Index != found.Index {
			t.Fatalf("entry %d is another", i+2)
		}
	}
	receipt, err := c.Receipt(t.Context(), 5)
	must(t, err)
	if _, err := n.root().Verify(material(*receipt)); err != nil {
		t.Fatal(err)
	}
	log, err := c.Log(t.Context())
	must(t, err)
	if log.Size != 32 {
		t.Fatalf("log %+v", log)
	}
	must(t, c.Ready(t.Context()))
	text, err := c.Metrics(t.Context())
	must(t, err)
	if !strings.Contains(string(text), "arl_http_requests_total") {
		t.Fatalf("metrics %s", text)
	}
	tile, err := c.Tile(t.Context(), merkle.Tile{Entries: true, Width: 32})
	must(t, err)
	want, err := n.log.Tile(merkle.Tile{Entries: true, Width: 32})
	must(t, err)
	if !slices.Equal(tile, want) {
		t.Fatal("another tile")
	}
	_, err = c.Tile(t.Context(), merkle.Tile{Width: 33})
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Name() != entry.NotFound {
		t.Fatalf("a tile beyond the log: %v", err)
	}
}

// Lists come in order or backwards, page by page.
func TestEntries(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	n.add(n.goods(25)...)
	for _, q := range []api.ListQuery{{Limit: 4}, {Limit: 4, Newest: true}, {Kinds: []entry.Kind{entry.KindExecution}, Limit: 7}, {Agent: "agent-1", From: 3, Before: new(uint64(20))},
		{Workflow: "flow-1", Newest: true}, {Kinds: []entry.Kind{entry.KindRun}},
		{Kinds: []entry.Kind{entry.KindAgent, entry.KindExecution}, Limit: 3}, {Kinds: []entry.Kind{entry.KindPolicy, entry.KindExecution}, Newest: true, Limit: 5},
		{Kinds: []entry.Kind{entry.KindPolicy, entry.KindAgent}, Agent: "agent-1"}} {
		var got []uint64
		for e, err := range c.Entries(t.Context(), q) {
			must(t, err)
			got = append(got, e.Index)
		}
		if q.Newest {
			slices.Reverse(got)
		}
		var want []uint64
		for e, err := range n.log.Entries(t.Context(), q.From, 27) {
			must(t, err)
			matches := (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) && (q.Agent == "" || e.Index > 0) && (q.Workflow == "" || e.Header.Wid == q.Workflow)
			if matches && (q.Before == nil || e.Index < *q.Before) {
				want = append(want, e.Index)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %v, want %v", q, got, want)
		}
	}
	for e, err := range c.Entries(t.Context(), api.ListQuery{Limit: 2}) {
		must(t, err)
		if e.Index == 3 {
			break // leaving early must be possible
		}
	}
}

// Keys that were rotated count for what they signed while they counted; a new
// one is learnt when it comes.
func TestEntriesOfRotatedKeys(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	n.add(n.good())
	first, err := c.Entry(t.Context(), 2)
	must(t, err)
	second := newSigner(t)
	n.add(n.agentEntry("agent-1", second, entry.Rotate), sign(t, second, execution("agent-1")))
	_, err = c.Entry(t.Context(), 4)
	must(t, err)
	old, err := c.Entry(t.Context(), 2)
	must(t, err)
	if !same(old.Entry.Entry, first.Entry.Entry) {
		t.Fatal("another entry")
	}
	chain, err := c.Chain(t.Context())
	must(t, err)
	info, ok := chain.Agent("agent-1")
	if !ok || len(info.Keys) != 2 || info.Keys[0].Revoked != 3 {
		t.Fatalf("agent %+v", info)
	}
}

// Events come in order, old and new, and end with the context.
func TestEvents(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	n.add(n.goods(300)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := uint64(1)
	for e, err := range c.Events(ctx, 1) {
		must(t, err)
		if e.Index != next || !e.Signed {
			t.Fatalf("entry %d, want %d", e.Index, next)
		}
		if next++; next == 302 {
			n.add(n.goods(3)...)
		}
		if next == 305 {
			cancel()
		}
	}
	if next != 305 {
		t.Fatalf("ended before entry %d", next)
	}
}

// A stream that breaks, anywhere, is taken up again where it ended.
func TestEventsReconnect(t *testing.T) {
	n := start(t)
	n.add(n.goods(20)...)
	var connections atomic.Int64
	n.pass(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" && connections.Add(1) < 4 {
			w = &breaking{ResponseWriter: w, left: 9000}
		}
		n.handler.ServeHTTP(w, r)
	})
	next := uint64(0)
	for e, err := range n.client(nil).Events(t.Context(), 0) {
		must(t, err)
		if e.Index != next {
			t.Fatalf("entry %d, want %d", e.Index, next)
		}
		if next++; next == 22 {
			break
		}
	}
	if connections.Load() < 3 {
		t.Fatalf("%d connections", connections.Load())
	}
}

// breaking is a connection that breaks after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		_, _ = b.ResponseWriter.Write(p[:b.left])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

func (b *breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// Overload, unreadiness and broken connections are waited for; an entry that
// was registered although its answer was lost is not registered twice.
// Draft: REG-2c.
func TestRetries(t *testing.T) {
	n := start(t)
	for name, fail := range map[string]http.HandlerFunc{
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"503 of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no upstream", http.StatusServiceUnavailable)
		},
		"lost request": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"lost answer": func(_ http.ResponseWriter, r *http.Request) {
			n.handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			n.pass(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) < 3 {
					fail(w, r)
					return
				}
				n.handler.ServeHTTP(w, r)
			})
			size := n.log.Head().Size
			e := n.good()
			got, err := n.client(nil).Submit(t.Context(), e)
			must(t, err)
			if got.Index != size || n.log.Head().Size != size+1 || requests.Load() != 3 {
				t.Fatalf("entry %d of %d after %d requests", got.Index, n.log.Head().Size, requests.Load())
			}
			requests.Store(0)
			batch, err := n.client(nil).SubmitBatch(t.Context(), n.goods(3))
			must(t, err)
			if len(batch) != 3 {
				t.Fatalf("%d registered", len(batch))
			}
		})
	}
}

// The attempts are counted, a long wait is not waited, and the context ends all.
func TestRetriesEnd(t *testing.T) {
	n := start(t)
	var requests atomic.Int64
	retryAfter := "0"
	n.pass(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := n.client(nil).Log(t.Context())
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Status != http.StatusTooManyRequests || requests.Load() != 3 {
		t.Fatalf("error %v after %d requests", err, requests.Load())
	}
	requests.Store(0)
	retryAfter = "3600"
	if _, err := n.client(nil).Log(t.Context()); err == nil || requests.Load() != 1 {
		t.Fatalf("error %v after %d requests", err, requests.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.client(nil).Log(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
}

// A server that answers nothing, or too much, is given up.
func TestUnresponsiveServer(t *testing.T) {
	n := start(t)
	n.pass(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := n.client(&client.Config{Attempts: 1, Timeout: 20 * time.Millisecond})
	if _, err := c.Log(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	for _, err := range c.Events(t.Context(), 0) {
		if err == nil {
			t.Fatal("an event of nobody")
		}
	}
}

// An answer is read up to its limit, and not one byte more.
func TestAnswerLimits(t *testing.T) {
	n := start(t)
	const log = `{"origin":"` + origin + `","verifier_keys":[],"size":1}`
	for size, good := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		n.pass(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.MediaJSON)
			_, _ = io.WriteString(w, log+strings.Repeat(" ", size-len(log)))
		})
		if _, err := n.client(nil).Log(t.Context()); (err == nil) != good || !good && !errors.Is(err, client.ErrMalformed) {
			t.Errorf("a value of %d bytes: error %v", size, err)
		}
	}
	for size, good := range map[int]bool{512<<10 - 1: true, 512 << 10: false} { // with its line break it is one more
		n.pass(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.MediaEvents)
			_, _ = io.WriteString(w, ":"+strings.Repeat("x", size-1)+"\n\n")
		})
		for _, err := range n.client(&client.Config{Attempts: 1}).Events(t.Context(), 0) {
			if errors.Is(err, io.ErrUnexpectedEOF) != good || errors.Is(err, bufio.ErrTooLong) == good {
				t.Errorf("a line of %d bytes: error %v", size, err)
			}
		}
	}
	const problem = `{"type":"urn:agent-recovery:problem:stale","title":"t","status":422,"detail":"d","remedy":"r"}`
	for size, good := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		n.pass(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.MediaProblem)
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, strings.Repeat(" ", size-len(problem))+problem)
		})
		_, err := n.client(nil).Log(t.Context())
		if found, ok := errors.AsType[*api.Problem](err); ok != good || good && found.Name() != entry.Stale || !good && !errors.Is(err, client.ErrMalformed) {
			t.Errorf("a problem of %d bytes: error %v", size, err)
		}
	}
}

// A server that is no ledger is told from one that refuses, and not asked again;
// a proxy's own refusal stays one.
func TestServerThatIsNoLedger(t *testing.T) {
	for _, c := range []struct {
		desc      string
		answer    func(w http.ResponseWriter)
		malformed bool
	}{
		{"a page for everything", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>hello</html>") }, true},
		{"nothing", func(http.ResponseWriter) {}, true},
		{"no such page", func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }, true},
		{"no such method", func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) }, true},
		{"a problem of another status", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", api.MediaProblem)
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"type":"about:blank","title":"t","status":400}`)
		}, true},
		{"a proxy that asks who is there", func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, false},
		{"a proxy without a ledger", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, false},
	} {
		t.Run(c.desc, func(t *testing.T) {
			n := start(t)
			var requests atomic.Int64
			n.pass(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				c.answer(w)
			})
			calls := []func(*client.Client) error{
				func(l *client.Client) error { _, err := l.Log(t.Context()); return err },
				func(l *client.Client) error { _, err := l.Receipt(t.Context(), 0); return err },
				func(l *client.Client) error { _, err := l.Head(t.Context()); return err },
				func(l *client.Client) error { _, err := l.Submit(t.Context(), n.good()); return err },
				func(l *client.Client) error { _, err := l.SubmitBatch(t.Context(), n.goods(2)); return err },
				func(l *client.Client) error { _, err := l.Chain(t.Context()); return err },
				func(l *client.Client) error {
					for _, err := range l.Events(t.Context(), 0) {
						return err
					}
					return nil
				},
			}
			for i, call := range calls {
				requests.Store(0)
				err := call(n.client(&client.Config{Attempts: 2}))
				_, problem := errors.AsType[*api.Problem](err)
				if errors.Is(err, client.ErrMalformed) != c.malformed || problem == c.malformed {
					t.Errorf("call %d: error %v", i, err)
				}
				if again := c.desc == "a proxy without a ledger"; again != (requests.Load() > 1) {
					t.Errorf("call %d: asked %d times", i, requests.Load())
				}
			}
		})
	}
}

// What is no URL of a ledger is refused at once.
func TestNewProblems(t *testing.T) {
	n := start(t)
	for _, url := range []string{"", "ledger.example", "ftp://ledger.example", "http://", "http://ledger.example?x=1", "http://ledger.example#x", ":"} {
		if _, err := client.New(url, n.root(), nil); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	if _, err := client.New(n.url, n.root(), &client.Config{Accepted: "not a head"}); err == nil {
		t.Error("an accepted head that is none")
	}
}
