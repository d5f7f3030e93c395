package entry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

const (
	self  = "agent-1@example.com"
	other = "agent-2@example.com"
)

// listed spells listings as "type value label", one a line.
func listed(list []entry.Listing) string {
	lines := make([]string, len(list))
	for i, l := range list {
		lines[i] = fmt.Sprintf("%s %s %s", l.Type, l.Value, l.Label)
	}
	return strings.Join(lines, "\n")
}

// subjectCases are entries at index 41 and where they are listed: every kind, every
// act and op, and every way to be about somebody.
func subjectCases(tb testing.TB) []subjectCase {
	tb.Helper()
	var all []subjectCase
	add := func(name string, body entry.Body, want ...string) {
		all = append(all, subjectCase{name, body, want})
	}
	const (
		flow     = "workflow wf-1 "
		incident = "incident 7 "
		task     = "task operator@example.com#task-1 "
		me       = "agent " + self + " "
		them     = "agent " + other + " "
		log      = "log  "
	)
	add("policy", minimal(tb, entry.KindPolicy), me+"policy", log+"policy")
	for _, op := range []entry.AgentOp{entry.Enrol, entry.Rotate, entry.Revoke} {
		label := "agent/" + string(op)
		own, foreign := minimal(tb, entry.KindAgent).(*entry.Agent), minimal(tb, entry.KindAgent).(*entry.Agent)
		own.Op, foreign.Op, foreign.Principal = op, op, other
		add(label+"-of-itself", own, me+label, log+label)
		add(label+"-of-another", foreign, me+label+">", them+label+"<", log+label)
	}
	add("execution", minimal(tb, entry.KindExecution), flow+"execution", me+"execution")
	add("execution-of-a-task", full(tb, entry.KindExecution), flow+"execution", task+"execution", me+"execution")
	compensation := minimal(tb, entry.KindExecution).(*entry.Execution)
	compensation.Compensates = &entry.Compensates{Incident: 7, Decision: ref(12), Exec: self + "#exec-1"}
	add("compensation", compensation, flow+"execution", incident+"execution", me+"execution")
	add("checkpoint", full(tb, entry.KindCheckpoint), flow+"checkpoint", me+"checkpoint")
	foreign := minimal(tb, entry.KindSignal).(*entry.Signal)
	foreign.Subject = other + "#exec-1"
	add("signal-of-itself", minimal(tb, entry.KindSignal), flow+"signal", "incident 41 signal", me+"signal")
	add("signal-of-another", foreign, flow+"signal", "incident 41 signal", me+"signal>", them+"signal<")
	for _, act := range []entry.Act{entry.ActContain, entry.ActEscalate, entry.ActAuthorize, entry.ActAmend, entry.ActDeny,
		entry.ActOverride, entry.ActRelease} {
		d := full(tb, entry.KindDecision).(*entry.Decision)
		label := "decision/" + string(act)
		d.Act = act
		add(label, d, flow+label, incident+label, me+label, log+label)
	}
	add("approval", minimal(tb, entry.KindApproval), flow+"approval", incident+"approval", me+"approval")
	outcome := minimal(tb, entry.KindOutcome).(*entry.Outcome)
	outcome.Exec, outcome.Result, outcome.Residual = other+"#exec-1", entry.ResultUnknown, "nobody reported"
	add("outcome-of-its-own", full(tb, entry.KindOutcome), flow+"outcome", incident+"outcome", me+"outcome")
	add("outcome-of-another", outcome, flow+"outcome", incident+"outcome", me+"outcome>", them+"outcome<")
	add("record", minimal(tb, entry.KindRecord), flow+"record", incident+"record", me+"record", log+"record")
	for _, op := range []string{entry.TaskCreate, entry.TaskReassign, entry.TaskCancel, entry.TaskRelease, entry.TaskStart,
		entry.TaskReview, entry.TaskComplete, entry.TaskBlock, entry.TaskAssign, entry.TaskFail, entry.TaskInterrupt} {
		k := minimal(tb, entry.KindTask).(*entry.Task)
		label := "task/" + op
		k.Op = op
		add(label, k, flow+label, task+label, me+label)
	}
	given := full(tb, entry.KindTask).(*entry.Task)
	given.Agent = other
	add("task-of-itself", full(tb, entry.KindTask), flow+"task/fail", task+"task/fail", me+"task/fail")
	add("task-of-another", given, flow+"task/fail", task+"task/fail", me+"task/fail>", them+"task/fail<")
	add("attempt", minimal(tb, entry.KindAttempt), flow+"attempt", me+"attempt")
	others := full(tb, entry.KindAttempt).(*entry.Attempt)
	others.Agent = other
	add("attempt-of-itself", full(tb, entry.KindAttempt), flow+"attempt", task+"attempt", me+"attempt")
	add("attempt-of-another", others, flow+"attempt", task+"attempt", me+"attempt>", them+"attempt<")
	add("run", minimal(tb, entry.KindRun), flow+"run", me+"run")
	add("index", minimal(tb, entry.KindIndex), me+"index", log+"index")
	for _, op := range entry.RolloutOps() {
		r := minimal(tb, entry.KindRollout).(*entry.Rollout)
		if op == entry.RolloutStart || op == entry.RolloutAdvance {
			r = full(tb, entry.KindRollout).(*entry.Rollout)
		}
		label := "rollout/" + string(op)
		if r.Op = op; op == entry.RolloutAdvance {
			r.Start = nil
		}
		add(label, r, flow+label, me+label)
	}
	return all
}

type subjectCase struct {
	name string
	body entry.Body
	want []string // subjects and labels
}

// TestSubjects lists entries of every kind, act and op.
func TestSubjects(t *testing.T) {
	kinds := map[entry.Kind]bool{}
	for _, c := range subjectCases(t) {
		e, err := entry.New(c.body)
		must(t, err)
		kinds[e.Kind] = true
		if got, want := listed(e.Subjects(41)), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s is listed under\n%s\nwant\n%s", c.name, got, want)
		}
	}
	if len(kinds) != len(entry.Kinds()) {
		t.Errorf("%d kinds of %d", len(kinds), len(entry.Kinds()))
	}
}

// addSubjects adds a vector for each of the cases.
func (s *vectorSet) addSubjects() {
	for _, c := range subjectCases(s.t) {
		e, err := entry.New(c.body)
		must(s.t, err)
		s.add("subjects/"+strings.ReplaceAll(c.name, "/", "-"), &vector{
			Desc: c.name, Kind: string(e.Kind), Input: string(e.Payload()), Index: new(uint64(41)), Want: &want{Subjects: e.Subjects(41)},
		})
	}
}

func TestVectorsSubjects(t *testing.T) {
	for name, v := range vectorsOf(t, "subjects") {
		e, err := entry.NewRaw(entry.Kind(v.Kind), inputBytes(t, v.Input))
		must(t, err)
		if got := e.Subjects(*v.Index); !slices.Equal(got, v.Want.Subjects) {
			t.Errorf("%s: listed under\n%s\nwant\n%s", name, listed(got), listed(v.Want.Subjects))
		}
	}
}

// TestSubjectsLaws draws entries of every kind: each is under a subject once, under
// its issuer exactly once, under no label that its subject cannot have, under
// nothing that is no subject; the same after it went over the wire; and at another
// index only a signal's incident is another.
func TestSubjectsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(entry.Kinds()).Draw(t, "kind")
		e, err := entry.New(drawBody(t, kind))
		must(t, err)
		index := rapid.Uint64Range(0, entry.MaxInteger).Draw(t, "index")
		list := e.Subjects(index)
		seen, issued := map[entry.Subject]bool{}, 0
		for _, l := range list {
			if seen[l.Subject] {
				t.Fatalf("twice under %v: %v", l.Subject, list)
			}
			seen[l.Subject] = true
			if !l.Known() || !slices.Contains(entry.Labels(l.Type), l.Label) || !strings.HasPrefix(string(l.Label), string(kind)) {
				t.Fatalf("%s is listed under %+v", kind, l)
			}
			if l.Type == entry.SubjectAgent && !strings.HasSuffix(string(l.Label), "<") {
				if issued++; l.Value != string(e.Header.Iss) {
					t.Fatalf("issued by %s, listed under %+v", e.Header.Iss, l)
				}
			}
		}
		if issued != 1 {
			t.Fatalf("%d times under the issuer: %v", issued, list)
		}
		e.Seal(keyID(ed25519Key("agent").Public()), []byte{1})
		again, _, err := entry.DecodeLeaf(e.AppendLeaf(nil, 1))
		must(t, err)
		if !slices.Equal(again.Subjects(index), list) {
			t.Fatal("listed otherwise after it went over the wire")
		}
		elsewhere := e.Subjects(index + 1)
		if kind != entry.KindSignal && !slices.Equal(elsewhere, list) {
			t.Fatalf("at another index listed under %v", elsewhere)
		}
	})
}

// TestLabels: every label that a case has is one of its type's, and no other is.
func TestLabels(t *testing.T) {
	given := map[entry.SubjectType]map[entry.Label]bool{}
	for _, of := range entry.SubjectTypes() {
		given[of] = map[entry.Label]bool{}
		if all := entry.Labels(of); !slices.IsSorted(all) || len(slices.Compact(all)) != len(entry.Labels(of)) {
			t.Errorf("labels of %s: %v", of, all)
		}
	}
	for _, c := range subjectCases(t) {
		e := &entry.Entry{Kind: c.body.Kind(), Header: entry.HeaderOf(c.body), Body: c.body}
		for _, l := range e.Subjects(41) {
			given[l.Type][l.Label] = true
		}
	}
	for _, op := range []entry.Label{"create", "reassign", "cancel", "release", "start", "review", "complete", "block", "assign", "interrupt"} {
		for _, mark := range []entry.Label{">", "<"} { // with an agent, as task/fail above
			given[entry.SubjectAgent]["task/"+op+mark] = true
		}
	}
	for _, of := range entry.SubjectTypes() {
		for _, label := range entry.Labels(of) {
			if !given[of][label] {
				t.Errorf("%s: no entry is listed as %s", of, label)
			}
			delete(given[of], label)
		}
		for label := range given[of] {
			t.Errorf("%s: %s is no label of its own", of, label)
		}
	}
	if entry.Labels("none") != nil {
		t.Error("labels of what is no type")
	}
}

// TestSubjectKnown asks for subjects that may be, and for others.
func TestSubjectKnown(t *testing.T) {
	for s, want := range map[entry.Subject]bool{
		{Type: entry.SubjectWorkflow, Value: "wf-1"}:             true,
		{Type: entry.SubjectWorkflow, Value: ""}:                 false,
		{Type: entry.SubjectWorkflow, Value: "a b"}:              false,
		{Type: entry.SubjectAgent, Value: self}:                  true,
		{Type: entry.SubjectAgent, Value: "a#b"}:                 false,
		{Type: entry.SubjectTask, Value: "o#t"}:                  true,
		{Type: entry.SubjectTask, Value: "o"}:                    false,
		{Type: entry.SubjectIncident, Value: "0"}:                true,
		{Type: entry.SubjectIncident, Value: "41"}:               true,
		{Type: entry.SubjectIncident, Value: "041"}:              false,
		{Type: entry.SubjectIncident, Value: "+1"}:               false,
		{Type: entry.SubjectIncident, Value: "-1"}:               false,
		{Type: entry.SubjectIncident, Value: "9007199254740991"}: true,
		{Type: entry.SubjectIncident, Value: "9007199254740992"}: false,
		{Type: entry.SubjectIncident, Value: ""}:                 false,
		{Type: entry.SubjectLog, Value: ""}:                      true,
		{Type: entry.SubjectLog, Value: "x"}:                     false,
		{Type: "none", Value: "x"}:                               false,
	} {
		if s.Known() != want {
			t.Errorf("%+v is a subject: %v", s, !want)
		}
	}
}
