package witness_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// agent is what an agent wants that has accepted a head.
func agent(size, from uint64) witness.Want { return witness.Want{Size: size, Agent: true, From: from} }

// cosignedBy fails unless the quorums of all policies have cosigned a head.
func (s *source) cosignedBy(head verify.SignedHead, policies ...string) {
	s.tb.Helper()
	for _, policy := range policies {
		q, err := s.root().Quorum(policy)
		must(s.tb, err)
		if _, ok := q.Since(head.Note, time.Now().Unix()+60); !ok {
			s.tb.Fatalf("the quorum has not cosigned the head of size %d: %s", head.Size, policy)
		}
	}
}

// TestFormerWitnessesAreAsked changes the witnesses altogether. An agent that has not
// taken up the new policy gets a head that both quorums have cosigned; others do not wait
// for the old ones.
func TestFormerWitnessesAreAsked(t *testing.T) {
	s := newSource(t, "a", "b")
	list := s.witnesses(4)
	var down atomic.Bool
	slow := list[0].url
	list[0].url = answering(t, func(w http.ResponseWriter, q *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		http.Redirect(w, q, slow+q.URL.Path, http.StatusTemporaryRedirect)
	})
	first, next := policyOf(2, list[:2]...), policyOf(2, list[2:]...)
	r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, HTTP: http.DefaultClient, Terms: func() witness.Terms {
		return witness.Terms{Policy: next, MaxAge: time.Hour, Former: []witness.Former{{Policy: first, MaxAge: time.Hour, Until: 1}}}
	}})
	must(t, err)
	run(t, r)
	for _, from := range []uint64{0, 1} {
		head, err := r.Wait(t.Context(), agent(2, from))
		must(t, err)
		s.cosignedBy(head, first, next)
	}
	down.Store(true)
	s.add("c", "d")
	head, err := r.Wait(t.Context(), agent(4, 2)) // it has the new policy
	must(t, err)
	s.cosignedBy(head, next)
	if head, ok, named := r.Given(agent(4, 1)); ok || !named || head.Size > 2 {
		t.Fatalf("given %+v", head) // a loop that waits follows
	}
	for ; !strings.Contains(r.Lacking(agent(4, 1)), "503"); s.add("e") {
		witnessed(t, r, s, next, s.Newest().Size)
	}
	if got := r.Lacking(agent(4, 1)); !strings.Contains(got, "for an agent that has accepted the tree head of size 1, quorum g lacks w0 (") || strings.Contains(got, "w2") {
		t.Errorf("lacking: %s", got)
	}
	if got := r.Lacking(agent(4, 2)); got != "" {
		t.Errorf("lacking: %s", got)
	}
	if states := r.States(); len(states) != 4 || states[0].Former || states[0].Name != "w2" || !states[3].Former || states[3].Name != "w1" {
		t.Errorf("%+v", states)
	}
}

// TestAnAgentGetsNoStaleCosignatures has the only witness end. What it cosigned last is
// given to agents as long as they take it, and named as what is missing from then on.
func TestAnAgentGetsNoStaleCosignatures(t *testing.T) {
	s := newSource(t, "a")
	list := s.witnesses(1)
	var down atomic.Bool
	server := list[0].url
	list[0].url = answering(t, func(w http.ResponseWriter, q *http.Request) {
		if down.Load() {
			http.Error(w, "gone", http.StatusGone)
			return
		}
		http.Redirect(w, q, server+q.URL.Path, http.StatusTemporaryRedirect)
	})
	policy := policyOf(1, list...)
	r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, HTTP: http.DefaultClient,
		Terms: func() witness.Terms { return witness.Terms{Policy: policy, MaxAge: 2 * time.Second} }})
	must(t, err)
	run(t, r)
	_, err = r.Wait(t.Context(), agent(1, 1))
	must(t, err)
	down.Store(true)
	began := time.Now()
	for ok := true; ok; { // its time has whole seconds
		if _, ok, _ = r.Given(agent(1, 1)); ok && time.Since(began) > 10*time.Second {
			t.Fatal("what nobody cosigns again is given for ever")
		}
	}
	if head, since, _ := r.Witnessed(); head.Note == "" || time.Since(time.Unix(since, 0)) < 2*time.Second {
		t.Errorf("%+v", head)
	}
	if got := r.Lacking(agent(1, 1)); !strings.HasPrefix(got, "quorum g lacks w0 (") {
		t.Errorf("lacking: %s", got)
	}
	ctx, over := context.WithTimeout(t.Context(), time.Millisecond)
	defer over()
	if _, err := r.Wait(ctx, agent(1, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited: %v", err)
	}
}

// TestTheWordsOfAQuorum has witnesses say that the log is another one, and show nothing.
// One of them is an alarm, and as many as make the quorum stop the log.
func TestTheWordsOfAQuorum(t *testing.T) {
	s := newSource(t, "a", "b")
	says := func(status int, body string) string {
		return answering(t, func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodGet {
				http.NotFound(w, q)
				return
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	list := s.witnesses(2)
	list = append(list, named{"more", other(t, s), says(http.StatusConflict, "900\n")}, named{"fork", other(t, s), says(http.StatusUnprocessableEntity, "no")})
	r := s.rounds(terms(policyOf(2, list[0], list[1], list[2])), "")
	run(t, r)
	witnessed(t, r, s, policyOf(2, list[0], list[1], list[2]), 2)
	err := s.rounds(terms(policyOf(2, list...)), "").Run(t.Context())
	conflict, ok := errors.AsType[*witness.ConflictError](err)
	if !ok || !conflict.Words || conflict.Witness != "more, fork" || conflict.Size != 2 || conflict.Fork != nil {
		t.Errorf("two of four, two make the quorum: %v", err)
	}
	if _, err := s.rounds(terms(policyOf(3, list...)), "").Boot(t.Context()); err != nil {
		t.Errorf("two of four, three make the quorum: %v", err)
	}
}

// TestTerms reads the witness policies that agents may be under from chains of policies.
func TestTerms(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	type link struct {
		text  string
		at    int64 // milliseconds
		maxMS int64
	}
	for name, test := range map[string]struct {
		links []link
		now   int64
		want  string
	}{
		"one policy":       {links: []link{{"a", 0, 9}}, want: "a 9ms"},
		"no witnesses":     {links: []link{{"", 0, 9}}, want: " 9ms"},
		"another one":      {links: []link{{"a", 0, 9}, {"b", 1, 8}}, want: "b 8ms, a 9ms until 1"},
		"the same":         {links: []link{{"a", 0, 9}, {"a", 1, 8}}, want: "a 8ms"},
		"runs of the same": {links: []link{{"a", 0, 3}, {"a", 1, 9}, {"b", 2, 8}, {"b", 3, 7}}, want: "b 7ms, a 3ms until 2"},
		"back again":       {links: []link{{"a", 0, 9}, {"b", 1, 8}, {"a", 2, 7}}, want: "a 7ms, b 8ms until 2, a 9ms until 1"},
		"long ago":         {links: []link{{"g", 0, 1}, {"a", 0, 9}, {"b", 1, 8}, {"c", 31 * day, 7}}, now: 61*day + 1, want: "c 7ms, g 1ms until 1"},
		"not so long ago":  {links: []link{{"g", 0, 1}, {"a", 0, 9}, {"b", 1, 8}, {"c", 31 * day, 7}}, now: 61 * day, want: "c 7ms, b 8ms until 3, g 1ms until 1"},
		"more than are counted": {links: []link{{"g", 0, 1}, {"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1}, {"d", 0, 1}, {"e", 0, 1}, {"f", 0, 1}},
			want: "f 1ms, e 1ms until 6, d 1ms until 5, c 1ms until 4, b 1ms until 3, g 1ms until 1"},
	} {
		t.Run(name, func(t *testing.T) {
			chain := verify.NewChain()
			for i, of := range test.links {
				p := &entry.Policy{Witnesses: of.text, Windows: entry.Windows{BundleMaxAgeMS: of.maxMS}}
				chain.Apply(&entry.Entry{Kind: entry.KindPolicy, Body: p}, uint64(i), of.at)
			}
			now := time.UnixMilli(test.now)
			read := witness.TermsOf(func() *verify.Chain { return chain }, func() time.Time { return now })
			got := read()
			text := fmt.Sprintf("%s %v", got.Policy, got.MaxAge)
			for _, f := range got.Former {
				text += fmt.Sprintf(", %s %v until %d", f.Policy, f.MaxAge, f.Until)
			}
			if text != test.want {
				t.Errorf("%s, want %s", text, test.want)
			}
			now = now.Add(40 * day * time.Millisecond)
			if got := read(); len(got.Former) > 1 { // of the genesis
				t.Errorf("40 days later: %+v", got)
			}
		})
	}
	if got := witness.TermsOf(verify.NewChain, time.Now)(); got.Policy != "" || got.Former != nil {
		t.Errorf("of the empty log: %+v", got)
	}
}
