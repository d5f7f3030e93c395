package main

import (
	"bufio"
	"context"
	"maps"
	"path/filepath"
	"slices"

	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// receiptsFile is the file in a run's directory with the receipts of its
// entries: first those of the policies and keys that they count by, then the
// entries in the order of the log, then proofs that their heads are of one log.
const receiptsFile = "receipts.ndjson"

// export writes the receipts of a run beside its report. They are written as
// they come, since a run may have more than memory holds.
func (r *recorder) export(ctx context.Context, dir string) error {
	f, err := durable.Begin("", filepath.Join(dir, receiptsFile), 0o644)
	if err != nil {
		return withExit(exitIO, err)
	}
	defer f.Discard() //nolint:errcheck // after a failure only
	out := bufio.NewWriter(f)
	notes := map[uint64]string{}
	write := func(receipt *verify.Receipt) error {
		head, err := r.root.Head([]byte(receipt.Head))
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
	links, err := linksOf(ctx, r.registry, r.signer.principal)
	if err != nil {
		return err
	}
	for i := range links {
		if err := write(&links[i]); err != nil {
			return err
		}
	}
	for receipt, err := range r.receipts(ctx, entry.ByWorkflow, string(r.wid)) {
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
		return withExit(exitIO, err)
	}
	return withExit(exitIO, f.Commit())
}

// exportProofs writes that each head continues the one before.
func (r *recorder) exportProofs(ctx context.Context, out *bufio.Writer, notes map[uint64]string) error {
	sizes := slices.Sorted(maps.Keys(notes))
	for i := 1; i < len(sizes); i++ {
		proof, err := r.consistency(ctx, notes[sizes[i-1]], notes[sizes[i]])
		if err != nil {
			return err
		}
		line, err := verify.Consistency{Old: sizes[i-1], New: sizes[i], Path: proof.Path}.Encode()
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return withExit(exitIO, err)
		}
	}
	return nil
}
