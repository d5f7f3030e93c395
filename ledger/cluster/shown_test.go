package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/merkle"
)

// head is a tree head whose root has one byte.
func head(size uint64, root byte) merkle.Head {
	return merkle.Head{Size: size, Root: merkle.Hash{root}}
}

// offer is a batch behind a head.
func offer(seq uint64, before merkle.Head) []byte {
	b := agreement.Batch{Incarnation: agreement.Incarnation{1}, Seq: seq, Previous: before, Head: head(before.Size+1, 9)}
	return b.Encode([]byte("secret"))
}

// trio is three nodes in this process.
type trio struct {
	*site
	leader *cluster.Node
	term   agreement.Term
	ask    atomic.Pointer[func(other string, size uint64) (*cluster.Shown, error)] // which a leader calls at any time
	others []string
}

// newTrio opens three nodes, and waits until one leads and knows the others.
func newTrio(t *testing.T) *trio {
	t.Helper()
	s := &trio{site: newSite(t, "a", "b", "c")}
	began := make(chan func(), 3)
	for name := range s.members {
		config := s.config(name)
		config.Ask = func(_ context.Context, c cluster.Contact, size uint64) (*cluster.Shown, error) {
			for other, address := range s.members {
				if address == c.Etcd {
					if ask := s.ask.Load(); ask != nil {
						return (*ask)(other, size)
					}
					return nil, errors.New("no answer yet")
				}
			}
			return nil, errors.New("nobody")
		}
		n, err := cluster.Open(config)
		must(t, err)
		n.Show("")
		t.Cleanup(func() { must(t, n.Close()) })
		terms := n.Terms(t.Context())
		go func() {
			for got := range terms {
				if got.ID != 0 {
					began <- func() { s.leader, s.term = n, got }
					return
				}
			}
		}()
	}
	(<-began)()
	for name := range s.members {
		if name != s.leader.Name() {
			s.others = append(s.others, name)
		}
	}
	for began := time.Now(); ; {
		members, err := s.leader.Members(t.Context())
		if err == nil && len(members) == 3 {
			return s
		}
		if must(t, s.leader.Confirm(t.Context(), s.term)); time.Since(began) > time.Minute {
			t.Fatal(members)
		}
	}
}

// TestFirstBatch: before its first batch in a term a leader asks the others for their logs. A
// majority must answer. A node that has more than the order, or another root, ends the leader.
func TestFirstBatch(t *testing.T) {
	s, mine, root := newTrio(t), agreement.Incarnation{1}, func(b byte) *merkle.Hash { return &merkle.Hash{b} }
	same := &cluster.Shown{Node: "x", Incarnation: mine, Head: head(3, 7), At: root(7)}
	more := &cluster.Shown{Node: "x", Incarnation: mine, Head: head(4, 8), At: root(7)}
	other := &cluster.Shown{Node: "x", Incarnation: mine, Head: head(3, 1), At: root(1)}
	for what, test := range map[string]struct {
		first, second *cluster.Shown // nil: no answer
		says          string         // of the fatal error; "-": the fate of the batch is not known
	}{
		"both have the same":          {same, same, ""},
		"one answers, and lags":       {&cluster.Shown{Node: "x", Incarnation: mine, Head: head(2, 6)}, nil, ""},
		"none answers":                {nil, nil, "-"},
		"one of another cluster":      {&cluster.Shown{Head: head(3, 7), At: root(7)}, nil, "-"},
		"one has more than the order": {more, same, "lost its newest batches"},
		"one has another root":        {same, other, "x has root"},
		"the only answer differs":     {nil, other, "x has root"},
	} {
		answer := func(name string, size uint64) (*cluster.Shown, error) {
			shown := test.second
			if name == s.others[0] {
				shown = test.first
			}
			if shown == nil || size != 3 {
				return nil, errors.New("no answer")
			}
			return shown, nil
		}
		s.ask.Store(&answer)
		s.leader.ForgetCompared()
		settled := make(chan error, 1)
		go func() { settled <- s.leader.Propose(t.Context(), s.term, 1, offer(1, head(3, 7))) }()
		select {
		case err := <-settled:
			if test.says == "" && err != nil || test.says == "-" && (err == nil || errors.Is(err, agreement.ErrOvertaken)) || len(test.says) > 1 {
				t.Errorf("%s: %v", what, err)
			}
		case err := <-s.fatal:
			if len(test.says) < 2 || !errors.Is(err, agreement.ErrDiverged) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: ends with %v", what, err)
			}
		}
	}
}

// TestFirstBatchUnfit: a node that is not fit steps aside before its first batch in a term. Its
// batch never stands. It begins a new term when it may.
func TestFirstBatchUnfit(t *testing.T) {
	s := newSite(t, "a")
	config := s.config("a")
	var fit atomic.Bool
	config.Ask = func(context.Context, cluster.Contact, uint64) (*cluster.Shown, error) {
		return nil, errors.New("nobody")
	}
	config.Fit = func([]*cluster.Shown) error {
		if fit.Load() {
			return nil
		}
		return errors.New("its clock is wrong")
	}
	n, err := cluster.Open(config)
	must(t, err)
	terms := n.Terms(t.Context())
	first := term(t, terms)
	if err := n.Propose(t.Context(), first, 1, offer(1, head(0, 0))); !errors.Is(err, agreement.ErrOvertaken) || !strings.Contains(err.Error(), "clock is wrong") {
		t.Errorf("its first batch: %v", err)
	}
	if got := <-terms; got.ID != 0 {
		t.Errorf("it keeps term %d", got.ID)
	}
	n.Unled("its clock is wrong")
	if refusal := n.Unable(); refusal == nil || !strings.Contains(refusal.Error(), "a does not order the log") {
		t.Errorf("it refuses by %v", refusal)
	}
	fit.Store(true)
	n.Unled("")
	if refusal := n.Unable(); refusal != nil {
		t.Errorf("a fit node refuses by %v", refusal)
	}
	n.StepAside(false)
	second := term(t, terms)
	must(t, n.Propose(t.Context(), second, 1, offer(1, head(0, 0))))
	must(t, n.Close())
}

// TestForcedNewCluster: a member that was forced to be a cluster of one has lost no node that is
// registered. It offers nothing, because the others do not answer it.
func TestForcedNewCluster(t *testing.T) {
	s := newSite(t, "a", "b")
	var nodes []*cluster.Node
	for _, name := range []string{"a", "b"} {
		n := s.open(name)
		n.Show("")
		n.Terms(t.Context())
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		for began := time.Now(); ; {
			for _, each := range nodes {
				_ = each.Kept(t.Context(), 1, head(1, 1)) // until a node leads nobody is told
			}
			if members, err := n.Members(t.Context()); err == nil && len(members) == 2 && members[0].Batch == 1 && members[1].Batch == 1 {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatal("the nodes do not know one another")
			}
		}
	}
	for _, n := range nodes {
		must(t, n.Close())
	}
	must(t, cluster.ForceNew(s.config("a")))
	config := s.config("a")
	config.Ask = func(context.Context, cluster.Contact, uint64) (*cluster.Shown, error) {
		return nil, errors.New("no answer")
	}
	forced, err := cluster.Open(config)
	must(t, err)
	in := term(t, forced.Terms(t.Context()))
	if !forced.Alone() {
		t.Error("it is not alone")
	}
	if err := forced.Propose(t.Context(), in, 1, offer(1, head(0, 0))); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("it offers a batch: %v", err)
	}
	must(t, forced.Close())
}

// TestStepAside: a node that steps aside gives up its term, and begins none until it may.
func TestStepAside(t *testing.T) {
	s := newSite(t, "a")
	n := s.open("a")
	terms := n.Terms(t.Context())
	first := term(t, terms)
	n.StepAside(true)
	if got := <-terms; got.ID != 0 || n.Term() != 0 {
		t.Errorf("aside: term %d", got.ID)
	}
	n.StepAside(false)
	if second := term(t, terms); second.ID <= first.ID {
		t.Errorf("term %d follows %d", second.ID, first.ID)
	}
	must(t, n.Close())
}

// TestMembersOfEnded: a node whose etcd has ended names no members. A read from etcd would panic.
func TestMembersOfEnded(t *testing.T) {
	n := newSite(t, "a").open("a")
	n.End()
	if members, err := n.Members(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("%v, %v", members, err)
	}
	must(t, n.Close())
}
