package conformance_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/conformance"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"

	"github.com/go-json-experiment/json"
)

// refusing is the edge of a ledger: it answers what REG-1 refuses, by our decoder.
// TestConformanceLedger of cmd/arl runs the kit against arl serve.
func refusing(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err == nil {
		_, err = entry.Decode(body)
	}
	refusal, ok := err.(*entry.Refusal) //nolint:errorlint // what Decode returns
	if !ok {
		refusal = &entry.Refusal{Problem: entry.UnknownIssuer}
	}
	answer(w, api.NewProblem(refusal))
}

func answer(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.MarshalWrite(w, p) // a client that is gone needs none
}

func submitTo(t *testing.T, h http.HandlerFunc, limit time.Duration) *conformance.Report {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	r, err := (&conformance.Ledger{URL: server.URL, Vectors: vectors, Limit: limit}).Run(t.Context())
	must(t, err)
	return r
}

// TestLedger: the decoder of entries, behind HTTP, refuses everything by the right problem.
func TestLedger(t *testing.T) {
	if r := submitTo(t, refusing, 20*time.Second); r.Failed > 0 || r.Passed < 60 {
		t.Error(r.Text())
	}
}

// TestLedgerFaults: each mistake at the edge of a ledger fails a case, which says what came
// instead.
func TestLedgerFaults(t *testing.T) {
	budget.Unraced(t, "one question after the other, as TestLedger asks them")
	// altered answers as the ledger does, after a change of the answer.
	altered := func(change func(r *httptest.ResponseRecorder)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			refusing(recorder, r)
			change(recorder)
			w.Header().Set("Content-Type", recorder.Header().Get("Content-Type"))
			w.WriteHeader(recorder.Code)
			_, _ = w.Write(recorder.Body.Bytes()) // a client that is gone needs none
		}
	}
	replaced := func(old, with string) http.HandlerFunc {
		return altered(func(r *httptest.ResponseRecorder) {
			r.Body = bytes.NewBuffer(bytes.ReplaceAll(r.Body.Bytes(), []byte(old), []byte(with)))
		})
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"registers everything": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, "status 201"},
		"no problem details":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", http.StatusBadRequest) }, "no problem details"},
		"garbage":              {altered(func(r *httptest.ResponseRecorder) { r.Body = bytes.NewBufferString("}{") }), "garbage"},
		"a huge answer":        {altered(func(r *httptest.ResponseRecorder) { r.Body.WriteString(strings.Repeat(" ", 1<<20)) }), "no whole answer"},
		"one type for all":     {replaced("problem:too-large", "problem:malformed"), "problem:malformed"},
		"an unknown type":      {replaced("problem:malformed", "problem:oops"), "problem:oops"},
		"no type":              {replaced("urn:agent-recovery:problem:malformed", "about:blank"), "about:blank"},
		"another status":       {altered(func(r *httptest.ResponseRecorder) { r.Code = http.StatusUnprocessableEntity }), "status 422"},
		"two statuses":         {replaced(`"status":400`, `"status":500`), `"status":500`},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "status 307"},
		"it hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "not sent: the ledger did not answer 5 times"},
		"it hangs":    {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "no answer within 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 20 * time.Second
			if name == "it hangs" {
				limit = 100 * time.Millisecond
			}
			r := submitTo(t, c.handler, limit)
			if r.Failed == 0 || !strings.Contains(r.Text(), c.want) || !strings.Contains(fmt.Sprint(r.Results), "ERR-1") {
				t.Errorf("%.2000s\nwant %q", r.Text(), c.want)
			}
		})
	}
}
