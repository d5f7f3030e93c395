// Package export is the static copy of a log: the files of c2sp.org/tlog-tiles, which
// any web server can serve. [Write] brings a directory up to the published tree head of
// a log, and [Open] reads such a directory. Both trust nothing but the signed tree
// head: tiles and entries count when they hash into its root.
//
//	checkpoint             the signed tree head
//	tile/0/000             256 hashes of the lowest level
//	tile/0/001.p/44        the first 44 hashes of the next tile
//	tile/entries/000       256 leaves, each with its length in front
//
// Source: c2sp.org/tlog-tiles.
package export

import (
	"errors"
	"fmt"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

var (
	// ErrInconsistent reports an export that is not of the log's past: of another
	// log, of a newer state, or of another history.
	ErrInconsistent = errors.New("export: the export contradicts the log")
	// ErrDamaged reports files of an export, or tiles of the exported log, that are damaged or
	// missing. They do not match the signed tree head.
	ErrDamaged = errors.New("export: the files of the log are damaged")
	// ErrInUse reports a directory that another export writes to.
	ErrInUse = errors.New("export: the directory is in use")
)

// Checkpoint is the name of the file of the signed tree head.
const Checkpoint = "checkpoint"

// Contradicted returns an [ErrInconsistent] about an exported tree head with another root than the
// log, whose head of that size is began. If the log's tree of newer shows, by the signed root of
// newer, that it began so, the ledger has signed two histories, and the error is a
// [verify.ForkError], with both signed heads. Else whoever serves the log may have changed it.
func Contradicted(exported, newer verify.SignedHead, began merkle.Head, read func(merkle.Tile) ([]byte, error)) error {
	detail := fmt.Sprintf("size %d has root %s in the log, and %s in the tree head that was exported before", exported.Size, began.Root, exported.Root)
	if fork := verify.BeganOtherwise(exported, newer, merkle.TileReader(newer.Size, read)); fork != nil {
		fork.Detail = detail
		return fmt.Errorf("%w: %w", ErrInconsistent, fork)
	}
	return fmt.Errorf("%w: %s", ErrInconsistent, detail)
}
