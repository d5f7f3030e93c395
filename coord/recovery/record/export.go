package record

import (
	"bufio"
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// receiptsFile is the file in a run's directory with the receipts of its entries. First come the
// receipts of policies and keys that verify the signers, then the entries in the order of the log,
// and then the proofs that their heads are of one log.
const receiptsFile = "receipts.ndjson"

// Export writes the receipts of a run beside its report. They are written as
// they come, since a run may have more than memory holds.
func (r *Recorder) Export(ctx context.Context, dir string) error {
	f, err := durable.Begin("", filepath.Join(dir, receiptsFile), 0o644)
	if err != nil {
		return err
	}
	defer f.Discard() //nolint:errcheck // after a failure only
	out := bufio.NewWriter(f)
	notes := map[uint64]string{}
	write := func(receipt *verify.Receipt) error {
		head, err := r.Root.Head([]byte(receipt.Head))
		if err != nil {
			return err
		}
		notes[head.Size] = receipt.Head
		line, err := receipt.Encode()
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	}
	links, err := Links(ctx, r.Ledger, r.Issuer)
	if err != nil {
		return err
	}
	for i := range links {
		if err := write(&links[i]); err != nil {
			return err
		}
	}
	for receipt, err := range r.Ledger.Receipts(ctx, entry.ByWorkflow, string(r.workflow())) {
		if err == nil {
			err = write(receipt)
		}
		if err != nil {
			return err
		}
	}
	if err := r.exportProofs(ctx, out, notes); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Commit()
}

// exportProofs writes that each head continues the one before.
func (r *Recorder) exportProofs(ctx context.Context, out *bufio.Writer, notes map[uint64]string) error {
	sizes := slices.Sorted(maps.Keys(notes))
	for i := 1; i < len(sizes); i++ {
		proof, err := r.Ledger.Consistency(ctx, notes[sizes[i-1]], notes[sizes[i]])
		if err != nil {
			return err
		}
		line, err := verify.Consistency{Old: sizes[i-1], New: sizes[i], Path: proof.Path}.Encode()
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Links returns the receipts of all policies, and of the agent entries about
// the given issuers, about the issuers of those, and so on.
func Links(ctx context.Context, from Ledger, issuers ...entry.Principal) ([]verify.Receipt, error) {
	type link struct {
		receipt *verify.Receipt
		entry   *entry.Entry
	}
	var all []link
	for _, kind := range []entry.Kind{entry.KindPolicy, entry.KindAgent} {
		for receipt, err := range from.Receipts(ctx, entry.ByKind, string(kind)) {
			if err != nil {
				return nil, err
			}
			e, _, err := entry.DecodeLeaf(receipt.Leaf)
			if err != nil {
				return nil, err
			}
			all = append(all, link{receipt, e})
		}
	}
	needed := map[entry.Principal]bool{}
	for _, p := range issuers {
		needed[p] = true
	}
	// The loop goes backwards, because an enroller was enrolled before.
	slices.SortFunc(all, func(x, y link) int { return cmp.Compare(y.receipt.Index, x.receipt.Index) })
	var links []verify.Receipt
	for _, l := range all {
		if agent, ok := l.entry.Body.(*entry.Agent); ok && !needed[agent.Principal] {
			continue
		}
		needed[l.entry.Header.Iss] = true
		links = append(links, *l.receipt)
	}
	slices.Reverse(links)
	return links, nil
}
