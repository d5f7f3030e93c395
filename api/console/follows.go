package console

import (
	"context"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// consistency is the proof that the log of a page continues the log that this machine accepted
// before.
type consistency struct {
	Before merkle.Head
	Path   []merkle.Hash
}

// consistent proves and checks that the log of a standing continues the log that was accepted
// before; nil: no older head was accepted here, or the tree is not at hand.
func (k *Console) consistent(state *coord.State, at Standing) *consistency {
	if k.cfg.Accepted == nil || k.cfg.Accepted.Size == 0 || k.cfg.Accepted.Size > at.Size {
		return nil
	}
	path, err := merkle.ProveConsistency(k.cfg.Accepted.Size, at.Size, state.Node)
	if err == nil {
		err = merkle.CheckConsistency(*k.cfg.Accepted, at.Head, path)
	}
	if err != nil {
		return nil // a head that the log contradicts is not shown: see Standing.Found
	}
	return &consistency{*k.cfg.Accepted, path}
}

// followers returns the entries that follow from an entry, the oldest first, of the first
// timelineMax candidates. more says that there are further candidates.
func (k *Console) followers(ctx context.Context, from *entry.Registered, indexes []uint64) (list []entryRow, more bool, err error) {
	if more = len(indexes) > timelineMax; more {
		indexes = indexes[:timelineMax]
	}
	for e, err := range k.entriesAt(ctx, indexes) {
		if err != nil {
			return list, more, err
		}
		if e.RestsOn(from) {
			list = append(list, newEntryRow(e))
		}
	}
	return list, more, nil
}
