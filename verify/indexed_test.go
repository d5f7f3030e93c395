package verify_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// TestIndexedForm tries each rule of the form at its limit and past it; colleague has
// the rows agent/enrol<, agent/revoke< and, of three entries, execution.
func TestIndexedForm(t *testing.T) {
	x := newIndexed(t)
	labels := len(entry.Labels(entry.SubjectAgent))
	rows := func(s *verify.SubjectProof, n int) { s.Rows, s.Lists = make([]merkle.Row, n), nil }
	executions := func(s *verify.SubjectProof, from uint64, indexes ...uint64) {
		s.Lists = s.Lists[2:]
		s.Lists[0].From, s.Lists[0].Indexes = from, indexes
	}
	for _, c := range []struct {
		want   string // nothing: it has the form
		change func(x *verify.Indexed, s *verify.SubjectProof)
	}{
		{"", func(*verify.Indexed, *verify.SubjectProof) {}},
		{"", func(x *verify.Indexed, _ *verify.SubjectProof) { x.Prefix = make([]verify.Sibling, 512) }},
		{"index: prefix: 513 hashes for 1 subjects", func(x *verify.Indexed, _ *verify.SubjectProof) { x.Prefix = make([]verify.Sibling, 513) }},
		{"index: subjects[1]: agent:colleague is out of order: subjects ascend by their keys",
			func(x *verify.Indexed, _ *verify.SubjectProof) { x.Subjects = append(x.Subjects, x.Subjects[0]) }},
		{"no subject that the protocol knows", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Value = "" }},
		{"depth -1, want 0 to 256", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Depth = -1 }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Depth = 0 }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Depth = 256 }},
		{"depth 257, want 0 to 256", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Depth = 257 }},
		{"it has rows, and another leaf in its place", func(_ *verify.Indexed, s *verify.SubjectProof) { rows(s, 1); s.Other = &merkle.PrefixLeaf{} }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { rows(s, 0); s.Other = &merkle.PrefixLeaf{} }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { rows(s, labels) }},
		{fmt.Sprintf("%d rows, and %d labels that such a subject may have", labels+1, labels), func(_ *verify.Indexed, s *verify.SubjectProof) { rows(s, labels+1) }},
		{`lists[1]: label "agent/revoke<" does not ascend`, func(_ *verify.Indexed, s *verify.SubjectProof) { s.Lists[0] = s.Lists[1] }},
		{`lists[1]: label "agent/enrol<" does not ascend`, func(_ *verify.Indexed, s *verify.SubjectProof) { slices.Reverse(s.Lists[:2]) }},
		{`lists[2]: label "execution" has no row`, func(_ *verify.Indexed, s *verify.SubjectProof) { s.Rows = s.Rows[:2] }},
		{`lists[1]: no index of label "agent/revoke<": a list that is not shown is left out`, func(_ *verify.Indexed, s *verify.SubjectProof) { s.Lists[1].Indexes = nil }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 2, 14) }},
		{`lists[0]: 1 of label "execution" from rank 3, but there are 3`, func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 3, 14) }},
		{`lists[0]: 1 of label "execution" from rank 4, but there are 3`, func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 4, 14) }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 1, 12, 14) }},
		{`lists[0]: 2 of label "execution" from rank 2, but there are 3`, func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 2, 12, 14) }},
		{`lists[0]: 4 of label "execution" from rank 0, but there are 3`, func(_ *verify.Indexed, s *verify.SubjectProof) { executions(s, 0, 10, 12, 14, 15) }},
		{"", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Lists[2].Path = make([]merkle.Hash, 130) }},
		{"lists[2]: a proof of 131 hashes, the limit is 130", func(_ *verify.Indexed, s *verify.SubjectProof) { s.Lists[2].Path = make([]merkle.Hash, 131) }},
	} {
		shown := x.history(colleague).Indexed
		c.change(&shown, &shown.Subjects[0])
		err := shown.CheckForm("index")
		if c.want == "" {
			must(t, err)
			continue
		}
		want := "verify: index: subjects[0], " + shown.Subjects[0].Name() + ": " + c.want
		if strings.HasPrefix(c.want, "index: ") {
			want = "verify: " + c.want
		}
		wantText(t, err, want)
		_, err = shown.Check(new(entry.LogIndex))
		wantText(t, err, want)
	}
	many := new(verify.Indexed)
	for i := range verify.MaxSubjects + 1 {
		many.Subjects = append(many.Subjects, verify.SubjectProof{Subject: entry.Subject{Type: entry.SubjectAgent, Value: strconv.Itoa(i)}})
	}
	wantText(t, many.CheckForm("index"), "verify: index: 1025 subjects, the limit is 1024")
	many.Subjects = many.Subjects[:verify.MaxSubjects]
	slices.SortFunc(many.Subjects, func(a, b verify.SubjectProof) int {
		i, j := merkle.SubjectKey(string(a.Type), a.Value), merkle.SubjectKey(string(b.Type), b.Value)
		return bytes.Compare(i[:], j[:])
	})
	must(t, many.CheckForm("index"))
}

// TestSiblingText is that of a hash, or empty: nothing of what stood there before is left.
func TestSiblingText(t *testing.T) {
	for text, want := range map[string]verify.Sibling{"": {}, merkle.Hash{7}.String(): {7}} {
		got := verify.Sibling{1, 2, 3}
		must(t, got.UnmarshalText([]byte(text)))
		again, err := got.MarshalText()
		must(t, err)
		if got != want || string(again) != text {
			t.Errorf("%q is read as %v, and written as %q", text, got, again)
		}
	}
	if err := new(verify.Sibling).UnmarshalText([]byte("hello")); err == nil {
		t.Error("accepted: hello")
	}
}

// TestHistoryLimits tries each limit of a history at it and one past it, where it is
// written and where it is read.
func TestHistoryLimits(t *testing.T) {
	x := newIndexed(t)
	small := x.history(nobody)
	small.Entries, small.Inclusion = []verify.Leaf{}, []merkle.Hash{}
	for _, c := range []struct {
		want   string // past the limit
		change func(h *verify.History, past int)
	}{
		{"size 9007199254740992, want a positive number", func(h *verify.History, past int) { h.Size = entry.MaxInteger + uint64(past) }},
		{"100001 entries, the limit is 100000 (ask for a part of the lists, in several files)", func(h *verify.History, past int) {
			h.Entries = make([]verify.Leaf, verify.MaxItems+past)
			for i := range h.Entries {
				h.Entries[i] = verify.Leaf{Index: uint64(i), Bytes: []byte("1")}
			}
		}},
		{"inclusion: hashes 196, entries 2", func(h *verify.History, past int) {
			h.Entries = []verify.Leaf{{Index: 0, Bytes: []byte("1")}, {Index: 1, Bytes: []byte("1")}}
			h.Inclusion = make([]merkle.Hash, 3*verify.MaxPath+past)
		}},
		{"entries[0]: leaf of 65536 bytes, want 1 to 65535", func(h *verify.History, past int) {
			h.Entries = []verify.Leaf{{Index: 0, Bytes: bytes.Repeat([]byte("1"), verify.MaxLeaf+past)}}
		}},
	} {
		for past := range 2 {
			h := *small
			c.change(&h, past)
			want := "verify: history: " + c.want
			_, err := h.Encode()
			data, wrong := json.Marshal(h)
			must(t, wrong)
			_, again := verify.DecodeHistory(data)
			if past == 0 {
				must(t, err)
				must(t, again)
				continue
			}
			wantText(t, err, want)
			wantText(t, again, want)
		}
	}
	for past := range 2 {
		_, err := verify.DecodeHistory(make([]byte, verify.MaxFile+past))
		wantFormat(t, err)
		if got := err.Error(); (got == "verify: history: 67108865 bytes, the limit is 67108864") != (past == 1) || past == 0 && !strings.Contains(got, "jsontext") {
			t.Errorf("%d past the limit: %v", past, err)
		}
	}
}

// TestQuestionForm: what no log answers is refused, with what there is.
func TestQuestionForm(t *testing.T) {
	log := entry.Subject{Type: entry.SubjectLog}
	for _, c := range []struct {
		q    verify.Question
		want string
	}{
		{verify.Question{Subject: entry.Subject{Type: "person", Value: "x"}}, `"person" is no type of subject (use one of workflow, incident, task, agent, log)`},
		{verify.Question{Subject: entry.Subject{Type: entry.SubjectIncident, Value: "x"}}, `"x" is no value that a subject of type incident may have`},
		{verify.Question{Subject: log, Label: "execution"}, `"execution" is no label of a subject of type log (use one of agent/enrol, agent/revoke, ` +
			`agent/rotate, decision/amend, decision/authorize, decision/contain, decision/deny, decision/escalate, decision/override, ` +
			`decision/release, index, policy, record)`},
		{verify.Question{Subject: agentSubject, From: 5, Size: 4}, "from entry 5 on, in a log of 4 entries"},
		{verify.Question{Subject: agentSubject, From: 2, Size: 1}, "from entry 2 on, in a log of 1 entries"},
		{verify.Question{Subject: agentSubject, From: 5, Size: 5}, ""},
		{verify.Question{Subject: agentSubject, From: 5}, ""},
		{verify.Question{Subject: log, Label: "policy", Size: 4}, ""},
	} {
		if err := c.q.CheckForm(); c.want == "" {
			must(t, err)
		} else {
			wantText(t, err, "verify: question: "+c.want)
		}
		if _, err := new(verify.Shown).Answer(c.q, nil); err == nil {
			t.Errorf("%+v is answered by nothing", c.q)
		} else if c.want == "" {
			wantStep(t, err, verify.StepReach)
		}
	}
}

// TestQuestionsAreRead as they are written on a command line.
func TestQuestionsAreRead(t *testing.T) {
	incident := entry.Subject{Type: entry.SubjectIncident, Value: "7"}
	log := entry.Subject{Type: entry.SubjectLog}
	urn := entry.Subject{Type: entry.SubjectAgent, Value: "urn:a:b"}
	for text, want := range map[string][]verify.Question{
		"agent:agent":                         {{Subject: agentSubject}},
		"agent:agent:*":                       {{Subject: agentSubject}},
		"agent:agent:execution":               {{Subject: agentSubject, Label: "execution"}},
		"agent:agent:execution,agent/revoke<": {{Subject: agentSubject, Label: "execution"}, {Subject: agentSubject, Label: revoked}},
		"incident:7:*":                        {{Subject: incident}},
		"agent:urn:a:b:*":                     {{Subject: urn}},
		"log":                                 {{Subject: log}},
		"log:policy":                          {{Subject: log, Label: "policy"}},
		"log::policy":                         {{Subject: log, Label: "policy"}},
	} {
		got, err := verify.ParseQuestions(text)
		if must(t, err); !slices.Equal(got, want) {
			t.Errorf("%s is read as %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"agent:agent:":                 `"agent:agent:" has an empty label (write * for any label)`,
		"agent:agent:execution,,index": `"agent:agent:execution,,index" has an empty label (write * for any label)`,
		"agent::execution":             `"" is no value that a subject of type agent may have`,
		"log:x:policy":                 `"x" is no value that a subject of type log may have`,
		"person":                       `"person" is no type of subject (use one of workflow, incident, task, agent, log)`,
	} {
		_, err := verify.ParseQuestions(text)
		wantText(t, err, "verify: question: "+want)
	}
}

// TestAnswersAreTold with the part of the log that they are about.
func TestAnswersAreTold(t *testing.T) {
	log := entry.Subject{Type: entry.SubjectLog}
	for want, a := range map[string]verify.Answer{
		"none: no entries of log, in the first 2 entries of the log":                  {Question: verify.Question{Subject: log, Size: 2}},
		"complete: 1 entry: policy of log, in entries 1 to 1 of the log":              {Question: verify.Question{Subject: log, Label: "policy", From: 1, Size: 2}, Entries: []uint64{1}},
		"complete: 2 entries: execution of agent:agent, in entries 2 to 6 of the log": {Question: verify.Question{Subject: agentSubject, Label: "execution", From: 2, Size: 7}, Entries: []uint64{2, 6}},
		"none: no execution of agent:agent, in entries 1 to 0 of the log":             {Question: verify.Question{Subject: agentSubject, Label: "execution", From: 1, Size: 1}},
		"none: no execution of agent:agent, in entries 5 to 0 of the log":             {Question: verify.Question{Subject: agentSubject, Label: "execution", From: 5}},
	} {
		if got := a.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
