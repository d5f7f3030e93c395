package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
)

// newIndex returns the index over the log. Run lets the index follow the log. If writes is set, the
// index also writes the index entries.
func (n *Node) newIndex(writes bool) *complete.Index {
	config := complete.Config{Log: indexed{n.Log}, HeadAt: n.Log.HeadAt, Logger: n.Logger}
	if writes {
		config.Submit = n.submitIndex
	}
	return complete.New(n.indexDir(), config)
}

// indexDir returns the directory of the index's store.
func (n *Node) indexDir() string { return filepath.Join(n.Dir, "index") }

// submitIndex completes, signs and registers an index entry of the coordinator.
func (n *Node) submitIndex(ctx context.Context, x *entry.LogIndex) error {
	own := *x
	own.Header = n.Header(Coordinator)
	own.JTI = entry.IndexJTI(n.Origin, x.Size)
	e, err := entry.New(&own)
	if err == nil {
		err = sealing(keyCoordinator, n.signer)(e)
	}
	if err == nil {
		_, err = coordinatorLog{n.Log}.Submit(ctx, e)
	}
	if errors.Is(err, agreement.ErrNotLeading) { // the node that orders writes the same entry
		return entry.Refuse(entry.NotReady, "", "another node writes the index entries")
	}
	if errors.Is(err, ledger.ErrStopped) { // Log.Run reports the reason, and ends ctx
		<-ctx.Done()
	}
	return err
}

// committed counts a commit, and passes its entries to the index.
func (n *Node) committed(c ledger.Commit) {
	n.metrics.Commit(c)
	if n.Index != nil {
		n.Index.Committed(c.Entries, c.Size)
	}
}

// withoutIndex returns an error if the policy requires an index: without an index, agents would
// obey nothing.
func withoutIndex(policy *entry.Policy) error {
	if !policy.IndexRequired() {
		return nil
	}
	return exit.With(exit.Config, errors.New("the policy says index.required, and this ledger would keep no index: agents would refuse every bundle; start the ledger with arl serve --index"))
}

// CheckIndex computes the index of a stopped ledger again, and compares the store with the result.
// It changes nothing in the store. A difference is [complete.ErrStore].
func CheckIndex(ctx context.Context, o Options, tell func(done, total uint64)) (*complete.CheckReport, error) {
	o.Looks = true
	n, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	found, err := complete.Check(ctx, n.indexDir(), complete.Config{Log: indexed{n.Log}, HeadAt: n.Log.HeadAt}, tell)
	if errors.Is(err, complete.ErrStore) {
		err = exit.With(exit.Inconsistent, exit.Remedied(fmt.Sprintf("delete %s: no entry depends on it, and arl serve --index builds the index again", n.indexDir()), err))
	}
	return found, errors.Join(err, n.Log.Close())
}

// NewestIndexEntry returns the newest index entry of the log; nil: there is none.
func (n *Node) NewestIndexEntry() (*entry.Registered, error) {
	found, err := n.Log.Find(ledger.Query{Index: entry.ByKind, Value: string(entry.KindIndex), Newest: true, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return n.Log.Entry(found[0])
}

// indexed is the log in the form of [complete.Log].
type indexed struct{ *ledger.Log }

// IndexEntry implements [complete.Log].
func (l indexed) IndexEntry(from uint64) (*entry.Registered, error) {
	found, err := l.Find(ledger.Query{Index: entry.ByKind, Value: string(entry.KindIndex), From: from, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return l.Entry(found[0])
}
