package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"recoveryledger/api/console"
	"recoveryledger/testdata/foldlog"
)

// growing is the beginning of a log, which grows by and by.
type growing struct {
	shown
	mu    sync.Mutex
	size  int
	lost  int64 // when the ledger was last reached
	grown chan struct{}
}

func (g *growing) Standing() console.Standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	return console.Standing{Head: g.Head(g.size), LostAt: g.lost}
}

func (g *growing) Wait(ctx context.Context, size uint64) error {
	for {
		g.mu.Lock()
		enough, grown := uint64(g.size) >= size, g.grown
		g.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// grow waits for what that brings about.
func (g *growing) grow(size int) {
	g.mu.Lock()
	close(g.grown)
	g.size, g.grown = size, make(chan struct{})
	g.mu.Unlock()
	synctest.Wait()
}

// listener takes an answer as it is written.
type listener struct {
	header http.Header
	texts  chan string
}

func (l *listener) Header() http.Header { return l.header }
func (l *listener) WriteHeader(int)     {}
func (l *listener) Flush()              {}

func (l *listener) Write(text []byte) (int, error) {
	l.texts <- string(text)
	return len(text), nil
}

// said returns what was written since the last time.
func (l *listener) said() (text string) {
	synctest.Wait()
	for len(l.texts) > 0 {
		text += <-l.texts
	}
	return text
}

// TestLive listens to a log that grows: one event for what comes within a quarter of a second, with
// what the new entries are about.
func TestLive(t *testing.T) {
	l := foldlog.New(t)
	chain(l)
	from := len(l.Entries) - 4 // three entries of an execution of c, and a signal about a
	synctest.Test(t, func(t *testing.T) {
		g := &growing{shown: shown{l}, size: from, grown: make(chan struct{})}
		c, err := console.New(&console.Config{Source: g, Origin: "ledger.example/test"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		w := &listener{http.Header{}, make(chan string, 100)}
		q := httptest.NewRequestWithContext(ctx, http.MethodGet, "/live?size=0", http.NoBody)
		q.Header.Set("Last-Event-ID", decimal(uint64(from)))
		ended := make(chan struct{})
		go func() { defer close(ended); c.ServeHTTP(w, q) }()
		if text := w.said(); text != "retry: 1000\n\n" {
			t.Errorf("the stream begins with %q", text)
		}
		g.grow(from + 1)
		if text := w.said(); !strings.HasPrefix(text, "id: "+decimal(uint64(from+1))+"\ndata: {") ||
			!strings.Contains(text, `"touched":{"agent/c":1,"workflow/w":1}`) {
			t.Errorf("the first entry: %q", text)
		}
		g.grow(from + 2)
		g.grow(from + 4)
		if text := w.said(); text != "" {
			t.Errorf("too early: %q", text)
		}
		time.Sleep(250 * time.Millisecond)
		if text := w.said(); strings.Count(text, "data:") != 1 || !strings.Contains(text, `"workflow/w":3`) ||
			!strings.Contains(text, `"incident/`+decimal(uint64(from+3))+`":1`) {
			t.Errorf("three entries: %q", text)
		}
		time.Sleep(6 * time.Second)
		if text := w.said(); text != ":\n\n" {
			t.Errorf("a silence: %q", text)
		}
		g.mu.Lock()
		g.lost = 7
		g.mu.Unlock()
		time.Sleep(11 * time.Second)
		if text := w.said(); strings.Count(text, `"lost_at":7`) != 1 || strings.Count(text, "data:") != 1 {
			t.Errorf("no contact: %q", text)
		}
		leave()
		<-ended
	})
}
