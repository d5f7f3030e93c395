package notify

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestRetryAfter reads the wait that an endpoint asks for: seconds, and at most an hour.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "3600": time.Hour, "86400": time.Hour, "9000000000000": time.Hour, "99999999999999999999": 0, "-1": 0, "soon": 0,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", text)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		wait, err := (&post{url: server.URL, client: server.Client()}).send(t.Context(), &message{id: "1"})
		server.Close()
		if err == nil || wait != want {
			t.Errorf("Retry-After %q: %v, %v, want %v", text, wait, err, want)
		}
	}
}
