package verify_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	flog "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestTLogProofIsReadByOthers has the parser of transparency-dev/formats read
// what we write, and us what it writes.
func TestTLogProofIsReadByOthers(t *testing.T) {
	l, _ := working(t)
	for index := range uint64(15) {
		r := l.Receipt(index)
		ours := tlogProof(t, r)
		var theirs proof.TLogProof
		must(t, theirs.Unmarshal([]byte(ours)))
		if theirs.Index != index || string(theirs.Checkpoint) != r.Head || len(theirs.Hashes) != len(r.Proof) {
			t.Fatalf("read as %+v", theirs)
		}
		if written := theirs.Marshal(); string(written) != ours {
			t.Fatalf("they write\n%s\nwe\n%s", written, ours)
		}
		again, err := verify.ParseTLogProof(theirs.Marshal())
		must(t, err)
		again.Leaf = r.Leaf
		if diff := cmp.Diff(r, again); diff != "" {
			t.Error(diff)
		}
	}
}

// TestOthersProveTheSame has golang.org/x/mod/sumdb/tlog make and check the
// proofs of logs of up to 40 leaves.
func TestOthersProveTheSame(t *testing.T) {
	l := testlog.New(t)
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for size := 1; size <= 40; size++ {
		leaf := fmt.Appendf(nil, "leaf %d", size)
		l.AddLeaf(leaf)
		hashes, err := tlog.StoredHashes(int64(size-1), leaf, read)
		must(t, err)
		stored = append(stored, hashes...)
		root, err := tlog.TreeHash(int64(size), read)
		must(t, err)
		head := l.Head(size)
		if merkle.Hash(root) != head.Root {
			t.Fatalf("size %d: roots %v and %v", size, root, head.Root)
		}
		for i := range size {
			theirs, err := tlog.ProveRecord(int64(size), int64(i), read)
			must(t, err)
			must(t, tlog.CheckRecord(theirProof(l.ReceiptAt(uint64(i), size).Proof), int64(size), root, int64(i), tlog.RecordHash(l.Leaves[i])))
			must(t, merkle.CheckInclusion(uint64(i), merkle.HashLeaf(l.Leaves[i]), head, ourProof(theirs)))

			older := l.Head(i + 1)
			path, err := tlog.ProveTree(int64(size), int64(i+1), read)
			must(t, err)
			ours := l.Consistency(i+1, size)
			must(t, tlog.CheckTree(theirProof(ours.Path), int64(size), root, int64(i+1), tlog.Hash(older.Root)))
			ours.Path = ourProof(path)
			_, _, err = l.Root.Consistency(ours)
			must(t, err)
		}
	}
}

func theirProof(path []merkle.Hash) (out []tlog.Hash) {
	for _, h := range path {
		out = append(out, tlog.Hash(h))
	}
	return out
}

func ourProof[P ~[]tlog.Hash](path P) (out []merkle.Hash) {
	for _, h := range path {
		out = append(out, merkle.Hash(h))
	}
	return out
}

// TestOthersReadTheSameHead has transparency-dev/formats open our heads.
func TestOthersReadTheSameHead(t *testing.T) {
	l, _ := working(t)
	verifier, err := note.NewVerifier(l.Root.LedgerKeys[0])
	must(t, err)
	for size := range len(l.Leaves) + 1 {
		signed := l.Signed(size)
		theirs, rest, _, err := flog.ParseCheckpoint([]byte(signed), testlog.Origin, verifier)
		must(t, err)
		ours, err := l.Root.Head([]byte(signed))
		must(t, err)
		if theirs.Size != ours.Size || merkle.Hash(theirs.Hash) != ours.Root || len(rest) > 0 {
			t.Errorf("they read %+v, we %+v", theirs, ours)
		}
	}
}
