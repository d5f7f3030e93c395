package server_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/server"
)

// posting says who posts where, and what kind of body.
type posting struct{ client, path, mediaType string }

// from sends a body as a client at an address, and returns the status.
func from(t *testing.T, s *server.Server, p posting, body []byte) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, p.path, bytes.NewReader(body))
	request.RemoteAddr = p.client + ":1234"
	request.Header.Set("Content-Type", p.mediaType)
	recorder := httptest.NewRecorder()
	s.Handler().ServeHTTP(recorder, request)
	return recorder.Code
}

// What is refused again and again under no key that is proven narrows the lane of
// the address that sends it, and neither that of another address nor that of the
// key that is claimed. Entries that are taken widen it.
func TestUnprovenRefusalsCostTheAddress(t *testing.T) {
	n := start(t, nil)
	s := n.again()
	forged := func() []byte {
		e := n.good()
		e.Seal(e.KeyID, append([]byte{e.Sig[0] ^ 1}, e.Sig[1:]...))
		return e.AppendEnvelope(nil)
	}
	first := n.execution()
	n.register(sign(t, n.agent, first))
	first.Exec = "another"
	taken := sign(t, newSigner(t), first).AppendEnvelope(nil)
	for desc, sent := range map[string]struct {
		path, mediaType string
		body            func() []byte
		status          int
	}{
		"forged":               {"/v1/entries", api.MediaJSON, forged, http.StatusBadRequest},
		"forged in a batch":    {"/v1/entries", api.MediaNDJSON, func() []byte { return append(forged(), '\n') }, http.StatusBadRequest},
		"malformed":            {"/v1/entries", api.MediaJSON, func() []byte { return []byte("{}") }, http.StatusBadRequest},
		"malformed in a batch": {"/v1/entries", api.MediaNDJSON, func() []byte { return []byte("{}\n") }, http.StatusBadRequest},
		"of nobody": {"/v1/entries", api.MediaJSON, func() []byte { return sign(t, newSigner(t), n.execution()).AppendEnvelope(nil) },
			http.StatusUnauthorized},
		"under an id of another": {"/v1/entries", api.MediaJSON, func() []byte { return taken }, http.StatusConflict},
		"a renewal":              {leasesPath, api.MediaJSON, func() []byte { return []byte("{}") }, http.StatusBadRequest},
	} {
		const flooder, other = "192.0.2.1", "192.0.2.2"
		count := 0
		for ; !s.Narrow(t.Context(), flooder); count++ {
			if got := from(t, s, posting{flooder, sent.path, sent.mediaType}, sent.body()); got != sent.status || count > 16 {
				t.Fatalf("%s: status %d after %d", desc, got, count)
			}
		}
		if s.Narrow(t.Context(), other) {
			t.Errorf("%s: the lane of another address is narrow", desc)
		}
		if got := from(t, s, posting{flooder, "/v1/entries", api.MediaJSON}, n.good().AppendEnvelope(nil)); got != http.StatusCreated || s.Narrow(t.Context(), flooder) {
			t.Errorf("%s: status %d for a good entry; or the lane is still narrow", desc, got)
		}
		for range 16 { // nothing is owed any more
			from(t, s, posting{flooder, "/v1/entries", api.MediaJSON}, n.good().AppendEnvelope(nil))
		}
	}
}

// What a proven key is refused, and what the ledger cannot take, does not count
// against the address.
func TestProvenRefusalsDoNotCostTheAddress(t *testing.T) {
	n := start(t, nil)
	s := n.again()
	done := n.done(n.agent, "agent-1", "flow-1")
	back := n.execution()
	back.Exec = done.Exec
	for range 40 {
		back.Header = n.header("agent-1", "flow-1")
		if got := from(t, s, posting{"192.0.2.1", "/v1/entries", api.MediaJSON}, sign(t, n.agent, back).AppendEnvelope(nil)); got != http.StatusConflict {
			t.Fatalf("status %d", got)
		}
	}
	n.clock.Store(int64(time.Hour))
	for range 40 {
		if got := from(t, s, posting{"192.0.2.1", "/v1/entries", api.MediaJSON}, n.good().AppendEnvelope(nil)); got != http.StatusServiceUnavailable {
			t.Fatalf("status %d", got)
		}
	}
	if s.Narrow(t.Context(), "192.0.2.1") {
		t.Error("the address has a narrow lane")
	}
}
