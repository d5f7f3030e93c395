package notify

import (
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestNoAnswer: the error of an endpoint that never answers names the time limit.
func TestNoAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	defer server.Close()
	f := &follower{endpoint: &Endpoint{TimeoutMS: new(int64(20))}, sink: &post{url: server.URL, client: server.Client()}}
	if _, err := f.try(t.Context(), &message{id: "1"}); err == nil || !strings.HasPrefix(err.Error(), "no answer within 20ms (timeout_ms): ") {
		t.Error(err)
	}
}
