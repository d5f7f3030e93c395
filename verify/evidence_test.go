package verify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// verified verifies evidence as it is read from a file.
func verified(t *testing.T, root verify.Root, e *verify.Evidence) (verify.Report, error) {
	t.Helper()
	data, err := json.Marshal(e)
	must(t, err)
	var m verify.Material
	must(t, m.Add("evidence.json", data))
	return root.Verify(m)
}

// TestEvidenceOfAForkConvicts: two roots of one size by themselves; heads of two
// sizes by what the newer tree says of its beginning, and by nothing less.
func TestEvidenceOfAForkConvicts(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t)
	_, err := verified(t, l.Root, forkEvidence("two roots", l.Signed(15), fork.Signed(15)))
	wantFork(t, err, l.Signed(15), fork.Signed(15))

	bare := forkEvidence("two histories", l.Signed(9), fork.Signed(15))
	report, err := verified(t, l.Root, bare)
	must(t, err)
	if len(report.Missing) != 1 || counts(report) != "head 2" {
		t.Errorf("checked %s, missing %q", counts(report), report.Missing)
	}

	began := fork.Head(9).Root
	bare.Root, bare.Path = &began, fork.Consistency(9, 15).Path
	_, err = verified(t, l.Root, bare)
	wantFork(t, err, l.Signed(9), fork.Signed(15))

	found, _ := errors.AsType[*verify.ForkError](err)
	turned := forkEvidence("the same in another order", fork.Signed(15), l.Signed(9))
	turned.Root = bare.Root
	if !bare.Shows(found.Evidence()) || !turned.Shows(found.Evidence()) {
		t.Error("a document does not show its own fork")
	}
	if forkEvidence("no proof", l.Signed(9), fork.Signed(15)).Shows(found.Evidence()) || bare.Shows(forkEvidence("others", l.Signed(9), l.Signed(15))) {
		t.Error("a document shows what it does not prove")
	}
	_, err = verified(t, l.Root, found.Evidence()) // convicts whoever it is shown to
	wantFork(t, err, l.Signed(9), fork.Signed(15))

	spoilt := *bare
	other := merkle.Hash{1}
	spoilt.Root = &other
	_, err = verified(t, l.Root, &spoilt)
	wantStep(t, err, verify.StepConsistency)

	same := forkEvidence("a mistake", l.Signed(9), l.Signed(15))
	began = l.Head(9).Root
	same.Root, same.Path = &began, l.Consistency(9, 15).Path
	report, err = verified(t, l.Root, same)
	must(t, err)
	if len(report.Missing) != 0 || counts(report) != "head 2, consistency 2" {
		t.Errorf("one history: checked %s, missing %q", counts(report), report.Missing)
	}
}

// TestEvidenceOfOneHead convicts nobody, also beside heads of the same log. A head that the
// verifier has accepted is the other side of it. No error becomes such a document.
func TestEvidenceOfOneHead(t *testing.T) {
	l, _ := working(t)
	fork, _ := working(t)
	for _, e := range []*verify.Evidence{{Kind: verify.EvidenceFork, Newer: l.Signed(15)}, {Kind: verify.EvidenceFork, Older: l.Signed(15)},
		{Kind: verify.EvidenceFork, Older: l.Signed(15), Newer: l.Signed(15)}} {
		for _, heads := range [][]string{nil, {l.Signed(15)}} {
			var m verify.Material
			must(t, m.AddEvidence(*e))
			m.Heads = append(m.Heads, heads...)
			report, err := l.Root.Verify(m)
			must(t, err)
			want := "2 consistency: that the ledger signed a tree head that contradicts that of size 15: the evidence has no other one: give the other tree head"
			if len(report.Missing) != 1 || report.Missing[0].String() != want || report.Verdict() != verify.Inconclusive {
				t.Errorf("%s, missing %q", report.Verdict(), report.Missing)
			}
		}
		accepted := l.Root
		accepted.Seen = fork.Signed(15)
		_, err := verified(t, accepted, e)
		wantFork(t, err, fork.Signed(15), l.Signed(15))
	}
	for _, err := range []*verify.ForkError{{First: l.Signed(15)}, {Second: l.Signed(15)}, {First: l.Signed(15), Second: l.Signed(15)}, {}} {
		if e := err.Evidence(); e != nil {
			t.Errorf("%+v", e)
		}
	}
}

// TestEvidenceOfAnEntryProvesTheEntry, and says that the rest follows from the log.
func TestEvidenceOfAnEntryProvesTheEntry(t *testing.T) {
	l, _ := working(t)
	report, err := verified(t, l.Root, &verify.Evidence{Kind: verify.EvidenceEntry, Problem: entry.StateConflict, Receipts: []verify.Receipt{l.Receipt(9)}})
	must(t, err)
	if len(report.Entries) != 1 || report.Entries[0].Index != 9 || !strings.Contains(strings.Join(report.NotChecked, "\n"), "that entry 9 should not be in the log (state-conflict)") {
		t.Errorf("%+v", report)
	}
}

// TestEvidenceOfEquivocation: what convicts an agent, and what does not.
func TestEvidenceOfEquivocation(t *testing.T) {
	l, c := working(t)
	said := l.Execution(c.agent)
	index := l.Add(c.agent.Sign(t, said))
	other := func(change func(x *entry.Execution), by testlog.Key) *verify.Evidence {
		x := *said
		change(&x)
		return &verify.Evidence{Kind: verify.EvidenceEquivocation, Receipts: append([]verify.Receipt{l.Receipt(index)}, l.All()...),
			Envelope: by.Sign(t, &x).AppendEnvelope(nil)}
	}
	otherwise := func(x *entry.Execution) { x.Exec = "otherwise" }

	report, err := verified(t, l.Root, other(otherwise, c.agent))
	must(t, err)
	if len(report.Equivocations) != 1 || report.Equivocations[0] != (verify.Equivocation{Principal: said.Iss, JTI: said.JTI, Index: index}) || len(report.Missing) != 0 {
		t.Fatalf("%+v, missing %q", report.Equivocations, report.Missing)
	}

	alone := other(otherwise, c.agent)
	alone.Receipts = alone.Receipts[:1]
	report, err = verified(t, l.Root, alone)
	must(t, err)
	if len(report.Equivocations) != 0 || len(report.Missing) == 0 {
		t.Errorf("without the keys: %+v, missing %q", report.Equivocations, report.Missing)
	}

	stranger := testlog.NewKey(t, "agent", "stranger")
	l.Add(c.agent.Sign(t, l.Execution(c.agent)))
	old := other(otherwise, c.agent) // its entry stands under a head that nothing connects
	old.Receipts = append([]verify.Receipt{l.ReceiptAt(index, int(index)+1)}, l.All()[:index]...)
	old.Receipts = append(old.Receipts, l.Receipt(index+1))
	for name, e := range map[string]*verify.Evidence{"a key that nobody enrolled": other(otherwise, stranger), "an entry that nothing connects": old} {
		report, err = verified(t, l.Root, e)
		must(t, err)
		if want := fmt.Sprintf("who signed the envelope beside entry %d", index); len(report.Equivocations) != 0 || report.Missing[len(report.Missing)-1].What != want {
			t.Errorf("%s: %+v, missing %q", name, report.Equivocations, report.Missing)
		}
	}
	_, err = verified(t, l.Root, other(func(x *entry.Execution) { x.Iss = "approver" }, c.approver)) // under an id of their own
	wantStep(t, err, verify.StepLeaf)
	_, err = l.Root.Verify(verify.Material{Heads: []string{l.Signed(15)}, Evidence: []verify.Evidence{*alone}})
	if wantFormat(t, err); !strings.Contains(err.Error(), fmt.Sprintf("the receipt of entry %d is not among the material", index)) {
		t.Error(err)
	}
	_, err = verified(t, l.Root, other(func(*entry.Execution) {}, c.agent))
	wantStep(t, err, verify.StepLeaf)
	_, err = verified(t, l.Root, other(func(x *entry.Execution) { x.JTI = l.Execution(c.agent).JTI }, c.agent))
	wantStep(t, err, verify.StepLeaf)
	_, err = verified(t, l.Root, other(otherwise, c.enroller)) // who may claim any id
	wantStep(t, err, verify.StepSigner)
	forged := other(otherwise, c.agent)
	e, err := entry.Decode(forged.Envelope)
	must(t, err)
	e.Seal(e.KeyID, make([]byte, 64))
	forged.Envelope = e.AppendEnvelope(nil)
	_, err = verified(t, l.Root, forged)
	wantStep(t, err, verify.StepSignature)
}

// TestEvidenceIsWhole: evidence that lacks what its kind needs is refused when it
// is read.
func TestEvidenceIsWhole(t *testing.T) {
	l, _ := working(t)
	root := l.Head(9).Root
	long := strings.Repeat("a", verify.MaxNote)
	for name, e := range map[string]*verify.Evidence{
		"no kind":           {},
		"another kind":      {Kind: "rumour"},
		"a fork of nothing": {Kind: verify.EvidenceFork},
		"a root alone":      {Kind: verify.EvidenceFork, Newer: l.Signed(15), Root: &root},
		"a path alone":      {Kind: verify.EvidenceFork, Older: l.Signed(9), Newer: l.Signed(15), Path: []merkle.Hash{root}},
		"an entry of none":  {Kind: verify.EvidenceEntry},
		"roots of no newer": {Kind: verify.EvidenceFork, Older: l.Signed(9), Root: &root},
		"a long older head": {Kind: verify.EvidenceFork, Older: long + "a", Newer: l.Signed(15)},
		"a long newer head": {Kind: verify.EvidenceFork, Older: l.Signed(9), Newer: long + "a"},
		"a proof out of size": {Kind: verify.EvidenceFork, Older: l.Signed(9), Newer: l.Signed(15),
			Consistency: []verify.Consistency{{Old: 9, New: 15, Path: make([]merkle.Hash, verify.MaxPath+1)}}},
		"no receipt":         {Kind: verify.EvidenceEquivocation, Envelope: []byte("{}")},
		"one object":         {Kind: verify.EvidenceEquivocation, Receipts: []verify.Receipt{l.Receipt(9)}},
		"an empty receipt":   {Kind: verify.EvidenceEntry, Receipts: []verify.Receipt{{}}},
		"a path out of size": {Kind: verify.EvidenceFork, Older: l.Signed(9), Newer: l.Signed(15), Root: &root, Path: make([]merkle.Hash, verify.MaxPath+1)},
	} {
		var m verify.Material
		data, err := json.Marshal(e)
		must(t, err)
		if err := m.Add("evidence.json", data); err == nil || len(m.Evidence)+len(m.Heads)+len(m.Receipts) > 0 {
			t.Errorf("%s: %v, %+v", name, err, m)
		} else if _, ok := errors.AsType[*verify.FormatError](err); !ok {
			t.Errorf("%s: %T: %v", name, err, err)
		}
		if _, err := l.Root.Verify(verify.Material{Heads: []string{l.Signed(9), l.Signed(15)}, Evidence: []verify.Evidence{*e}}); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
	for _, e := range []verify.Evidence{{Kind: verify.EvidenceFork, Older: long, Newer: long}, {Kind: verify.EvidenceFork, Older: "a"}, {Kind: verify.EvidenceFork, Newer: "a"}} {
		must(t, new(verify.Material).AddEvidence(e))
	}
	for text, want := range map[string]string{
		`{"evidence":"fork","newer":"` + long + `a"}`:      "verify: file: evidence: a fork without tree heads, or with one of more than 131072 bytes (give the document as it was written)",
		`{"evidence":"fork","newer":"a","unknown":"word"}`: "",
	} {
		err := new(verify.Material).Add("file", []byte(text))
		if wantFormat(t, err); want != "" && err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestAPageOfEvidenceIsVerified as a server answers it.
func TestAPageOfEvidenceIsVerified(t *testing.T) {
	l, c := working(t)
	said := l.Execution(c.agent)
	index := l.Add(c.agent.Sign(t, said))
	x := *said
	x.Exec = "otherwise"
	one := verify.Evidence{Kind: verify.EvidenceEquivocation, Receipts: append([]verify.Receipt{l.Receipt(index)}, l.All()...),
		Envelope: c.agent.Sign(t, &x).AppendEnvelope(nil)}
	data, err := json.Marshal(map[string]any{"evidence": []verify.Evidence{one}, "next": "/v1/evidence?from=1"})
	must(t, err)
	var m verify.Material
	must(t, m.Add("page.json", data))
	report, err := l.Root.Verify(m)
	must(t, err)
	if len(report.Equivocations) != 1 {
		t.Errorf("%+v", report)
	}
	wantFormat(t, m.Add("page.json", []byte(`{"evidence":[1]}`)))
}
