// Package testlog is a ledger in memory that signs whatever it is given, a lie included. The tests
// of verify and of verify/bundle make their receipts, heads and bundles with it. An Author makes
// the entries that the tests of the fold put into a log.
//
// The package is for tests alone. It lies in testdata so that the product cannot depend on it.
package testlog

import (
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Origin is the name of the ledger.
const Origin = "ledger.example/test"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Log is a ledger that takes everything, a hostile one included, and signs it.
type Log struct {
	TB testing.TB
	IDs
	At     int64 // Unix milliseconds: when the newest entry was registered
	Leaves [][]byte
	Signer note.Signer
	Root   verify.Root // pins the key of Signer, and the first leaf as genesis
}

// New returns the empty log.
func New(tb testing.TB) *Log {
	tb.Helper()
	signer, vkey := LedgerKey(tb, Origin, "ledger")
	return &Log{TB: tb, At: 1790000000000, Signer: signer, Root: verify.Root{Origin: Origin, LedgerKeys: []string{vkey}}}
}

// Add logs an entry and returns its index. The first is the genesis that the
// root pins.
func (l *Log) Add(e *entry.Entry) uint64 {
	l.TB.Helper()
	l.At += 1000
	return l.AddLeaf(e.AppendLeaf(nil, l.At))
}

// AddLeaf logs a leaf as it is, and returns its index.
func (l *Log) AddLeaf(leaf []byte) uint64 {
	l.Leaves = append(l.Leaves, leaf)
	if len(l.Leaves) == 1 {
		l.Root.Genesis = merkle.HashLeaf(leaf)
	}
	return uint64(len(l.Leaves) - 1)
}

// Node is the reference reader: it hashes the definition.
func (l *Log) Node(level uint, index uint64) (merkle.Hash, error) {
	if level == 0 {
		return merkle.HashLeaf(l.Leaves[index]), nil
	}
	left, err := l.Node(level-1, 2*index)
	if err != nil {
		return left, err
	}
	right, err := l.Node(level-1, 2*index+1)
	return merkle.HashChildren(left, right), err
}

// Head returns the head of the first size leaves.
func (l *Log) Head(size int) merkle.Head {
	l.TB.Helper()
	var hashes []merkle.Hash
	for _, leaf := range l.Leaves[:size] {
		hashes = append(hashes, merkle.HashLeaf(leaf))
	}
	return merkle.HeadOf(hashes)
}

// SignText returns a note of the text, signed by the ledger and the others.
func (l *Log) SignText(text string, others ...note.Signer) string {
	l.TB.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, append([]note.Signer{l.Signer}, others...)...)
	must(l.TB, err)
	return string(signed)
}

// HeadText returns the text of a head's note.
func HeadText(head merkle.Head) string {
	return fmt.Sprintf("%s\n%d\n%s\n", Origin, head.Size, head.Root)
}

// Signed returns the signed head of the first size leaves.
func (l *Log) Signed(size int) string { return l.SignText(HeadText(l.Head(size))) }

// Receipt returns the receipt of an entry under the newest head.
func (l *Log) Receipt(index uint64) verify.Receipt { return l.ReceiptAt(index, len(l.Leaves)) }

// ReceiptAt returns the receipt of an entry under the head of a size.
func (l *Log) ReceiptAt(index uint64, size int) verify.Receipt {
	l.TB.Helper()
	proof, err := merkle.ProveInclusion(index, uint64(size), l.Node, nil)
	must(l.TB, err)
	return verify.Receipt{Leaf: l.Leaves[index], Index: index, Proof: proof, Head: l.Signed(size)}
}

// All returns the receipts of all entries under the newest head.
func (l *Log) All() (list []verify.Receipt) {
	for i := range l.Leaves {
		list = append(list, l.Receipt(uint64(i)))
	}
	return list
}

// Consistency returns the proof between two sizes, and their heads.
func (l *Log) Consistency(older, newer int) verify.ConsistencyProof {
	l.TB.Helper()
	path, err := merkle.ProveConsistency(uint64(older), uint64(newer), l.Node)
	must(l.TB, err)
	return verify.ConsistencyProof{Older: l.Signed(older), Newer: l.Signed(newer), Path: path}
}

// Joining returns consistency proofs between sizes, older and newer by turns, and
// the heads that they are about.
func (l *Log) Joining(sizes ...int) (m verify.Material) {
	for i := 0; i < len(sizes); i += 2 {
		p := l.Consistency(sizes[i], sizes[i+1])
		m.Heads = append(m.Heads, p.Older, p.Newer)
		m.Consistency = append(m.Consistency, verify.Consistency{Old: uint64(sizes[i]), New: uint64(sizes[i+1]), Path: p.Path})
	}
	return m
}

// Chain returns the chain over the log, each link admitted.
func (l *Log) Chain() *verify.Chain {
	l.TB.Helper()
	c := verify.NewChain()
	for i, leaf := range l.Leaves {
		e, at, err := entry.DecodeLeaf(leaf)
		must(l.TB, err)
		if e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent {
			must(l.TB, c.Admit(e, uint64(i)))
			c.Apply(e, uint64(i), at)
		}
	}
	return c
}
