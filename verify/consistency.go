package verify

import (
	"fmt"

	"recoveryledger/merkle"
)

// ConsistencyProof claims that the tree of the older head is a prefix of the
// tree of the newer: nothing was changed or taken out in between.
type ConsistencyProof struct {
	Older string        `json:"older"` // signed note
	Newer string        `json:"newer"` // signed note
	Path  []merkle.Hash `json:"path"`  // RFC 6962, section 2.1.2
}

// Encode returns the proof as JSON, in its one form. The error is a
// [*FormatError].
func (p ConsistencyProof) Encode() ([]byte, error) {
	if err := checkProof("consistency proof", p.Path, p.Older, p.Newer); err != nil {
		return nil, err
	}
	return encode("consistency proof", p)
}

// DecodeConsistencyProof reads a proof. It accepts exactly what
// [ConsistencyProof.Encode] makes. The error is a [*FormatError].
func DecodeConsistencyProof(data []byte) (ConsistencyProof, error) {
	var p ConsistencyProof
	if err := decode("consistency proof", data, &p); err != nil {
		return ConsistencyProof{}, err
	}
	if err := checkProof("consistency proof", p.Path, p.Older, p.Newer); err != nil {
		return ConsistencyProof{}, err
	}
	return p, nil
}

// Consistency checks both heads of a proof and the proof, and returns the
// heads. The error is a [*StepError] of [StepHead] or [StepConsistency], or,
// for two heads of one size, a [*ForkError].
func (r Root) Consistency(p ConsistencyProof) (older, newer merkle.Head, err error) {
	o, err := newOpener(r)
	if err != nil {
		return older, newer, err
	}
	a, b, err := o.consistent(p)
	return a.Head, b.Head, err
}

func (o *opener) consistent(p ConsistencyProof) (older, newer head, err error) {
	if older, err = o.open(p.Older); err != nil {
		return head{}, head{}, err
	}
	if newer, err = o.open(p.Newer); err != nil {
		return head{}, head{}, err
	}
	if err := checkFork(older, newer); err != nil {
		return head{}, head{}, err
	}
	if err := merkle.CheckConsistency(older.Head, newer.Head, p.Path); err != nil {
		return head{}, head{}, &StepError{Step: StepConsistency,
			What: fmt.Sprintf("heads of size %d and %d", older.Size, newer.Size), Cause: err}
	}
	return older, newer, nil
}

// checkFork compares two signed heads: one size has one root.
func checkFork(a, b head) error {
	if a.Size != b.Size || a.Root == b.Root {
		return nil
	}
	return &ForkError{First: a.note, Second: b.note, Detail: fmt.Sprintf("two signed roots of size %d: %s and %s", a.Size, a.Root, b.Root)}
}
