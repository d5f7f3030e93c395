package verify_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/python"
	"recoveryledger/verify"
)

// vectorQuestion is a question of arl conformance verifier.
type vectorQuestion struct {
	ID        string            `json:"id"`
	Group     string            `json:"group"`
	Root      json.RawMessage   `json:"root"`
	Evidence  []byte            `json:"evidence,omitempty"`
	History   []byte            `json:"history,omitempty"`
	Questions []verify.Question `json:"questions"`
}

// startPython starts the verifier of the package in api/python.
func startPython(t *testing.T) *jsverify.Judge {
	t.Helper()
	budget.Unraced(t, "one goroutine asks a program of another language")
	python.Setenv(t)
	return jsverify.StartProgram(t, python.Interpreter(t), "-m", "recoveryledger.verify.judge")
}

// TestPythonAgreesOnEvidenceChaos has the package in api/python judge random evidence of random
// logs, whose entries may be signed by anybody, and random changes of its bytes: both verifiers
// must say the same.
func TestPythonAgreesOnEvidenceChaos(t *testing.T) {
	second := startPython(t)
	count := budget.Budget{Short: 150, Usual: 200, Chaos: 20_000}.Now()
	random := rand.New(rand.NewPCG(budget.Seed(t), 0))
	x := newIndexed(t)
	verdicts := map[string]int{}
	var s *scene
	for i := 0; i < count && !t.Failed(); i++ {
		if i%20 == 0 {
			s = newScene(t, random)
		}
		v := s.evidenceVector(x)
		root, err := verify.ParseRoot(v.Root)
		if err != nil {
			wantFormat(t, err)
			continue
		}
		want := v.judged(t, root)
		var got struct {
			ID      string          `json:"id"`
			Refused string          `json:"refused"`
			Result  *evidenceReport `json:"result"`
		}
		second.Ask(vectorQuestion{ID: "evidence", Group: "evidence", Root: v.Root, Evidence: []byte(v.Evidence)}, &got)
		if diff := cmp.Diff(want.Want, got.Result); diff != "" || want.WantErr != got.Refused {
			t.Errorf("document %d: Go says %q, Python %q; Go has -, Python +:\n%s\nroot %s\n%s", i, want.WantErr, got.Refused, diff, v.Root, v.Evidence)
		}
		verdicts[want.WantErr]++
	}
	for _, verdict := range []string{"", "form", "fork", "step 1", "step 3"} {
		if verdicts[verdict] == 0 {
			t.Errorf("nothing has the verdict %q", verdict)
		}
	}
	t.Log(verdicts)
}

// evidenceVector is a random document, with its root and no verdict.
func (s *scene) evidenceVector(x *indexed) evidenceVector {
	root, _ := s.question()
	l := s.logs[s.which()]
	data := s.evidenceOf(s.which(), s.random.IntN(len(l.Leaves)+1))
	if s.rarely(3) {
		root, data = encoded(s, x.Root), s.indexEvidence(x)
	}
	if s.rarely(3) {
		must(s, (*jsontext.Value)(&data).Indent())
	}
	if s.rarely(4) {
		data = s.spoil(data)
	}
	return evidenceVector{Root: json.RawMessage(root), Evidence: string(data)}
}

// indexEvidence is evidence of a false index, true or not: a changed history, or another root.
func (s *scene) indexEvidence(x *indexed) []byte {
	e := verify.Evidence{Kind: verify.EvidenceIndex, Root: &merkle.Hash{1}, Subjects: 3, Receipts: []verify.Receipt{x.Receipt(x.at)}}
	if s.rarely(2) {
		e.Receipts = append(e.Receipts, x.All()...)
	}
	if history, err := changedHistory(x, s.random).Encode(); err == nil && !s.rarely(4) {
		e.Root, e.Subjects, e.History = nil, 0, history
		e.Receipts = []verify.Receipt{x.Receipt(s.random.Uint64N(x.at))}
	}
	if r := &e.Receipts[0]; s.rarely(6) {
		r.Proof = append(slices.Clone(r.Proof), merkle.Hash{})
	}
	s.random.Shuffle(len(e.Receipts), func(i, j int) { e.Receipts[i], e.Receipts[j] = e.Receipts[j], e.Receipts[i] })
	data, err := jsonv2.Marshal(e)
	must(s, err)
	return data
}

// TestPythonAgreesOnHistoriesChaos has the package judge histories with random changes, asked
// random questions: both verifiers must give the same answers.
func TestPythonAgreesOnHistoriesChaos(t *testing.T) {
	second := startPython(t)
	count := budget.Budget{Short: 150, Usual: 200, Chaos: 20_000}.Now()
	random := rand.New(rand.NewPCG(budget.Seed(t), 0))
	x := newIndexed(t)
	root := encoded(t, x.Root)
	verdicts := map[string]int{}
	for i := 0; i < count && !t.Failed(); i++ {
		file, err := changedHistory(x, random).Encode()
		if err != nil {
			wantFormat(t, err)
			continue
		}
		questions := randomQuestions(random)
		want := judge(t, root, [][]byte{file}, questions...)
		var got struct {
			ID      string `json:"id"`
			Refused string `json:"refused"`
			Result  struct {
				Answers []verify.Answer `json:"answers"`
				Missing []int           `json:"missing"`
			} `json:"result"`
		}
		second.Ask(vectorQuestion{ID: "history", Group: "history", Root: json.RawMessage(root), History: file, Questions: append([]verify.Question{}, questions...)}, &got)
		missing := []int{}
		for _, step := range want.Missing {
			missing = append(missing, step.Step)
		}
		slices.Sort(missing)
		missing = slices.Compact(missing)
		if want.Refused != "" {
			missing = nil
		}
		if diff := cmp.Diff(want.Answers, got.Result.Answers); diff != "" || want.Refused != got.Refused || !slices.Equal(missing, got.Result.Missing) {
			t.Errorf("history %d: Go says %q and lacks %v, Python %q and %v; Go has -, Python +:\n%s\nquestions %+v\n%s",
				i, want.Refused, missing, got.Refused, got.Result.Missing, diff, questions, file)
		}
		verdicts[want.Refused]++
	}
	last := 13 // the others are rare
	if budget.Large() {
		last = 15
	}
	for step := 9; step <= last; step++ {
		if verdict := fmt.Sprint("step ", step); verdicts[verdict] == 0 {
			t.Errorf("nothing has the verdict %q", verdict)
		}
	}
	t.Log(verdicts)
}
