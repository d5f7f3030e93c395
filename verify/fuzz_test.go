package verify_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// repeatable returns a log that is the same in every process, as the corpus
// needs it: Ed25519 keys only.
func repeatable(f *testing.F) *log {
	f.Helper()
	l, c := newCompany(f)
	for range 7 {
		l.add(c.agent.sign(f, l.execution(c.agent)))
	}
	return l
}

// heads returns the head of every size.
func (l *log) heads() (list []merkle.Head) {
	for size := range len(l.leaves) + 1 {
		list = append(list, l.head(size))
	}
	return list
}

// FuzzReceipt looks for bytes that decode into a receipt but are not what it
// encodes to.
func FuzzReceipt(f *testing.F) {
	l := repeatable(f)
	f.Add([]byte(encoded(f, l.receipt(9))))
	f.Add([]byte(encoded(f, l.receiptAt(0, 1))))
	f.Add([]byte(`{"leaf":"AA==","index":0,"proof":[],"head":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := verify.DecodeReceipt(data)
		if err != nil {
			wantFormat(t, err)
			return
		}
		if again := encoded(t, r); again != string(data) {
			t.Fatalf("%q encodes to %q", data, again)
		}
	})
}

// FuzzConsistencyProof is FuzzReceipt for consistency proofs.
func FuzzConsistencyProof(f *testing.F) {
	l := repeatable(f)
	f.Add([]byte(encoded(f, l.joining(7, 15).Consistency[0])))
	f.Add([]byte(`{"old":7,"new":15,"path":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := verify.DecodeConsistency(data)
		if err != nil {
			wantFormat(t, err)
			return
		}
		if again := encoded(t, p); again != string(data) {
			t.Fatalf("%q encodes to %q", data, again)
		}
	})
}

// FuzzTLogProof is FuzzReceipt for .tlog-proof files.
func FuzzTLogProof(f *testing.F) {
	l := repeatable(f)
	f.Add([]byte(tlogProof(f, l.receipt(9))))
	f.Add([]byte(tlogProof(f, l.receiptAt(0, 1))))
	f.Add([]byte("c2sp.org/tlog-proof@v1\nindex 0\n\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := verify.ParseTLogProof(data)
		if err != nil {
			wantFormat(t, err)
			return
		}
		if again := tlogProof(t, r); again != string(data) {
			t.Fatalf("%q is written as %q", data, again)
		}
	})
}

// FuzzRoot looks for files that parse into a root that is not the same after
// it was written.
func FuzzRoot(f *testing.F) {
	l := repeatable(f)
	f.Add([]byte(encoded(f, l.root)))
	followed := l.root
	_, next := ledgerKey(f, origin, "next")
	followed.Retired = []verify.RetiredKey{{Key: l.root.LedgerKeys[0], Size: 7}}
	followed.LedgerKeys, followed.Since = []string{next}, 9
	f.Add([]byte(encoded(f, followed)))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := verify.ParseRoot(data)
		if err != nil {
			wantFormat(t, err)
			return
		}
		written := encoded(t, root)
		again, err := verify.ParseRoot([]byte(written))
		must(t, err)
		if encoded(t, again) != written {
			t.Fatalf("%q becomes %q", written, encoded(t, again))
		}
	})
}

// FuzzHead looks for notes that open although the ledger never signed their
// text, and for texts that are read as a head but are another spelling of it.
func FuzzHead(f *testing.F) {
	l := repeatable(f)
	heads := l.heads()
	f.Add([]byte(l.signed(15)), false)
	f.Add([]byte(l.signed(0)), false)
	f.Add([]byte(text(l.head(15))), true)
	f.Add([]byte(origin+"\n015\n"+merkle.EmptyHead().Root.String()+"\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		signed := data
		if sign { // get past the signature, to the text
			made, err := note.Sign(&note.Note{Text: string(data)}, l.signer)
			if err != nil {
				return
			}
			signed = made
		}
		head, err := l.root.Head(signed)
		if err != nil {
			wantStep(t, err, verify.StepHead)
			return
		}
		if !bytes.HasPrefix(signed, []byte(text(head))) {
			t.Fatalf("%q read as %v", signed, head)
		}
		if !sign && !slices.Contains(heads, head) {
			t.Fatalf("opened %q", signed)
		}
	})
}

// FuzzMaterial looks for files that are taken but do not verify in one of the
// ways that are promised, or verify although nobody wrote them.
func FuzzMaterial(f *testing.F) {
	l := repeatable(f)
	heads := l.heads()
	f.Add([]byte(encoded(f, l.receipt(9))))
	f.Add([]byte(encoded(f, l.receipt(0)) + "\n" + encoded(f, l.receipt(7)) + "\n" + encoded(f, l.receipt(9))))
	f.Add([]byte(encoded(f, l.joining(7, 15).Consistency[0])))
	f.Add([]byte(tlogProof(f, l.receipt(9))))
	f.Add(l.leaves[9])
	f.Add([]byte(l.signed(15)))
	f.Add([]byte(l.page(f, 0, 7, 9)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := verify.Material{Leaves: [][]byte{l.leaves[9]}}
		if err := m.Add("file", data); err != nil {
			wantFormat(t, err)
			if !strings.HasPrefix(err.Error(), "verify: file: ") {
				t.Fatalf("error %v does not name the file", err)
			}
			return
		}
		report, err := l.root.Verify(m)
		if err != nil {
			return
		}
		for _, e := range report.Entries {
			if e.Index >= 15 || !bytes.Equal(e.AppendLeaf(nil), l.leaves[e.Index]) {
				t.Fatalf("entry %d is not of the log", e.Index)
			}
		}
		for _, head := range report.Heads {
			if !slices.Contains(heads, head) {
				t.Fatalf("head %v is not of the log", head)
			}
		}
	})
}
