package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/cases"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

const evidenceVectors = "../testdata/vectors/evidence"

// evidenceVector is an evidence document as a file has it, and what a pinned root makes of it.
type evidenceVector struct {
	Desc     string          `json:"desc"`
	Root     json.RawMessage `json:"root"`
	Evidence string          `json:"evidence"`
	WantErr  string          `json:"wantErr"` // fork and index convict the ledger; form, or the step that refuses
	Want     *evidenceReport `json:"want,omitempty"`
}

// evidenceReport is what is known of a document that is not refused and does not convict the
// ledger.
type evidenceReport struct {
	Equivocations []verify.Equivocation `json:"equivocations"`
	Missing       []verify.Step         `json:"missing"`
}

// judged completes a vector.
func (v evidenceVector) judged(tb testing.TB, root verify.Root) *evidenceVector {
	tb.Helper()
	v.WantErr, v.Want = "", nil
	var m verify.Material
	if err := m.Add("evidence", []byte(v.Evidence)); err != nil {
		wantFormat(tb, err)
		v.WantErr = "form"
		return &v
	}
	report, err := root.Verify(m)
	if _, ok := errors.AsType[*verify.ForkError](err); ok {
		v.WantErr = "fork"
	} else if _, ok := errors.AsType[*verify.IndexError](err); ok {
		v.WantErr = "index"
	} else if step, ok := errors.AsType[*verify.StepError](err); ok {
		v.WantErr = fmt.Sprintf("step %d", step.Step)
	} else if err != nil {
		wantFormat(tb, err)
		v.WantErr = "form"
	}
	if err != nil {
		return &v
	}
	v.Want = &evidenceReport{Equivocations: append([]verify.Equivocation{}, report.Equivocations...), Missing: []verify.Step{}}
	for _, gap := range report.Missing {
		v.Want.Missing = append(v.Want.Missing, gap.Step)
	}
	slices.Sort(v.Want.Missing)
	v.Want.Missing = slices.Compact(v.Want.Missing)
	return &v
}

// evidenceMaker collects documents of one log.
type evidenceMaker struct {
	tb      testing.TB
	root    verify.Root
	vectors map[string]*evidenceVector
}

// put adds a document as it is written.
func (m *evidenceMaker) put(name, desc string, e *verify.Evidence) {
	m.tb.Helper()
	text, err := jsonv2.Marshal(e)
	must(m.tb, err)
	m.text(name, desc, string(text))
}

// text adds a document that may be none.
func (m *evidenceMaker) text(name, desc, text string) {
	m.tb.Helper()
	pinned, err := jsonv2.Marshal(m.root)
	must(m.tb, err)
	m.vectors[name] = evidenceVector{Desc: desc, Root: pinned, Evidence: text}.judged(m.tb, m.root)
}

// generateEvidenceVectors makes all vectors by name, the same ones every time.
func generateEvidenceVectors(t *testing.T) map[string]*evidenceVector {
	t.Helper()
	m := &evidenceMaker{t, verify.Root{}, map[string]*evidenceVector{}}
	m.forks(t)
	m.equivocations(t)
	m.indexes(t)
	return m.vectors
}

// company15 is a log of 15 entries, the same one every time: a signature of Ed25519 is, and one of
// P-256 is not.
func company15(t *testing.T, colleague string) (*testlog.Log, cast) {
	t.Helper()
	l, c := newCompany(t)
	k := testlog.NewKey(t, entry.Principal(colleague), colleague)
	l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, k, entry.RoleAgent)))
	for range 3 {
		l.Add(c.agent.Sign(t, l.Execution(c.agent)))
		l.Add(k.Sign(t, l.Execution(k)))
	}
	return l, c
}

func (m *evidenceMaker) forks(t *testing.T) {
	t.Helper()
	l, _ := company15(t, "colleague")
	other, _ := company15(t, "rival")
	m.root = l.Root
	fork := func(older, newer string, root merkle.Hash, path []merkle.Hash) *verify.Evidence {
		e := forkEvidence("seen by two agents", older, newer)
		e.Root, e.Path = &root, path
		return e
	}
	began, path := other.Head(9).Root, other.Consistency(9, 15).Path
	m.put("fork-one-size", "two roots of one size", forkEvidence("two agents", l.Signed(15), other.Signed(15)))
	m.put("fork-two-sizes", "the newer tree began otherwise than the ledger signed", fork(l.Signed(9), other.Signed(15), began, path))
	m.put("heads-alone", "heads of two sizes, and nothing that tells whether they are of one log", forkEvidence("two agents", l.Signed(9), other.Signed(15)))
	m.put("heads-of-one-log", "the newer tree began as the ledger signed", fork(l.Signed(9), l.Signed(15), l.Head(9).Root, l.Consistency(9, 15).Path))
	m.put("fork-another-root", "the newer tree did not begin so", fork(l.Signed(9), other.Signed(15), merkle.Hash{1}, path))
	m.put("fork-another-path", "a path of another pair of sizes", fork(l.Signed(9), other.Signed(15), began, other.Consistency(8, 15).Path))
	m.put("fork-short-path", "a path without its last hash", fork(l.Signed(9), other.Signed(15), began, path[:len(path)-1]))
	m.put("fork-long-path", "a path with a hash more", fork(l.Signed(9), other.Signed(15), began, append(slices.Clone(path), merkle.Hash{1})))
	m.put("fork-turned-round", "the newer head stands in the place of the older", fork(other.Signed(15), l.Signed(9), began, path))
	m.put("fork-one-head", "one head, which contradicts nothing alone", &verify.Evidence{Kind: verify.EvidenceFork, Detail: "an audit", Newer: l.Signed(15)})
	m.put("fork-one-head-older", "one head, in the place of the older", &verify.Evidence{Kind: verify.EvidenceFork, Detail: "an audit", Older: l.Signed(15)})
	m.put("fork-same-head", "one head twice", forkEvidence("nobody", l.Signed(15), l.Signed(15)))
	forged := strings.Replace(l.Signed(15), "\n15\n", "\n14\n", 1)
	m.put("fork-forged-head", "a head that the ledger did not sign", forkEvidence("a liar", forged, other.Signed(15)))
	m.put("fork-of-nothing", "no head", &verify.Evidence{Kind: verify.EvidenceFork})
	m.put("fork-path-without-root", "a path, and no root that it begins with", &verify.Evidence{Kind: verify.EvidenceFork, Older: l.Signed(9), Newer: l.Signed(15), Path: path})
	m.put("another-kind", "a kind that there is not", &verify.Evidence{Kind: "rumour"})
	m.text("unknown-member", "a member that is not known", `{"evidence":"fork","detail":"","newer":"a","hearsay":1}`)
	m.text("twice", "a member that is there twice", `{"evidence":"fork","evidence":"fork","detail":"","newer":"a"}`)
	m.text("cut", "half a document", `{"evidence":"fork","detail":"","newer":"`)
	m.put("entry", "an entry that the rules forbid: the whole log shows that, and a document shows the entry",
		&verify.Evidence{Kind: verify.EvidenceEntry, Problem: entry.StateConflict, Receipts: l.All()[:9]})
	padded, err := jsonv2.Marshal(&verify.Evidence{Kind: verify.EvidenceEntry, Problem: entry.StateConflict, Receipts: l.All()[:9]})
	must(t, err)
	m.text("entry-padding-bits", "a leaf whose base64 has padding bits that are set", strings.Replace(string(padded), `Q=="`, `R=="`, 1))
	m.put("entry-without-receipt", "no receipt", &verify.Evidence{Kind: verify.EvidenceEntry, Problem: entry.StateConflict})
}

func (m *evidenceMaker) equivocations(t *testing.T) {
	t.Helper()
	l, c := company15(t, "colleague")
	said := l.Execution(c.agent)
	index := l.Add(c.agent.Sign(t, said))
	m.root = l.Root
	beside := func(by testlog.Key, change func(x *entry.Execution)) *verify.Evidence {
		x := *said
		change(&x)
		return &verify.Evidence{Kind: verify.EvidenceEquivocation, Receipts: append([]verify.Receipt{l.Receipt(index)}, l.All()...),
			Envelope: by.Sign(t, &x).AppendEnvelope(nil)}
	}
	otherwise := func(x *entry.Execution) { x.Exec = "otherwise" }
	m.put("equivocation", "an agent signed two objects under one id", beside(c.agent, otherwise))
	alone := beside(c.agent, otherwise)
	alone.Receipts = alone.Receipts[:1]
	m.put("equivocation-without-keys", "nothing shows whose the key is", alone)
	m.put("equivocation-of-a-stranger", "a key that nobody enrolled", beside(testlog.NewKey(t, "agent", "stranger"), otherwise))
	m.put("equivocation-of-another-key", "a key that is enrolled for another", beside(c.enroller, otherwise))
	m.put("equivocation-of-one-object", "both say the same", beside(c.agent, func(*entry.Execution) {}))
	m.put("equivocation-of-two-ids", "two ids", beside(c.agent, func(x *entry.Execution) { x.JTI = l.Execution(c.agent).JTI }))
	m.put("equivocation-of-two-issuers", "two issuers", beside(c.approver, func(x *entry.Execution) { x.Iss = "approver" }))
	forged := beside(c.agent, otherwise)
	e, err := entry.Decode(forged.Envelope)
	must(t, err)
	e.Seal(e.KeyID, make([]byte, 64))
	forged.Envelope = e.AppendEnvelope(nil)
	m.put("equivocation-forged", "the other signature is none", forged)
	m.put("equivocation-of-one", "no other object", &verify.Evidence{Kind: verify.EvidenceEquivocation, Receipts: []verify.Receipt{l.Receipt(index)}})
}

func (m *evidenceMaker) indexes(t *testing.T) {
	t.Helper()
	x := newIndexed(t)
	m.root = x.Root
	receipts := append([]verify.Receipt{x.Receipt(x.at)}, x.All()...)
	said := x.index.Entry(entry.Header{})
	m.put("index-by-root", "another root: that follows from the whole log", &verify.Evidence{Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}, Subjects: said.Subjects, Receipts: receipts})
	m.put("index-by-its-own-root", "the root is that of the index entry", &verify.Evidence{Kind: verify.EvidenceIndex, Root: &said.Root, Subjects: said.Subjects, Receipts: receipts})
	m.put("index-of-another-kind", "the first receipt is that of no index entry", &verify.Evidence{Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}, Receipts: []verify.Receipt{x.Receipt(9)}})
	m.put("index-root-alone", "no receipt", &verify.Evidence{Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}})
	honest, err := x.history(colleague).Encode()
	must(t, err)
	m.put("index-true", "a true index, which the entry does not contradict", &verify.Evidence{Kind: verify.EvidenceIndex, History: honest, Receipts: []verify.Receipt{x.Receipt(15)}})
	m.put("index-history-in-words", "a history that is a text", &verify.Evidence{Kind: verify.EvidenceIndex, History: []byte(`"none"`)})
	for name, damage := range map[string]func(map[entry.Label][]uint64){
		"hides": func(l map[entry.Label][]uint64) { l["execution"] = []uint64{10, 14} },
		"lists": func(l map[entry.Label][]uint64) { l["execution"] = []uint64{10, 11, 12, 14} },
	} {
		x := newIndexed(t)
		m.root = x.Root
		damage(x.index.Lists[colleague])
		x.at = x.AddIndex(x.coordinator, x.index)
		_, err := x.Root.Verify(verify.Material{Histories: []*verify.History{x.history(colleague)}, Receipts: []verify.Receipt{x.Receipt(11), x.Receipt(12)}})
		found, ok := errors.AsType[*verify.IndexError](err)
		if !ok {
			t.Fatalf("%s: %v", name, err)
		}
		m.put("index-"+name, "the list "+name+" an entry, against the content of the entry", found.Evidence())
	}
}

// TestEvidenceVectorFiles compares the files with what is generated; with -update it writes them.
func TestEvidenceVectorFiles(t *testing.T) {
	generated := generateEvidenceVectors(t)
	cases.Files(t, evidenceVectors, generated, *update)
	verdicts := map[string]int{}
	for _, v := range generated {
		verdicts[v.WantErr]++
	}
	for _, verdict := range []string{"", "fork", "form", "index", "step 1", "step 2", "step 3", "step 7", "step 8", "step 9", "step 14"} {
		if verdicts[verdict] == 0 {
			t.Errorf("no vector has the verdict %q: %v", verdict, verdicts)
		}
	}
	t.Logf("%d vectors: %v", len(generated), verdicts)
}

// TestEvidenceVectors checks the files, as any implementation can.
func TestEvidenceVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(evidenceVectors, "*.json"))
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		var v evidenceVector
		must(t, json.Unmarshal(data, &v))
		root, err := verify.ParseRoot(v.Root)
		must(t, err)
		if again := v.judged(t, root); again.WantErr != v.WantErr || !reflect.DeepEqual(again.Want, v.Want) {
			t.Errorf("%s: %q %+v, want %q %+v", file, again.WantErr, again.Want, v.WantErr, v.Want)
		}
	}
	if len(files) < 30 {
		t.Errorf("%d files", len(files))
	}
}
