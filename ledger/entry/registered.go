package entry

import "recoveryledger/merkle"

// Registered is an entry of a log with its place. The ledger, not the signer, says Index and
// RegisteredAt.
type Registered struct {
	*Entry
	Index        uint64 // position in the log, from 0
	RegisteredAt int64  // Unix milliseconds
}

// AppendLeaf appends the entry's leaf in the log to dst.
func (r *Registered) AppendLeaf(dst []byte) []byte { return r.Entry.AppendLeaf(dst, r.RegisteredAt) }

// LeafHash returns the hash of the entry's leaf in the log (RFC 6962, 2.1).
func (r *Registered) LeafHash() merkle.Hash { return r.Entry.LeafHash(r.RegisteredAt) }
