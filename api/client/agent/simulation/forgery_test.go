package simulation

import (
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// mutate changes a bundle, as a hostile server could that has the ledger's key
// and the coordinator's.
func (w *world) mutate(n *node, honest *bundle.Bundle) *bundle.Bundle {
	b := *honest
	b.Entries, b.Members, b.Steps = slices.Clone(b.Entries), slices.Clone(b.Members), slices.Clone(b.Steps)
	kind := w.rng.IntN(8)
	w.note("  %s is served a forgery of kind %d", n.name, kind)
	switch {
	case kind == 0 && len(b.Entries) > 0: // something is left out
		at := w.rng.IntN(len(b.Entries))
		b.Entries = slices.Delete(b.Entries, at, at+1)
		var shown []uint64
		for _, leaf := range b.Entries {
			shown = append(shown, leaf.Index)
		}
		var err error
		if b.Inclusion, err = merkle.ProveInclusions(shown, w.ledger.size(), w.ledger.tree.Node); err != nil {
			w.fail("forgery: %v", err)
		}
	case kind == 1: // for somebody else
		b.Agent = pick(w, w.nodes).name
	case kind == 2 && len(b.Members) > 0:
		m := &b.Members[w.rng.IntN(len(b.Members))].Member
		m.Method, m.Checkpoint = pick(w, []entry.Method{entry.MethodCancel, entry.MethodCompensate, entry.MethodResidual}), ""
	case kind == 3 && len(b.Steps) > 0:
		b.Steps[w.rng.IntN(len(b.Steps))].From++
	case kind == 4 && len(b.Members) > 0: // what comes before is kept quiet
		b.Members[len(b.Members)-1].After = nil
	case kind == 5 && len(b.Consistency) > 0:
		b.Consistency = slices.Clone(b.Consistency)
		b.Consistency[0][0] ^= 1
	case b.Decision != 0:
		w.fork(n, &b)
	}
	return &b
}

// fork puts another decision in the place of one, in a log of its own that is
// signed all the same.
func (w *world) fork(n *node, b *bundle.Bundle) {
	logged := &w.ledger.log[b.Decision]
	body, ok := logged.Body.(*entry.Decision)
	if !ok {
		w.fail("entry %d is no decision", b.Decision)
	}
	forged, scope, impact := *body, *body.RollbackSet, *body.Impact // what is in the log is not to change
	forged.RollbackSet, forged.Impact = &scope, &impact
	w.forge(n, &forged)
	e, err := entry.New(&forged)
	if err != nil {
		return // it cannot even be written
	}
	w.keys.sign(e, string(forged.Iss))
	leaf := e.AppendLeaf(nil, logged.RegisteredAt)
	var other merkle.Tree
	size := w.ledger.size()
	for index := range size {
		hash := w.ledger.leafHash(index)
		if index == b.Decision {
			hash = merkle.HashLeaf(leaf)
		}
		other.Append(hash)
	}
	b.Head = signHead(w, other.Head(size))
	dropped := w.dropped(body, &forged)
	b.Entries = slices.DeleteFunc(b.Entries, func(logged bundle.Leaf) bool { return dropped[logged.Index] })
	var shown []uint64
	for i := range b.Entries {
		if shown = append(shown, b.Entries[i].Index); b.Entries[i].Index == b.Decision {
			b.Entries[i].Bytes = leaf
		}
	}
	b.Inclusion, err = merkle.ProveInclusions(shown, size, other.Node)
	if err == nil && b.From > 0 {
		b.Consistency, err = merkle.ProveConsistency(b.From, size, other.Node)
	}
	if err != nil {
		w.fail("forgery: %v", err)
	}
}

// dropped is what has no place in a bundle any more where approvals are gone: they,
// and what shows who signed them.
func (w *world) dropped(honest, forged *entry.Decision) map[uint64]bool {
	gone := map[uint64]bool{}
	for _, index := range honest.Approvals {
		if slices.Contains(forged.Approvals, index) || len(forged.Approvals) == 0 {
			continue
		}
		gone[index] = true
		for _, logged := range w.ledger.log {
			if a, ok := logged.Body.(*entry.Agent); ok && a.Principal == w.ledger.log[index].Header.Iss {
				gone[logged.Index] = true
			}
		}
	}
	return gone
}

// forge makes a decision one that nobody may obey.
func (w *world) forge(n *node, d *entry.Decision) {
	kind := w.rng.IntN(8)
	w.note("  forged: %d", kind)
	switch kind {
	case 0:
		d.Exp = w.now/1000 - 1000
	case 1:
		d.DeadlineAt = w.now - 1000*second
	case 2:
		accepted := n.core.Accepted()
		if epoch, known := accepted.Epoch(d.Incident, n.now()); known { // else nobody could tell
			d.Epoch = epoch - 1
		} else {
			d.Aud = "another"
		}
	case 3:
		d.Iss = pick(w, []entry.Principal{"p1", "a0", "m"})
		d.Approvals = nil
	case 4:
		if count := len(d.Approvals); count > 0 { // which may be more than it takes
			quorum := int(w.observer.incidents[d.Incident].policy.Quorum.Approve)
			d.Approvals = slices.Clone(d.Approvals[:min(count, quorum)-1])
		} else {
			d.Impact.Members = 1 << 20
		}
	case 5:
		d.Act = entry.ActEscalate
		d.DeadlineAt = 0
	case 6:
		d.Policy.LeafHash[0] ^= 1
	case 7:
		d.RollbackSet.Root[0] ^= 1
	}
}
