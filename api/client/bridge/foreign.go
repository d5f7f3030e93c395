package bridge

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// maxForeign is the number of foreign parents that an entry may name.
const maxForeign = 64

// Foreign is a parent of an execution in another ledger. The ledger that the execution stands in
// keeps the member, and looks at it never.
type Foreign struct {
	Origin   string      `json:"origin"`    // of the other ledger
	Exec     entry.Ref   `json:"exec"`      // the execution there
	Index    uint64      `json:"index"`     // of an entry of that execution
	LeafHash merkle.Hash `json:"leaf_hash"` // of that entry
}

// foreignOf returns the foreign parents that the payload of an execution names in its member
// `foreign`; none where it has no such member. The error says what is wrong with the member.
func foreignOf(payload []byte) ([]Foreign, error) {
	var members struct {
		Foreign jsontext.Value `json:"foreign"`
	}
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, fmt.Errorf("bridge: foreign: %w", err)
	}
	if members.Foreign == nil {
		return nil, nil
	}
	var parents []Foreign
	if err := json.Unmarshal(members.Foreign, &parents, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("bridge: foreign: %w", err)
	}
	if len(parents) > maxForeign {
		return nil, fmt.Errorf("bridge: foreign: %d parents, the limit is %d", len(parents), maxForeign)
	}
	for i, f := range parents {
		if issuer, id := f.Exec.Split(); issuer == "" || id == "" || f.Origin == "" || f.LeafHash == (merkle.Hash{}) {
			return nil, fmt.Errorf("bridge: foreign[%d]: want origin, exec as issuer#id, index and leaf_hash", i)
		}
	}
	return parents, nil
}
