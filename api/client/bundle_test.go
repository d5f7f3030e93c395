package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/client"
)

// A client takes a bundle as it is, if it is one, and is of whom and from where
// it was asked; and a page that goes on where it should.
func TestBundleShape(t *testing.T) {
	n := start(t)
	q := api.BundleQuery{Agent: "agent-1"}
	page, err := n.client(nil).Bundle(t.Context(), q)
	must(t, err)
	if page.Next != 0 || page.Decision != 0 || len(page.Entries) == 0 {
		t.Fatalf("%+v", page)
	}
	for what, change := range map[string]func(body []byte) []byte{
		"of another agent": func(body []byte) []byte {
			return bytes.Replace(body, []byte(`"agent":"agent-1"`), []byte(`"agent":"agent-2"`), 1)
		},
		"from elsewhere":  func(body []byte) []byte { return bytes.Replace(body, []byte(`"from":0`), []byte(`"from":1`), 1) },
		"in another form": func(body []byte) []byte { return append([]byte(" "), body...) },
		"no bundle":       func([]byte) []byte { return []byte("{}") },
	} {
		n.pass(n.handler.ServeHTTP)
		n.tamper("/v1/agents", change)
		if page, err := n.client(nil).Bundle(t.Context(), q); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%s: %+v, %v", what, page, err)
		}
	}
	for link, want := range map[string]uint64{`</v1/agents/agent-1/news?from=3&after=7>; rel="next"`: 7, `</v1/agents/agent-1/news?from=3>; rel="next"`: 0,
		`</x?after=7>; rel="prev"`: 0, `x`: 0, `</x?after=2>; rel="next"`: 0} {
		n.pass(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", link)
			n.handler.ServeHTTP(w, r)
		})
		after := q
		after.After = 2
		page, err := n.client(nil).Bundle(t.Context(), after)
		if want == 0 && !errors.Is(err, client.ErrMalformed) || want != 0 && (err != nil || page.Next != want) {
			t.Errorf("Link %s: %+v, %v", link, page, err)
		}
	}
	n.pass(n.handler.ServeHTTP)
	n.tamper("/v1/agents", func([]byte) []byte { return []byte(`{"agent":"agent-2","size":3,"news":0,"commands":[]}`) })
	if c, err := n.client(nil).Commands(t.Context(), "agent-1", api.CommandsQuery{}); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("commands of another: %+v, %v", c, err)
	}
}
