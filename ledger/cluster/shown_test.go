package cluster_test

import (
	"context"
	"errors"
	"strings"
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
	ask    func(other string, size uint64) (*cluster.Shown, error)
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
					return s.ask(other, size)
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
		s.ask = func(name string, size uint64) (*cluster.Shown, error) {
			shown := test.second
			if name == s.others[0] {
				shown = test.first
			}
			if shown == nil || size != 3 {
				return nil, errors.New("no answer")
			}
			return shown, nil
		}
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
