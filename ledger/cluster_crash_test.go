package ledger_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// fleet is a cluster of which nodes crash.
type fleet struct {
	*shared
	rng    *rand.Rand
	peers  []*peer
	leader int
	sent   []*entry.Entry // not acknowledged yet
	taken  []*entry.Entry // acknowledged, by index; nil: by nobody so far
}

// crash takes the power from a node, and starts it again with what its disk kept. What the node
// has not synced is lost in part.
func (f *fleet) crash(i int) {
	f.t.Helper()
	p := f.peers[i]
	left := p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: f.rng.IntN(101), RNG: f.rng})
	p.Halt()
	must(f.t, p.Close())
	f.peers[i] = f.join(p.seat.name, left, nil)
	if i == f.leader {
		f.lead(f.rng.IntN(len(f.peers)))
	}
}

// lead gives a term to a node, which may be behind then.
func (f *fleet) lead(i int) {
	f.leader = i
	f.peers[i].seat.give(f.next())
}

// submit sends what is not acknowledged, and some new entries, to the leader until it answers all.
func (f *fleet) submit() {
	f.t.Helper()
	f.sent = append(f.sent, batchOf(f.t, 1+f.rng.IntN(40))...)
	p := f.peers[f.leader]
	p.until("it leads", p.Leads)
	answer, err := p.Submit(f.t.Context(), resent(f.t, f.sent)...)
	if errors.Is(err, agreement.ErrNotLeading) { // the term that it had was the one before
		return
	}
	must(f.t, err)
	for i, r := range answer.Registered {
		for uint64(len(f.taken)) <= r.Index {
			f.taken = append(f.taken, nil)
		}
		if was := f.taken[r.Index]; was != nil && was.Header.JTI != f.sent[i].Header.JTI {
			f.t.Fatalf("index %d is acknowledged for two entries", r.Index)
		}
		f.taken[r.Index] = f.sent[i]
	}
	f.sent = f.sent[len(answer.Registered):]
}

// check wants every acknowledged entry at its index in every log.
func (f *fleet) check() {
	f.t.Helper()
	equal(f.t, f.peers...)
	for _, p := range f.peers {
		for index, want := range f.taken {
			if want == nil {
				continue
			}
			got, err := p.Entry(uint64(index))
			must(f.t, err)
			if got.Header.JTI != want.Header.JTI {
				f.t.Fatalf("%s has another entry at %d than the one that was acknowledged", p.seat.name, index)
			}
		}
	}
}

// TestRandomClusterCrashes takes the power from nodes at random while leaders change and answers of
// the order are lost. No acknowledged entry is lost, and no two roots of one size are ever signed.
func TestRandomClusterCrashes(t *testing.T) {
	for seed := range uint64(budget.Budget{Short: 2, Usual: 6, Chaos: 400}.Now()) {
		s := newShared(t)
		f := &fleet{shared: s, rng: newRNG(seed)}
		for _, name := range []string{"a", "b", "c"} {
			f.peers = append(f.peers, s.join(name, vfs.NewCrashableMem(), nil))
		}
		f.lead(0)
		for step := range 25 {
			switch f.rng.IntN(6) {
			case 0:
				f.crash(f.rng.IntN(3))
			case 1:
				f.lead(f.rng.IntN(3))
			case 2:
				cut := f.rng.IntN(2) == 0
				s.fail(nil, func(string, uint64) error {
					if cut = !cut; cut {
						return nil
					}
					return errCutOff
				})
			default:
				f.submit()
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		s.fail(nil, nil)
		for len(f.sent) > 0 {
			f.submit()
		}
		f.check()
		for _, p := range f.peers {
			p.stop()
		}
		if len(f.taken) == 0 {
			t.Errorf("seed %d: nothing was acknowledged", seed)
		}
	}
}

// TestClusterKeptIsOnDisk takes the power from a node just when it has told the cluster what it
// keeps, with everything lost that was not synced. The disk has what was told, and what the anchor
// names.
func TestClusterKeptIsOnDisk(t *testing.T) {
	s := newShared(t)
	a := s.join("a", vfs.NewCrashableMem(), nil)
	a.lead()
	a.registered(batchOf(t, 5), 0, false)
	a.until("it keeps the batch", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.kept["a"] == 1
	})
	left := a.disk.CrashClone(vfs.CrashCloneCfg{RNG: newRNG(0)})
	a.Halt()
	must(t, a.Close())
	cfg := *a.cfg
	cfg.FS = left
	log, err := ledger.Open("log", reverting(&cfg))
	must(t, err)
	if log.Size() != 5 {
		t.Errorf("the disk has %d entries", log.Size())
	}
	must(t, log.Close())
}
