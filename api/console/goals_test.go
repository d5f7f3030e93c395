package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"recoveryledger/api/console"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/foldlog"
)

// long is a long log: its tree head is computed once.
type long struct {
	shown
	head merkle.Head
}

func (l long) Standing() console.Standing {
	newest := l.Log.Entries[len(l.Log.Entries)-1].RegisteredAt
	return console.Standing{Head: l.head, At: newest, Now: newest}
}

func (l long) Read(show func(*coord.State, console.Standing)) { show(l.State, l.Standing()) }

// quick holds the best of some attempts to a goal: others use the machine, too. The small budget is
// for the race detector, which makes all slower.
func quick(t *testing.T, what string, goal time.Duration, do func()) {
	t.Helper()
	goal *= time.Duration(budget.Budget{Short: 10, Usual: 1}.Now())
	best := time.Hour
	for i := 0; i < 30 && best > goal; i++ {
		began := time.Now()
		do()
		best = min(best, time.Since(began))
	}
	t.Logf("%s: %v", what, best)
	if best > goal {
		t.Errorf("%s takes %v, want at most %v", what, best, goal)
	}
}

// TestPagesOfALongLogChaos holds every page to its goal, 0.3 s. The large budget has the log of the
// goal, 10^5 entries.
func TestPagesOfALongLogChaos(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	for n := (budget.Budget{Short: 100, Usual: 1_500, Chaos: 100_000}).Now() / 3; n > 0; n-- {
		l.Do([]entry.Principal{"a", "b", "c"}[n%3], "step-"+decimal(uint64(n)), entry.EffectNone)
	}
	l.Decide(id, entry.ActEscalate)
	c, err := console.New(&console.Config{Source: long{shown{l}, l.Head(len(l.Leaves))}, Origin: "ledger.example/test"})
	if err != nil {
		t.Fatal(err)
	}
	at := "/incidents/" + decimal(id)
	for _, path := range []string{"/", "/incidents", at, at + "/report.md", "/workflows/w", "/tasks", "/agents", "/agents/a", "/rollouts", "/health", "/log", "/log/" + decimal(id), "/search?q=nothing"} {
		quick(t, path, 300*time.Millisecond, func() {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d", path, w.Code)
			}
		})
	}
}

// TestManyStreams has 50 browsers listen to one log: each is told of a new entry, and pages are
// served beside. The tabs of one browser share a stream.
func TestManyStreams(t *testing.T) {
	l := foldlog.New(t)
	chain(l)
	from := len(l.Entries) - 1
	synctest.Test(t, func(t *testing.T) {
		g := &growing{shown: shown{l}, size: from, grown: make(chan struct{})}
		c, err := console.New(&console.Config{Source: g, Origin: "ledger.example/test"})
		if err != nil {
			t.Fatal(err)
		}
		var all []*listener
		for range 50 {
			w := &listener{http.Header{}, make(chan string, 100)}
			all = append(all, w)
			go c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live?size="+decimal(uint64(from)), http.NoBody))
		}
		synctest.Wait()
		g.grow(from + 1)
		for n, w := range all {
			if text := w.said(); strings.Count(text, "data:") != 1 {
				t.Errorf("stream %d: %q", n, text)
			}
		}
		if status, _ := get(t, c, "/log"); status != http.StatusOK {
			t.Errorf("the page of the log: %d", status)
		}
	})
}

// TestHeaders holds the headers of a page to the ones that keep it from being framed, scripted and
// cached.
func TestHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	pages(t, foldlog.New(t), "").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
			"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
