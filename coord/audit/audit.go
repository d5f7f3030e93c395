// Package audit derives everything that a log says from its entries again, and believes
// nothing else. [Run] reads the entry bundles of a log from a server, a mirror or an export
// ([Dir]). It runs the rules of registration (REG-1 to REG-9) over the entries in their order,
// computes the root of every index entry (IDX-3), and compares all leaves with one signed tree
// head. A contradiction to the ledger's signature is an error that holds the evidence.
// [FindingError] reports an entry that the rules forbid. [IndexError] reports an index entry with
// a wrong root. [RootError] reports leaves that are not the leaves under the head.
//
// An audit can continue later where it stopped: [Place] keeps a verified fold in a file.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Source reads the tiles of a log (c2sp.org/tlog-tiles). A client of a server is a source. The
// bytes count for nothing until they are hashed into a signed tree head.
type Source interface {
	Tile(ctx context.Context, tile merkle.Tile) ([]byte, error)
}

// Dir is the source of a log that was exported as static files.
type Dir struct{ Files fs.FS }

// Tile implements [Source].
func (d Dir) Tile(_ context.Context, tile merkle.Tile) ([]byte, error) {
	return fs.ReadFile(d.Files, tile.Path())
}

// Head returns the exported tree head, opened with the pinned root.
func (d Dir) Head(root verify.Root) (verify.SignedHead, error) {
	note, err := fs.ReadFile(d.Files, "checkpoint")
	if err != nil {
		return verify.SignedHead{}, err
	}
	head, err := root.Head(note)
	return verify.SignedHead{Head: head, Note: string(note)}, err
}

// Config says how an audit is run. The zero Config audits from the first entry on.
type Config struct {
	// From is the fold of the beginning of the log; nil: the fold of the empty log. It was checked
	// against a head that the audited head continues. The audit changes it.
	From *Follower
	// See, if not nil, is called with every entry that is read.
	See func(entry.Registered)
	// Progress is called with the number of the size entries that were found to be right.
	Progress func(done, size uint64)
}

// Run audits the log under a head that was opened with the root, and returns the
// report. The error is a [*FindingError], an [*IndexError] or a [*RootError] if the log
// contradicts the ledger's signature, and [ErrDamaged] if an entry bundle is damaged.
func Run(ctx context.Context, source Source, root verify.Root, head verify.SignedHead, cfg Config) (*Follower, Report, error) {
	follower := cfg.From
	if follower == nil {
		follower = NewFollower(root.Origin)
	}
	size := follower.State().Size()
	tree, err := merkle.NewFrontier(size, follower.State().Node)
	if err != nil {
		return nil, Report{}, err
	}
	read := func(yield func(entry.Registered, error) bool) {
		for e, err := range entries(Leaves(ctx, source, size, head.Size), root, size, tree) {
			if cfg.See != nil && err == nil {
				cfg.See(e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	follower.ReadAgain(follower.again(source, head))
	report, err := follower.Follow(ctx, read, func(done uint64) {
		if cfg.Progress != nil {
			cfg.Progress(done, head.Size)
		}
	})
	computed, broken := tree.Head()
	switch {
	case err != nil && broken == nil:
		return nil, report, follower.accuseIndex(ctx, source, head, err, computed)
	case cmp.Or(err, broken) != nil:
		return nil, report, cmp.Or(err, broken)
	case report.Finding != nil:
		return nil, report, accuse(ctx, source, head, report.Finding, computed)
	case computed != head.Head:
		return nil, report, &RootError{Head: head, Detail: otherRoot(computed, head)}
	}
	return follower, report, nil
}

// entries yields the entries of the leaves from an index on, and hashes the leaves
// into tree. The first entry of the log must be the pinned genesis.
func entries(leaves iter.Seq2[[]byte, error], root verify.Root, index uint64, tree *merkle.Frontier) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for leaf, err := range leaves {
			e := entry.Registered{Index: index}
			if err == nil {
				err = tree.Append(merkle.HashLeaf(leaf), func(uint, uint64, merkle.Hash) {})
			}
			if err == nil {
				e.Entry, e.RegisteredAt, err = entry.DecodeLeaf(leaf)
			}
			if err == nil && index == 0 && merkle.HashLeaf(leaf) != root.Genesis {
				err = entry.Refuse(entry.Malformed, "", "the first entry is not the pinned genesis policy (TRU-1)")
			}
			if !yield(e, err) || err != nil {
				return
			}
			index++
		}
	}
}

// Leaves reads the leaves of a log of that size from its entry bundles, from an index on. The
// error is [ErrDamaged] if a bundle is damaged.
func Leaves(ctx context.Context, source Source, from, size uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for tile := from / merkle.TileWidth; from < size && tile*merkle.TileWidth < size; tile++ {
			found, err := Bundle(ctx, source, tile, size)
			first := tile * merkle.TileWidth
			for _, leaf := range found[min(max(from, first)-first, uint64(len(found))):] {
				if !yield(leaf, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Bundle reads the leaves of one entry bundle of a log of that size. With an error
// it returns the leaves before the place where the error was found.
func Bundle(ctx context.Context, source Source, index, size uint64) (found [][]byte, err error) {
	tile := merkle.Tile{Entries: true, Index: index, Width: int(min(size-index*merkle.TileWidth, merkle.TileWidth))}
	bundle, err := source.Tile(ctx, tile)
	for range tile.Width {
		var leaf []byte
		if err == nil {
			if leaf, bundle, err = merkle.CutLeaf(bundle); err != nil {
				err = fmt.Errorf("%w: %s: %v", ErrDamaged, tile.Path(), err)
			}
		}
		if err != nil {
			return found, err
		}
		found = append(found, leaf)
	}
	if len(bundle) > 0 {
		return found, fmt.Errorf("%w: %s has %d bytes too many", ErrDamaged, tile.Path(), len(bundle))
	}
	return found, nil
}
