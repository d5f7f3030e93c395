package node

import (
	"context"
	"errors"
	"iter"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster/site"
	"recoveryledger/merkle"
)

// still is the order of a node that stands still: nothing comes from it.
type still struct{}

var errStill = errors.New("the node stands still")

// Terms implements [agreement.Sequencer].
func (still) Terms(context.Context) <-chan agreement.Term { return nil }

// Confirm implements [agreement.Sequencer].
func (still) Confirm(context.Context, agreement.Term) error { return errStill }

// Propose implements [agreement.Sequencer].
func (still) Propose(context.Context, agreement.Term, uint64, []byte) error { return errStill }

// Batches implements [agreement.Sequencer].
func (still) Batches(context.Context, uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, errStill) }
}

// Kept implements [agreement.Sequencer].
func (still) Kept(context.Context, uint64, merkle.Head) error { return errStill }

// StandsStill returns [Options.Cluster] for a node of a cluster whose log is only read: the node
// takes nothing from the others, and registers nothing.
func StandsStill(s *site.Site) func(*Node, *ledger.Config) error {
	return func(n *Node, config *ledger.Config) error {
		config.Cluster = &ledger.Cluster{
			Member: agreement.Member{Sequencer: still{}, Secret: s.Secret, Incarnation: s.Incarnation},
			Revert: func() ledger.Fold { return n.Replica.Revert() },
		}
		return nil
	}
}

// standing sets Cluster where the data directory is only read, and is that of a node of a cluster.
func (o *Options) standing() error {
	if !o.Looks || o.Cluster != nil {
		return nil
	}
	s, err := site.Load(o.Dir)
	if errors.Is(err, site.ErrNone) {
		return nil
	}
	if err != nil {
		return exit.With(exit.Config, err)
	}
	if s.Begun() || s.Copied { // else the database is that of a single ledger yet
		o.Cluster = StandsStill(s)
	}
	return nil
}
