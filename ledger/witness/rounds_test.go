package witness_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// policyOf wants need of some witnesses, each with the Ed25519 key of w and a URL.
func policyOf(need int, witnesses ...named) string {
	var b strings.Builder
	var names []string
	for _, w := range witnesses {
		fmt.Fprintf(&b, "witness %s %s %s\n", w.name, w.key, w.url)
		names = append(names, w.name)
	}
	fmt.Fprintf(&b, "group g %d %s\nquorum g\n", need, strings.Join(names, " "))
	return b.String()
}

type named struct{ name, key, url string }

// witnesses serves n witnesses of the log.
func (s *source) witnesses(n int) (list []named) {
	s.tb.Helper()
	for i := range n {
		w, url := s.serve(s.tb.TempDir(), fmt.Sprintf("w.example/%d", i))
		list = append(list, named{fmt.Sprintf("w%d", i), w.Keys()[0], url})
	}
	return list
}

func witnessed(t *testing.T, r *witness.Rounds, s *source, policy string, size uint64) verify.SignedHead {
	t.Helper()
	head, err := r.Wait(t.Context(), witness.Want{Size: size})
	must(t, err)
	root := s.root()
	root.Witnesses = policy
	q, err := root.Quorum(policy)
	must(t, err)
	opened, err := root.Head([]byte(head.Note))
	must(t, err)
	if _, ok := q.Since(head.Note, time.Now().Unix()+60); !ok || opened != head.Head || head.Size < size {
		t.Fatalf("head %+v", head)
	}
	return head
}

// TestRounds collects cosignatures of two of three witnesses on a log that grows. One
// witness is dead, and nobody waits for it. The head is there after a restart at once.
func TestRounds(t *testing.T) {
	s := newSource(t, "a")
	list := s.witnesses(3)
	list[1].url = "http://127.0.0.1:1"
	policy, path := policyOf(2, list...), filepath.Join(t.TempDir(), "witnessed")
	r := s.rounds(terms(policy), path)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var last verify.SignedHead
	for i := range 20 {
		s.add(fmt.Sprint(i), fmt.Sprint(-i))
		last = witnessed(t, r, s, policy, s.Newest().Size)
	}
	states := r.States()
	if len(states) != 3 || states[0].Size != last.Size || states[1].Failed == "" || states[0].Failed != "" || states[2].At == 0 {
		t.Errorf("%+v", states)
	}
	for content := ""; content != last.Note; {
		raw, _ := os.ReadFile(path)
		content = string(raw)
	}
	stop()
	must(t, <-done)
	again := s.rounds(terms(policy), path)
	if head, since, named := again.Witnessed(); head != last || !named || since == 0 {
		t.Errorf("after a restart: %+v", head)
	}
	_, err := witness.NewRounds(witness.RoundsConfig{Source: newSource(t, "a", "b"), Root: s.root, Terms: terms(policy), Path: path})
	if conflict, ok := errors.AsType[*witness.ConflictError](err); !ok || conflict.Head != last {
		t.Errorf("a kept head that the log does not have: %v", err)
	}
	must(t, os.WriteFile(path, []byte("damaged"), 0o600))
	if head, _, _ := s.rounds(terms(policy), path).Witnessed(); head.Note != "" {
		t.Errorf("of a damaged file: %+v", head)
	}
}

// TestRoundsOfOthers shows what rounds make of a witness that lies, one that is of
// another key, one that hangs, one that knows the log from elsewhere, and one that says
// it does not know it: none of them holds up the others.
func TestRoundsOfOthers(t *testing.T) {
	s := newSource(t, "a", "b", "c")
	list := s.witnesses(4)
	list[1].key, list[2].key = list[2].key, list[1].key
	forever := make(chan struct{})
	defer close(forever)
	ahead, _ := s.serveAhead(t)
	list = append(list,
		named{"liar", ahead.Keys()[0], answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\u2014 w.example/x AAAA\n") })},
		named{"slow", other(t, s), answering(t, func(_ http.ResponseWriter, q *http.Request) {
			select {
			case <-forever:
			case <-q.Context().Done():
			}
		})},
		named{"unknown", other(t, s), answering(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusForbidden) })})
	policy := policyOf(2, list...)
	r := s.rounds(terms(policy), "")
	run(t, r)
	for i := range 5 {
		s.add(fmt.Sprint(i))
		witnessed(t, r, s, policy, s.Newest().Size)
	}
	want := map[string]string{"w0": "", "w3": "", "slow": "", "unknown": "403", "liar": "no good cosignature", "w1": "no good", "w2": "no good"}
	wrong := func(s witness.State) bool {
		text := want[s.Name]
		return s.Name != "slow" && (text == "") != (s.Failed == "") || !strings.Contains(s.Failed, text)
	}
	for range 1000 { // the quorum may have cosigned before the others answered
		if !slices.ContainsFunc(r.States(), wrong) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, state := range r.States() {
		if wrong(state) {
			t.Errorf("%+v, want %q", state, want[state.Name])
		}
	}
}

// other is the key of a witness that nobody serves.
func other(t *testing.T, s *source) string {
	t.Helper()
	w, _ := s.serve(t.TempDir(), "w.example/other-"+fmt.Sprint(time.Now().UnixNano()))
	return w.Keys()[0]
}

// serveAhead serves a witness that has cosigned a longer log of the same key.
func (s *source) serveAhead(t *testing.T) (*witness.Witness, string) {
	t.Helper()
	w, url := s.serve(t.TempDir(), "w.example/ahead")
	longer := newSource(t, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k")
	_, err := w.Cosign(longer.request(0))
	must(t, err)
	return w, url
}

// TestALostLogIsFound has the rounds, and the look at the start, find that a witness has
// cosigned entries that the log does not have, or has otherwise. The bare word of a
// witness stops nobody.
func TestALostLogIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		here     []string
		convicts bool
	}{
		"restored from an old copy": {here: []string{"a", "b"}},
		"begun anew":                {here: []string{"X"}},
		"another of the same size":  {here: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "X"}, convicts: true},
		"another that is longer":    {here: []string{"a", "X", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"}, convicts: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, test.here...)
			w, url := s.serveAhead(t)
			policy := policyOf(1, named{"w", w.Keys()[0], url})
			ctx, over := context.WithTimeout(t.Context(), 20*time.Second)
			defer over()
			atBoot, inRun := filepath.Join(t.TempDir(), "witnessed"), filepath.Join(t.TempDir(), "witnessed")
			_, boot := s.rounds(terms(policy), atBoot).Boot(ctx)
			for how, err := range map[string]error{"boot": boot, "run": s.rounds(terms(policy), inRun).Run(ctx)} {
				conflict, ok := errors.AsType[*witness.ConflictError](err)
				if !ok || conflict.Witness != "w" || conflict.Head.Size != 11 || (conflict.Fork != nil) != test.convicts {
					t.Fatalf("%s: %v", how, err)
				}
				if !test.convicts {
					continue
				}
				if len(test.here) > 11 && conflict.Fork.Root == nil {
					t.Errorf("%s: no proof in %+v", how, conflict.Fork)
				}
			}
			for _, path := range []string{atBoot, inRun} {
				_, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Terms: terms(policy), Path: path})
				if conflict, ok := errors.AsType[*witness.ConflictError](err); !ok || conflict.Head.Size != 11 {
					t.Errorf("a process that asks nobody goes on: %v", err)
				}
			}
		})
	}
	s := newSource(t, "a", "b")
	var asked atomic.Int64
	url := answering(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			asked.Add(1)
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintln(w, "900")
	})
	if quorum, err := s.rounds(terms(policyOf(1, named{"w", other(t, s), url})), "").Boot(t.Context()); err != nil || quorum || asked.Load() != 1 {
		t.Errorf("its bare word: %v, %v", quorum, err)
	}
}

// TestRoundsTakeUpAPolicy has rounds follow the policy in force: none, then one, then
// another one, then none.
func TestRoundsTakeUpAPolicy(t *testing.T) {
	s := newSource(t, "a")
	list := s.witnesses(4)
	var now atomic.Pointer[string]
	set := func(policy string) { now.Store(&policy) }
	set("")
	r := s.rounds(func() witness.Terms { return witness.Terms{Policy: *now.Load(), MaxAge: time.Hour} }, "")
	run(t, r)
	if _, err := r.Wait(t.Context(), witness.Want{Size: 1}); !errors.Is(err, witness.ErrNoQuorum) {
		t.Errorf("without a policy: %v", err)
	}
	until := func(policy string, names ...string) {
		t.Helper()
		set(policy)
		s.add("the policy")
		for {
			var there []string
			for _, state := range r.States() {
				there = append(there, state.Name)
			}
			if strings.Join(there, " ") == strings.Join(names, " ") {
				return
			}
			runtime.Gosched()
		}
	}
	first, next := policyOf(2, list[:2]...), policyOf(2, list[1:]...)
	until(first, "w0", "w1")
	witnessed(t, r, s, first, s.Newest().Size)
	until(next, "w1", "w2", "w3")
	witnessed(t, r, s, next, s.Newest().Size)
	until("quorum none\n")
	if head, _, quorum := r.Witnessed(); head.Note != "" || quorum {
		t.Errorf("%+v", head)
	}
}

// TestAnIdleLogStaysFresh has a log without new entries cosigned again before the
// cosignatures are too old.
func TestAnIdleLogStaysFresh(t *testing.T) {
	s := newSource(t, "a", "b")
	w, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	rounds := make(chan struct{}, 100)
	handler := w.Handler(func(err error) { t.Error(err) })
	url := answering(t, func(out http.ResponseWriter, in *http.Request) { handler.ServeHTTP(out, in); rounds <- struct{}{} })
	policy := policyOf(1, named{"w", w.Keys()[0], url})
	r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root,
		Terms: func() witness.Terms { return witness.Terms{Policy: policy, MaxAge: 300 * time.Millisecond} }})
	must(t, err)
	run(t, r)
	for range 4 {
		<-rounds
	}
	witnessed(t, r, s, policy, 2)
}

// TestAWitnessCannotMakeAHeadLarge has a witness answer with many good cosignatures of its
// key: one of them is taken.
func TestAWitnessCannotMakeAHeadLarge(t *testing.T) {
	s := newSource(t, "a")
	w, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	url := answering(t, func(out http.ResponseWriter, _ *http.Request) {
		lines, err := w.Cosign(s.request(0))
		if err != nil {
			out.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(out, strings.Repeat(lines, 10))
	})
	policy := policyOf(1, named{"w", w.Keys()[0], url})
	r := s.rounds(terms(policy), "")
	run(t, r)
	if head := witnessed(t, r, s, policy, 1); strings.Count(head.Note, "\u2014 w.example/1 ") != 1 {
		t.Errorf("%s", head.Note)
	}
}

// TestAPolicyWithoutWitnessesWhileOneIsAsked takes the witnesses out of the policy while
// one of them answers.
func TestAPolicyWithoutWitnessesWhileOneIsAsked(t *testing.T) {
	s := newSource(t, "a")
	w, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	policy := ""
	var r *witness.Rounds
	url := answering(t, func(out http.ResponseWriter, _ *http.Request) {
		policy = ""
		if _, _, named := r.Witnessed(); named {
			t.Error("a policy without witnesses names some")
		}
		lines, err := w.Cosign(s.request(0))
		must(t, err)
		fmt.Fprint(out, lines)
	})
	policy = policyOf(1, named{"w", w.Keys()[0], url})
	r = s.rounds(func() witness.Terms { return witness.Terms{Policy: policy, MaxAge: time.Hour} }, "")
	if quorum, err := r.Boot(t.Context()); quorum || err != nil {
		t.Errorf("%v, %v", quorum, err)
	}
	if head, _, named := r.Witnessed(); head.Note != "" || named {
		t.Errorf("%+v", head)
	}
}

// TestAWitnessIsAhead has somebody else show a witness a newer head than that of the round,
// so that the round cannot have its quorum: the next round does.
func TestAWitnessIsAhead(t *testing.T) {
	s := newSource(t, "a")
	list := s.witnesses(1)
	w, err := witness.Open(&witness.Config{Dir: t.TempDir(), Name: "w.example/1", Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	handler := w.Handler(func(err error) { t.Error(err) })
	var once sync.Once
	url := answering(t, func(out http.ResponseWriter, in *http.Request) {
		once.Do(func() {
			s.add("b", "c")
			_, err := w.Cosign(s.request(0))
			must(t, err)
		})
		handler.ServeHTTP(out, in)
	})
	policy := policyOf(2, append(list, named{"w", w.Keys()[0], url})...)
	r := s.rounds(terms(policy), "")
	run(t, r)
	began := time.Now()
	witnessed(t, r, s, policy, 1)
	if took := time.Since(began); took > 4*time.Second { // a round without quorum ends after 5 s
		t.Errorf("after %s", took)
	}
}

// TestANodeThatLagsIsNoFork: a witness has heard of more entries than a node of a cluster has. The
// node takes that for a loss only when it has what the others registered, and asks again else.
func TestANodeThatLagsIsNoFork(t *testing.T) {
	for name, test := range map[string]struct {
		reach func(s *source) error
		lost  bool
	}{
		"it is cut off":       {reach: func(*source) error { return errors.New("no majority answers") }},
		"it has them by then": {reach: func(s *source) error { s.add("c", "d", "e", "f", "g", "h", "i", "j", "k"); return nil }},
		"nobody has them":     {reach: func(*source) error { return nil }, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, "a", "b")
			w, url := s.serveAhead(t)
			once := sync.OnceValue(func() error { return test.reach(s) })
			rounds, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Terms: terms(policyOf(1, named{"w", w.Keys()[0], url})), Reach: once})
			must(t, err)
			_, err = rounds.Boot(t.Context())
			if _, lost := errors.AsType[*witness.ConflictError](err); lost != test.lost {
				t.Errorf("at the start: %v", err)
			}
		})
	}
	s := newSource(t, "a", "b")
	longer := newSource(t, "a", "b", "c")
	rounds, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Terms: terms(""), Reach: func() error { return errors.New("no majority answers") }})
	must(t, err)
	if _, err := rounds.Push(longer.request(0).Note); !errors.Is(err, witness.ErrNoRound) {
		t.Errorf("a head that the node has not reached is pushed: %v", err)
	}
}
