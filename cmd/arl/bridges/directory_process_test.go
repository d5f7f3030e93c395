package bridges_test

import (
	"fmt"
	"os"
	"testing"

	"recoveryledger/api/client"
	"recoveryledger/api/client/directory"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/program"
)

// reader returns a client of a ledger under the root that its profile pins.
func (l *ledger) reader(urls string) *client.Client {
	l.t.Helper()
	store := &trust.Store{Home: func() (string, error) { return l.Path("home"), nil }}
	profile, err := store.Select(l.profile(l.name + ".example/log"))
	must(l.t, err)
	c, err := client.New(urls, trust.WithCosigner(profile.Root), nil)
	must(l.t, err)
	return c
}

// root returns the digest of what a client of the ledger pins.
func (l *ledger) root() entry.Digest {
	l.t.Helper()
	pinned := l.reader(l.url).Root()
	text, err := pinned.Encode()
	must(l.t, err)
	return entry.DigestOf(text)
}

// place is the member that says where a ledger is.
func place(tenant string, l *ledger, cell, urls string) string {
	return fmt.Sprintf(`,"place":{"tenant":%q,"origin":"%s.example/log","cell":%q,"urls":%q,"root":%q}`, tenant, l.name, cell, urls, l.root())
}

// TestDirectory finds the logs of a tenant by a small ledger that says in which cell each one is.
// The logs are on one machine, and nothing of theirs meets: directories, keys, profiles and ports
// are those of an origin. A log that moves has a new place, and nobody but the principal of the
// directory has a say.
func TestDirectory(t *testing.T) {
	m := &machine{t, program.NewFolder(t)}
	index, one, two := m.serve("index"), m.serve("one"), m.serve("two")
	index.enrols("placer", "agent")
	index.enrols("stranger", "agent")
	index.does("placer", "places", "place-1", place("acme", one, "cell-1", one.url))
	index.does("placer", "places", "place-2", place("acme", two, "cell-2", "http://127.0.0.1:1"))
	index.does("stranger", "lies", "place-1", place("acme", one, "cell-9", "http://127.0.0.1:9"))
	index.does("placer", "places", "place-3", `,"place":{"tenant":"acme"}`)

	d := directory.New("placer")
	must(t, d.Update(t.Context(), index.reader(index.url)))
	if all := d.Logs("acme"); len(all) != 2 || all[0].Cell != "cell-1" || all[1].Cell != "cell-2" || len(d.Logs("other")) != 0 {
		t.Fatalf("the directory has %+v", all)
	}
	if at, ok := d.Log("one.example/log"); !ok || at.URLs != one.url || at.Root != one.root() {
		t.Errorf("one is at %+v", at)
	}
	index.does("placer", "places", "place-4", place("acme", two, "cell-1", two.url))
	must(t, d.Update(t.Context(), index.reader(index.url)))
	if at, _ := d.Log("two.example/log"); at.Cell != "cell-1" || at.URLs != two.url {
		t.Errorf("two was moved, and is at %+v", at)
	}

	taken := map[string]int{}
	for i := range 100 {
		at, ok := d.Choose("acme", entry.WorkflowID(fmt.Sprint("flow-", i)))
		again, _ := d.Choose("acme", entry.WorkflowID(fmt.Sprint("flow-", i)))
		if !ok || at != again {
			t.Fatalf("workflow %d is at %+v and at %+v", i, at, again)
		}
		taken[at.Origin]++
	}
	if taken["one.example/log"] < 30 || taken["two.example/log"] < 30 {
		t.Errorf("the logs take %v workflows of 100", taken)
	}
	if _, ok := d.Choose("other", "flow-1"); ok {
		t.Error("a tenant without a log has one")
	}

	for _, l := range []*ledger{one, two} { // what the directory says is where the pinned log answers
		at, _ := d.Log(l.name + ".example/log")
		if _, err := l.reader(at.URLs).Receipt(t.Context(), 0); err != nil { // the published head may be that of the empty log for a second
			t.Errorf("%s has no genesis: %v", at.Origin, err)
		}
		if _, err := os.Stat(m.Path(l.name + "/keys")); err != nil {
			t.Errorf("%s has no keys of its own: %v", l.name, err)
		}
	}
	if _, err := one.reader(two.url).Head(t.Context()); err == nil {
		t.Error("one log is taken for the other")
	}
}
