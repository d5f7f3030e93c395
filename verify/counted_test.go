package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestAStepCountsOnlyWhatItHasChecked gives each step less than it needs, and
// looks that the step counts what is left, and says what is missing and what to
// give.
func TestAStepCountsOnlyWhatItHasChecked(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t) // P-256 keys are random, so that its entries from 8 on differ
	fork.Add(testlog.NewKey(t, "agent", "agent").Sign(t, fork.Execution(testlog.NewKey(t, "agent", "agent"))))
	receipts := func(l *testlog.Log, size int, indexes ...uint64) (list []verify.Receipt) {
		for _, i := range indexes {
			list = append(list, l.ReceiptAt(i, size))
		}
		return list
	}
	chain := []uint64{0, 1, 7} // genesis, enroller, agent
	cases := []struct {
		name    string
		m       verify.Material
		want    string
		missing []verify.Gap // by their first words
	}{
		{"1: one head", verify.Material{Heads: []string{l.Signed(15)}}, "head 1", nil},
		{"2: one head twice", verify.Material{Heads: []string{l.Signed(15), l.Signed(15)}}, "head 1", nil},
		{"2: heads of two histories", verify.Material{Heads: []string{l.Signed(15), fork.Signed(16)}}, "head 2",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15 is the beginning of that of size 16", "the consistency proof from size 15 to size 16"}}},
		{"2: a head among joined ones", beside(l.Joining(7, 15), l.Signed(9)),
			"head 3, consistency 2", []verify.Gap{{verify.StepConsistency, "that the log of size 9 is the beginning of that of size 15", "the consistency proof from size 9 to size 15"}}},
		{"2: only the older ones joined", beside(l.Joining(7, 9), l.Signed(15)), "head 3",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 7", "the consistency proof from size 7"},
				{verify.StepConsistency, "that the log of size 9", "the consistency proof from size 9"}}},
		{"2: a proof without its older head", verify.Material{Heads: []string{l.Signed(15)}, Consistency: l.Joining(7, 15).Consistency}, "head 1",
			[]verify.Gap{{verify.StepConsistency, "that the proof from size 7 to size 15 is about this log", "a tree head of size 7"}}},
		{"2: a proof without its newer head", verify.Material{Heads: []string{l.Signed(7)}, Consistency: l.Joining(7, 15).Consistency}, "head 1",
			[]verify.Gap{{verify.StepConsistency, "that the proof from size 7 to size 15 is about this log", "a tree head of size 15"}}},
		{"2: the empty log begins every log", verify.Material{Heads: []string{l.Signed(0), l.Signed(15)}}, "head 2, consistency 2", nil},
		{"2: one head under two notes", verify.Material{Heads: []string{l.Signed(15), l.SignText(testlog.HeadText(l.Head(15)), testlog.OtherSigner(t))}}, "head 2, consistency 2", nil},
		{"2: a proof from a head to itself", l.Joining(15, 15), "head 1", nil},
		{"4: a proof and its leaf", verify.Material{Leaves: [][]byte{l.Leaves[0]}, Proofs: []verify.Receipt{{Proof: l.Receipt(0).Proof, Head: l.Signed(15)}}},
			"head 1, leaf 1, inclusion 1, audience 1, signer 1, signature 1", nil},
		{"4: a leaf without proof", verify.Material{Heads: []string{l.Signed(15)}, Leaves: [][]byte{l.Leaves[9]}}, "head 1",
			[]verify.Gap{{verify.StepInclusion, "that leaf 1 of those given is in the log", "its .tlog-proof"}}},
		{"4: a proof without leaf", verify.Material{Proofs: []verify.Receipt{{Index: 9, Proof: l.Receipt(9).Proof, Head: l.Signed(15)}}}, "head 1",
			[]verify.Gap{{verify.StepInclusion, "that the .tlog-proof of entry 9", "the file of its leaf"}}},
		{"5: one entry has no order", verify.Material{Receipts: receipts(l, 15, 0)}, "head 1, leaf 1, inclusion 1, audience 1, signer 1, signature 1", nil},
		{"5: one entry given twice", verify.Material{Receipts: []verify.Receipt{l.Receipt(0), l.Receipt(0)}},
			"head 1, leaf 2, inclusion 2, order 1, audience 1, signer 1, signature 1", nil},
		{"7: no genesis", verify.Material{Receipts: receipts(l, 15, 9, 11)}, "head 1, leaf 2, inclusion 2, order 2, audience 2",
			[]verify.Gap{{verify.StepSigner, "signer and signature of 2 entries", "the receipts of the genesis policy, entry 0, and of the agent entries that enrol agent"}}},
		{"7: no enrolment", verify.Material{Receipts: receipts(l, 15, 0, 1, 9)}, "head 1, leaf 3, inclusion 3, order 3, audience 3, signer 2, signature 2",
			[]verify.Gap{{verify.StepSigner, "entry 9 (execution)", "the receipts of the policies and of the agent entry that let SHA256:"}}},
		{"7: the chain of another history", verify.Material{Receipts: append(receipts(fork, 16, chain...), l.Receipt(9))},
			"head 2, leaf 4, inclusion 4, order 3, audience 3, signer 3, signature 3",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15", "the consistency proof"},
				{verify.StepSigner, "signer and signature of 1 entry under tree heads", "the consistency proofs"}}},
		{"7: the entry under the newest, its chain of another history", verify.Material{Receipts: append(receipts(l, 15, chain...), fork.Receipt(15))},
			"head 2, leaf 4, inclusion 4, audience 1",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15", "the consistency proof"},
				{verify.StepSigner, "signer and signature of 1 entry: no policy", "the receipts of the genesis policy"},
				{verify.StepSigner, "signer and signature of 3 entries under tree heads", "the consistency proofs"}}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report, err := l.Root.Verify(tc.m)
			must(t, err)
			if got := counts(report); got != tc.want {
				t.Errorf("checked %s, want %s", got, tc.want)
			}
			if len(report.Missing) != len(tc.missing) {
				t.Fatalf("missing %q, want %q", report.Missing, tc.missing)
			}
			for i, want := range tc.missing {
				if got := report.Missing[i]; got.Step != want.Step || !strings.HasPrefix(got.What, want.What) || !strings.HasPrefix(got.Give, want.Give) {
					t.Errorf("missing %q, want %q…", got, want)
				}
			}
		})
	}
}

// TestAnEntryStandsInAReportOnce gives receipts of one entry under two heads that
// nothing connects.
func TestAnEntryStandsInAReportOnce(t *testing.T) {
	l, _ := working(t)
	m := verify.Material{Receipts: []verify.Receipt{l.ReceiptAt(9, 14), l.ReceiptAt(9, 13), l.Receipt(0), l.Receipt(1), l.Receipt(7), l.Receipt(9)}}
	report, err := l.Root.Verify(m)
	must(t, err)
	var indexes []uint64
	for _, e := range report.Entries {
		indexes = append(indexes, e.Index)
	}
	if !slices.Equal(indexes, []uint64{0, 1, 7, 9}) || len(report.Missing) != 2 {
		t.Errorf("entries %d, missing %q", indexes, report.Missing)
	}
	only, err := l.Root.Verify(verify.Material{Receipts: []verify.Receipt{l.ReceiptAt(9, 14), l.ReceiptAt(9, 13), l.Receipt(0)}})
	must(t, err)
	if len(only.Entries) != 2 {
		t.Errorf("%d entries, want two", len(only.Entries))
	}
}

// TestHeadsAloneHaveNoEntriesToDoubt: what no receipt can show is said of receipts.
func TestHeadsAloneHaveNoEntriesToDoubt(t *testing.T) {
	l, _ := working(t)
	report, err := l.Root.Verify(verify.Material{Heads: []string{l.Signed(15)}})
	must(t, err)
	if len(report.NotChecked) != 1 || !strings.HasPrefix(report.NotChecked[0], "witnesses: the root names none") {
		t.Errorf("not checked %q", report.NotChecked)
	}
}

// TestMissingEnrolmentsAreNamed names three issuers, each once, and no more.
func TestMissingEnrolmentsAreNamed(t *testing.T) {
	l, c := newCompany(t)
	for _, k := range []testlog.Key{c.agent, c.agent, c.monitor, c.approver} {
		l.Add(k.Sign(t, l.Execution(k)))
	}
	for end, want := range map[int]string{11: "enrol agent, monitor, approver (", 10: "enrol agent, monitor ("} {
		var m verify.Material
		for i := 8; i <= end && i < len(l.Leaves); i++ {
			m.Receipts = append(m.Receipts, l.Receipt(uint64(i)))
		}
		report, err := l.Root.Verify(m)
		must(t, err)
		if len(report.Missing) != 1 || !strings.Contains(report.Missing[0].Give, want) {
			t.Errorf("missing %q, want %q", report.Missing, want)
		}
	}
	l.Add(c.operator.Sign(t, l.Execution(c.operator)))
	var m verify.Material
	for i := uint64(8); i < 13; i++ {
		m.Receipts = append(m.Receipts, l.Receipt(i))
	}
	report, err := l.Root.Verify(m)
	must(t, err)
	if want := "enrol agent, monitor, approver, others ("; !strings.Contains(report.Missing[0].Give, want) {
		t.Errorf("missing %q, want %q", report.Missing, want)
	}
}

// TestWhatIsFalseIsFalseUnderAnyHead has an entry under a head that nothing
// connects: what can be seen of it is not made inconclusive by that.
func TestWhatIsFalseIsFalseUnderAnyHead(t *testing.T) {
	l, c := newCompany(t)
	bad := c.agent.Sign(t, l.Execution(c.agent))
	bad.Seal(bad.KeyID, c.agent.Sign(t, l.Execution(c.agent)).Sig)
	l.Add(bad)
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	m := verify.Material{Receipts: []verify.Receipt{l.ReceiptAt(8, 9)}}
	for _, i := range []uint64{0, 1, 7} {
		m.Receipts = append(m.Receipts, l.Receipt(i))
	}
	_, err := l.Root.Verify(m)
	wantStep(t, err, verify.StepSignature)
}

// TestTheFirstFailureIsReported: signatures are checked behind the other steps, and on all
// processors; of several entries that fail, the error is about the first of the log.
func TestTheFirstFailureIsReported(t *testing.T) {
	forged := func(l *testlog.Log, c cast) {
		e := c.agent.Sign(t, l.Execution(c.agent))
		e.Seal(e.KeyID, c.agent.Sign(t, l.Execution(c.agent)).Sig)
		l.Add(e)
	}
	elsewhere := func(l *testlog.Log, c cast) {
		x := l.Execution(c.agent)
		x.Aud = "another.example/log"
		l.Add(c.agent.Sign(t, x))
	}
	for name, tc := range map[string]struct {
		then []func(l *testlog.Log, c cast)
		want verify.Step
	}{
		"two signatures":                  {[]func(*testlog.Log, cast){forged, forged}, verify.StepSignature},
		"a signature before an audience":  {[]func(*testlog.Log, cast){forged, elsewhere}, verify.StepSignature},
		"an audience before a signature":  {[]func(*testlog.Log, cast){elsewhere, forged}, verify.StepAudience},
		"a signature before many of them": {slices.Repeat([]func(*testlog.Log, cast){forged}, 50), verify.StepSignature},
	} {
		l, c := working(t)
		first := len(l.Leaves)
		for _, add := range tc.then {
			add(l, c)
		}
		_, err := l.Root.Verify(verify.Material{Receipts: l.All()})
		if wantStep(t, err, tc.want); !strings.Contains(err.Error(), fmt.Sprintf("entry %d:", first)) {
			t.Errorf("%s: error %v, want entry %d", name, err, first)
		}
	}
}
