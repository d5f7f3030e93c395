package verify_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// TestAStepCountsOnlyWhatItHasChecked gives each step less than it needs, and
// looks that the step counts what is left, and says what is missing and what to
// give.
func TestAStepCountsOnlyWhatItHasChecked(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t) // P-256 keys are random, so that its entries from 8 on differ
	fork.add(newKey(t, "agent", "agent").sign(t, fork.execution(newKey(t, "agent", "agent"))))
	receipts := func(l *log, size int, indexes ...uint64) (list []verify.Receipt) {
		for _, i := range indexes {
			list = append(list, l.receiptAt(i, size))
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
		{"1: one head", verify.Material{Heads: []string{l.signed(15)}}, "head 1", nil},
		{"2: one head twice", verify.Material{Heads: []string{l.signed(15), l.signed(15)}}, "head 1", nil},
		{"2: heads of two histories", verify.Material{Heads: []string{l.signed(15), fork.signed(16)}}, "head 2",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15 is the beginning of that of size 16", "the consistency proof from size 15 to size 16"}}},
		{"2: a head among joined ones", beside(l.joining(7, 15), l.signed(9)),
			"head 3, consistency 2", []verify.Gap{{verify.StepConsistency, "that the log of size 9 is the beginning of that of size 15", "the consistency proof from size 9 to size 15"}}},
		{"2: only the older ones joined", beside(l.joining(7, 9), l.signed(15)), "head 3",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 7", "the consistency proof from size 7"},
				{verify.StepConsistency, "that the log of size 9", "the consistency proof from size 9"}}},
		{"2: a proof without its older head", verify.Material{Heads: []string{l.signed(15)}, Consistency: l.joining(7, 15).Consistency}, "head 1",
			[]verify.Gap{{verify.StepConsistency, "that the proof from size 7 to size 15 is about this log", "a tree head of size 7"}}},
		{"2: a proof without its newer head", verify.Material{Heads: []string{l.signed(7)}, Consistency: l.joining(7, 15).Consistency}, "head 1",
			[]verify.Gap{{verify.StepConsistency, "that the proof from size 7 to size 15 is about this log", "a tree head of size 15"}}},
		{"2: the empty log begins every log", verify.Material{Heads: []string{l.signed(0), l.signed(15)}}, "head 2, consistency 2", nil},
		{"2: one head under two notes", verify.Material{Heads: []string{l.signed(15), l.signText(text(l.head(15)), otherSigner(t))}}, "head 2, consistency 2", nil},
		{"2: a proof from a head to itself", l.joining(15, 15), "head 1", nil},
		{"4: a proof and its leaf", verify.Material{Leaves: [][]byte{l.leaves[0]}, Proofs: []verify.Receipt{{Proof: l.receipt(0).Proof, Head: l.signed(15)}}},
			"head 1, leaf 1, inclusion 1, audience 1, signer 1, signature 1", nil},
		{"4: a leaf without proof", verify.Material{Heads: []string{l.signed(15)}, Leaves: [][]byte{l.leaves[9]}}, "head 1",
			[]verify.Gap{{verify.StepInclusion, "that leaf 1 of those given is in the log", "its .tlog-proof"}}},
		{"4: a proof without leaf", verify.Material{Proofs: []verify.Receipt{{Index: 9, Proof: l.receipt(9).Proof, Head: l.signed(15)}}}, "head 1",
			[]verify.Gap{{verify.StepInclusion, "that the .tlog-proof of entry 9", "the file of its leaf"}}},
		{"5: one entry has no order", verify.Material{Receipts: receipts(l, 15, 0)}, "head 1, leaf 1, inclusion 1, audience 1, signer 1, signature 1", nil},
		{"5: one entry given twice", verify.Material{Receipts: []verify.Receipt{l.receipt(0), l.receipt(0)}},
			"head 1, leaf 2, inclusion 2, order 1, audience 1, signer 1, signature 1", nil},
		{"7: no genesis", verify.Material{Receipts: receipts(l, 15, 9, 11)}, "head 1, leaf 2, inclusion 2, order 2, audience 2",
			[]verify.Gap{{verify.StepSigner, "signer and signature of 2 entries", "the receipts of the genesis policy, entry 0, and of the agent entries that enrol agent"}}},
		{"7: no enrolment", verify.Material{Receipts: receipts(l, 15, 0, 1, 9)}, "head 1, leaf 3, inclusion 3, order 3, audience 3, signer 2, signature 2",
			[]verify.Gap{{verify.StepSigner, "entry 9 (execution)", "the receipts of the policies and of the agent entry that let SHA256:"}}},
		{"7: the chain of another history", verify.Material{Receipts: append(receipts(fork, 16, chain...), l.receipt(9))},
			"head 2, leaf 4, inclusion 4, order 3, audience 3, signer 3, signature 3",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15", "the consistency proof"},
				{verify.StepSigner, "signer and signature of 1 entry under tree heads", "the consistency proofs"}}},
		{"7: the entry under the newest, its chain of another history", verify.Material{Receipts: append(receipts(l, 15, chain...), fork.receipt(15))},
			"head 2, leaf 4, inclusion 4, audience 1",
			[]verify.Gap{{verify.StepConsistency, "that the log of size 15", "the consistency proof"},
				{verify.StepSigner, "signer and signature of 1 entry: no policy", "the receipts of the genesis policy"},
				{verify.StepSigner, "signer and signature of 3 entries under tree heads", "the consistency proofs"}}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			report, err := l.root.Verify(tc.m)
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
	m := verify.Material{Receipts: []verify.Receipt{l.receiptAt(9, 14), l.receiptAt(9, 13), l.receipt(0), l.receipt(1), l.receipt(7), l.receipt(9)}}
	report, err := l.root.Verify(m)
	must(t, err)
	var indexes []uint64
	for _, e := range report.Entries {
		indexes = append(indexes, e.Index)
	}
	if !slices.Equal(indexes, []uint64{0, 1, 7, 9}) || len(report.Missing) != 2 {
		t.Errorf("entries %d, missing %q", indexes, report.Missing)
	}
	only, err := l.root.Verify(verify.Material{Receipts: []verify.Receipt{l.receiptAt(9, 14), l.receiptAt(9, 13), l.receipt(0)}})
	must(t, err)
	if len(only.Entries) != 2 {
		t.Errorf("%d entries, want two", len(only.Entries))
	}
}

// TestHeadsAloneHaveNoEntriesToDoubt: what no receipt can show is said of receipts.
func TestHeadsAloneHaveNoEntriesToDoubt(t *testing.T) {
	l, _ := working(t)
	report, err := l.root.Verify(verify.Material{Heads: []string{l.signed(15)}})
	must(t, err)
	if len(report.NotChecked) != 1 || !strings.HasPrefix(report.NotChecked[0], "witnesses: the root names none") {
		t.Errorf("not checked %q", report.NotChecked)
	}
}

// TestMissingEnrolmentsAreNamed names three issuers, each once, and no more.
func TestMissingEnrolmentsAreNamed(t *testing.T) {
	l, c := newCompany(t)
	for _, k := range []key{c.agent, c.agent, c.monitor, c.approver} {
		l.add(k.sign(t, l.execution(k)))
	}
	for end, want := range map[int]string{11: "enrol agent, monitor, approver (", 10: "enrol agent, monitor ("} {
		var m verify.Material
		for i := 8; i <= end && i < len(l.leaves); i++ {
			m.Receipts = append(m.Receipts, l.receipt(uint64(i)))
		}
		report, err := l.root.Verify(m)
		must(t, err)
		if len(report.Missing) != 1 || !strings.Contains(report.Missing[0].Give, want) {
			t.Errorf("missing %q, want %q", report.Missing, want)
		}
	}
	l.add(c.operator.sign(t, l.execution(c.operator)))
	var m verify.Material
	for i := uint64(8); i < 13; i++ {
		m.Receipts = append(m.Receipts, l.receipt(i))
	}
	report, err := l.root.Verify(m)
	must(t, err)
	if want := "enrol agent, monitor, approver, others ("; !strings.Contains(report.Missing[0].Give, want) {
		t.Errorf("missing %q, want %q", report.Missing, want)
	}
}

// TestWhatIsFalseIsFalseUnderAnyHead has an entry under a head that nothing
// connects: what can be seen of it is not made inconclusive by that.
func TestWhatIsFalseIsFalseUnderAnyHead(t *testing.T) {
	l, c := newCompany(t)
	bad := c.agent.sign(t, l.execution(c.agent))
	bad.Seal(bad.KeyID, c.agent.sign(t, l.execution(c.agent)).Sig)
	l.add(bad)
	l.add(c.agent.sign(t, l.execution(c.agent)))
	m := verify.Material{Receipts: []verify.Receipt{l.receiptAt(8, 9)}}
	for _, i := range []uint64{0, 1, 7} {
		m.Receipts = append(m.Receipts, l.receipt(i))
	}
	_, err := l.root.Verify(m)
	wantStep(t, err, verify.StepSignature)
}

// TestEvidenceOfAForkIsVerified reads what a client keeps when it is shown two
// histories.
func TestEvidenceOfAForkIsVerified(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t)
	add := func(first, second string) (m verify.Material) {
		data := encoded(t, evidence{first, second})
		must(t, m.Add("fork.json", []byte(data)))
		return m
	}
	_, err := l.root.Verify(add(l.signed(15), fork.signed(15)))
	wantFork(t, err, l.signed(15), fork.signed(15))
	report, err := l.root.Verify(add(l.signed(14), fork.signed(15)))
	must(t, err)
	if len(report.Missing) != 1 || counts(report) != "head 2" {
		t.Errorf("checked %s, missing %q", counts(report), report.Missing)
	}
	if m := add(l.signed(15), ""); len(m.Heads) != 1 {
		t.Errorf("heads %q, want one", m.Heads)
	}
	var m verify.Material
	must(t, m.Add("audit.json", []byte(`{"index":9,"problem":"state-conflict","receipt":`+encoded(t, l.receipt(9))+`}`)))
	if len(m.Receipts) != 1 || m.Receipts[0].Index != 9 {
		t.Errorf("the evidence of an audit has %d receipts", len(m.Receipts))
	}
	wantFormat(t, m.Add("fork.json", []byte(`{"first":1,"second":"x"}`)))
}

// evidence is the file of a client.
type evidence struct{ First, Second string }

func (e evidence) Encode() ([]byte, error) {
	quoted := func(text string) string { return `"` + strings.NewReplacer("\n", `\n`).Replace(text) + `"` }
	return []byte(`{"detail":"two roots","first":` + quoted(e.First) + `,"second":` + quoted(e.Second) + `}`), nil
}

// TestABundleCountsOnlyWhatItHasChecked is the same for authorization bundles: no
// rule is listed that was asked of nothing.
func TestABundleCountsOnlyWhatItHasChecked(t *testing.T) {
	l, c := newCompany(t)
	news := func(indexes ...uint64) *verify.Bundle {
		b := &verify.Bundle{Agent: c.agent.principal, Head: l.signed(len(l.leaves))}
		for _, i := range indexes {
			b.Entries = append(b.Entries, verify.Logged{Index: i, Leaf: l.leaves[i]})
		}
		var err error
		b.Inclusion, err = merkle.ProveInclusions(indexes, uint64(len(l.leaves)), l.node)
		must(t, err)
		return b
	}
	rules := func(v verify.Verdict) (list []string) {
		for _, p := range v.Checked {
			if p.Count == 0 {
				t.Errorf("counted though nothing was checked: %s", p)
			}
			list = append(list, p.Rule)
		}
		return list
	}
	empty, err := news().Check(verify.Accepted{Root: l.root, Agent: c.agent.principal}, l.at)
	must(t, err)
	if got := rules(empty); !slices.Equal(got, []string{"head"}) || !strings.HasPrefix(empty.NotChecked[0], "the chain of policies and keys (TRU-1)") {
		t.Errorf("checked %q, not checked %q", got, empty.NotChecked)
	}
	full, err := news(0, 1, 7).Check(verify.Accepted{Root: l.root, Agent: c.agent.principal}, l.at)
	must(t, err)
	if got := rules(full); !slices.Equal(got, []string{"head", "inclusion", "TRU-1", "TRU-2", "aud"}) {
		t.Errorf("checked %q", got)
	}
	b := news()
	b.From = uint64(len(l.leaves))
	again, err := b.Check(full.Next, l.at)
	must(t, err)
	if got := rules(again); !slices.Equal(got, []string{"head", "consistency", "TRU-1"}) {
		t.Errorf("checked %q with nothing new", got)
	}
}
