package console_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestSuperseded shows a proposal that another one has replaced: it stays in the timeline, and only
// the newer one is open for answers.
func TestSuperseded(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("d", entry.RoleAgent)
	id := chain(l)
	propose := func() uint64 {
		l.Decide(id, entry.ActEscalate)
		return l.State.Size() - 1
	}
	first := propose()
	l.Do("d", "more", entry.EffectNone) // beside it
	second := propose()
	_, body := get(t, pages(t, l, ""), "/incidents/"+decimal(id))
	webpage.Check(t, "/incidents", body)
	_, proposal, _ := strings.Cut(body, `<h2 id="proposal">`)
	proposal, _, _ = strings.Cut(proposal, "</section>")
	if !strings.Contains(proposal, fmt.Sprintf(`<a href="/log/%d">Entry %d</a>`, second, second)) || strings.Contains(proposal, fmt.Sprintf("Entry %d<", first)) {
		t.Errorf("the proposal that is open is entry %d: %s", second, proposal)
	}
	_, timeline, _ := strings.Cut(body, `<h2 id="timeline">`)
	one, other := strings.Index(timeline, fmt.Sprintf(`<a href="/log/%d">`, first)), strings.Index(timeline, fmt.Sprintf(`<a href="/log/%d">`, second))
	if one < 0 || other < one {
		t.Errorf("the timeline has the proposals at %d and %d: %s", one, other, timeline)
	}
}

// TestLeaveOut shows the plan that a decision would have without a signal, and the command that
// shows the same. A signal that no decision rests on cannot be left out.
func TestLeaveOut(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "note", entry.EffectCompensable, "a#make")
	id := l.Signal("a", "a#make")
	l.Decide(id, entry.ActContain)
	second := l.Signal("b", "b#note") // joins, because the plan reaches it
	if signals := l.Incident(id).Signals; len(signals) != 2 {
		t.Fatalf("%d signals", len(signals))
	}
	at := "/incidents/" + decimal(id)
	c := pages(t, l, "")
	for query, want := range map[string]struct {
		says    []string
		members int
	}{
		"":                        {[]string{fmt.Sprintf(`name="without" value="%d"`, second), "Show that plan"}, 2},
		"?without=" + decimal(id): {[]string{"without the signals that are left out", "arl incident preview " + decimal(id) + " --dismiss " + decimal(id), fmt.Sprintf(`value="%d" checked`, id)}, 1},
	} {
		_, body := get(t, c, at+query)
		webpage.Check(t, at, body)
		for _, text := range want.says {
			if !strings.Contains(html.UnescapeString(body), text) {
				t.Errorf("%s: the page does not say %q: %s", query, text, body)
			}
		}
		if boxes := strings.Count(body, "data-box"); boxes != want.members {
			t.Errorf("%s: %d members, want %d: %s", query, boxes, want.members, body)
		}
	}
	for query, want := range map[string]int{"?without=0": 400, "?without=x": 400, "?without=" + decimal(id) + "&without=" + decimal(second): 200} {
		if status, body := get(t, c, at+query); status != want {
			t.Errorf("%s: %d, want %d: %s", query, status, want, body)
		}
	}
}
