package simulation

import (
	"bytes"
	"context"
	"fmt"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// ledger is the log: the fold that admits, the tree and its signed heads.
type ledger struct {
	w      *world
	coord  *coordinator.Replica
	state  *coordinator.Fold
	log    []entry.Registered
	leaves [][]byte // of the log
	tree   merkle.Tree
	maker  assemble.Maker
	ids    map[identity]uint64
	heads  map[uint64]string
	root   verify.Root
	last   int64 // registered_at of the last entry
}

type identity struct {
	iss entry.Principal
	jti string
}

func newLedger(w *world) *ledger {
	l := &ledger{w: w, ids: map[identity]uint64{}, heads: map[uint64]string{}}
	l.fold()
	return l
}

// fold makes the state anew, from the log alone.
func (l *ledger) fold() {
	l.coord = coordinator.New(origin, l.w.keys.check)
	l.state = l.coord.NewFold()
	for _, e := range l.log {
		l.state.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	l.coord.Committed(verify.SignedHead{Head: l.tree.Head(l.size())})
}

// leafHash returns the leaf hash of the entry at index.
func (l *ledger) leafHash(index uint64) merkle.Hash { return l.log[index].LeafHash() }

func (l *ledger) size() uint64 { return uint64(len(l.log)) }

// submit registers an entry, as the rules have it.
func (l *ledger) submit(e *entry.Entry) (entry.LogRef, error) {
	id := identity{e.Header.Iss, e.Header.JTI}
	if index, known := l.ids[id]; known { // REG-2
		if bytes.Equal(l.log[index].PAE(), e.PAE()) {
			return l.ref(index), nil
		}
		return entry.LogRef{}, entry.Refuse(entry.IDConflict, "jti", "%s of %s is entry %d", id.jti, id.iss, index)
	}
	index, at := l.size(), max(l.last, l.w.now)
	if err := l.state.Admit(e, index, at); err != nil {
		l.w.note("  refused %s of %s%s: %v", e.Kind, e.Header.Iss, about(e), err)
		return entry.LogRef{}, err
	}
	l.w.observer.before(e, at)
	l.append(e, at)
	l.w.note("  entry %d: %s of %s%s", index, e.Kind, e.Header.Iss, about(e))
	l.w.observer.logged(e, index, at)
	l.w.tell(e)
	return l.ref(index), nil
}

func (l *ledger) append(e *entry.Entry, at int64) {
	index := l.size()
	e.SignatureChecked = true
	l.tree.Append(e.LeafHash(at))
	l.log = append(l.log, entry.Registered{Entry: e, Index: index, RegisteredAt: at})
	l.leaves = append(l.leaves, e.AppendLeaf(nil, at))
	l.ids[identity{e.Header.Iss, e.Header.JTI}] = index
	l.last = at
	l.state.Apply(e, index, at)
	l.coord.Committed(verify.SignedHead{Head: l.tree.Head(l.size())})
}

func (l *ledger) ref(index uint64) entry.LogRef {
	return entry.LogRef{Index: index, LeafHash: l.leafHash(index)}
}

// leaf returns the bytes of an entry in the log.
func (l *ledger) leaf(index uint64) []byte { return l.leaves[index] }

// head returns the signed head of a size.
func (l *ledger) head(size uint64) string {
	head, ok := l.heads[size]
	if !ok {
		head = signHead(l.w, l.tree.Head(size))
		l.heads[size] = head
	}
	return head
}

// signHead signs a tree head with the ledger's key.
func signHead(w *world, head merkle.Head) string {
	text := log.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(text)}, w.keys.signer)
	if err != nil {
		panic(err)
	}
	return string(signed)
}

// query is what is asked of a bundle.
type query struct {
	agent       entry.Principal
	incident    uint64
	from, after uint64
	whole       bool
}

const pageMembers = 4 // small, so that agents see several pages

// bundle makes a bundle, as the ledger's server does.
func (l *ledger) bundle(q query) (*bundle.Bundle, uint64, error) {
	limit := pageMembers
	if q.incident == 0 {
		limit = bundle.MaxEntries
	}
	made, err := l.maker.Make(served{l}, nil, api.BundleQuery{Agent: q.agent, Incident: q.incident, From: q.from, After: q.after, Whole: q.whole, Limit: limit})
	if err != nil {
		return nil, 0, err
	}
	b, err := bundle.Decode(made.Data)
	return b, made.Next, err
}

// served is a ledger as bundles are made from it.
type served struct{ *ledger }

// View implements [assemble.Log].
func (l served) View(f func(*coord.State, verify.SignedHead, *verify.Chain)) {
	f(l.state.State, verify.SignedHead{Head: l.tree.Head(l.size()), Note: l.head(l.size())}, l.state.Chain())
}

// Entry implements [assemble.Log].
func (l served) Entry(index uint64) (*entry.Registered, error) { return &l.log[index], nil }

// Inclusions implements [assemble.Log].
func (l served) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, l.tree.Node)
}

// Consistency implements [assemble.Log].
func (l served) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	return merkle.ProveConsistency(older, newer, l.tree.Node)
}

// consistency proves that one signed head of this ledger follows another.
func (l *ledger) consistency(older, newer uint64) (p verify.ConsistencyProof, err error) {
	p = verify.ConsistencyProof{Older: l.head(older), Newer: l.head(newer)}
	p.Path, err = merkle.ProveConsistency(older, newer, l.tree.Node)
	return p, err
}

// decodedEvery is of how many seeds one decodes the entries anew that it audits.
const decodedEvery = 4

// auditLog runs the rules again over the first so many entries.
func (l *ledger) auditLog(size uint64) (audit.Report, error) {
	entries := func(yield func(entry.Registered, error) bool) {
		for index := range size {
			if l.w.seed%decodedEvery != 0 {
				if !yield(l.log[index], nil) {
					return
				}
				continue
			}
			e, at, err := entry.DecodeLeaf(l.leaf(index))
			if err == nil {
				owner, known := l.state.Chain().Key(e.KeyID)
				e.SignatureChecked = known && l.w.keys.check(owner, e.PAE(), e.Sig) == nil
			}
			if !yield(entry.Registered{Entry: e, Index: index, RegisteredAt: at}, err) {
				return
			}
		}
	}
	return audit.NewFollower(origin).Follow(context.Background(), entries, nil)
}

// about says in words what an entry says.
func about(e *entry.Entry) string {
	switch body := e.Body.(type) {
	case *entry.Execution:
		return fmt.Sprintf(": %s %s (%s)", body.Ref(), body.Progress, body.Effect)
	case *entry.Checkpoint:
		return ": " + body.Checkpoint
	case *entry.Signal:
		return fmt.Sprintf(": about %s", body.Subject)
	case *entry.Decision:
		return fmt.Sprintf(": %s of %d, epoch %d", body.Act, body.Incident, body.Epoch)
	case *entry.Outcome:
		return fmt.Sprintf(": %s %s in %d", body.Exec, body.Result, body.Incident)
	case *entry.Record:
		return fmt.Sprintf(": %d is %s", body.Incident, body.State)
	}
	return ""
}
