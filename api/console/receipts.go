package console

import (
	"net/http"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// verifiable reports whether a browser can verify entries: whether the root and the signed
// tree head are at hand.
func (k *Console) verifiable(at Standing) bool { return k.cfg.Root != nil && at.Note != "" }

// root is GET /root.json: what a verifier pins.
func (k *Console) root(*http.Request) ([]byte, error) {
	if k.cfg.Root == nil {
		return nil, entry.Refuse(entry.NotFound, "path", "no root is at hand here").WithRemedy("arl root show writes the pinned root")
	}
	root, err := k.cfg.Root()
	if err != nil {
		return nil, err
	}
	return root.Encode()
}

// receipts is GET /log/{index}/receipts: the receipt of an entry, and those of the policies
// and agent entries that let its signer in, one a line.
func (k *Console) receipts(q *http.Request) ([]byte, error) {
	index, err := number(q, "index")
	if err != nil {
		return nil, err
	}
	at := k.cfg.Source.Standing()
	if index >= at.Size || at.Note == "" {
		return nil, entry.Refuse(entry.NotFound, "index", "no receipt of entry %d is at hand: the log has %d entries", index, at.Size).
			WithRemedy("arl log proof writes receipts")
	}
	e, proof, err := k.cfg.Source.Entry(q.Context(), index, at.Size)
	if err != nil {
		return nil, err
	}
	var links []entry.Registered
	k.cfg.Source.Read(func(state *coord.State, _ Standing) { links = state.Chain().LinksFor(e.Header.Iss) })
	var out []byte
	add := func(e *entry.Registered, proof []merkle.Hash) error {
		line, err := verify.Receipt{Leaf: e.AppendLeaf(nil), Index: e.Index, Proof: proof, Head: at.Note}.Encode()
		out = append(append(out, line...), '\n')
		return err
	}
	if err := add(e, proof); err != nil {
		return nil, err
	}
	for i := range links {
		if link := &links[i]; link.Index < at.Size && link.Index != index {
			if _, proof, err = k.cfg.Source.Entry(q.Context(), link.Index, at.Size); err == nil {
				err = add(link, proof)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
