package verify_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// indexed is a log with an index over 16 entries: a company of nine, executions of
// agent at 9, 11 and 13 and of colleague at 10, 12 and 14, and the revocation of
// colleague at 15. The index entry is at 16; agent goes on at 17, and reports at 18.
type indexed struct {
	*testlog.Log
	cast
	index *testlog.Index
	at    uint64
}

var (
	agentSubject = entry.Subject{Type: entry.SubjectAgent, Value: "agent"}
	colleague    = entry.Subject{Type: entry.SubjectAgent, Value: "colleague"}
	nobody       = entry.Subject{Type: entry.SubjectAgent, Value: "nobody"}
)

const revoked entry.Label = "agent/revoke<"

func newIndexed(tb testing.TB) *indexed {
	tb.Helper()
	l, c := newCompany(tb)
	k := testlog.NewKey(tb, "colleague", "colleague")
	l.Add(c.enroller.Sign(tb, l.Agent(c.enroller, entry.Enrol, k, entry.RoleAgent)))
	for range 3 {
		l.Add(c.agent.Sign(tb, l.Execution(c.agent)))
		l.Add(k.Sign(tb, l.Execution(k)))
	}
	l.Add(c.enroller.Sign(tb, l.Agent(c.enroller, entry.Revoke, k, entry.RoleAgent)))
	x := l.Index(len(l.Leaves))
	at := l.AddIndex(c.coordinator, x)
	l.Add(c.agent.Sign(tb, l.Execution(c.agent)))
	l.Add(c.agent.Sign(tb, l.Execution(c.agent)))
	return &indexed{l, c, x, at}
}

func (x *indexed) history(subjects ...entry.Subject) *verify.History {
	return x.History(x.index, x.at, subjects...)
}

func (x *indexed) verify(h *verify.History, questions ...verify.Question) (verify.Report, error) {
	return x.Root.Verify(verify.Material{Histories: []*verify.History{h}, Questions: questions})
}

// TestHistory asks for present and absent labels of subjects that are there and of one
// that is not.
func TestHistory(t *testing.T) {
	x := newIndexed(t)
	h := x.history(agentSubject, colleague, nobody)
	questions := []verify.Question{
		{Subject: agentSubject, Label: "execution", Size: 19},
		{Subject: agentSubject, Label: revoked},
		{Subject: agentSubject, Label: "execution", Size: 13},
		{Subject: agentSubject, Label: "execution", From: 10, Size: 18},
		{Subject: colleague},
		{Subject: colleague, Label: revoked, Size: 15},
		{Subject: nobody},
	}
	report, err := x.verify(h, questions...)
	must(t, err)
	var got []string
	for i := range report.Answers {
		a := &report.Answers[i]
		got = append(got, fmt.Sprintf("%s: %v, %d behind", a, a.Entries, a.Tail))
	}
	want := []string{
		"complete: 5 entries: execution of agent:agent, in the first 19 entries of the log: [9 11 13 17 18], 2 behind",
		"none: no agent/revoke< of agent:agent, in the first 19 entries of the log: [], 0 behind",
		"complete: 2 entries: execution of agent:agent, in the first 13 entries of the log: [9 11], 0 behind",
		"complete: 3 entries: execution of agent:agent, in entries 10 to 17 of the log: [11 13 17], 1 behind",
		"complete: 5 entries: entries of agent:colleague, in the first 19 entries of the log: [8 10 12 14 15], 0 behind",
		"none: no agent/revoke< of agent:colleague, in the first 15 entries of the log: [], 0 behind",
		"none: no entries of agent:nobody, in the first 19 entries of the log: [], 0 behind",
	}
	if !slices.Equal(got, want) {
		t.Errorf("answers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := counts(report), "head 1, leaf 19, inclusion 19, order 19, audience 19, signer 19, signature 19, index 1, record 3, prefix 3, list 5, reach 7, content 12, tail 3"; got != want {
		t.Errorf("checked %s, want %s", got, want)
	}
	if len(report.Missing) > 0 {
		t.Errorf("missing %q", report.Missing)
	}
	data, err := h.Encode()
	must(t, err)
	var m verify.Material
	must(t, m.Add("history.json", data))
	report, err = x.Root.Verify(m) // nobody asks
	must(t, err)
	if len(report.Answers) != 3 || report.Answers[0].Label != "" || !strings.Contains(strings.Join(report.NotChecked, "\n"), "nobody asked") {
		t.Errorf("answers %v, not checked %q", report.Answers, report.NotChecked)
	}
}

// historyAttack is something that a ledger may do that hides an entry, or shows one that
// is none, by a file of its own making. The error names the step, and has the text.
type historyAttack struct {
	name   string
	change func(x *indexed, h *verify.History)
	step   verify.Step
	text   string
}

// wholeLog asks whether colleague was revoked.
var wholeLog = verify.Question{Subject: colleague, Label: revoked, Size: 19}

func historyAttacks() []historyAttack {
	return []historyAttack{
		{"stale: it ends before what it hides", func(_ *indexed, h *verify.History) { h.Size = 15 }, verify.StepReach, "the history ends at 15"},
		{"stale: the index is older than what it hides", func(x *indexed, h *verify.History) {
			older := x.Index(15)
			at := x.AddIndex(x.coordinator, older)
			*h = *x.History(older, at, colleague)
			x.drop(h, 15)
		}, verify.StepTail, "entry 15 is left out"},
		{"tail short", func(x *indexed, h *verify.History) { x.drop(h, 18) }, verify.StepTail, "entry 18 is left out: the index covers 16 entries, and all from there to 18 are needed"},
		{"the tail is given, and its first entry is not", func(x *indexed, h *verify.History) { x.drop(h, 17) }, verify.StepTail, "entry 17"},
		{"a size above the head", func(_ *indexed, h *verify.History) { h.Size = 20 }, verify.StepReach, "its head has 19"},
		{"another subject", func(x *indexed, h *verify.History) { *h = *x.history(agentSubject) }, verify.StepReach, "no history is given"},
		{"rows hidden", func(_ *indexed, h *verify.History) { h.Subjects[0].Rows, h.Subjects[0].Lists = nil, nil }, verify.StepPrefix, "leads to root"},
		{"one row hidden", func(_ *indexed, h *verify.History) {
			s := &h.Subjects[0]
			s.Rows, s.Lists = s.Rows[:1], s.Lists[:1]
		}, verify.StepPrefix, ""},
		{"said to be absent in its own place", func(_ *indexed, h *verify.History) {
			s := &h.Subjects[0]
			record, _ := merkle.HashRecord(s.Rows)
			s.Rows, s.Lists, s.Other = nil, nil, &merkle.PrefixLeaf{Key: merkle.SubjectKey("agent", "colleague"), Record: record}
		}, verify.StepRecord, "its own leaf"},
		{"another leaf in its place", func(x *indexed, h *verify.History) {
			s, other := &h.Subjects[0], x.index.Prove(agentSubject).Subjects[0]
			record, _ := merkle.HashRecord(other.Rows)
			s.Rows, s.Lists, s.Other = nil, nil, &merkle.PrefixLeaf{Key: merkle.SubjectKey("agent", "agent"), Record: record}
		}, verify.StepPrefix, ""},
		{"rows in disorder", func(_ *indexed, h *verify.History) {
			slices.Reverse(h.Subjects[0].Rows)
			h.Subjects[0].Lists = nil
		}, verify.StepRecord, "is not above"},
		{"other list", func(_ *indexed, h *verify.History) {
			l := h.Subjects[0].Lists
			l[0].Indexes, l[0].Path = l[1].Indexes[:1], l[1].Path
		}, verify.StepList, ""},
		{"list not shown", func(_ *indexed, h *verify.History) { h.Subjects[0].Lists = h.Subjects[0].Lists[:1] }, verify.StepReach, "the index has 1 entry with label agent/revoke<, and shows none of them"},
		{"another index in the list", func(_ *indexed, h *verify.History) { h.Subjects[0].Lists[1].Indexes = []uint64{14} }, verify.StepList, ""},
		{"an index of the list beyond the index", func(_ *indexed, h *verify.History) { h.Subjects[0].Lists[1].Indexes = []uint64{16} }, verify.StepList, "covers 16 entries"},
		{"wrong order", func(_ *indexed, h *verify.History) { slices.Reverse(h.Subjects[0].Lists[2].Indexes) }, verify.StepList, "not above"},
		{"leftover hash in the prefix", func(_ *indexed, h *verify.History) { h.Prefix = append(h.Prefix, verify.Sibling{}) }, verify.StepPrefix, "left over"},
		{"a hash of the prefix is missing", func(_ *indexed, h *verify.History) { h.Prefix = h.Prefix[1:] }, verify.StepPrefix, "missing"},
		{"leftover hash in a list", func(_ *indexed, h *verify.History) {
			h.Subjects[0].Lists[1].Path = append(h.Subjects[0].Lists[1].Path, merkle.Hash{})
		}, verify.StepList, ""},
		{"leftover hash in the inclusion", func(_ *indexed, h *verify.History) { h.Inclusion = append(h.Inclusion, merkle.Hash{}) }, verify.StepInclusion, ""},
		{"left out", func(x *indexed, h *verify.History) { x.drop(h, 15) }, verify.StepContent, "entry 15, which its list has, is left out"},
		{"an entry for another", func(_ *indexed, h *verify.History) { h.Entries[15].Bytes = h.Entries[14].Bytes }, verify.StepInclusion, ""},
		{"the index entry is left out", func(x *indexed, h *verify.History) { x.drop(h, x.at) }, verify.StepIndex, "left out"},
		{"the index entry is another", func(_ *indexed, h *verify.History) { h.Index = 17 }, verify.StepIndex, "of kind execution"},
		{"foreign entry, by a false index", func(x *indexed, h *verify.History) {
			x.index.Lists[colleague][revoked] = []uint64{13, 15}
			*h = *x.History(x.index, x.AddIndex(x.coordinator, x.index), colleague)
		}, verify.StepContent, "entry 13, which its list has, is not one by its own content"},
		{"an index that covers itself", func(x *indexed, h *verify.History) {
			x.index.Size = 30
			*h = *x.History(x.index, x.AddIndex(x.coordinator, x.index), colleague)
		}, verify.StepIndex, "it covers 30 entries"},
		{"an index by one who is no coordinator", func(x *indexed, h *verify.History) {
			*h = *x.History(x.index, x.AddIndex(x.operator, x.index), colleague)
		}, verify.StepSigner, "operator may not sign"},
		{"an old root", func(x *indexed, h *verify.History) {
			at := x.AddIndex(x.coordinator, x.Index(14))
			*h = *x.History(x.index, at, colleague)
		}, verify.StepPrefix, "leads to root"},
	}
}

// TestHistoryAttacks has a ledger try each attack.
func TestHistoryAttacks(t *testing.T) {
	for _, attack := range historyAttacks() {
		t.Run(attack.name, func(t *testing.T) {
			x := newIndexed(t)
			h := x.history(colleague)
			attack.change(x, h)
			_, err := x.verify(h, wholeLog)
			wantStep(t, err, attack.step)
			if !strings.Contains(err.Error(), attack.text) {
				t.Errorf("error %v, want %q", err, attack.text)
			}
		})
	}
}

// drop leaves an entry out, and proves the others.
func (x *indexed) drop(h *verify.History, index uint64) {
	var left []uint64
	for _, l := range h.Entries {
		if l.Index != index {
			left = append(left, l.Index)
		}
	}
	h.Entries, h.Inclusion = x.Prove(len(x.Leaves), left...)
}

// TestHistoryMissing: what the file does not bring is named, and not passed over.
func TestHistoryMissing(t *testing.T) {
	x := newIndexed(t)
	h := x.history(colleague)
	x.drop(h, 2) // the coordinator is enrolled there
	report, err := x.verify(h, verify.Question{Subject: colleague, Label: revoked})
	must(t, err)
	if gaps := fmt.Sprint(report.Missing); !strings.Contains(gaps, "the index entry at 16 is by a coordinator") {
		t.Errorf("missing %s", gaps)
	}
	root := x.Root
	root.Witnesses = testlog.WitnessPolicy()
	m := verify.Material{Histories: []*verify.History{x.history(colleague)}, Questions: []verify.Question{{Subject: colleague, Label: revoked}}}
	report, err = root.Verify(m)
	must(t, err)
	if gaps := fmt.Sprint(report.Missing); !strings.Contains(gaps, "has cosigned the tree head of size 19") {
		t.Errorf("missing %s", gaps)
	}
	m.Histories = nil
	_, err = root.Verify(beside(m, x.Signed(19)))
	wantStep(t, err, verify.StepReach)
}

// TestHistoryIsWhole by itself: a receipt fills no gap of it, and a second history of the
// same subjects changes no answer.
func TestHistoryIsWhole(t *testing.T) {
	x := newIndexed(t)
	operator := entry.Subject{Type: entry.SubjectAgent, Value: "operator"} // of one row
	report, err := x.verify(x.history(operator), verify.Question{Subject: operator})
	must(t, err)
	if got := fmt.Sprint(report.Answers[0].Entries); got != "[3]" || !slices.ContainsFunc(report.NotChecked,
		func(text string) bool { return strings.HasSuffix(text, "beyond what the histories answer") }) {
		t.Errorf("operator: %s, not checked %q", got, report.NotChecked)
	}
	ask := []verify.Question{{Subject: colleague, Label: revoked, Size: 19}}
	h := x.history(colleague)
	x.drop(h, 15)
	_, err = x.Root.Verify(verify.Material{Histories: []*verify.History{h}, Receipts: []verify.Receipt{x.Receipt(15)}, Questions: ask})
	if wantStep(t, err, verify.StepContent); !strings.Contains(err.Error(), "entry 15, which its list has, is left out") {
		t.Error(err)
	}
	x.index.Lists[colleague]["execution"] = []uint64{8, 10, 12, 14} // 8 enrols
	shown := x.index.Prove(colleague)
	of, err := shown.Check(x.index.Entry(entry.Header{}))
	must(t, err)
	_, err = of.Answer(verify.Question{Subject: colleague, Size: 16}, func(index uint64) *entry.Entry {
		e, _, err := entry.DecodeLeaf(x.Leaves[index])
		must(t, err)
		return e
	})
	if wantStep(t, err, verify.StepReach); !strings.Contains(err.Error(), "entry 8 has two labels, and an entry has one under a subject: the index is false") {
		t.Error(err)
	}
	x = newIndexed(t)
	once, twice := []*verify.History{x.history(colleague)}, []*verify.History{x.history(colleague), x.history(agentSubject, colleague)}
	for want, histories := range map[string][]*verify.History{
		"index 1, record 1, prefix 1, list 3, reach 1, content 1, tail 3": once,
		"index 2, record 3, prefix 3, list 8, reach 1, content 1, tail 3": twice,
	} {
		report, err := x.Root.Verify(verify.Material{Histories: histories, Questions: ask})
		must(t, err)
		if got := counts(report); len(report.Answers) != 1 || !strings.HasSuffix(got, want) {
			t.Errorf("answers %v, checked %s", report.Answers, got)
		}
	}
}

// TestHistoryPages shows the executions of an agent in pages of one rank each, in any
// order: each is complete for what lies between, and for no more.
func TestHistoryPages(t *testing.T) {
	x := newIndexed(t)
	page := func(from, n uint64) *verify.History {
		h := x.history(agentSubject)
		s := &h.Subjects[0]
		at := slices.IndexFunc(s.Lists, func(l verify.ListRun) bool { return l.Label == "execution" })
		s.Lists[at] = x.index.Run(agentSubject, "execution", from, n)
		return h
	}
	ask := func(from, size uint64) verify.Question {
		return verify.Question{Subject: agentSubject, Label: "execution", From: from, Size: size}
	}
	for _, c := range []struct {
		rank, n uint64
		ask     verify.Question
		want    string // entries, or why not
		reach   string // what is answered where nobody asks: index from, size, entries
	}{
		{0, 1, ask(0, 10), "[9]", "0 10 [7 9]"},
		{0, 1, ask(0, 11), "ends with rank 0 of 3, entry 9: what is behind, below entry 11, is not shown", "0 10 [7 9]"}, // entry 10 may be one
		{1, 1, ask(11, 12), "[11]", "11 12 [11]"},
		{1, 1, ask(10, 12), "begins with rank 1, entry 11: what is before, from entry 10 on, is not shown", "11 12 [11]"},
		{1, 2, ask(11, 19), "[11 13 17 18]", "11 19 [11 13 17 18]"},
		{2, 1, ask(13, 19), "[13 17 18]", "13 19 [13 17 18]"}, // the newest
		{2, 1, ask(12, 19), "begins with rank 2, entry 13: what is before, from entry 12 on, is not shown", "13 19 [13 17 18]"},
		{2, 1, ask(14, 19), "[17 18]", "13 19 [13 17 18]"},
		{0, 3, ask(0, 17), "[9 11 13]", "0 19 [7 9 11 13 17 18]"},
	} {
		report, err := x.verify(page(c.rank, c.n), c.ask)
		var got string
		if step, ok := errors.AsType[*verify.StepError](err); ok {
			got = strings.TrimPrefix(step.Error(), "verify: step 13 reach: execution of agent:agent: the list of execution ")
		} else {
			must(t, err)
			got = fmt.Sprint(report.Answers[0].Entries)
		}
		if got != c.want {
			t.Errorf("ranks %d to %d, asked %+v: %s, want %s", c.rank, c.rank+c.n, c.ask, got, c.want)
		}
		report, err = x.verify(page(c.rank, c.n)) // as far as it reaches
		must(t, err)
		if a := report.Answers[0]; a.Label != "" || len(report.Answers) > 1 || fmt.Sprint(a.From, a.Size, a.Entries) != c.reach {
			t.Errorf("ranks %d to %d: answers %v, want %s", c.rank, c.rank+c.n, report.Answers, c.reach)
		}
	}
}

// TestHistoryBehindItsSize: a part of a list that lies behind what the history is about
// answers nothing, with or without the other list.
func TestHistoryBehindItsSize(t *testing.T) {
	x := newIndexed(t)
	part := x.index.Run(agentSubject, "execution", 1, 1)
	for size, want := range map[uint64][2]string{10: {"", "[7]"}, 11: {"", "[7]"}, 12: {"[11]", "[11]"}} {
		for i, lists := range [][]verify.ListRun{{part}, {x.index.Run(agentSubject, "agent/enrol<", 0, 1), part}} {
			h := x.history(agentSubject)
			h.Subjects[0].Lists, h.Size = lists, size
			report, err := x.verify(h)
			must(t, err)
			got := ""
			for _, a := range report.Answers {
				got += fmt.Sprint(a.Entries)
			}
			if got != want[i] {
				t.Errorf("size %d, %d lists: answers %v, want %s", size, len(lists), report.Answers, want[i])
			}
		}
	}
}

// TestHistoryOfPartsThatDoNotMeet: where one list begins behind the end of another, each
// is answered by itself.
func TestHistoryOfPartsThatDoNotMeet(t *testing.T) {
	l, c := newCompany(t)
	first, second := testlog.NewKey(t, "colleague", "first"), testlog.NewKey(t, "colleague", "second")
	for _, k := range []testlog.Key{first, second} { // enrolments at 8 and 10, executions at 9 and 11
		l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, k, entry.RoleAgent)))
		l.Add(k.Sign(t, l.Execution(k)))
	}
	x := l.Index(12)
	h := l.History(x, l.AddIndex(c.coordinator, x), colleague)
	h.Subjects[0].Lists = []verify.ListRun{x.Run(colleague, "agent/enrol<", 1, 1), x.Run(colleague, "execution", 0, 1)}
	report, err := l.Root.Verify(verify.Material{Histories: []*verify.History{h}})
	must(t, err)
	var got []string
	for _, a := range report.Answers {
		got = append(got, a.String())
	}
	want := []string{"complete: 1 entry: agent/enrol< of agent:colleague, in entries 10 to 12 of the log", "complete: 1 entry: execution of agent:colleague, in the first 10 entries of the log"}
	if !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}

// TestHistoryAnySize compares with the definition: every subject and label, for every
// size of the log, by every index. Seeds are fixed.
func TestHistoryAnySize(t *testing.T) {
	budget.Unraced(t, "one goroutine checks histories")
	l, c := newCompany(t)
	rng := rand.New(rand.NewPCG(20, 1))
	var at []uint64
	var indexes []*testlog.Index
	for range 25 {
		switch rng.IntN(4) {
		case 0:
			x := l.Index(rng.IntN(len(l.Leaves)) + 1)
			at, indexes = append(at, l.AddIndex(c.coordinator, x)), append(indexes, x)
		case 1:
			k := testlog.NewKey(t, "newcomer", fmt.Sprint("newcomer ", len(l.Leaves)))
			l.Add(c.enroller.Sign(t, l.Agent(c.enroller, entry.Enrol, k, entry.RoleAgent)))
		default:
			l.Add(c.agent.Sign(t, l.Execution(c.agent)))
		}
	}
	subjects := []entry.Subject{agentSubject, {Type: entry.SubjectAgent, Value: "newcomer"}, nobody, {Type: entry.SubjectLog}, {Type: entry.SubjectWorkflow, Value: "workflow"}}
	for i, x := range indexes {
		h := l.History(x, at[i], subjects...)
		var ask []verify.Question
		for size := uint64(1); size <= uint64(len(l.Leaves)); size += 3 {
			for _, s := range subjects {
				for _, label := range append(entry.Labels(s.Type), "") {
					ask = append(ask, verify.Question{Subject: s, Label: label, From: uint64(rng.Int64N(int64(size))), Size: size})
				}
			}
		}
		report, err := l.Root.Verify(verify.Material{Histories: []*verify.History{h}, Questions: ask})
		must(t, err)
		for i, a := range report.Answers {
			var want []uint64
			for index := ask[i].From; index < ask[i].Size; index++ {
				e, _, err := entry.DecodeLeaf(l.Leaves[index])
				must(t, err)
				for _, listing := range e.Subjects(index) {
					if listing.Subject == ask[i].Subject && (ask[i].Label == "" || listing.Label == ask[i].Label) {
						want = append(want, index)
					}
				}
			}
			if !slices.Equal(a.Entries, want) {
				t.Fatalf("%s: %v, want %v", &a, a.Entries, want)
			}
		}
	}
}

// TestHistoryForm: what is not a history in its one form is none.
func TestHistoryForm(t *testing.T) {
	x := newIndexed(t)
	for want, change := range map[string]func(h *verify.History){
		"no subject":             func(h *verify.History) { h.Subjects = nil },
		"size 0":                 func(h *verify.History) { h.Size = 0 },
		"is out of order":        func(h *verify.History) { slices.Reverse(h.Subjects) },
		"no subject that":        func(h *verify.History) { h.Subjects[0].Type = "person" },
		"depth 257":              func(h *verify.History) { h.Subjects[0].Depth = 257 },
		"and another leaf":       func(h *verify.History) { h.Subjects[0].Other = &merkle.PrefixLeaf{} },
		"does not ascend":        func(h *verify.History) { slices.Reverse(h.Subjects[0].Lists) },
		"has no row":             func(h *verify.History) { h.Subjects[0].Lists[0].Label = "a" },
		"no index of label":      func(h *verify.History) { h.Subjects[0].Lists[0].Indexes = nil },
		"but there are":          func(h *verify.History) { h.Subjects[0].Lists[0].From = 1 << 40 },
		"a proof of 131 hashes":  func(h *verify.History) { h.Subjects[0].Lists[0].Path = make([]merkle.Hash, 131) },
		"prefix: 1000 hashes":    func(h *verify.History) { h.Prefix = make([]verify.Sibling, 1000) },
		"inclusion: hashes 9000": func(h *verify.History) { h.Inclusion = make([]merkle.Hash, 9000) },
		"entries[1]: index":      func(h *verify.History) { h.Entries[1].Index = 0 },
		"leaf of 0 bytes":        func(h *verify.History) { h.Entries[0].Bytes = nil },
		"a tree head of 0 bytes": func(h *verify.History) { h.Head = "" },
	} {
		h := x.history(agentSubject, colleague)
		change(h)
		if _, err := h.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	data, err := x.history(nobody).Encode()
	must(t, err)
	text := string(data)
	for _, bad := range []string{
		strings.Replace(text, `"size"`, `"sise"`, 1), strings.Replace(text, `{`, `{ `, 1), text + " ", text[:len(text)-1],
		strings.Replace(text, `"prefix":[`, `"prefix":["`+merkle.Hash{}.String()+`",`, 1),
	} {
		if _, err := verify.DecodeHistory([]byte(bad)); err == nil {
			t.Errorf("accepted: %.80s", bad)
		}
	}
}

// FuzzHistory: what is read is written again alike, and verifying it is no trouble.
func FuzzHistory(f *testing.F) {
	x := newIndexed(f)
	for _, h := range []*verify.History{x.history(colleague), x.history(agentSubject, colleague, nobody)} {
		data, err := h.Encode()
		must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := verify.DecodeHistory(data)
		if err != nil {
			if _, ok := errors.AsType[*verify.FormatError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		again, err := h.Encode()
		if err != nil || string(again) != string(data) {
			t.Fatalf("another form: %v", err)
		}
		report, err := x.verify(h, verify.Question{Subject: colleague, Label: revoked, Size: 19})
		if err == nil && (len(report.Answers) != 1 || !slices.Equal(report.Answers[0].Entries, []uint64{15})) {
			t.Fatalf("answers %v", report.Answers)
		}
	})
}
