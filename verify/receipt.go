package verify

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"recoveryledger/merkle"
)

// Receipt proves that an entry stands in the log at an index: {leaf, index,
// inclusion proof, tree head}. It is a claim until [Root.Verify] has seen it.
type Receipt struct {
	Leaf  []byte        `json:"leaf"`  // exact bytes; in JSON standard base64
	Index uint64        `json:"index"` // from 0
	Proof []merkle.Hash `json:"proof"` // from the leaf's sibling to the root's child
	Head  string        `json:"head"`  // signed note
}

// Encode returns the receipt as JSON, in its one form. The error is a
// [*FormatError].
func (r Receipt) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return encode("receipt", r)
}

// DecodeReceipt reads a receipt. It accepts exactly the output of
// [Receipt.Encode]. The error is a [*FormatError].
func DecodeReceipt(data []byte) (Receipt, error) {
	var r Receipt
	if err := decode("receipt", data, &r); err != nil {
		return Receipt{}, err
	}
	if err := r.check(); err != nil {
		return Receipt{}, err
	}
	return r, nil
}

func (r Receipt) check() error {
	if len(r.Leaf) == 0 || len(r.Leaf) > MaxLeaf {
		return Malformed("receipt", "leaf of %d bytes, want 1 to %d", len(r.Leaf), MaxLeaf)
	}
	return CheckLimits("receipt", r.Proof, r.Head)
}

// CheckLimits holds a proof, and the signed heads that it is about, to [MaxPath] and
// [MaxNote]. The error is a [*FormatError] about what.
func CheckLimits(what string, path []merkle.Hash, heads ...string) error {
	if len(path) > MaxPath {
		return Malformed(what, "a proof of %d hashes, the limit is %d", len(path), MaxPath)
	}
	for _, head := range heads {
		if len(head) == 0 || len(head) > MaxNote {
			return Malformed(what, "a tree head of %d bytes, want 1 to %d", len(head), MaxNote)
		}
	}
	return nil
}

// encode writes v as JSON; every type of this package has one form.
func encode(what string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, Malformed(what, "%v", err)
	}
	return data, nil
}

// decode reads JSON that encode made, and no other spelling.
func decode(what string, data []byte, v any) error {
	if len(data) > MaxReceipt {
		return Malformed(what, "%d bytes, the limit is %d", len(data), MaxReceipt)
	}
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return Malformed(what, "%v", err)
	}
	return CheckForm(what, data, v)
}

// CheckForm reports nil if data is the JSON in which v is written: everything that
// this package and [recoveryledger/verify/bundle] write as JSON has one form. The
// error is a [*FormatError] about what.
func CheckForm(what string, data []byte, v any) error {
	again, err := encode(what, v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return Malformed(what, "not in the one form it is written in, from byte %d", commonPrefix(again, data)).
			WithRemedy("pass it on as it was received")
	}
	return nil
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
