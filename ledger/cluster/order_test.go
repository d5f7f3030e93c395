package cluster_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/merkle"
)

// TestConformance holds the order on etcd to what [agreement.Sequencer] promises, on one node.
func TestConformance(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	terms := n.Terms(t.Context())
	first := term(t, terms)
	if first.After != 0 {
		t.Fatalf("%+v", first)
	}
	ctx := t.Context()
	must(t, n.Propose(ctx, first, 1, named(1)))
	must(t, n.Propose(ctx, first, 1, named(1))) // as after a lost answer
	must(t, n.Propose(ctx, first, 2, named(2)))
	must(t, n.Propose(ctx, first, 1, named(1)))
	old := agreement.Term{ID: first.ID - 1}
	for what, offer := range map[string]func() error{
		"other bytes":           func() error { return n.Propose(ctx, first, 2, []byte("other")) },
		"a gap":                 func() error { return n.Propose(ctx, first, 4, named(4)) },
		"another term":          func() error { return n.Propose(ctx, old, 3, named(3)) },
		"another term confirms": func() error { return n.Confirm(ctx, old) },
	} {
		if err := offer(); !errors.Is(err, agreement.ErrOvertaken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, n.Confirm(ctx, first))
	must(t, n.Propose(ctx, first, 3, make([]byte, agreement.MaxBytes)))
	got, err := take(t, n, 1, 3)
	if err != nil || got[0] != "batch 1" || got[1] != "batch 2" || len(got[2]) != agreement.MaxBytes {
		t.Fatalf("%.20q, %v", got, err)
	}
	must(t, n.Close())
	select { // the terms end with the node
	case <-terms:
	case <-ctx.Done():
	}

	again := s.open("a") // and a new one begins behind what stands
	second := term(t, again.Terms(t.Context()))
	if second.ID <= first.ID || second.After != 3 {
		t.Errorf("after a restart: %+v behind %+v", second, first)
	}
	if err := again.Propose(ctx, first, 4, named(4)); !errors.Is(err, agreement.ErrOvertaken) {
		t.Errorf("the term before the restart: %v", err)
	}
	must(t, again.Close())
}

// TestRace: of many proposers of one number one wins, and every other one is overtaken.
func TestRace(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	in := term(t, n.Terms(t.Context()))
	for seq := uint64(1); seq <= 20; seq++ {
		results := make([]error, 8)
		var group sync.WaitGroup
		for i := range results {
			group.Go(func() { results[i] = n.Propose(t.Context(), in, seq, fmt.Appendf(nil, "%d by %d", seq, i)) })
		}
		group.Wait()
		won := ""
		for i, err := range results {
			switch {
			case err == nil && won == "":
				won = fmt.Sprintf("%d by %d", seq, i)
			case !errors.Is(err, agreement.ErrOvertaken):
				t.Errorf("number %d, proposer %d: %v, and %q has won", seq, i, err, won)
			}
		}
		if got, err := take(t, n, seq, 1); err != nil || got[0] != won {
			t.Errorf("number %d: %q stands, %q has won, %v", seq, got, won, err)
		}
	}
	must(t, n.Close())
}

// TestTrim: what every node keeps is removed, and what a node lacks stays. Who comes later hears
// so.
func TestTrim(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	in := term(t, n.Terms(t.Context()))
	for seq := uint64(1); seq <= 5; seq++ {
		must(t, n.Propose(t.Context(), in, seq, named(seq)))
	}
	must(t, n.Kept(t.Context(), 3, merkle.Head{Size: 3}))
	must(t, n.RemoveKept(t.Context()))
	if _, err := take(t, n, 3, 1); !errors.Is(err, agreement.ErrTrimmed) {
		t.Errorf("number 3: %v", err)
	}
	if got, err := take(t, n, 4, 2); err != nil || got[1] != "batch 5" {
		t.Errorf("from number 4: %q, %v", got, err)
	}
	must(t, n.Propose(t.Context(), in, 6, named(6)))
	if err := n.Propose(t.Context(), in, 2, named(2)); !errors.Is(err, agreement.ErrOvertaken) {
		t.Errorf("a number that was removed stands anew: %v", err)
	}
	must(t, n.Close())
}

// TestRefuses: a node does not begin where it must not.
func TestRefuses(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	term(t, n.Terms(t.Context()))
	must(t, n.Close())

	other := s.config("a")
	other.Incarnation[0]++
	n, err := cluster.Open(other)
	must(t, err)
	terms := n.Terms(t.Context())
	if err := <-s.fatal; !errors.Is(err, agreement.ErrDiverged) || !strings.Contains(err.Error(), "incarnation") {
		t.Errorf("another incarnation: %v", err)
	}
	if len(terms) > 0 {
		t.Error("another incarnation has a term")
	}

	for what, change := range map[string]func(*cluster.Config){
		"no member":   func(c *cluster.Config) { c.Name = "z" },
		"no CA":       func(c *cluster.Config) { c.CAFile = "" },
		"no such key": func(c *cluster.Config) { c.Dir += "2"; c.KeyFile += "2" },
	} {
		c := s.config("a")
		change(c)
		if _, err := cluster.Open(c); err == nil {
			t.Errorf("%s: opened", what)
		}
	}
}

// TestStranger: who has no certificate of the cluster is not let in.
func TestStranger(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	term(t, n.Terms(t.Context()))
	conn, err := tls.Dial("tcp", s.members["a"], &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the stranger takes anybody
	if err == nil {                                                                     // TLS 1.3: the client hears later that it is not let in
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	must(t, n.Close())
}

// TestWipedMember: a node without its files of etcd does not begin anew under its name.
func TestWipedMember(t *testing.T) {
	s := newSite(t, "a")
	must(t, s.open("a").Close())
	must(t, os.RemoveAll(s.config("a").Dir))
	if _, err := cluster.Open(s.config("a")); !errors.Is(err, cluster.ErrWiped) {
		t.Errorf("%v", err)
	}
}
