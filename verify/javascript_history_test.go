package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/verify"
)

// TestJavaScriptAgreesOnHistoriesChaos has verify/js judge histories with random
// changes, asked random questions: both verifiers must say the same, step by step.
func TestJavaScriptAgreesOnHistoriesChaos(t *testing.T) {
	budget.Unraced(t, "one goroutine asks a program of another language")
	count := budget.Budget{Short: 250, Usual: 250, Chaos: 200_000}.Now()
	random := rand.New(rand.NewPCG(budget.Seed(t), 0))
	second := jsverify.Start(t)
	x := newIndexed(t)
	root := encoded(t, x.Root)
	verdicts := map[string]int{}
	for i := 0; i < count && !t.Failed(); i++ {
		h := changedHistory(x, random)
		file, err := h.Encode()
		if err != nil {
			wantFormat(t, err)
			continue
		}
		if random.IntN(4) == 0 {
			file = (&scene{T: t, random: random}).spoil(file)
		}
		questions := randomQuestions(random)
		want, got := judge(t, root, [][]byte{file}, questions...), judged{}
		second.Ask(jsverify.Files{Root: []byte(root), Files: [][]byte{file}, Questions: questions}, &got)
		plainly(&want)
		plainly(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history %d: Go has -, JavaScript +:\n%s\nquestions %+v\nfile %s", i, diff, questions, file)
		}
		verdicts[want.Refused]++
	}
	for step := 9; step <= 15; step++ {
		if verdict := fmt.Sprint("step ", step); verdicts[verdict] == 0 {
			t.Errorf("nothing has the verdict %q", verdict)
		}
	}
	t.Log(verdicts)
}

func somebody(random *rand.Rand) entry.Subject {
	return []entry.Subject{agentSubject, colleague, nobody, {Type: entry.SubjectLog}, {Type: entry.SubjectWorkflow, Value: "wf"}}[random.IntN(5)]
}

func randomQuestions(random *rand.Rand) (list []verify.Question) {
	for range random.IntN(3) {
		q := verify.Question{Subject: somebody(random), Size: uint64(random.IntN(22))}
		if random.IntN(2) == 0 {
			labels := entry.Labels(q.Type)
			q.Label = labels[random.IntN(len(labels))]
		}
		if random.IntN(3) == 0 {
			q.From = uint64(random.IntN(20))
		}
		list = append(list, q)
	}
	return list
}

// changedHistory returns a history of some subjects, with up to two parts changed.
func changedHistory(x *indexed, random *rand.Rand) *verify.History {
	subjects := []entry.Subject{somebody(random)}
	for range random.IntN(3) {
		if s := somebody(random); !slices.Contains(subjects, s) {
			subjects = append(subjects, s)
		}
	}
	h := x.history(subjects...)
	for range random.IntN(3) {
		changePart(x, h, random)
	}
	return h
}

func changePart(x *indexed, h *verify.History, random *rand.Rand) {
	s := &h.Subjects[random.IntN(len(h.Subjects))]
	switch random.IntN(9) {
	case 0:
		h.Size = uint64(1 + random.IntN(21))
	case 1:
		h.Index = h.Entries[random.IntN(len(h.Entries))].Index
	case 2: // an entry is left out, and the rest is proven
		i := random.IntN(len(h.Entries))
		if random.IntN(2) == 0 { // behind what the index covers
			i = len(h.Entries) - 1
		}
		h.Entries = slices.Delete(slices.Clone(h.Entries), i, i+1)
		var indexes []uint64
		for _, e := range h.Entries {
			indexes = append(indexes, e.Index)
		}
		h.Inclusion, _ = merkle.ProveInclusions(indexes, uint64(len(x.Leaves)), x.Node)
	case 3:
		s.Depth += random.IntN(3) - 1
	case 4:
		if len(h.Prefix) > 0 {
			h.Prefix[random.IntN(len(h.Prefix))][0] ^= 1
		}
	case 5:
		if len(s.Rows) > 0 {
			row := &s.Rows[random.IntN(len(s.Rows))]
			row.Count += uint64(random.IntN(2))
			row.Root[0] ^= byte(random.IntN(2))
		}
	case 6:
		if len(s.Lists) > 0 {
			i := random.IntN(len(s.Lists))
			s.Lists = slices.Delete(slices.Clone(s.Lists), i, i+1)
		}
	case 7:
		if len(s.Lists) > 0 {
			l := &s.Lists[random.IntN(len(s.Lists))]
			l.Indexes = slices.Clone(l.Indexes)
			l.Indexes[random.IntN(len(l.Indexes))] += uint64(random.IntN(2))
		}
	default:
		s.Rows, s.Lists = nil, nil
		if random.IntN(2) == 0 { // its own leaf as that of another
			s.Other = &merkle.PrefixLeaf{Key: merkle.SubjectKey(string(s.Type), s.Value)}
		}
	}
}
