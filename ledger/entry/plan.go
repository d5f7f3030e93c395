package entry

import (
	"encoding/base64"
	"strconv"
	"sync"

	"recoveryledger/merkle"
)

// Method is how a member of a plan is undone (SCO-4).
type Method string

// The methods. A member that an agent has not made final is drained before.
const (
	MethodNone       Method = "none"       // nothing to undo; its output is invalid
	MethodCancel     Method = "cancel"     // planned: not to be started
	MethodRestore    Method = "restore"    // its line goes back to a checkpoint
	MethodCompensate Method = "compensate" // undone by a compensation
	MethodResidual   Method = "residual"   // cannot be undone; people are told
)

// Member is a member of a plan: what a decision's rollback set is the Merkle tree
// over, strictly descending by Index (SCO-5).
type Member struct {
	Agent      Principal   `json:"agent"`
	Checkpoint Ref         `json:"checkpoint,omitempty"` // with restore: where its line goes back to
	Exec       Ref         `json:"exec"`
	Index      uint64      `json:"index"`     // of its first entry
	LeafHash   merkle.Hash `json:"leaf_hash"` // of that entry
	Method     Method      `json:"method"`
}

// AppendJSON appends the canonical form (RFC 8785) of the member to dst: a leaf
// of that tree. The member's texts are those of admitted entries, which
// need no escape.
func (m *Member) AppendJSON(dst []byte) []byte {
	dst = append(append(dst, `{"agent":"`...), m.Agent...)
	if m.Checkpoint != "" {
		dst = append(append(dst, `","checkpoint":"`...), m.Checkpoint...)
	}
	dst = append(append(dst, `","exec":"`...), m.Exec...)
	dst = strconv.AppendUint(append(dst, `","index":`...), m.Index, 10)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"leaf_hash":"`...), m.LeafHash[:])
	dst = append(append(dst, `","method":"`...), m.Method...)
	return append(dst, `"}`...)
}

// scratch holds texts that nobody keeps: leaves that are hashed, payloads that are copied.
var scratch = sync.Pool{New: func() any { return new(make([]byte, 0, 2048)) }}

// LeafHash returns the hash of the leaf of the entry registered at the given
// instant (Unix milliseconds). It is remembered, so that the ledger and every
// fold that it passes hash a leaf once; the first call must come before the
// entry is shared.
func (e *Entry) LeafHash(registeredAt int64) merkle.Hash {
	if !e.hashed || e.hashedAt != registeredAt {
		leaf := scratch.Get().(*[]byte)
		*leaf = e.AppendLeaf((*leaf)[:0], registeredAt)
		e.leafHash, e.hashedAt, e.hashed = merkle.HashLeaf(*leaf), registeredAt, true
		scratch.Put(leaf)
	}
	return e.leafHash
}
