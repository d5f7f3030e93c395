package console_test

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestConcernWithoutCheckpoint counts a reversible member that has no checkpoint to restore as one
// that cannot be undone, in the list and on the page of the incident.
func TestConcernWithoutCheckpoint(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "draft", entry.EffectReversible, "a#make")
	id := l.Signal("a", "a#make")
	for path, want := range map[string]string{"/incidents": `<td class="stays">1</td>`,
		fmt.Sprint("/incidents/", id): `<div class="stays"><dt>Cannot be undone</dt><dd>1 residual (irrevocable 0, undeclared 0)</dd></div>`} {
		if _, body := get(t, pages(t, l, ""), path); !strings.Contains(body, want) {
			t.Errorf("%s does not say %s", path, want)
		}
	}
}

// TestConcern lists the agents that an incident concerns, and what cannot be undone: before a
// decision, with a plan in force, and without a plan.
func TestConcern(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	line := func(path string) (cells string) {
		t.Helper()
		_, body := get(t, pages(t, l, ""), path)
		webpage.Check(t, path, body)
		_, cells, _ = strings.Cut(body, fmt.Sprintf(`<a href="/incidents/%d">%d</a>`, id, id))
		cells, _, _ = strings.Cut(cells, "</tr>")
		return cells
	}
	const three = `<td><span title="a, b, c">3</span></td><td class="stays">1</td>`
	for _, path := range []string{"/", "/incidents", "/workflows/w"} {
		if cells := line(path); !strings.Contains(cells, three) {
			t.Errorf("%s: undecided: %s", path, cells)
		}
	}
	l.Decide(id, entry.ActContain)
	l.Approve(id)
	if cells := line("/incidents"); !strings.Contains(cells, three) {
		t.Errorf("in force: %s", cells)
	}
	l.Do("a", "other", entry.EffectNone)
	id = l.Signal("a", "a#other")
	deny, err := l.State.Draft(coord.Order{Incident: id, Act: entry.ActDeny, Reason: "test"}, l.At+1000)
	if err != nil {
		t.Fatal(err)
	}
	l.Put("p", deny)
	if cells := line("/incidents"); !strings.Contains(cells, `<td><span title="a">1</span></td><td>no plan</td>`) {
		t.Errorf("denied: %s", cells)
	}
}
