package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

var update = flag.Bool("update", false, "write the pages that the test compares")

// closed has the coordinator write what is due, the record among it.
func closed(l *foldlog.Log) {
	l.TB.Helper()
	todo, _ := l.State.Next(l.At + 1000)
	for _, body := range todo {
		l.Put("k", body)
	}
}

// TestPagesOfTheEnd follows every link of a log whose incident is over, in each state that it can
// end in. Beside TestPages, which goes through the open states, each state of an incident is shown.
func TestPagesOfTheEnd(t *testing.T) {
	for state, c := range map[entry.IncidentState]struct {
		effect entry.Effect
		ends   func(l *foldlog.Log, id uint64)
		shows  string
	}{
		entry.IncidentRecovered: {entry.EffectCompensable, func(l *foldlog.Log, id uint64) { l.Compensate(id, "a#make") }, "1 compensated"},
		entry.IncidentNoEffects: {entry.EffectNone, func(*foldlog.Log, uint64) {}, "1 not_executed"},
		entry.IncidentPartial: {entry.EffectCompensable, func(l *foldlog.Log, id uint64) {
			l.Outcome(id, "b#send", entry.ResultIrrevocable)
			l.Compensate(id, "a#make")
		}, "What stays"},
		entry.IncidentFailed:    {entry.EffectCompensable, func(l *foldlog.Log, id uint64) { l.Outcome(id, "a#make", entry.ResultFailed) }, "✕ failed"},
		entry.IncidentDismissed: {entry.EffectCompensable, nil, "dismissed"},
	} {
		l := foldlog.New(t)
		l.Do("a", "make", c.effect)
		if state == entry.IncidentPartial {
			l.Do("b", "send", entry.EffectIrrevocable, "a#make")
		}
		id := l.Signal("a", "a#make")
		if c.ends == nil {
			d, err := l.State.Draft(coord.Order{Incident: id, Act: entry.ActDeny, Reason: "false alarm", Signals: l.State.Dispositions(id, "", nil, []uint64{id})}, l.At+1000)
			if err != nil {
				t.Fatal(err)
			}
			l.Put("p", d)
		} else {
			if l.Incident(id).Decision == nil {
				l.Approve(id)
			}
			c.ends(l, id)
			closed(l)
		}
		if got := l.Incident(id).State; got != state {
			t.Errorf("the incident is %s, want %s", got, state)
			continue
		}
		page := crawl(t, pages(t, l, ""))["/incidents/"+decimal(id)]
		if !strings.Contains(page, string(state)) || !strings.Contains(page, c.shows) || strings.Contains(page, "Nothing is decided") {
			t.Errorf("%s: the page does not say %q: %s", state, c.shows, page)
		}
	}
}

// TestPagesStand compares three pages with the ones in testdata: the log has no chance in it, so
// that a page changes only where its code does.
func TestPagesStand(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Decide(id, entry.ActEscalate)
	c := pages(t, l, "")
	for name, path := range map[string]string{"overview": "/", "incident": "/incidents/" + decimal(id), "entry": "/log/" + decimal(id)} {
		_, body := get(t, c, path)
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if body != string(want) {
			t.Errorf("%s is not %s: look at the difference, and run the test with -update\n%s", path, file, body)
		}
	}
}
