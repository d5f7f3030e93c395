package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// ReceiptLines returns receipts as lines. arl verify can check these lines without other receipts.
// The lines also have the receipts of the policies and enrolments that verify the signers, the tree
// head that witnesses have cosigned, and the proofs that the heads are of one log.
func ReceiptLines(ctx context.Context, reg registry, root verify.Root, receipts []verify.Receipt) ([]byte, error) {
	links, err := links(ctx, reg, receipts)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	there, notes := map[uint64]bool{}, map[uint64]string{}
	for _, r := range slices.Concat(receipts, links) {
		if there[r.Index] {
			continue
		}
		there[r.Index] = true
		head, err := root.Head([]byte(r.Head))
		if err != nil {
			return nil, err
		}
		notes[head.Size] = r.Head
		if err := AppendLine(&b, r.Encode); err != nil {
			return nil, err
		}
	}
	if note := reg.Cosigned(); note != "" {
		head, err := root.Head([]byte(note))
		if err != nil {
			return nil, err
		}
		notes[head.Size] = note
		if err := AppendLine(&b, HeadLine(note)); err != nil {
			return nil, err
		}
	}
	sizes := slices.Sorted(maps.Keys(notes))
	for i := 1; i < len(sizes); i++ {
		proof, err := reg.Consistency(ctx, notes[sizes[i-1]], notes[sizes[i]])
		if err != nil {
			return nil, err
		}
		if err := AppendLine(&b, verify.Consistency{Old: sizes[i-1], New: sizes[i], Path: proof.Path}.Encode); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// HeadLine returns the function that encodes a tree head as a line.
func HeadLine(note string) func() ([]byte, error) {
	return func() ([]byte, error) { return json.Marshal(map[string]string{"head": note}) }
}

// AppendLine appends the output of encode as a line.
func AppendLine(b *bytes.Buffer, encode func() ([]byte, error)) error {
	line, err := encode()
	b.Write(append(line, '\n'))
	return err
}

// links returns the receipts of all policies, and of the agent entries about the issuers of the
// given entries. It also returns the receipts of the agent entries about the issuers of those agent
// entries, and so on.
func links(ctx context.Context, reg registry, receipts []verify.Receipt) ([]verify.Receipt, error) {
	needed := map[entry.Principal]bool{}
	for _, r := range receipts {
		e, _, err := entry.DecodeLeaf(r.Leaf)
		if err != nil {
			return nil, err
		}
		needed[e.Header.Iss] = true
	}
	return record.Links(ctx, reg, slices.Collect(maps.Keys(needed))...)
}

// Bundle is [ReceiptLines] for the ledger of the connection.
func (c *Connection) Bundle(ctx context.Context, receipts []verify.Receipt) ([]byte, error) {
	return ReceiptLines(ctx, c, c.Root, receipts)
}

// WriteBundle writes the output of Bundle to a file. If Bundle fails, WriteBundle writes the
// receipts alone, because a lost ledger cannot issue the receipts again.
func (c *Connection) WriteBundle(ctx context.Context, path string, receipts []verify.Receipt) error {
	content, err := c.Bundle(ctx, receipts)
	if err == nil {
		return exit.Output(path, durable.Write(path, content, 0o644))
	}
	var b bytes.Buffer
	for i := range receipts {
		if err := AppendLine(&b, receipts[i].Encode); err != nil {
			return err
		}
	}
	err = fmt.Errorf("%s has no receipts of the policies and keys that verify the signers (arl log proof --index N writes them): %w", path, err)
	return errors.Join(exit.Output(path, durable.Write(path, b.Bytes(), 0o644)), err)
}
