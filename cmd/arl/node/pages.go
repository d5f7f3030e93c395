package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Pages returns the pages of the running ledger, made from its own state. work tells what its
// process has done.
func (n *Node) Pages(work func() words.Finding) (*console.Console, error) {
	examine := func(ctx context.Context, tell func(words.Finding)) {
		n.examine(ctx, tell)
		tell(work())
	}
	return console.New(&console.Config{Source: served{n}, Origin: n.Origin, Root: n.Root, Lease: n.lease, Commands: n.commands, Examine: examine, Metrics: api.PathMetrics})
}

// examine tells how the running ledger stands, as its own process knows it: whether it takes
// entries, its disk, its newest tree head, its anchor, its last backup. It names no path: readers
// of the pages may be strangers.
func (n *Node) examine(_ context.Context, tell func(words.Finding)) {
	tell(words.FindReady(n.Log.Ready()))
	free, err := disk.Free(n.Dir)
	tell(words.FindReserve(free, n.reserve, pathless(err)))
	head, anchor := words.Finding{Check: "tree head", State: words.FindingOK}, words.Finding{Check: "anchor", State: words.FindingOK}
	published, err := n.Log.Published()
	head.Detail = fmt.Sprintf("size %d, published at size %d", n.Log.Head().Size, published.Size)
	if err != nil {
		head.State, head.Detail, head.Remedy = words.FindingFail, pathless(err).Error(), "read the ledger's log, and run arl log fsck"
	}
	tell(head)
	kept, err := ledger.Anchored(n.Anchor, n.Origin)
	anchor.Detail = fmt.Sprintf("size %d", kept.Size)
	if info, failed := os.Stat(n.Anchor); err == nil && failed == nil {
		anchor.Detail += ", written " + words.Instant(info.ModTime().UnixMilli())
	}
	if err != nil {
		anchor.State, anchor.Detail, anchor.Remedy = words.FindingFail, pathless(err).Error(), "find the file; if the file is lost for good, start the ledger once with --accept-anchor"
	}
	tell(anchor)
	if last := n.lastBackup(); last != nil {
		tell(words.FindBackup(time.Since(time.UnixMilli(last.At)), last.Entries))
	}
}

// pathless returns an error of a file without the path of the file.
func pathless(err error) error {
	if of, is := errors.AsType[*fs.PathError](err); is {
		return of.Err
	}
	return err
}

// lease returns the lease of the agent that holds a task; nil: no agent does.
func (n *Node) lease(_ context.Context, task entry.Ref) (*api.Lease, error) {
	if l, ok := n.Replica.Leases().Find(task, n.Log.Now()); ok {
		return &l, nil
	}
	return nil, nil
}

// commands returns the commands of an agent, with what only the process knows of them.
func (n *Node) commands(_ context.Context, agent entry.Principal) (*api.Commands, error) {
	c := &api.Commands{Agent: agent}
	n.Replica.Read(func(state *coord.State) { c.Size, c.Commands = state.Size(), state.Commands(agent) })
	n.Replica.SentBundles().Tell(c)
	return c, nil
}

// served is the log as the ledger's own process sees it.
type served struct{ n *Node }

// Standing implements [console.Source].
func (s served) Standing() console.Standing {
	head := s.n.Log.Head()
	return console.Standing{Head: head.Head, Note: head.Note, At: head.RegisteredAt, Now: s.n.Log.Now()}
}

// Read implements [console.Source].
func (s served) Read(show func(state *coord.State, at console.Standing)) {
	at := s.Standing()
	s.n.Replica.ReadView(func(state *coord.State, view *coordinator.View) {
		if at.Size != view.Size {
			at.Head, at.Note, at.At = view.Head, view.Note, 0
		}
		show(state, at)
	})
}

// Entry implements [console.Source].
func (s served) Entry(_ context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error) {
	e, err := s.n.Log.Entry(index)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, entry.Refuse(entry.NotFound, "index", "%s", err)
	}
	if err != nil {
		return nil, nil, err
	}
	proof, err := s.n.Log.Inclusion(index, size)
	return e, proof, err
}

// Entries implements [console.Source].
func (s served) Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return s.n.Log.Entries(ctx, from, to)
}

// Wait implements [console.Source].
func (s served) Wait(ctx context.Context, size uint64) error { return s.n.Log.Wait(ctx, size) }
