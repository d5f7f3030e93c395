package verify_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// indexesOf returns the indexes of the entries of a report.
func indexesOf(r verify.Report) (list []uint64) {
	for _, e := range r.Entries {
		list = append(list, e.Index)
	}
	return list
}

// TestTheHeadOfTheRootIsOneAmongOthers: that a head of its size is given ends no
// step, and a proof about another size is not about it.
func TestTheHeadOfTheRootIsOneAmongOthers(t *testing.T) {
	l, _ := working(t)
	l.Root.Seen = l.Signed(15)
	report, err := l.Root.Verify(verify.Material{Receipts: l.All()})
	must(t, err)
	if want := "head 1, leaf 15, inclusion 15, order 15, audience 15, signer 15, signature 15"; counts(report) != want || len(report.Heads) != 1 {
		t.Errorf("checked %s, want %s", counts(report), want)
	}
	l.Root.Seen = l.Signed(9)
	report, err = l.Root.Verify(verify.Material{Heads: []string{l.Signed(15)}, Consistency: l.Joining(7, 15).Consistency})
	must(t, err)
	if len(report.Missing) != 1 || report.Missing[0].Give != "a tree head of size 7" {
		t.Errorf("missing %q", report.Missing)
	}
}

// TestEntriesOfAReportAscend, also those under heads that nothing connects, and
// those are not signed by anybody who is known.
func TestEntriesOfAReportAscend(t *testing.T) {
	l, _ := working(t)
	m := verify.Material{Receipts: []verify.Receipt{l.Receipt(11), l.ReceiptAt(9, 14), l.Receipt(0), l.Receipt(1), l.Receipt(7), l.ReceiptAt(3, 14)}}
	report, err := l.Root.Verify(m)
	must(t, err)
	if got := indexesOf(report); !slices.Equal(got, []uint64{0, 1, 3, 7, 9, 11}) {
		t.Fatalf("entries %d", got)
	}
	for _, e := range report.Entries {
		if apart := e.Index == 3 || e.Index == 9; e.Signed == apart {
			t.Errorf("entry %d: signed %v", e.Index, e.Signed)
		}
	}
	if len(report.Missing) != 2 || !strings.HasPrefix(report.Missing[1].What, "signer and signature of 2 entries under tree heads") {
		t.Errorf("missing %q", report.Missing)
	}
}

// TestWithoutAGenesisNothingIsSigned: what lets a key in is not given.
func TestWithoutAGenesisNothingIsSigned(t *testing.T) {
	l, _ := working(t)
	report, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.Receipt(7), l.Receipt(9)}})
	must(t, err)
	for _, e := range report.Entries {
		if e.Signed || e.SignatureChecked {
			t.Errorf("entry %d: signed %v, checked %v", e.Index, e.Signed, e.SignatureChecked)
		}
	}
}

// TestWhatAnEntryDoesNotShow is said of one entry as of many, and of heads by
// their number.
func TestWhatAnEntryDoesNotShow(t *testing.T) {
	l, _ := working(t)
	report, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.Receipt(0)}})
	must(t, err)
	if len(report.NotChecked) != 4 {
		t.Errorf("not checked %q", report.NotChecked)
	}
	var m verify.Material
	for _, size := range []int{0, 15} {
		m.Heads = append(m.Heads, l.SignText(testlog.HeadText(l.Head(size))+"more\n"))
	}
	report, err = l.Root.Verify(m)
	must(t, err)
	if got := notChecked(report); !slices.Equal(got, []string{"extension lines on 2 tree heads"}) {
		t.Errorf("not checked %q", got)
	}
}

// TestVerifyLeavesItsMaterialAsItIs, behind the ends of its lists too.
func TestVerifyLeavesItsMaterialAsItIs(t *testing.T) {
	l, _ := working(t)
	heads := append(make([]string, 0, 4), l.Signed(15))
	receipts := append(make([]verify.Receipt, 0, 4), l.Receipt(0))
	proof := l.Receipt(9)
	proof.Leaf = nil
	_, err := l.Root.Verify(verify.Material{Heads: heads, Receipts: receipts, Proofs: []verify.Receipt{proof}, Leaves: [][]byte{l.Leaves[9]}})
	must(t, err)
	if heads[:2][1] != "" || receipts[:2][1].Leaf != nil {
		t.Error("something was written behind the end of a list")
	}
}

// TestAConsistencyProofHasItsLimit, whoever writes or reads it, and its root is one.
func TestAConsistencyProofHasItsLimit(t *testing.T) {
	l, _ := working(t)
	for past := range 2 {
		p := verify.Consistency{Old: 7, New: 15, Path: make([]merkle.Hash, verify.MaxPath+past)}
		_, err := p.Encode()
		text := strings.Replace(encoded(t, verify.Consistency{Old: 7, New: 15, Path: p.Path[:1]}), `"`+p.Path[0].String()+`"`,
			strings.TrimSuffix(strings.Repeat(`"`+p.Path[0].String()+`",`, len(p.Path)), ","), 1)
		_, readErr := verify.DecodeConsistency([]byte(text))
		if past == 0 {
			must(t, err)
			must(t, readErr)
			continue
		}
		wantFormat(t, err)
		wantFormat(t, readErr)
	}
	_, _, err := verify.Root{}.Consistency(l.Consistency(7, 15))
	wantFormat(t, err)
}

// TestAKeyNamedByTheFirstPolicyIsAskedFor: the first entry behind the genesis may
// be the policy that names the ledger's keys.
func TestAKeyNamedByTheFirstPolicyIsAskedFor(t *testing.T) {
	r := newRotation(t)
	root := r.Root
	root.LedgerKeys, root.Since = []string{r.nextKey}, 1
	root.Retired = []verify.RetiredKey{{Key: r.oldKey, Size: 1}}
	_, err := root.Head([]byte(r.by(8, r.old)))
	wantStep(t, err, verify.StepHead)
	if !strings.Contains(err.Error(), "of size 8, without a signature by an Ed25519 key that the policy at 1 names (TRU-5)") {
		t.Error(err)
	}
}
