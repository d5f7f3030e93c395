package console_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"recoveryledger/api"
	"recoveryledger/api/console"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/webpage"
)

// TestSentBundles shows when the ledger last sent the bundle of a command, by its word, or why it
// does not tell.
func TestSentBundles(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Approve(id)
	const page, began, sent = "/agents/b", 1790000000000, 1790000001000
	for name, c := range map[string]struct {
		told *api.Commands
		err  error
		want string
	}{
		"sent":       {&api.Commands{Since: began, Commands: []api.Command{{Incident: id, BundleAt: sent}}}, nil, "<br>last sent 2026-09-21T14:13:21.000Z</td>"},
		"not sent":   {&api.Commands{Since: began, Commands: []api.Command{{Incident: id}}}, nil, "<br>not sent since the ledger started, 2026-09-21T14:13:20.000Z</td>"},
		"other":      {&api.Commands{Since: began, Commands: []api.Command{{Incident: id + 1, BundleAt: sent}}}, nil, "</code></td>"},
		"older":      {&api.Commands{Commands: []api.Command{{Incident: id}}}, nil, "It is not told: the ledger does not remember"},
		"no contact": {nil, errors.New("connection\u202e refused"), "It is not told: connection[U+202E] refused"},
	} {
		asked := func(_ context.Context, agent entry.Principal) (*api.Commands, error) {
			if agent != "b" {
				t.Errorf("%s is asked for", agent)
			}
			return c.told, c.err
		}
		pages, err := console.New(&console.Config{Source: shown{l}, Origin: "ledger.example/test", Commands: asked})
		if err != nil {
			t.Fatal(err)
		}
		_, body := get(t, pages, page)
		webpage.Check(t, page, body)
		if !strings.Contains(html.UnescapeString(body), c.want) {
			t.Errorf("%s: the page does not say %q: %s", name, c.want, body)
		}
	}
	if _, body := get(t, pages(t, l, ""), page); !strings.Contains(body, "It is not told: the ledger does not run") {
		t.Errorf("nobody to ask: %s", body)
	}
}
