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

// TestLease shows until when an agent holds a task, as the ledger tells it, or why nobody tells.
func TestLease(t *testing.T) {
	l := foldlog.New(t)
	task := entry.NewRef("o", "dinner")
	l.Put("o", &entry.Task{Task: task, Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand", MaxRetries: new(int64(3)), LeaseMS: new(int64(60_000))})
	const page = "/tasks/o%23dinner"
	if _, body := get(t, pages(t, l, ""), page); strings.Contains(body, `id="lease"`) {
		t.Errorf("nobody holds the task: %s", body)
	}
	c, _ := signing(t, l, "o")
	signed(t, c, page+"/act/reassign", map[string][]string{"agent": {"b"}})
	if _, body := get(t, pages(t, l, ""), page); !strings.Contains(body, "not told. the ledger does not run") {
		t.Errorf("nobody to ask: %s", body)
	}
	for name, c := range map[string]struct {
		lease *api.Lease
		err   error
		want  string
	}{
		"held":          {&api.Lease{Agent: "b", Epoch: 1, TermMS: 60_000, RenewMS: 20_000, ExpiresAt: 1790000000000}, nil, `<span data-until="1790000000000" data-renew="20000">until 2026-09-21T14:13:20.000Z, 1m0s a term</span>`},
		"none":          {nil, nil, "not told. the ledger knows of none"},
		"no contact":    {nil, errors.New("connection\u202e refused"), "not told. connection[U+202E] refused"},
		"another claim": {&api.Lease{Agent: "b", Epoch: 2}, nil, "not told. the ledger tells the lease of another claim"},
		"another agent": {&api.Lease{Agent: "<b>", Epoch: 1}, nil, "not told. the ledger tells the lease of another claim"},
	} {
		pages, err := console.New(&console.Config{Source: shown{l}, Origin: "ledger.example/test", Lease: func(_ context.Context, of entry.Ref) (*api.Lease, error) {
			if of != task {
				t.Errorf("%s is asked for", of)
			}
			return c.lease, c.err
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, body := get(t, pages, page)
		webpage.Check(t, page, body)
		if !strings.Contains(html.UnescapeString(body), c.want) {
			t.Errorf("%s: the page does not say %q: %s", name, c.want, body)
		}
	}
}
