package notify_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cockroachdb/pebble/v2/vfs"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"recoveryledger/api/notify"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// node is a real ledger that registers the entries of a log that a test makes.
type node struct {
	t       *testing.T
	made    *foldlog.Log
	clock   atomic.Int64
	log     *ledger.Log
	replica *coordinator.Replica
	dir     string // of the cursors
}

// start returns a ledger with the principals of foldlog.
func start(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, made: foldlog.New(t), dir: filepath.Join(t.TempDir(), "notify"), replica: coordinator.New(testlog.Origin, nil)}
	n.clock.Store(n.made.Entries[0].RegisteredAt)
	key, err := keys.GenerateLedger(t.TempDir(), testlog.Origin, nil)
	must(t, err)
	n.log, err = ledger.Open("db", &ledger.Config{
		Origin: testlog.Origin, Keys: []ledger.Key{{Signer: key.Signer, Verifier: key.Verifier, Cosigner: key.Cosigner}},
		NewFold: func() ledger.Fold { return n.replica.NewFold() },
		Frozen:  func() (ledger.Fold, uint64) { return n.replica.Frozen() }, Precheck: n.replica.Precheck, Committed: n.replica.Committed,
		MaxStep: n.replica.MaxStep, FS: vfs.NewMem(), Now: func() time.Time { return time.UnixMilli(n.clock.Load()) },
		Uptime: func() time.Duration { return time.Duration(n.clock.Load()) * time.Millisecond },
		Fatal:  func(err error) { panic(err) },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.log.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, errors.Join(<-done, n.log.Close()))
	})
	n.play()
	return n
}

// play registers what the test has made since.
func (n *node) play() {
	n.t.Helper()
	for _, e := range n.made.Entries[n.log.Size():] {
		n.clock.Store(e.RegisteredAt)
		answer, err := n.log.Submit(n.t.Context(), e.Entry)
		must(n.t, err)
		if answer.Refused != nil {
			n.t.Fatalf("entry %d: %v", e.Index, answer.Refused)
		}
	}
}

// incident makes an incident that waits for approvals, and returns its id.
func (n *node) incident(name string) uint64 {
	n.t.Helper()
	n.made.Do("a", name, entry.EffectIrrevocable)
	id := n.made.Signal("a", entry.NewRef("a", name))
	n.made.Decide(id, entry.ActEscalate)
	n.play()
	return id
}

// notify runs a notifier until the test, or stop, ends it.
func (n *node) notify(endpoints ...notify.Endpoint) (stop func()) {
	n.t.Helper()
	_, stop = n.run(n.config(endpoints...))
	return stop
}

// run runs a notifier until the test, or stop, ends it.
func (n *node) run(c *notify.Config) (w *notify.Notifier, stop func()) {
	n.t.Helper()
	w, err := notify.New(c, n.log.Size())
	must(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(n.t, <-done)
	})
	n.t.Cleanup(stop)
	return w, stop
}

func (n *node) config(endpoints ...notify.Endpoint) *notify.Config {
	return &notify.Config{File: &notify.File{Endpoints: endpoints}, Dir: n.dir, Origin: testlog.Origin, Log: n.log, Replica: n.replica,
		Evidence: filepath.Join(filepath.Dir(n.dir), "evidence.ndjson"), First: time.Millisecond, Most: 20 * time.Millisecond}
}

// lines are those of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// await waits for a line that has a text.
func (l lines) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(3 * time.Second); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			t.Fatalf("no line has %q", text)
		}
	}
}

// secret is that of every endpoint.
var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// secretFile writes a file of secrets.
func secretFile(tb testing.TB, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "secret")
	must(tb, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// got is a message as an endpoint got it.
type got struct {
	event.Event
	body string
}

// receiver is an endpoint that checks the signature of each message.
type receiver struct {
	t      *testing.T
	url    string
	answer atomic.Pointer[http.HandlerFunc] // nil: 204
	mu     sync.Mutex
	seen   []got // messages that were taken, each once
	again  []got // those that came again
	tries  int
	came   chan struct{} // a message came
}

// receive starts an endpoint.
func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, came: make(chan struct{}, 1<<16)}
	checker, err := webhooks.NewWebhook(secret)
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // the sender gave up
		}
		if err := checker.Verify(body, q.Header); err != nil {
			t.Errorf("signature: %v", err)
		}
		var e event.Event
		if err := errors.Join(e.UnmarshalJSON(body), e.Validate()); err != nil || q.Header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" ||
			q.Header.Get("webhook-id") != e.ID() {
			t.Errorf("%s: %v, %v", body, err, q.Header)
		}
		r.mu.Lock()
		r.tries++
		r.mu.Unlock()
		if answer := r.answer.Load(); answer != nil {
			(*answer)(w, q)
		} else {
			r.mu.Lock()
			one := got{e, string(body)}
			if i := slices.IndexFunc(r.seen, func(g got) bool { return g.ID() == e.ID() }); i < 0 {
				r.seen = append(r.seen, one)
			} else if r.again = append(r.again, one); r.seen[i].body != one.body {
				t.Errorf("%s came again as %s", r.seen[i].body, one.body)
			}
			r.mu.Unlock()
			w.WriteHeader(http.StatusNoContent)
		}
		r.came <- struct{}{}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// endpoint returns the endpoint of a receiver.
func (r *receiver) endpoint(name string) notify.Endpoint {
	return notify.Endpoint{Name: name, URL: r.url, Secret: secretFile(r.t, secret+"\n"), TimeoutMS: new(int64(200))}
}

// says sets the answer to further messages; nil: they are taken.
func (r *receiver) says(answer http.HandlerFunc) {
	if answer == nil {
		r.answer.Store(nil)
		return
	}
	r.answer.Store(&answer)
}

// await waits until a condition on the messages holds.
func (r *receiver) await(what string, holds func() bool) {
	r.t.Helper()
	late := time.After(3 * time.Second)
	for {
		r.mu.Lock()
		there := holds()
		r.mu.Unlock()
		if there {
			return
		}
		select {
		case <-r.came:
		case <-late:
			r.t.Fatalf("%s: %d messages in %d attempts: %s", what, len(r.seen), r.tries, r.told())
		}
	}
}

// taken waits for n messages and returns them.
func (r *receiver) taken(n int) []got {
	r.t.Helper()
	r.await(fmt.Sprintf("%d messages", n), func() bool { return len(r.seen) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// told are the types of the taken messages.
func (r *receiver) told() string {
	var names []string
	for i := range r.seen {
		names = append(names, strings.TrimPrefix(r.seen[i].Type(), notify.TypePrefix)+" "+r.seen[i].Subject())
	}
	return strings.Join(names, ", ")
}
