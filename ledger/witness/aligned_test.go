package witness_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// transport answers requests in the process.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// TestRoundsBehindAnIndexEntry has the log go on while a witness is asked: an index entry comes,
// and many entries behind it. The next round has the head right behind the index entry if
// somebody wants that head, or if nobody waits for more. That head is given from then on to
// whoever wants no much larger one (WIT-2).
func TestRoundsBehindAnIndexEntry(t *testing.T) {
	near := witness.Want{Size: 602, Most: 1113}
	for name, c := range map[string]struct {
		wants []witness.Want // while the first round goes on
		sizes string         // that the witness is asked about
	}{
		"somebody wants the head behind it, and somebody wants more": {[]witness.Want{near, {Size: 2602}}, "1 602 2602"},
		"somebody wants more":                 {[]witness.Want{{Size: 2602}}, "1 2602"},
		"somebody wants less":                 {[]witness.Want{{Size: 300}}, "1 602"},
		"nobody wants anything at the moment": {nil, "1 602"},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { roundsBehind(t, c.wants, c.sizes) }) })
	}
}

func roundsBehind(t *testing.T, wants []witness.Want, sizes string) {
	t.Helper()
	s := newSource(t, "a")
	w, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "w.example/0", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	var asked []string
	answer := make(chan struct{})
	handler := w.Handler(func(err error) { t.Error(err) })
	client := &http.Client{Transport: transport(func(q *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(q.Body)
		must(t, err)
		_, note, _ := strings.Cut(string(body), "\n\n")
		asked = append(asked, strings.Split(note, "\n")[1])
		select {
		case <-answer:
		case <-q.Context().Done():
			return nil, q.Context().Err()
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, q)
		return out.Result(), nil
	})}
	indexed := uint64(0)
	r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, HTTP: client,
		Terms: terms(policyOf(1, named{"w0", w.Keys()[0], "http://witness.example"})),
		Aligned: func(above uint64) (verify.SignedHead, bool) {
			head, err := s.HeadAt(indexed)
			return s.sign(head), err == nil && indexed > above
		}})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait() // the witness is asked about the first entry
	for i := range 2601 {
		s.add(fmt.Sprint(i))
	}
	indexed = 602
	given := make(chan verify.SignedHead, len(wants))
	for _, want := range wants {
		go func() {
			head, err := r.Wait(ctx, want)
			must(t, err)
			given <- head
		}()
	}
	synctest.Wait()
	for range strings.FieldsSeq(sizes) {
		answer <- struct{}{}
		synctest.Wait()
	}
	if got := strings.Join(asked, " "); !strings.HasPrefix(got+" ", sizes+" ") {
		t.Errorf("asked about %s, want %s", got, sizes)
	}
	if len(given) != len(wants) {
		t.Errorf("%d of %d got a head", len(given), len(wants))
	}
	if head, ok, _ := r.Given(witness.Want{Size: 602, Most: 1113}); slices.Contains(strings.Fields(sizes), "602") != (head.Size == 602) || !ok {
		t.Errorf("the head right behind the index entry: %d", head.Size)
	}
	stop()
	must(t, <-done)
}
