package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// small opens a node whose etcd has a small quota in bytes, and waits until the node leads.
func (s *site) small(name string, quota int64) (*cluster.Node, agreement.Term) {
	s.t.Helper()
	c := s.config(name)
	c.Quota = quota
	n, err := cluster.Open(c)
	must(s.t, err)
	return n, term(s.t, n.Terms(s.t.Context()))
}

// propose offers batches of 32 KiB from number seq on until there are enough, and returns the
// number behind them.
func propose(t *testing.T, n *cluster.Node, in agreement.Term, seq uint64, enough func() bool) uint64 {
	t.Helper()
	for ; !enough(); seq++ {
		must(t, n.Propose(t.Context(), in, seq, make([]byte, 32<<10)))
	}
	return seq
}

// TestFullWaitsForFewer: a node that lags is waited for while etcd has room. Beyond a quarter of
// the quota, what most nodes keep is removed.
func TestFullWaitsForFewer(t *testing.T) {
	s := newSite(t, "a")
	n, in := s.small("a", 8<<20)
	must(t, n.Propose(t.Context(), in, 1, named(1)))
	must(t, n.Say(t.Context(), "b", "{}"))
	must(t, n.Kept(t.Context(), 1, merkle.Head{Size: 1}))
	must(t, n.RemoveKept(t.Context()))
	if _, err := take(t, n, 1, 1); err != nil {
		t.Errorf("with room: %v", err)
	}
	propose(t, n, in, 2, func() bool {
		_, used, quota := n.Database()
		return used > quota/4
	})
	must(t, n.RemoveKept(t.Context()))
	if _, err := take(t, n, 1, 1); !errors.Is(err, agreement.ErrTrimmed) || !strings.Contains(err.Error(), "this node lacks them") {
		t.Errorf("full: %v", err)
	}
	must(t, n.Close())
}

// TestQuota: from the half of the quota on batches are slow, from three quarters on no entries are
// taken, and etcd raises no alarm. Once the nodes keep what etcd holds, entries are taken again:
// etcd removes by itself, also while nothing is registered.
func TestQuota(t *testing.T) {
	s := newSite(t, "a")
	n, in := s.small("a", 16<<20) // a slow disk shows some MiB at once
	seq := propose(t, n, in, 1, func() bool { return n.Unable() != nil })
	size, used, quota := n.Database()
	if refusal := n.Unable(); refusal.Problem != entry.InsufficientStorage || used < quota/4*3 || size >= quota || !strings.Contains(refusal.Remedy, "start the nodes that lag") {
		t.Errorf("%v at %d of %d bytes", refusal, used, quota)
	}
	t.Logf("%d bytes, %d of them in use, of %d", size, used, quota)
	began := time.Now()
	must(t, n.Propose(t.Context(), in, seq, make([]byte, agreement.MaxBytes/4)))
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("a quarter of a whole batch takes %v", took)
	}
	must(t, n.Kept(t.Context(), seq, merkle.Head{Size: seq}))
	for began := time.Now(); n.Unable() != nil; {
		if time.Sleep(10 * time.Millisecond); time.Since(began) > time.Minute { // etcd removes in the background
			_, used, _ := n.Database()
			t.Fatalf("%v: %d bytes", n.Unable(), used)
		}
	}
	must(t, n.Propose(t.Context(), in, seq+1, named(seq+1)))
	must(t, n.Close())
}

// TestQuotaReached: a database that has its quota takes nothing more, and the node says what to do.
func TestQuotaReached(t *testing.T) {
	s := newSite(t, "a")
	n, in := s.small("a", 8<<20)
	seq := uint64(1)
	for ; n.Propose(t.Context(), in, seq, make([]byte, agreement.MaxBytes)) == nil; seq++ {
	}
	if refusal := n.Unable(); refusal == nil || refusal.Problem != entry.NotReady || !strings.Contains(refusal.Remedy, "arl cluster compact") {
		t.Errorf("behind the alarm: %v", refusal)
	}
	if err := n.Kept(t.Context(), seq-1, merkle.Head{Size: seq - 1}); err == nil {
		t.Error("etcd takes what the node keeps")
	}
	must(t, n.Close())
}

// TestKeptDiffers: a node that keeps another head of the same number is found, and so is a value
// that is none.
func TestKeptDiffers(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	in := term(t, n.Terms(t.Context()))
	must(t, n.Propose(t.Context(), in, 1, named(1)))
	must(t, n.Say(t.Context(), "b", `{"seq":1,"size":2}`))
	if err := n.Kept(t.Context(), 1, merkle.Head{Size: 1}); !errors.Is(err, agreement.ErrDiverged) {
		t.Errorf("another head: %v", err)
	}
	must(t, n.Say(t.Context(), "b", "{"))
	if err := n.Kept(t.Context(), 1, merkle.Head{Size: 1}); err == nil || errors.Is(err, agreement.ErrDiverged) {
		t.Errorf("a value that is none: %v", err)
	}
	must(t, n.Close())
}

// TestRoomless: the nodes without room are named.
func TestRoomless(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	n.Roomless([]string{"b", "c"})
	if refusal := n.Unable(); refusal == nil || refusal.Problem != entry.InsufficientStorage || !strings.Contains(refusal.Detail, "b, c have none") {
		t.Errorf("%v", refusal)
	}
	n.Roomless(nil)
	if refusal := n.Unable(); refusal != nil {
		t.Errorf("%v", refusal)
	}
	must(t, n.Close())
}
