package verify

import (
	"fmt"

	"recoveryledger/merkle"
)

// Consistency claims that the tree of Old entries is a prefix of the tree of New entries, so no
// entry was changed or removed in between. The ledger answers with it, and files hold it. The
// signed heads stand beside it.
type Consistency struct {
	Old  uint64        `json:"old" doc:"size of the smaller tree"`
	New  uint64        `json:"new" doc:"size of the larger tree"`
	Path []merkle.Hash `json:"path" doc:"RFC 6962 consistency proof; empty if old is 0 or equals new"`
}

// Encode returns the proof as JSON, in its one form. The error is a
// [*FormatError].
func (p Consistency) Encode() ([]byte, error) {
	if err := CheckLimits(consistencyName, p.Path); err != nil {
		return nil, err
	}
	return encode(consistencyName, p)
}

// DecodeConsistency reads a proof. It accepts exactly the output of [Consistency.Encode]. The
// error is a [*FormatError].
func DecodeConsistency(data []byte) (Consistency, error) {
	var p Consistency
	if err := decode(consistencyName, data, &p); err != nil {
		return Consistency{}, err
	}
	if err := CheckLimits(consistencyName, p.Path); err != nil {
		return Consistency{}, err
	}
	return p, nil
}

const consistencyName = "consistency proof"

// ConsistencyProof is a [Consistency] with the signed heads that it is about.
type ConsistencyProof struct {
	Older string // signed note
	Newer string // signed note
	Path  []merkle.Hash
}

// Consistency checks both heads of a proof and the proof, and returns the
// heads. The error is that of [Opener.Consistency], or a [*FormatError] if the root
// is malformed.
func (r Root) Consistency(p ConsistencyProof) (older, newer merkle.Head, err error) {
	o, err := NewOpener(r)
	if err != nil {
		return older, newer, err
	}
	a, b, err := o.Consistency(p)
	return a.Head, b.Head, err
}

// Consistency checks both heads of a proof and the proof, and returns the heads.
// The error is a [*StepError] of [StepHead] or [StepConsistency], or, for two heads
// of one size, a [*ForkError].
func (o *Opener) Consistency(p ConsistencyProof) (older, newer SignedHead, err error) {
	if older, err = o.Open(p.Older); err != nil {
		return SignedHead{}, SignedHead{}, err
	}
	if newer, err = o.Open(p.Newer); err != nil {
		return SignedHead{}, SignedHead{}, err
	}
	if err := older.CheckFork(newer); err != nil {
		return SignedHead{}, SignedHead{}, err
	}
	return older, newer, checkConsistency(older, newer, p.Path)
}

func checkConsistency(older, newer SignedHead, path []merkle.Hash) error {
	if err := merkle.CheckConsistency(older.Head, newer.Head, path); err != nil {
		return &StepError{Step: StepConsistency, What: fmt.Sprintf("heads of size %d and %d", older.Size, newer.Size), Cause: err}
	}
	return nil
}
