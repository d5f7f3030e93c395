package witness_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/witness"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// pushes has a witness cosign a head that is offered, and push.
func (s *source) pushes(r *witness.Rounds, w *witness.Witness, old, from uint64) (verify.SignedHead, int, error) {
	s.tb.Helper()
	ctx, over := context.WithTimeout(context.Background(), 10*time.Second)
	defer over()
	head, err := r.Offer(ctx, from)
	must(s.tb, err)
	path, err := s.Consistency(old, head.Size)
	must(s.tb, err)
	lines, err := w.Cosign(&witness.Request{Old: old, Proof: path, Note: head.Note})
	must(s.tb, err)
	text, _, _ := strings.Cut(head.Note, "\n\n")
	counted, err := r.Push(text + "\n\n" + lines)
	return head, counted, err
}

// TestWitnessesThatPush has a quorum of witnesses whom nobody can ask: they are offered
// one head, and each pushes its cosignature on it.
func TestWitnessesThatPush(t *testing.T) {
	s := newSource(t, "a", "b")
	var list []named
	var all []*witness.Witness
	for _, name := range []string{"anna", "bert"} {
		w, _ := s.serve(t.TempDir(), name+".example")
		all, list = append(all, w), append(list, named{name: name, key: w.Keys()[0]})
	}
	policy := policyOf(2, list...)
	r := s.rounds(terms(policy), "")
	run(t, r)
	first, counted, err := s.pushes(r, all[0], 0, 0)
	if err != nil || counted != 1 {
		t.Fatal(counted, err)
	}
	s.add("c") // the log goes on, and the others still push the same head
	second, counted, err := s.pushes(r, all[1], 0, 0)
	if err != nil || counted != 1 || first != second {
		t.Fatal(counted, err, first, second)
	}
	witnessed(t, r, s, policy, first.Size)
	for i := range all {
		if head, _, err := s.pushes(r, all[i], first.Size, first.Size); err != nil || head.Size != 3 {
			t.Errorf("the next head: %+v, %v", head, err)
		}
	}
	head := witnessed(t, r, s, policy, 3)
	if n := strings.Count(head.Note, "\u2014 "); n != 3 {
		t.Errorf("%d signatures, want one of the log and two: %s", n, head.Note)
	}
}

// TestWhatIsPushedIsChecked pushes what is no cosignature that counts.
func TestWhatIsPushedIsChecked(t *testing.T) {
	s := newSource(t, "a", "b")
	w, _ := s.serve(t.TempDir(), "anna.example")
	stranger, _ := s.serve(t.TempDir(), "stranger.example")
	policy := policyOf(1, named{name: "anna", key: w.Keys()[0]})
	r := s.rounds(terms(policy), "")
	run(t, r)
	if _, n, err := s.pushes(r, stranger, 0, 0); n != 0 || !errors.Is(err, witness.ErrNotAsked) {
		t.Errorf("a stranger: %d, %v", n, err)
	}
	lines, err := stranger.Cosign(s.request(2))
	must(t, err)
	text := headText(s.Newest().Head)
	forged := strings.ReplaceAll(lines, "stranger.example", "anna.example")
	for name, signed := range map[string]string{"forged": text + "\n" + forged, "nobody's": text + "\n", "garbage": "hello",
		"of another log": "x\n1\n" + s.Newest().Root.String() + "\n\n" + lines, "large": text + "\n" + strings.Repeat("x", verify.MaxNote)} {
		n, err := r.Push(signed)
		_, malformed := errors.AsType[*verify.FormatError](err)
		if n != 0 || err == nil || malformed != (name == "garbage" || name == "of another log" || name == "large") {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	alone := newSource(t, "X", "Y")
	lines, err = w.Cosign(&witness.Request{Note: alone.Newest().Note})
	must(t, err)
	if n, err := r.Push(headText(alone.Newest().Head) + "\n" + lines); n != 0 || !errors.Is(err, witness.ErrNoRound) {
		t.Errorf("a head of no round that the log has not signed: %d, %v", n, err)
	}
	if head, _, _ := r.Witnessed(); head.Note != "" {
		t.Errorf("witnessed: %s", head.Note)
	}
}

// TestAChangedCosignatureIsNone pushes the cosignatures of a witness whom the policy names, each
// with another signature than the witness made.
func TestAChangedCosignatureIsNone(t *testing.T) {
	s := newSource(t, "a", "b")
	w, _ := s.serve(t.TempDir(), "anna.example")
	r := s.rounds(terms(policyOf(1, named{name: "anna", key: w.Keys()[0]})), "")
	run(t, r)
	ctx, over := context.WithTimeout(t.Context(), 10*time.Second)
	defer over()
	_, err := r.Offer(ctx, 0)
	must(t, err)
	lines, err := w.Cosign(s.request(0))
	must(t, err)
	changed := regexp.MustCompile(`(?m)....(=*)$`).ReplaceAllString(lines, "AAAA$1")
	if n, err := r.Push(headText(s.Newest().Head) + "\n" + changed); n != 0 || !errors.Is(err, witness.ErrCosignature) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestACosignatureOfATimeToComeIsNoForgery pushes a good cosignature of an hour from now: the clock
// of the witness is wrong, and its key is its own.
func TestACosignatureOfATimeToComeIsNoForgery(t *testing.T) {
	s := newSource(t, "a", "b")
	_, key := testlog.WitnessKey("w1")
	r := s.rounds(terms(policyOf(1, named{name: "anna", key: key})), "")
	run(t, r)
	ctx, over := context.WithTimeout(t.Context(), 10*time.Second)
	defer over()
	head, err := r.Offer(ctx, 0)
	must(t, err)
	for ahead, want := range map[time.Duration]error{time.Hour: witness.ErrAhead, 0: nil} {
		if n, err := r.Push(testlog.Cosigned(head.Note, "w1", time.Now().Add(ahead).Unix())); !errors.Is(err, want) || (n == 1) != (want == nil) {
			t.Errorf("%v ahead: %d, %v", ahead, n, err)
		}
	}
}

// unreadable is a log whose older heads nobody can read.
type unreadable struct {
	*source
	err error
}

func (u unreadable) HeadAt(uint64) (merkle.Head, error) { return merkle.Head{}, u.err }

// TestALogThatCannotBeComparedAccusesNobody pushes a good cosignature while the log cannot read
// what it has to compare. The error is that of the log: nobody made up a signature.
func TestALogThatCannotBeComparedAccusesNobody(t *testing.T) {
	s := newSource(t, "a", "b")
	w, _ := s.serve(t.TempDir(), "anna.example")
	damage := errors.New("the database gave bytes that were not written")
	r, err := witness.NewRounds(witness.RoundsConfig{Source: unreadable{s, damage}, Root: s.root, Terms: terms(policyOf(1, named{name: "anna", key: w.Keys()[0]}))})
	must(t, err)
	lines, err := w.Cosign(s.request(0))
	must(t, err)
	_, signatures, _ := strings.Cut(s.Newest().Note, "\n\n")
	if n, err := r.Push(headText(s.Newest().Head) + "\n" + signatures + lines); n != 0 || !errors.Is(err, damage) || errors.Is(err, witness.ErrCosignature) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestAPushedForkStopsTheLog pushes a head that the log's own key has signed, and that the
// log does not have.
func TestAPushedForkStopsTheLog(t *testing.T) {
	s := newSource(t, "a", "b", "c")
	w, _ := s.serve(t.TempDir(), "anna.example")
	ctx, over := context.WithTimeout(t.Context(), 40*time.Second)
	defer over()
	for name, other := range map[string]*source{"fork": newSource(t, "a", "X"), "longer": newSource(t, "a", "b", "c", "d")} {
		r := s.rounds(terms(policyOf(1, named{name: "anna", key: w.Keys()[0]})), "")
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		n, err := r.Push(other.Newest().Note)
		conflict, ok := errors.AsType[*witness.ConflictError](err)
		if n != 0 || !ok || (conflict.Fork != nil) != (name == "fork") {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-ended; !errors.Is(err, conflict) {
			t.Errorf("%s: the rounds ended with %v", name, err)
		}
	}
}

// TestTheEmergencyGroupPushes changes the witnesses when those of the policy before are
// dead: agents under that policy get a head as soon as its emergency group has pushed, and
// the new quorum has cosigned.
func TestTheEmergencyGroupPushes(t *testing.T) {
	s := newSource(t, "a", "b", "the next policy")
	anna, _ := s.serve(t.TempDir(), "anna.example")
	list := s.witnesses(2)
	list[0].url = "http://127.0.0.1:1"
	first := policyOf(1, list[0]) + "witness anna " + anna.Keys()[0] + "\ngroup emergency any anna\n"
	for name, next := range map[string]string{"others": policyOf(1, list[1]), "none": ""} {
		t.Run(name, func(t *testing.T) {
			r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Every: time.Hour, Terms: func() witness.Terms {
				return witness.Terms{Policy: next, MaxAge: time.Hour, Former: []witness.Former{{Policy: first, MaxAge: time.Hour, Until: 2}}}
			}})
			must(t, err)
			run(t, r)
			if next != "" {
				witnessed(t, r, s, next, 3)
			}
			if _, ok, named := r.Given(agent(3, 2)); ok || !named {
				t.Error("a head for agents under the policy before")
			}
			old := uint64(0)
			if anna.Head(origin) != "" {
				old = 3
			}
			if _, n, err := s.pushes(r, anna, old, 0); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			head, err := r.Wait(t.Context(), agent(3, 2))
			must(t, err)
			q, err := s.root().Quorum(first)
			must(t, err)
			if _, ok := q.Emergency().Since(head.Note, time.Now().Unix()+60); !ok {
				t.Errorf("without the group's cosignature: %s", head.Note)
			}
			if next != "" {
				s.cosignedBy(head, next)
			}
		})
	}
}

// TestTry asks the witnesses of a policy that is not in force.
func TestTry(t *testing.T) {
	s := newSource(t, "a", "b")
	list := s.witnesses(3)
	r := s.rounds(terms(""), "")
	dead := named{list[1].name, list[1].key, "http://127.0.0.1:1"}
	pushing := named{name: list[1].name, key: list[1].key}
	must(t, r.Try(t.Context(), policyOf(2, list...)))
	must(t, r.Try(t.Context(), policyOf(2, list[0], dead, list[2])))
	must(t, r.Try(t.Context(), policyOf(2, list[0], pushing)))
	must(t, r.Try(t.Context(), ""))
	must(t, r.Try(t.Context(), "quorum none\n"))
	err := r.Try(t.Context(), policyOf(2, list[0], dead))
	if lacking, ok := errors.AsType[*witness.QuorumError](err); !ok || lacking.Quorum != "g" || len(lacking.Failed) != 1 || !strings.Contains(err.Error(), "w1 (") {
		t.Errorf("without a quorum: %v", err)
	}
	ahead, url := s.serveAhead(t)
	if _, ok := errors.AsType[*witness.ConflictError](r.Try(t.Context(), policyOf(1, named{"w", ahead.Keys()[0], url}))); !ok {
		t.Error("a witness that knows another log is no conflict")
	}
	if _, ok := errors.AsType[*verify.FormatError](r.Try(t.Context(), "hello")); !ok {
		t.Error("garbage")
	}
	if head, _, named := r.Witnessed(); named || head.Note != "" {
		t.Error("a try has changed what is in force")
	}
}
