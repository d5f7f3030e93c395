package client_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/ask"
	"recoveryledger/ledger/entry"
)

// TestDecide asks a real server. The answer is what package ask derives from the same rules; a
// refused question is a problem with its field, and what is no decision is malformed.
func TestDecide(t *testing.T) {
	n := start(t)
	c := n.client(nil)
	question := []byte(`{"history":{"case":"a","effect":"none"},"error":{"http_status":429,"retry_after_ms":3000}}`)
	decided, err := c.Decide(t.Context(), question)
	must(t, err)
	q, err := ask.Decode(question)
	must(t, err)
	want, err := json.Marshal(q.Decide(recovery.Default()))
	must(t, err)
	if string(decided.Decision) != string(want) || decided.Rules.Digest != recovery.Default().Hash() {
		t.Errorf("%+v %s, want %s", decided.Rules, decided.Decision, want)
	}
	_, err = c.Decide(t.Context(), []byte(`{"history":{"case":""}}`))
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Name() != entry.Malformed || p.Field != "/history/case" {
		t.Errorf("error %v", err)
	}
	nothing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.MediaJSON)
		_, _ = w.Write([]byte(`{"rules":{}}`))
	})
	n.front.Store(&nothing)
	if _, err := c.Decide(t.Context(), question); !errors.Is(err, client.ErrMalformed) {
		t.Errorf("error %v", err)
	}
}
