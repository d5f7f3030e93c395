package console

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"recoveryledger/api/report"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
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
	index, at, err := k.provable(q)
	if err != nil {
		return nil, err
	}
	return k.proven(q.Context(), []uint64{index}, at)
}

// provable returns the index that a request names, and a standing with that entry and a signed tree
// head over it. The error is a *[entry.Refusal].
func (k *Console) provable(q *http.Request) (index uint64, at Standing, err error) {
	if index, err = number(q, "index"); err != nil {
		return 0, at, err
	}
	if at = k.cfg.Source.Standing(); index >= at.Size || at.Note == "" {
		return 0, at, entry.Refuse(entry.NotFound, "index", "no receipt of entry %d is at hand: the log has %d entries", index, at.Size).
			WithRemedy("arl log proof writes receipts")
	}
	return index, at, nil
}

// receipt is the receipt of the entry that a request names.
func (k *Console) receipt(q *http.Request) (*verify.Receipt, error) {
	index, at, err := k.provable(q)
	if err != nil {
		return nil, err
	}
	e, proof, err := k.cfg.Source.Entry(q.Context(), index, at.Size)
	if err != nil {
		return nil, err
	}
	return &verify.Receipt{Leaf: e.AppendLeaf(nil), Index: index, Proof: proof, Head: at.Note}, nil
}

// tlogProof is GET /log/{index}/tlog-proof: the proof that the entry stands in the log
// (c2sp.org/tlog-proof), without the leaf.
func (k *Console) tlogProof(q *http.Request) ([]byte, error) {
	r, err := k.receipt(q)
	if err != nil {
		return nil, err
	}
	return r.TLogProof()
}

// leaf is GET /log/{index}/leaf: the leaf that the .tlog-proof proves.
func (k *Console) leaf(q *http.Request) ([]byte, error) {
	r, err := k.receipt(q)
	if err != nil {
		return nil, err
	}
	return r.Leaf, nil
}

// receiptsMax is the number of entries whose receipts one file has.
const receiptsMax = 4096

// incidentReceipts is GET /incidents/{id}/receipts.ndjson: the receipts of all entries about an
// incident, and those of the policies and agent entries that let their signers in, one a line.
func (k *Console) incidentReceipts(q *http.Request) ([]byte, error) {
	id, err := number(q, "id")
	if err != nil {
		return nil, err
	}
	var indexes []uint64
	var seen Standing
	k.cfg.Source.Read(func(state *coord.State, at Standing) { indexes, seen = state.IncidentEntries(id), at })
	if len(indexes) == 0 || seen.Note == "" {
		return nil, entry.Refuse(entry.NotFound, "id", "no receipts of incident %d are at hand", id).
			WithRemedy("the page of incidents lists them; arl incident show --prove writes a history file")
	}
	if len(indexes) > receiptsMax {
		return nil, entry.Refuse(entry.TooLarge, "id", "%d entries are about incident %d, and one file has the receipts of %d at most", len(indexes), id, receiptsMax).
			WithRemedy("arl incident show --prove writes a history file of the incident")
	}
	return k.proven(q.Context(), indexes, seen)
}

// incidentReport is GET /incidents/{id}/report.md: the page about an incident for people who were
// not there.
func (k *Console) incidentReport(q *http.Request) ([]byte, error) {
	id, err := number(q, "id")
	if err != nil {
		return nil, err
	}
	var facts *report.Facts
	var there bool
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		facts, there = report.Gather(state, id, at.Head, k.cfg.Origin, at.Now)
	})
	if !there {
		return nil, entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).WithRemedy("the page of incidents lists them")
	}
	var entries []entry.Registered
	for e, err := range k.entriesAt(q.Context(), facts.Indexes()) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, *e)
	}
	return []byte(facts.Report(entries).Markdown()), nil
}

// proven returns the receipts of some entries, ascending, under the head of a standing, and those
// of the policies and agent entries that let their signers in.
func (k *Console) proven(ctx context.Context, indexes []uint64, at Standing) (out []byte, err error) {
	issuers := map[entry.Principal]bool{}
	add := func(index uint64) error {
		e, proof, err := k.cfg.Source.Entry(ctx, index, at.Size)
		if err != nil {
			return err
		}
		issuers[e.Header.Iss] = true
		line, err := verify.Receipt{Leaf: e.AppendLeaf(nil), Index: e.Index, Proof: proof, Head: at.Note}.Encode()
		out = append(append(out, line...), '\n')
		return err
	}
	for _, index := range indexes {
		if err := add(index); err != nil {
			return nil, err
		}
	}
	links := map[uint64]bool{}
	k.cfg.Source.Read(func(state *coord.State, _ Standing) {
		for issuer := range issuers {
			for _, link := range state.Chain().LinksFor(issuer) {
				links[link.Index] = link.Index < at.Size && !slices.Contains(indexes, link.Index)
			}
		}
	})
	for _, index := range slices.Sorted(maps.Keys(links)) {
		if links[index] {
			if err := add(index); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
