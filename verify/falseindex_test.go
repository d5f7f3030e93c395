package verify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// wantFalse wants the conviction of a false index by an entry, and its document to
// convict again, whoever reads it.
func wantFalse(t *testing.T, x *indexed, err error, index uint64) {
	t.Helper()
	wantStep(t, err, verify.StepContent)
	found, ok := errors.AsType[*verify.IndexError](err)
	if !ok || found.Entry != index {
		t.Fatalf("error %v, want that entry %d contradicts the index", err, index)
	}
	_, again := verified(t, x.Root, found.Evidence())
	if again == nil || again.Error() != err.Error() {
		t.Errorf("its evidence: %v, want %v", again, err)
	}
	text, err := json.Marshal(found.Evidence(), jsontext.WithIndent("  ")) // as in a file
	must(t, err)
	var file verify.Evidence
	must(t, json.Unmarshal(text, &file))
	if same, ok := errors.AsType[*verify.IndexError](again); !ok || !file.Shows(same.Evidence()) || file.Shows(forkEvidence("", "a", "b")) {
		t.Errorf("the file of the evidence does not show %v", again)
	}
}

// TestFalseIndexConvicts: an index that hides an entry, or lists one that does not
// belong, is contradicted by the receipt of the entry; a true one is by none.
func TestFalseIndexConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(lists map[entry.Label][]uint64)
		by     uint64
	}{
		"a row is hidden":        {func(l map[entry.Label][]uint64) { delete(l, revoked) }, 15},
		"the first of a list":    {func(l map[entry.Label][]uint64) { l["execution"] = []uint64{12, 14} }, 10},
		"one within a list":      {func(l map[entry.Label][]uint64) { l["execution"] = []uint64{10, 14} }, 12},
		"the last of a list":     {func(l map[entry.Label][]uint64) { l["execution"] = []uint64{10, 12} }, 14},
		"one of another subject": {func(l map[entry.Label][]uint64) { l["execution"] = []uint64{10, 11, 12, 14} }, 11},
		"under another label":    {func(l map[entry.Label][]uint64) { l["execution"], l[revoked] = []uint64{10, 12, 14, 15}, []uint64{8} }, 15},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndexed(t)
			c.damage(x.index.Lists[colleague])
			x.at = x.AddIndex(x.coordinator, x.index)
			h := x.history(colleague)
			_, err := x.Root.Verify(verify.Material{Histories: []*verify.History{h}, Receipts: []verify.Receipt{x.Receipt(c.by)}})
			if name == "under another label" { // the enrolment at 8 is contradicted first
				c.by = 8
			}
			wantFalse(t, x, err, c.by)
		})
	}
	x := newIndexed(t)
	m := verify.Material{Histories: []*verify.History{x.history(colleague, agentSubject, nobody)}, Receipts: x.All()}
	_, err := x.Root.Verify(m)
	must(t, err)
}

// TestFalseIndexNeedsOneLog: heads that nothing connects convict nobody, and the proof
// between them does.
func TestFalseIndexNeedsOneLog(t *testing.T) {
	x := newIndexed(t)
	receipt := x.Receipt(12)
	x.index.Lists[colleague]["execution"] = []uint64{10, 14}
	x.at = x.AddIndex(x.coordinator, x.index)
	m := verify.Material{Histories: []*verify.History{x.history(colleague)}, Receipts: []verify.Receipt{receipt}}
	report, err := x.Root.Verify(m)
	must(t, err)
	if len(report.Missing) == 0 {
		t.Error("nothing is missing")
	}
	history, err := m.Histories[0].Encode()
	must(t, err)
	report, err = verified(t, x.Root, &verify.Evidence{Kind: verify.EvidenceIndex, History: history, Receipts: m.Receipts})
	must(t, err)
	if len(report.Missing) == 0 {
		t.Error("nothing is missing of the evidence")
	}
	x.Add(x.agent.Sign(t, x.Execution(x.agent)))
	later := verify.Material{Histories: m.Histories, Receipts: []verify.Receipt{x.Receipt(12)}} // the history is the older one
	report, err = x.Root.Verify(later)
	must(t, err)
	if len(report.Missing) == 0 {
		t.Error("nothing is missing of the older history")
	}
	m.Consistency = []verify.Consistency{{Old: 19, New: 20, Path: x.Consistency(19, 20).Path}}
	_, err = x.Root.Verify(m)
	wantFalse(t, x, err, 12)
}

// TestPartOfAListConvictsWithinIt: what stands outside of the ranks that are shown is no
// contradiction.
func TestPartOfAListConvictsWithinIt(t *testing.T) {
	x := newIndexed(t)
	h := x.history(colleague)
	s := &h.Subjects[0]
	for i := range s.Lists {
		if s.Lists[i].Label == "execution" {
			s.Lists[i] = x.index.Run(colleague, "execution", 1, 1)
		}
	}
	_, err := x.Root.Verify(verify.Material{Histories: []*verify.History{h}, Receipts: x.All()})
	must(t, err)
	_, err = x.verify(x.history(entry.Subject{Type: entry.SubjectLog})) // which the index entry itself is of
	must(t, err)
	for from, list := range [][]uint64{{10, 14, 15}, {8, 10, 14}} { // 12 is left out between the two that are shown
		x := newIndexed(t)
		x.index.Lists[colleague]["execution"] = list
		x.at = x.AddIndex(x.coordinator, x.index)
		h := x.history(colleague)
		h.Subjects[0].Lists[2] = x.index.Run(colleague, "execution", uint64(from), 2)
		_, err := x.Root.Verify(verify.Material{Histories: []*verify.History{h}, Receipts: []verify.Receipt{x.Receipt(12)}})
		wantFalse(t, x, err, 12)
	}
}

// TestEvidenceOfAFalseIndexByItsRoot: the receipt of the index entry and another root
// convict whoever has the whole log, and the verifier says so.
func TestEvidenceOfAFalseIndexByItsRoot(t *testing.T) {
	x := newIndexed(t)
	said := x.index.Entry(entry.Header{})
	wrong := &verify.Evidence{Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}, Subjects: said.Subjects, Receipts: append([]verify.Receipt{x.Receipt(x.at)}, x.All()...)}
	report, err := verified(t, x.Root, wrong)
	must(t, err)
	if !strings.Contains(strings.Join(report.NotChecked, "\n"), "that the first 16 entries give the root AQAAAAAA") || len(report.Missing) > 0 {
		t.Errorf("not checked %q, missing %q", report.NotChecked, report.Missing)
	}
	_, err = x.Root.Verify(verify.Material{Heads: []string{x.Signed(19)}, Evidence: []verify.Evidence{*wrong}})
	wantFormat(t, err)
	wrong.Root = &said.Root
	_, err = verified(t, x.Root, wrong)
	wantStep(t, err, verify.StepIndex)
	wrong.Subjects++
	_, err = verified(t, x.Root, wrong)
	must(t, err)
	wrong.Receipts = []verify.Receipt{x.Receipt(9)}
	_, err = verified(t, x.Root, wrong)
	wantStep(t, err, verify.StepIndex)

	history, err := x.history(colleague).Encode()
	must(t, err)
	_, err = verified(t, x.Root, &verify.Evidence{Kind: verify.EvidenceIndex, History: history, Receipts: []verify.Receipt{x.Receipt(15)}})
	wantStep(t, err, verify.StepContent)
	if _, ok := errors.AsType[*verify.IndexError](err); ok {
		t.Error("a true index is convicted")
	}
	watched := x.Root
	watched.Witnesses = testlog.WitnessPolicy()
	_, err = verified(t, watched, &verify.Evidence{Kind: verify.EvidenceIndex, History: history, Receipts: []verify.Receipt{x.Receipt(15)}})
	wantStep(t, err, verify.StepContent) // whatever else is missing
	var other verify.Material
	must(t, other.AddEvidence(verify.Evidence{Kind: verify.EvidenceFork, Newer: x.Signed(19), History: history}))
	if len(other.Histories) > 0 {
		t.Error("evidence of a fork brings a history")
	}
	for name, e := range map[string]*verify.Evidence{
		"nothing":            {Kind: verify.EvidenceIndex},
		"a root alone":       {Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}},
		"a receipt alone":    {Kind: verify.EvidenceIndex, Receipts: []verify.Receipt{x.Receipt(x.at)}},
		"half a history":     {Kind: verify.EvidenceIndex, History: history[:len(history)-2]},
		"a short history":    {Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}, Receipts: []verify.Receipt{x.Receipt(x.at)}, History: []byte("1")},
		"a history in words": {Kind: verify.EvidenceIndex, History: []byte(`"none"`)},
	} {
		var m verify.Material
		if err := m.AddEvidence(*e); err == nil || len(m.Histories)+len(m.Receipts) > 0 {
			t.Errorf("%s is taken: %v", name, err)
		}
	}
}

// TestJavaScriptJudgesFalseIndexes as Go does, as histories and as evidence.
func TestJavaScriptJudgesFalseIndexes(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	x := newIndexed(t)
	document := func(e verify.Evidence) string {
		e.Kind = verify.EvidenceIndex
		data, err := json.Marshal(e)
		must(t, err)
		return string(data)
	}
	sound := encoded(t, x.history(colleague))
	early := x.Receipt(12)
	byRoot := document(verify.Evidence{Root: &merkle.Hash{1}, Receipts: append([]verify.Receipt{x.Receipt(x.at)}, x.All()...)})
	x.index.Lists[colleague]["execution"] = []uint64{10, 14}
	x.at = x.AddIndex(x.coordinator, x.index)
	file := encoded(t, x.history(colleague))
	withReceipts := document(verify.Evidence{History: []byte(file), Receipts: x.All()})
	second := jsverify.Start(t)
	for _, c := range []struct{ name, want string }{
		{byRoot, ""},
		{file, ""},
		{document(verify.Evidence{History: []byte(file), Receipts: []verify.Receipt{early}}), ""},
		{withReceipts, "step 14"},
		{strings.ReplaceAll(withReceipts, `"history":{`, `"history": { `), "step 14"},
		{document(verify.Evidence{History: []byte(sound), Receipts: []verify.Receipt{early}}), "step 14"},
		{file + "\n" + encoded(t, x.Receipt(12)), "step 14"},
		{document(verify.Evidence{History: []byte(file), Receipts: []verify.Receipt{early}, Consistency: []verify.Consistency{{Old: 19, New: 20, Path: x.Consistency(19, 20).Path}}}), "step 14"},
		{`{"evidence":"index","detail":"","history":"","root":"` + (merkle.Hash{}).String() + `","receipts":[` + encoded(t, early) + `]}`, "form"},
		{`{"evidence":"index","detail":"","history":null}`, "form"},
		{`{"evidence":"index","detail":"","root":"` + (merkle.Hash{}).String() + `","receipts":[` + encoded(t, early) + `]}`, "step 9"},
	} {
		want, got := judge(t, encoded(t, x.Root), [][]byte{[]byte(c.name)}), judged{}
		second.Ask(jsverify.Files{Root: []byte(encoded(t, x.Root)), Files: [][]byte{[]byte(c.name)}}, &got)
		plainly(&want)
		plainly(&got)
		if diff := cmp.Diff(want, got); diff != "" || want.Refused != c.want {
			t.Errorf("%.200s: %q, want %q; Go has -, JavaScript +:\n%s", c.name, want.Refused, c.want, diff)
		}
	}
}
