package verify_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// repeatable returns a log that is the same in every process, as the corpus
// needs it: Ed25519 keys only.
func repeatable(f *testing.F) *testlog.Log {
	f.Helper()
	l, c := newCompany(f)
	for range 7 {
		l.Add(c.agent.Sign(f, l.Execution(c.agent)))
	}
	return l
}

// headsOf returns the head of every size.
func headsOf(l *testlog.Log) (list []merkle.Head) {
	for size := range len(l.Leaves) + 1 {
		list = append(list, l.Head(size))
	}
	return list
}

// FuzzReceipt looks for bytes that decode into a receipt but are not what it
// encodes to.
func FuzzReceipt(f *testing.F) {
	l := repeatable(f)
	f.Add([]byte(encoded(f, l.Receipt(9))))
	f.Add([]byte(encoded(f, l.ReceiptAt(0, 1))))
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
	f.Add([]byte(encoded(f, l.Joining(7, 15).Consistency[0])))
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
	f.Add([]byte(tlogProof(f, l.Receipt(9))))
	f.Add([]byte(tlogProof(f, l.ReceiptAt(0, 1))))
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
	f.Add([]byte(encoded(f, l.Root)))
	followed := l.Root
	_, next := testlog.LedgerKey(f, testlog.Origin, "next")
	followed.Retired = []verify.RetiredKey{{Key: l.Root.LedgerKeys[0], Size: 7}}
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
	heads := headsOf(l)
	f.Add([]byte(l.Signed(15)), false)
	f.Add([]byte(l.Signed(0)), false)
	f.Add([]byte(testlog.HeadText(l.Head(15))), true)
	f.Add([]byte(testlog.Origin+"\n015\n"+merkle.EmptyHead().Root.String()+"\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		signed := data
		if sign { // get past the signature, to the text
			made, err := note.Sign(&note.Note{Text: string(data)}, l.Signer)
			if err != nil {
				return
			}
			signed = made
		}
		head, err := l.Root.Head(signed)
		if err != nil {
			wantStep(t, err, verify.StepHead)
			return
		}
		if !bytes.HasPrefix(signed, []byte(testlog.HeadText(head))) {
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
	heads := headsOf(l)
	f.Add([]byte(encoded(f, l.Receipt(9))))
	f.Add([]byte(encoded(f, l.Receipt(0)) + "\n" + encoded(f, l.Receipt(7)) + "\n" + encoded(f, l.Receipt(9))))
	f.Add([]byte(encoded(f, l.Joining(7, 15).Consistency[0])))
	f.Add([]byte(tlogProof(f, l.Receipt(9))))
	f.Add(l.Leaves[9])
	f.Add([]byte(l.Signed(15)))
	f.Add([]byte(pageOf(f, l, 0, 7, 9)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := verify.Material{Leaves: [][]byte{l.Leaves[9]}}
		if err := m.Add("file", data); err != nil {
			wantFormat(t, err)
			if !strings.HasPrefix(err.Error(), "verify: file: ") {
				t.Fatalf("error %v does not name the file", err)
			}
			return
		}
		report, err := l.Root.Verify(m)
		if err != nil {
			return
		}
		for _, e := range report.Entries {
			if e.Index >= 15 || !bytes.Equal(e.AppendLeaf(nil), l.Leaves[e.Index]) {
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

// FuzzEvidence looks for documents that convict somebody who kept to the protocol: the seeds are
// made of a log without a fault, and another one that the root does not know.
func FuzzEvidence(f *testing.F) {
	x := newIndexed(f)
	stranger := testlog.NewKey(f, "agent", "stranger")
	began := x.Head(9).Root
	history, err := x.history(colleague).Encode()
	must(f, err)
	said := x.Execution(x.agent)
	index := x.Add(x.agent.Sign(f, said))
	other := *said
	other.Exec = "otherwise"
	for _, e := range []*verify.Evidence{
		forkEvidence("d", x.Signed(15), x.Signed(19)),
		forkEvidence("d", x.Signed(15), x.SignText(testlog.HeadText(x.Head(15)), testlog.OtherSigner(f))),
		{Kind: verify.EvidenceFork, Older: x.Signed(9), Newer: x.Signed(15), Root: &began, Path: x.Consistency(9, 15).Path},
		{Kind: verify.EvidenceEntry, Problem: entry.StateConflict, Receipts: []verify.Receipt{x.Receipt(9)}},
		{Kind: verify.EvidenceEquivocation, Receipts: append([]verify.Receipt{x.Receipt(index)}, x.All()...), Envelope: stranger.Sign(f, &other).AppendEnvelope(nil)},
		{Kind: verify.EvidenceIndex, History: history, Receipts: []verify.Receipt{x.ReceiptAt(15, 19)}},
		{Kind: verify.EvidenceIndex, Root: &began, Subjects: 3, Receipts: []verify.Receipt{x.Receipt(16)}},
	} {
		data, err := json.Marshal(e)
		must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m verify.Material
		if err := m.Add("file", data); err != nil {
			wantFormat(t, err)
			return
		}
		report, err := x.Root.Verify(m)
		if _, fork := errors.AsType[*verify.ForkError](err); fork {
			t.Fatalf("a fork that is none: %v", err)
		}
		if _, wrong := errors.AsType[*verify.IndexError](err); wrong {
			t.Fatalf("a false index that is none: %v", err)
		}
		if len(report.Equivocations) > 0 {
			t.Fatalf("signed once: %v", report.Equivocations)
		}
	})
}
