package console_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/api"
	"recoveryledger/api/console"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestMain leaves make race the streams of events: a page is made by one goroutine.
func TestMain(m *testing.M) { os.Exit(budget.Raced(m, "TestLive", "TestManyStreams")) }

// shown is a log as a source of pages.
type shown struct{ *foldlog.Log }

func (s shown) Standing() console.Standing {
	newest := s.Log.Entries[len(s.Log.Entries)-1].RegisteredAt
	return console.Standing{Head: s.Head(len(s.Leaves)), At: newest, Now: newest}
}

func (s shown) Read(show func(*coord.State, console.Standing)) { show(s.State, s.Standing()) }

func (s shown) Entry(_ context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error) {
	if index >= uint64(len(s.Log.Entries)) {
		return nil, nil, entry.Refuse(entry.NotFound, "index", "no entry %d", index)
	}
	proof, err := merkle.ProveInclusion(index, size, s.State.Node, nil)
	return &s.Log.Entries[index], proof, err
}

func (s shown) Entries(_ context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		for i := from; i < to && yield(&s.Log.Entries[i], nil); i++ {
		}
	}
}

func (s shown) Wait(ctx context.Context, size uint64) error {
	if uint64(len(s.Log.Entries)) >= size {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// pages returns the pages of a log.
func pages(t *testing.T, l *foldlog.Log, base string) *console.Console {
	t.Helper()
	c, err := console.New(&console.Config{Source: shown{l}, Origin: "ledger.example/test", Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get returns the answer of a page.
func get(t *testing.T, c http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy"} {
		if w.Header().Get(name) == "" {
			t.Errorf("%s: no header %s", path, name)
		}
	}
	return w.Code, w.Body.String()
}

// crawl follows every link from the overview on, checks each page, and returns the
// pages by their paths.
func crawl(t *testing.T, c http.Handler) map[string]string {
	t.Helper()
	found, todo := map[string]string{}, []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if _, seen := found[path]; seen {
			continue
		}
		status, body := get(t, c, path)
		found[path] = body
		if status != http.StatusOK {
			t.Errorf("%s is linked and answers %d: %s", path, status, body)
			continue
		}
		if strings.HasPrefix(path, "/assets/") {
			continue
		}
		todo = append(todo, webpage.Check(t, path, body)...)
	}
	return found
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// chain makes an incident with members of three agents, one of which cannot be undone.
func chain(l *foldlog.Log) (incident uint64) {
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "note", entry.EffectCompensable, "a#make")
	l.Do("c", "send", entry.EffectIrrevocable, "b#note")
	return l.Signal("a", "a#make")
}

// TestPages follows every link of a log whose incident goes through its life.
func TestPages(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	at := "/incidents/" + decimal(id)
	for _, life := range []struct {
		goes  func()
		state string
		shows []string
	}{
		{func() {}, "REPORTED", []string{"Nothing is decided", "○ make", "arl incident preview", "people must decide: "}},
		{func() { l.Decide(id, entry.ActContain) }, "CONTAINED", []string{"Nothing is decided"}},
		{func() { l.Decide(id, entry.ActEscalate) }, "ESCALATED", []string{"0 of 1 approvals", "Without an answer it is denied at"}},
		{func() { l.Approve(id) }, "AUTHORIZED", []string{"▶ may begin", "! cannot be undone", "arl incident show"}},
	} {
		life.goes()
		found := crawl(t, pages(t, l, ""))
		for _, text := range append(life.shows, life.state) {
			if !strings.Contains(found[at], text) {
				t.Errorf("%s: the page of the incident does not say %q:\n%s", life.state, text, found[at])
			}
		}
		if waits := strings.Contains(found["/"], "may what a#make led to be undone?"); waits != (life.state == "ESCALATED") {
			t.Errorf("%s: waits for people: %t", life.state, waits)
		}
		for _, path := range []string{"/agents/a", "/workflows/w", "/log/0", "/assets/console.css"} {
			if found[path] == "" {
				t.Errorf("%s: nothing links %s", life.state, path)
			}
		}
	}
}

// TestErrors asks for what is not there.
func TestErrors(t *testing.T) {
	l := foldlog.New(t)
	c := pages(t, l, "")
	for path, want := range map[string]int{
		"/incidents/1": 404, "/incidents/x": 400, "/incidents?state=GONE": 400, "/incidents?before=-1": 400, "/workflows/none": 404,
		"/agents/none": 404, "/log/99": 404, "/log/18446744073709551616": 400, "/nothing": 404,
	} {
		status, body := get(t, c, path)
		if status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
		webpage.Check(t, path, body)
		problem := map[int]string{400: "malformed", 404: "not-found"}[want]
		meaning, _ := api.Explain(problem)
		for _, text := range []string{"<dd>" + problem + "</dd>", "<dt>Field</dt>", "arl explain " + problem, meaning.Text} {
			if path != "/nothing" && !strings.Contains(html.UnescapeString(body), text) {
				t.Errorf("%s does not say %q: %s", path, text, body)
			}
		}
	}
	named := httptest.NewRecorder()
	named.Header().Set(api.HeaderRequestID, "request-7") // as a ledger gives each request one
	c.ServeHTTP(named, httptest.NewRequest(http.MethodGet, "/incidents/1", http.NoBody))
	if !strings.Contains(named.Body.String(), "<dd>request-7</dd>") {
		t.Errorf("no id of the request: %s", named.Body)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/incidents", http.NoBody))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if _, err := console.New(&console.Config{Origin: "o"}); err == nil {
		t.Error("pages without a source")
	}
}

// TestHostileText shows texts that pass for markup, reorder what stands beside them, or
// cannot be seen.
func TestHostileText(t *testing.T) {
	l := foldlog.New(t)
	hostile := "</td><script>alert(1)</script>\u202egnp\u200b\x00" + strings.Repeat("w", 500)
	subject := entry.NewRef("a", "make")
	l.Do("a", "make", entry.EffectNone)
	id := l.Put("a", &entry.Signal{Subject: subject, Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At, Detail: hostile})
	c := pages(t, l, "")
	for path, body := range crawl(t, c) {
		if strings.Contains(body, "<script>") || strings.ContainsAny(body, "\u202e\u200b\x00") {
			t.Errorf("%s shows the text as it is", path)
		}
	}
	if _, body := get(t, c, "/log/"+decimal(id)); !strings.Contains(html.UnescapeString(body), "[U+202E]gnp[U+200B]") {
		t.Errorf("the text is not spelled out: %.3000s", body)
	}
}

// TestBase puts the pages below a path.
func TestBase(t *testing.T) {
	l := foldlog.New(t)
	chain(l)
	c := http.StripPrefix("/c0ffee", pages(t, l, "/c0ffee"))
	_, body := get(t, c, "/c0ffee/")
	for _, link := range webpage.Check(t, "/c0ffee/", body) {
		if !strings.HasPrefix(link, "/c0ffee/") {
			t.Errorf("a link to %s", link)
		} else if status, _ := get(t, c, link); status != http.StatusOK {
			t.Errorf("%s: %d", link, status)
		}
	}
}

// TestFollows lists what follows from an entry: what was built on it, what answers and carries it
// out; and draws that the log continues the one that was accepted before.
func TestFollows(t *testing.T) {
	l := foldlog.New(t)
	before := l.State.Size()
	accepted := l.Head(int(before))
	id := chain(l)
	l.Approve(id) // of a proposal, which is carried out
	c, err := console.New(&console.Config{Source: shown{l}, Origin: "ledger.example/test", Derived: true, Accepted: &accepted})
	if err != nil {
		t.Fatal(err)
	}
	follows := func(index uint64) (says []string) {
		t.Helper()
		_, body := get(t, c, "/log/"+decimal(index))
		webpage.Check(t, "/log", body)
		if !strings.Contains(body, "This machine accepted "+decimal(before)+" entries") || !strings.Contains(body, html.EscapeString(accepted.Root.String())) {
			t.Errorf("entry %d: no consistency: %s", index, body)
		}
		_, table, _ := strings.Cut(body, "What follows from it")
		for _, found := range regexp.MustCompile(`<td><a href="/log/(\d+)">`).FindAllStringSubmatch(table, -1) {
			index, _ := strconv.ParseUint(found[1], 10, 63) // digits
			says = append(says, string(l.Entries[index].Kind))
		}
		return says
	}
	for index, want := range map[uint64]string{id: "decision decision", id + 1: "approval", id + 2: "decision", id + 3: "", before: "execution execution"} {
		if got := strings.Join(follows(index), " "); got != want {
			t.Errorf("from entry %d, %s, follow %q, want %q", index, l.Entries[index].Kind, got, want)
		}
	}
	if _, body := get(t, pages(t, l, ""), "/log/"+decimal(id)); strings.Contains(body, "This machine accepted") {
		t.Error("the ledger's word draws a head that no machine accepted")
	}
}

// TestFollowsOldest: a monitor has signaled 101 incidents, more than a page lists, and the page of
// its oldest signal shows what follows from that signal.
func TestFollowsOldest(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("m", entry.RoleMonitor)
	var signals []uint64
	for n := range 101 {
		id := "x" + strconv.Itoa(n)
		l.Put("b", foldlog.Execution(id, entry.EffectNone))
		signals = append(signals, l.Put("m", &entry.Signal{Subject: entry.NewRef("b", id), Class: "tool", Code: "error", Standing: entry.StandingMonitor,
			Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: l.At}))
	}
	if got := len(l.State.IncidentsOf("m", 0, 1000, l.At)); got != len(signals) {
		t.Fatalf("%d incidents of %d signals", got, len(signals))
	}
	l.Decide(signals[0], entry.ActContain)
	_, body := get(t, pages(t, l, ""), "/log/"+decimal(signals[0]))
	webpage.Check(t, "/log", body)
	_, table, _ := strings.Cut(body, "What follows from it")
	if want := `<td><a href="/log/` + decimal(l.State.Size()-1) + `">`; !strings.Contains(table, want) {
		t.Errorf("no decision follows from the oldest signal: no %s in %s", want, table)
	}
}

// TestLimits shows what a plan uses of what is allowed, proposed and in force alike: putting the
// plan in force counts nothing twice.
func TestLimits(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	limits := func() (table string) {
		t.Helper()
		_, body := get(t, pages(t, l, ""), "/incidents/"+decimal(id))
		_, table, there := strings.Cut(body, `id="limit-table"`)
		table, _, _ = strings.Cut(table, "</table>")
		if there != strings.Contains(body, `<h2 id="limits">Limits</h2>`) {
			t.Errorf("limits without a table: %s", body)
		}
		table, _, _ = strings.Cut(table, "<tr><td>fence</td>") // until a plan is in force
		return strings.TrimSuffix(table, "</tbody>")
	}
	l.Decide(id, entry.ActContain)
	proposed := limits()
	if !strings.Contains(proposed, "<td>3 of ") {
		t.Errorf("three members are proposed: %s", proposed)
	}
	l.Approve(id)
	if now := limits(); now != proposed {
		t.Errorf("in force: %s, want %s", now, proposed)
	}
	l.Compensate(id, "b#note")
	if now := limits(); now != proposed {
		t.Errorf("partly undone: %s, want %s", now, proposed)
	}
}

// TestTimeline lists the entries of an incident in their order, and what is ahead of it.
func TestTimeline(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Decide(id, entry.ActEscalate)
	at := "/incidents/" + decimal(id)
	_, body := get(t, pages(t, l, ""), at)
	ahead := strings.LastIndex(body, "silence denies the proposal")
	if signal := strings.Index(body, "tool.error of a#make"); signal < 0 || ahead < signal {
		t.Errorf("the timeline has the signal at %d, and what is ahead at %d: %s", signal, ahead, body)
	}
	l.Approve(id)
	if _, body := get(t, pages(t, l, ""), at); !strings.Contains(body, "authorize incident "+decimal(id)) || !strings.Contains(body, "<bdi>approve proposal ") ||
		!strings.Contains(body, "escalate incident "+decimal(id)) || !strings.Contains(body, "members without an outcome become unknown") {
		t.Errorf("with a plan in force: %s", body)
	}
}
