package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recoveryledger/ledger/agreement"
	"recoveryledger/merkle"
)

// Shown is what a node shows of its log, to the other nodes and as evidence.
type Shown struct {
	Node        string                `json:"node"`
	Incarnation agreement.Incarnation `json:"incarnation"`
	merkle.Head                       // newest of the log
	Note        string                `json:"note"`         // signed tree head of that size
	At          *merkle.Hash          `json:"at,omitempty"` // root of the size that was asked for; nil: the log is shorter
	Clock       int64                 `json:"clock"`        // wall clock in Unix milliseconds
	Room        bool                  `json:"room"`         // whether the disk has room for entries
	Keys        []string              `json:"keys"`         // verifier keys that the node signs with

	// Ahead is by how much Clock is ahead of the clock of the node that asked, which notes it.
	Ahead time.Duration `json:"-"`
}

// Differs returns an error if a node has another root of the given head's size than the head. A
// node with a shorter log has none. The error is [agreement.ErrDiverged].
func (s *Shown) Differs(name string, head merkle.Head) error {
	if s.At == nil || *s.At == head.Root {
		return nil
	}
	return fmt.Errorf("%w: %s has root %s of size %d, and %s has root %s: compare the nodes, move the database of the node that is wrong away, and let it join again",
		agreement.ErrDiverged, s.Node, *s.At, head.Size, name, head.Root)
}

const (
	answerTime = 700 * time.Millisecond // for another node to show its log
	graceTime  = 100 * time.Millisecond // for the other answers, once a majority has answered
)

// errUnasked says that too few nodes have shown their logs.
var errUnasked = errors.New("cluster: fewer than a majority of the nodes have shown their logs")

// compare asks the voters for their logs before the first batch of a term. A majority must answer.
// No node may have more than what stands before the batch, or another root: the order would have
// lost batches that a node took and perhaps signed. Nodes count that etcd has
// forgotten, as a forced new cluster does, and that were not removed.
//
// A node that takes batches of a newer term has more rightly, so the term is confirmed behind the
// answer.
//
// A node whose clock is wrong steps aside before any batch of its term was offered. So the batch
// never stands in the order, which [agreement.ErrOvertaken] says.
func (n *Node) compare(ctx context.Context, t agreement.Term, batch []byte) error {
	if n.cfg.Ask == nil || n.compared.Load() == t.ID {
		return nil
	}
	previous, err := agreement.HeadBefore(batch)
	if err != nil {
		return err
	}
	members, err := n.Members(ctx)
	if err != nil {
		return err
	}
	answers, asked, voters := n.askVoters(ctx, members, previous.Size)
	agreed, grace := 1, (<-chan time.Time)(nil)
	var others []*Shown
	for ; asked > 0; asked-- {
		if agreed > voters/2 && grace == nil {
			grace = time.After(graceTime)
		}
		select {
		case shown := <-answers:
			if shown == nil {
				continue
			}
			if err := n.refuted(ctx, t, previous, shown); err != nil {
				return err
			}
			agreed++
			others = append(others, shown)
			continue
		case <-grace:
		case <-ctx.Done():
		}
		break
	}
	if agreed <= voters/2 {
		return fmt.Errorf("%w: %d of %d", errUnasked, agreed, voters)
	}
	if n.cfg.Fit != nil {
		if err := n.cfg.Fit(others); err != nil {
			n.StepAside(true)
			return fmt.Errorf("%w: %w", agreement.ErrOvertaken, err)
		}
	}
	n.compared.Store(t.ID)
	return nil
}

// askVoters asks the other nodes for their logs. A node that does not answer sends nil. voters
// counts this node, too.
func (n *Node) askVoters(ctx context.Context, members []Member, size uint64) (answers chan *Shown, asked, voters int) {
	answers, voters = make(chan *Shown, len(members)), 1
	for i := range members {
		m := &members[i]
		if m.Name == n.cfg.Name || !m.Voter && m.Batch == 0 {
			continue // a node that joins has nothing yet
		}
		asked, voters = asked+1, voters+1
		n.group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			shown, err := n.cfg.Ask(ctx, m.Contact, size)
			if err == nil && shown.Incarnation != n.cfg.Incarnation {
				shown, err = nil, errors.New("it is of another cluster")
			}
			if err != nil {
				n.cfg.Logger.Debug("a node does not show its log", "node", m.Name, "error", err.Error())
				shown = nil
			}
			answers <- shown
		})
	}
	return answers, asked, voters
}

// refuted ends the node if another one has more than the order, or another root.
func (n *Node) refuted(ctx context.Context, t agreement.Term, previous merkle.Head, shown *Shown) error {
	err := shown.Differs(n.cfg.Name, previous)
	if err == nil && shown.Size > previous.Size {
		if err := n.Confirm(ctx, t); err != nil {
			return err
		}
		err = agreement.LostBatches("%s has %d entries, and the order of the cluster ends at %d", shown.Node, shown.Size, previous.Size)
	}
	if err != nil {
		n.cfg.Fatal(err)
	}
	return err
}
