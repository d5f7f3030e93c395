package console_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestWorkflow draws the executions of a workflow while an incident goes through its life: what was
// reported, what is fenced, what is undone.
func TestWorkflow(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "note", entry.EffectCompensable, "a#make")
	shows := func(step string, want ...string) string {
		t.Helper()
		_, body := get(t, pages(t, l, ""), "/workflows/w")
		webpage.Check(t, "/workflows/w", body)
		for _, text := range append(want, "Picture of the workflow", `data-from="0" data-to="1"`, ">executions: 1<") {
			if !strings.Contains(html.UnescapeString(body), text) {
				t.Errorf("%s: the page does not say %q: %s", step, text, body)
			}
		}
		return body
	}
	if body := shows("no incident", "✓ make", "✓ note", "No signal of the workflow opened an incident"); strings.Contains(body, "reported as failed") {
		t.Error("a failure that nobody reported")
	}
	id := l.Signal("a", "a#make")
	incident := fmt.Sprintf(`<a href="/incidents/%d">incident %d</a>`, id, id)
	shows("reported", "✕ make", fmt.Sprintf("none · ✕ %d<", id), incident, "reported as failed")
	l.Decide(id, entry.ActContain)
	shows("contained", "✕ make", "‖ note", "b#note: fenced, compensable", incident)
	l.Approve(id)
	l.Compensate(id, "b#note")
	shows("compensated", "⟲ note", "b#note: undone, compensable")
}

// TestLargeWorkflow leafs through a workflow: each page draws what it lists, and counts the links
// to what it does not draw.
func TestLargeWorkflow(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "first", entry.EffectNone)
	for i := range 120 {
		l.Put("b", foldlog.Execution(fmt.Sprint("x", i), entry.EffectNone, "a#first"))
	}
	c := pages(t, l, "")
	_, newest := get(t, c, "/workflows/w")
	if boxes := strings.Count(newest, "data-box"); boxes != 100 || strings.Count(newest, "1 more link<") != 100 || strings.Contains(newest, "data-from") {
		t.Errorf("%d boxes: %s", boxes, newest)
	}
	for _, link := range webpage.Check(t, "/workflows/w", newest) {
		if strings.Contains(link, "before=") {
			_, older := get(t, c, link)
			webpage.Check(t, link, older)
			if boxes, edges := strings.Count(older, "data-box"), strings.Count(older, "data-from"); boxes != 21 || edges != 20 || !strings.Contains(older, "100 more links<") {
				t.Errorf("%d boxes, %d arrows: %s", boxes, edges, older)
			}
			return
		}
	}
	t.Error("no link to older executions")
}

// TestReportedLongAgo shows that an execution was reported, however many incidents of the workflow
// were opened since.
func TestReportedLongAgo(t *testing.T) {
	l := foldlog.New(t)
	for i := range 102 {
		l.Put("a", foldlog.Execution(fmt.Sprint("x", i), entry.EffectNone))
	}
	id := l.Signal("a", "a#x101")
	for i := range 101 {
		l.Signal("a", entry.NewRef("a", fmt.Sprint("x", i)))
	}
	_, body := get(t, pages(t, l, ""), "/workflows/w")
	webpage.Check(t, "/workflows/w", body)
	if want := fmt.Sprintf(`failure reported in <a href="/incidents/%d">`, id); !strings.Contains(body, want) || strings.Count(body, "failure reported in") != 100 {
		t.Errorf("the page does not say %s: %s", want, body)
	}
}

// TestReportedOften lists the newest incidents that reported an execution, and counts the older
// ones.
func TestReportedOften(t *testing.T) {
	l := foldlog.New(t)
	l.Put("a", foldlog.Execution("idle", entry.EffectNone))
	for older, want := range []string{"", "<p>and in 1 older incident</p>", "<p>and in 2 older incidents</p>"} {
		for range max(1, 10-10*older) { // ten at first, then one more each time
			id := l.Signal("a", "a#idle")
			deny, err := l.State.Draft(coord.Order{Incident: id, Act: entry.ActDeny, Reason: "test"}, l.At+1000)
			if err != nil {
				t.Fatal(err)
			}
			l.Put("p", deny)
		}
		_, body := get(t, pages(t, l, ""), "/workflows/w")
		webpage.Check(t, "/workflows/w", body)
		if !strings.Contains(body, want) || strings.Count(body, "failure reported in") != 10 || strings.Contains(body, "<p>and in") != (want != "") {
			t.Errorf("%d older incidents: the page does not say %q: %s", older, want, body)
		}
	}
}
