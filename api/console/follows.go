package console

import (
	"context"
	"slices"

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

// candidates returns the indexes of the entries behind an entry that may follow from it: those
// about its incident, those that were built on its execution, and the end of that execution.
func candidates(state *coord.State, e *entry.Registered, now int64) (indexes []uint64) {
	for _, id := range incidentsOf(state, e, now) {
		indexes = append(indexes, state.IncidentEntries(id)...)
	}
	if x, ok := e.Body.(*entry.Execution); ok {
		ref := entry.NewRef(x.Iss, x.Exec)
		if view, known := state.Execution(ref, now); known {
			indexes = append(indexes, view.Final)
		}
		if number, known := state.FindExecution(ref); known {
			for child := range state.Graph().Children(number) {
				indexes = append(indexes, state.Graph().Node(child).First)
			}
		}
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	at, there := slices.BinarySearch(indexes, e.Index)
	if there {
		at++
	}
	return indexes[at:]
}

// incidentsOf returns the incidents that an entry is about.
func incidentsOf(state *coord.State, e *entry.Registered, now int64) (ids []uint64) {
	switch b := e.Body.(type) {
	case *entry.Decision:
		return []uint64{b.Incident}
	case *entry.Approval:
		return []uint64{b.Incident}
	case *entry.Outcome:
		return []uint64{b.Incident}
	case *entry.Signal:
		for _, v := range state.IncidentsOf(b.Iss, 0, rows, now) {
			if slices.Contains(state.IncidentEntries(v.ID), e.Index) {
				ids = append(ids, v.ID)
			}
		}
	}
	return ids
}

// followsFrom reports whether an entry names another one, or rests on it.
func followsFrom(body entry.Body, from *entry.Registered) bool {
	index := from.Index
	switch b := body.(type) {
	case *entry.Approval:
		return b.Proposal.Index == index
	case *entry.Decision:
		signal := from.Kind == entry.KindSignal
		return slices.Contains(b.Approvals, index) || b.Supersedes != nil && b.Supersedes.Index == index || signal && b.Pin != nil && b.Pin.Size > index ||
			slices.ContainsFunc(b.Dispositions, func(d entry.Disposition) bool { return d.Index == index })
	case *entry.Outcome:
		return b.Decision.Index == index || b.Supersedes != nil && b.Supersedes.Index == index
	case *entry.Record:
		return b.Decision.Index == index || slices.ContainsFunc(b.Dispositions, func(d entry.Disposition) bool { return d.Index == index })
	}
	_, execution := from.Body.(*entry.Execution)
	return execution // the candidates were built on it, or end it
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
		if followsFrom(e.Body, from) {
			list = append(list, newEntryRow(e))
		}
	}
	return list, more, nil
}
