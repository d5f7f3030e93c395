package coordinator

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// coordinated returns a replica that has committed the world's log.
func coordinated(w *world, check func(entry.PublicKey, []byte, []byte) error) *Replica {
	c := New(origin, check)
	fold := c.NewFold()
	for _, e := range w.log {
		fold.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	c.Committed(sized(fold.Size()))
	return c
}

// sized returns a head of that size.
func sized(size uint64) verify.SignedHead {
	return verify.SignedHead{Head: merkle.Head{Size: size}}
}

// TestPrecheckAnswersInOrder gives Precheck what breaks several rules at once:
// the answer is that of the first, and of the order.
func TestPrecheckAnswersInOrder(t *testing.T) {
	w := newWorld(t)
	c := coordinated(w, nil)
	forged := func(body entry.Body) *entry.Entry {
		e := w.Sign(body)
		e.Sig[0] ^= 1
		return e
	}
	elsewhere := w.Exec("m", "x")
	elsewhere.Aud = "elsewhere"
	for _, test := range []struct {
		what    string
		e       *entry.Entry
		problem entry.Problem
	}{
		{"audience, role and signature", forged(elsewhere), entry.WrongAudience},
		{"role and signature", forged(w.Exec("m", "x")), entry.UnauthorizedRole},
		{"role and signature of an agent entry", forged(w.Enrol("e", "x", entry.RoleMonitor)), entry.UnauthorizedRole},
		{"role", w.Sign(w.Exec("m", "x")), entry.UnauthorizedRole},
		{"signature", forged(w.Exec("a", "x")), entry.BadSignature},
		{"signature of a policy", forged(w.nextPolicy()), entry.BadSignature},
	} {
		err := c.Precheck(test.e)
		refusal, ok := errors.AsType[*entry.Refusal](err)
		if !ok || refusal.Problem != test.problem || test.e.SignatureChecked {
			t.Errorf("%s: %v, want %s", test.what, err, test.problem)
			continue
		}
		if got := w.refused(test.e, test.problem, refusal.Field); *got != *refusal {
			t.Errorf("%s: the order answers %v, Precheck %v", test.what, got, refusal)
		}
	}
}

// TestPrecheckLeavesToTheOrder shows what committed state cannot tell: unknown
// keys, and rights that a policy on its way may give.
func TestPrecheckLeavesToTheOrder(t *testing.T) {
	w := newWorld(t)
	c := coordinated(w, nil)
	stranger := w.Sign(w.Exec("stranger", "x"))
	must(t, c.Precheck(stranger))
	if stranger.SignatureChecked {
		t.Error("the signature of an unknown key counts as checked")
	}
	enrol := w.Sign(w.Enrol("o", "x", entry.RoleAgent)) // an operator may not, yet
	must(t, c.Precheck(enrol))
	if !enrol.SignatureChecked {
		t.Error("the signature of a known key is not checked")
	}
	good := w.Sign(w.Exec("a", "x", "a#nothing")) // REG-8 is not asked here
	must(t, c.Precheck(good))
	if !good.SignatureChecked {
		t.Error("the signature of a known key is not checked")
	}
}

// TestSignatureCheckedOnce shows that the given check runs in Precheck for
// known keys and in the order for unknown ones, once each; whatever error it
// gives is answered as bad-signature.
func TestSignatureCheckedOnce(t *testing.T) {
	w := newWorld(t)
	checks := 0
	var verdict error
	c := coordinated(w, func(entry.PublicKey, []byte, []byte) error { checks++; return verdict })
	known := w.Sign(w.Exec("a", "x"))
	must(t, c.Precheck(known))
	must(t, c.state.Admit(known, c.state.Size(), w.at))
	if checks != 1 {
		t.Errorf("%d checks of a known key, want 1", checks)
	}
	enrol, unknown := w.Sign(w.Enrol("root", "new", entry.RoleAgent)), w.Sign(w.Exec("new", "x"))
	must(t, c.Precheck(enrol))
	must(t, c.Precheck(unknown))
	must(t, c.state.Admit(enrol, c.state.Size(), w.at))
	c.state.Apply(enrol, c.state.Size(), w.at)
	must(t, c.state.Admit(unknown, c.state.Size(), w.at))
	if checks != 3 {
		t.Errorf("%d checks, want 3", checks)
	}
	verdict = errors.New("no")
	err := c.Precheck(w.Sign(w.Exec("a", "y")))
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.BadSignature {
		t.Errorf("error %v", err)
	}
}

// TestChangesWitnesses: a policy changes the witnesses if it names others and the order would take
// it.
func TestChangesWitnesses(t *testing.T) {
	w := newWorld(t)
	c := coordinated(w, nil)
	_, key := testlog.WitnessKey("w")
	changes := func(change func(p *entry.Policy)) bool {
		p := w.nextPolicy()
		p.Witnesses = "witness w " + key + "\nquorum w\n"
		change(p)
		return c.ChangesWitnesses(w.Sign(p), w.at)
	}
	if !changes(func(*entry.Policy) {}) {
		t.Error("another quorum is no change")
	}
	for what, change := range map[string]func(p *entry.Policy){
		"the same witnesses": func(p *entry.Policy) { p.Witnesses = "" },
		"no witness policy":  func(p *entry.Policy) { p.Witnesses = "hello" },
		"an agent":           func(p *entry.Policy) { p.Iss = "a" },
		"an unknown issuer":  func(p *entry.Policy) { p.Iss = "nobody" },
		"an old predecessor": func(p *entry.Policy) { p.Previous = &entry.LogRef{} },
		"yesterday":          func(p *entry.Policy) { p.Iat -= 86_400 },
	} {
		if changes(change) {
			t.Errorf("%s: the ledger would take it", what)
		}
	}
	if c.ChangesWitnesses(w.Sign(w.Exec("a", "x")), w.at) {
		t.Error("an execution changes the witnesses")
	}
}

// TestViewIsCommittedState shows that readers see what was committed, that a
// view never changes, and that the chain is copied only when it changed.
func TestViewIsCommittedState(t *testing.T) {
	w := emptyWorld(t)
	c := New(origin, nil)
	if policy, _ := c.View().Chain.Policy(); policy != nil || c.View().Size != 0 || c.MaxStep() != time.Minute {
		t.Fatal("a view before the genesis")
	}
	fold, other := c.NewFold(), c.NewFold()
	if fold == other {
		t.Fatal("one fold for two")
	}
	genesis := w.genesis()
	genesis.MaxStepMS = 5
	for i, body := range []entry.Body{genesis, w.Enrol("root", "a", entry.RoleAgent), w.Exec("a", "x")} {
		before := c.View()
		agents, chain := len(before.Chain.Agents()), before.Chain
		e := w.Sign(body)
		must(t, fold.Admit(e, uint64(i), w.at))
		fold.Apply(e, uint64(i), w.at)
		if c.View() != before || len(before.Chain.Agents()) != agents {
			t.Fatal("the view shows what is not committed")
		}
		c.Committed(sized(uint64(i + 1)))
		if c.View().Size != uint64(i+1) || (c.View().Chain == chain) != (i == 2) {
			t.Fatalf("view after entry %d: %+v", i, c.View())
		}
	}
	if _, ok := c.View().Chain.Agent("a"); !ok || c.MaxStep() != 5*time.Millisecond {
		t.Fatal("the view lacks what was committed")
	}
	if other.Size() != 0 {
		t.Fatal("the second fold follows the first")
	}
}

// TestReadersFollow shows that readers see what is committed, however long
// nobody read, and nothing else.
func TestReadersFollow(t *testing.T) {
	w := newWorld(t)
	c := New(origin, nil)
	fold := c.NewFold()
	for _, e := range w.log {
		fold.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	c.Committed(sized(fold.Size()))
	e, err := entry.New(w.Exec("a", "x"))
	must(t, err)
	for range 3 * behindMax / 2 {
		fold.Apply(e, fold.Size(), w.at) // the same planned execution: only the size grows
		c.Committed(sized(fold.Size()))
	}
	committed := snapshot(t, fold.State)
	fold.Apply(e, fold.Size(), w.at)
	c.Read(func(s *coord.State) {
		if !bytes.Equal(snapshot(t, s), committed) {
			t.Error("readers see another state than the committed one")
		}
	})
	c.ReadView(func(s *coord.State, v *View) {
		if s.Size() != v.Size || len(s.Chain().Links()) != len(v.Chain.Links()) {
			t.Errorf("a state of %d entries with a head of %d", s.Size(), v.Size)
		}
	})
	frozen, size := c.Frozen()
	c.Committed(sized(fold.Size()))
	c.Read(func(s *coord.State) {
		if s.Size() != size+1 {
			t.Errorf("readers see %d entries, want %d", s.Size(), size+1)
		}
	})
	if !bytes.Equal(snapshot(t, frozen), committed) {
		t.Error("what is frozen changes with what is committed")
	}
}

// TestRevert: a state that was given up leaves no trace. What admits entries afterwards is the
// committed state, readers follow it, and the watcher hears of what is committed alone.
func TestRevert(t *testing.T) {
	w := newWorld(t)
	c := coordinated(w, nil)
	var want []byte
	c.Read(func(s *coord.State) { want = snapshot(t, s) })
	var heard []string
	c.Watch(func(_ *coord.State, e *entry.Registered) { heard = append(heard, e.Header.JTI) })
	size, at := uint64(len(w.log)), w.log[len(w.log)-1].RegisteredAt
	take := func(fold *Fold, e *entry.Entry) {
		t.Helper()
		must(t, fold.Admit(e, size, at))
		fold.Apply(e, size, at)
	}
	overtaken, stands := w.Sign(w.Exec("a", "overtaken")), w.Sign(w.Exec("a", "stands"))
	for range 2 { // also where the state before was one that Revert made
		fold := c.Revert()
		if got := snapshot(t, fold.State); !bytes.Equal(got, want) {
			t.Fatal("the state that admits is not the committed one")
		}
		take(fold, overtaken)
	}
	fold := c.Revert()
	take(fold, stands)
	c.Committed(sized(size + 1))
	if len(heard) != 1 || heard[0] != stands.Header.JTI {
		t.Errorf("the watcher heard of %v", heard)
	}
	c.Read(func(s *coord.State) {
		if s.Size() != size+1 || !bytes.Equal(snapshot(t, s), snapshot(t, fold.State)) {
			t.Errorf("readers see another state, of size %d", s.Size())
		}
	})
	take2 := w.Sign(w.Exec("a", "overtaken"))
	must(t, fold.Admit(take2, size+1, at))
}
