package view_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

// chain makes an incident about a chain of three agents, with two compensations.
func chain(l *foldlog.Log) (incident uint64) {
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "note", entry.EffectCompensable, "a#make")
	l.Do("c", "send", entry.EffectCompensable, "b#note")
	return l.Signal("a", "a#make")
}

// member returns a member of a plan, and its place.
func member(t *testing.T, p *api.Plan, exec entry.Ref) (*api.PlanMember, int) {
	t.Helper()
	place := slices.IndexFunc(p.Members, func(m api.PlanMember) bool { return m.Exec == exec })
	if place < 0 {
		t.Fatalf("%s is no member of %+v", exec, p.Members)
	}
	return &p.Members[place], place
}

// TestPlan draws what members were built on, and who holds up whom.
func TestPlan(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	preview, err := view.Plan(l.State, id, &api.PlanQuery{}, l.At)
	if err != nil {
		t.Fatal(err)
	}
	note, place := member(t, preview, "b#note")
	send, last := member(t, preview, "c#send")
	if len(send.Parents) != 1 || send.Parents[0] != (api.PlanParent{Place: place, Dep: entry.Hard}) || len(note.Parents) != 1 || note.After != nil {
		t.Errorf("%+v was built on %+v, and %+v", send, send.Parents, note)
	}
	l.Decide(id, entry.ActAuthorize)
	plan, ok := view.InForce(l.State, id, l.At)
	if !ok {
		t.Fatal("no plan is in force")
	}
	if note, _ := member(t, plan, "b#note"); !slices.Equal(note.After, []int{last}) {
		t.Errorf("%v hold up b#note, want %d", note.After, last)
	}
	if send, _ := member(t, plan, "c#send"); send.After != nil || !send.Released {
		t.Errorf("c#send waits for %v", send.After)
	}
	l.Compensate(id, "c#send")
	plan, _ = view.InForce(l.State, id, l.At)
	if note, _ := member(t, plan, "b#note"); note.After != nil || !note.Released {
		t.Errorf("b#note waits for %v", note.After)
	}
	for _, bad := range []api.PlanQuery{{Preview: true, Dismissed: []uint64{99}}} {
		if _, err := view.Plan(l.State, id, &bad, l.At); err == nil {
			t.Errorf("%+v gives a plan", bad)
		}
	}
}

// TestRestoreWaitsForItsLine has a restore wait for the compensation of its line, and for no other.
func TestRestoreWaitsForItsLine(t *testing.T) {
	l := foldlog.New(t)
	l.Put("b", &entry.Checkpoint{Checkpoint: "empty", Digest: foldlog.Digest("1")})
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "draft", entry.EffectReversible, "a#make")
	l.Do("b", "note", entry.EffectCompensable, "b#draft")
	l.Do("c", "send", entry.EffectCompensable, "a#make")
	id := l.Signal("a", "a#make")
	l.Decide(id, entry.ActAuthorize)
	plan, _ := view.InForce(l.State, id, l.At)
	_, note := member(t, plan, "b#note")
	if draft, _ := member(t, plan, "b#draft"); draft.Method != entry.MethodRestore || !slices.Equal(draft.After, []int{note}) {
		t.Errorf("%v hold up the %s of b#draft, want %d", draft.After, draft.Method, note)
	}
	l.Compensate(id, "b#note")
	plan, _ = view.InForce(l.State, id, l.At)
	if draft, _ := member(t, plan, "b#draft"); draft.After != nil || !draft.Released {
		t.Errorf("%v hold up b#draft", draft.After)
	}
}

// TestWhy follows the reasons of a member back to what a signal names.
func TestWhy(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	why, err := view.WhyOf(l.State, id, "c#send", l.At)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, m := range why.Chain {
		text += fmt.Sprintf("%s %s; ", m.Exec, m.Rule)
	}
	if text != "a#make seed; b#note dependent; c#send dependent; " {
		t.Errorf("c#send is a member because of %s", text)
	}
	for _, one := range []struct {
		id   uint64
		exec entry.Ref
	}{{id, "a#none"}, {id - 1, "a#make"}} {
		if why, err := view.WhyOf(l.State, one.id, one.exec, l.At); err == nil {
			t.Errorf("%s is a member of %d because of %+v", one.exec, one.id, why.Chain)
		}
	}
}

// TestIncident says of an incident in each state what it waits for, what comes next, and who may
// answer.
func TestIncident(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("q", entry.RoleApprover)
	id := chain(l)
	l.Enrol("late", entry.RoleApprover)
	shows := func(wait, next string) *api.Incident {
		t.Helper()
		v, ok := view.Incident(l.State, id, l.At)
		if !ok {
			t.Fatal("no incident")
		}
		got := ""
		if v.Next != nil {
			got = v.Next.Says
		}
		if fmt.Sprint(v.Waits) != wait || !strings.HasPrefix(got, next) || (next == "") != (got == "") || v.WaitsFor != v.Waits.String() {
			t.Fatalf("%s waits for %q, and %q comes next; want %q and %q", v.State, v.Waits, got, wait, next)
		}
		return v
	}
	shows("the coordinator", "authorize incident ")
	l.Decide(id, entry.ActEscalate)
	until := l.Incident(id).Proposal.AnswerAt
	v := shows("0 of 1 approvals, until "+api.Instant(until), "deny incident ")
	if w := v.Waits; w.For != api.ForApprovals || w.Who != api.WaitsApprovers || w.Want != 1 || w.Until != until || w.Then == "" || v.Next.At != until {
		t.Errorf("waits %+v, next %+v", w, v.Next)
	}
	text := fmt.Sprintf("%+v", v.Approvers)
	if !strings.HasPrefix(text, "[{Principal:late MayNot:the key was enrolled at ") || !strings.HasSuffix(text, "{Principal:p MayNot:} {Principal:q MayNot:}]") {
		t.Errorf("approvers %s", text)
	}
	l.Approve(id)
	if w := shows("2 of 3 outcomes", "c#send is unknown").Waits; w.Have != 1 || w.Want != 3 || w.Who != api.WaitsAgents {
		t.Errorf("waits %+v", w)
	}
	if _, ok := view.Incident(l.State, id+1, l.At); ok {
		t.Error("an incident that no signal opened")
	}
}

// TestWaitingForPeople leafs through what waits for people, in pages of every size: nothing is left
// out, nothing comes twice, and the newest comes first.
func TestWaitingForPeople(t *testing.T) {
	l := foldlog.New(t)
	var want []uint64
	for i := range 7 {
		exec := fmt.Sprint("x", i)
		l.Do("a", exec, entry.EffectIrrevocable)
		incident := l.Signal("a", entry.NewRef("a", exec))
		if i%3 != 0 {
			l.Decide(incident, entry.ActEscalate)
			want = append(want, incident)
		}
		want = append(want, l.Put("o", &entry.Task{Task: entry.NewRef("o", exec), Op: entry.TaskCreate, From: entry.TaskCreated, To: entry.TaskCreated, Reason: "by hand"}))
	}
	slices.Sort(want)
	slices.Reverse(want)
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []uint64
		for q := (&api.EscalationQuery{Limit: limit}); q != nil; {
			found, next := view.WaitingForPeople(l.State, new(coord.Rules), q, l.At)
			if len(found) > limit || next != nil && q.Before != 0 && next.Before >= q.Before {
				t.Fatalf("%d on a page of %d, and then %+v", len(found), limit, next)
			}
			for i := range found {
				e := found[i].Escalation()
				got = append(got, e.Index)
				if (e.Kind == "task") != (found[i].Task != nil) || e.Question == "" && e.Kind == "incident" || (e.Waits != nil) != (e.Kind == "incident") {
					t.Errorf("%+v", e)
				}
			}
			q = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
}

// TestAgents counts what the log says of each principal.
func TestAgents(t *testing.T) {
	l := foldlog.New(t)
	id := chain(l)
	l.Decide(id, entry.ActAuthorize)
	var last uint64
	for i := range l.Entries {
		if l.Entries[i].Header.Iss == "a" {
			last = l.Entries[i].Index
		}
	}
	names := ""
	for q := (&api.AgentsQuery{Counts: true, Limit: 2}); q != nil; {
		found, next := view.Agents(l.State, q, l.At)
		for _, a := range found {
			names += string(a.Principal) + " "
			if a.Principal == "a" && *a.Counts != (api.AgentCounts{Memberships: 1, Last: last, SignalLimit: 3600, SignalsLeft: 3599}) ||
				a.Principal == "p" && *a.Counts != (api.AgentCounts{SignalLimit: 3600, SignalsLeft: 3600}) {
				t.Errorf("%s: %+v", a.Principal, *a.Counts)
			}
		}
		q = next
	}
	if names != "a b c k o p root " && names != "a b c k o p " {
		t.Errorf("agents %s", names)
	}
	if found, _ := view.Agents(l.State, &api.AgentsQuery{Limit: 1}, l.At); found[0].Counts != nil {
		t.Error("counts that nobody asked for")
	}
}

// TestEntries lists every entry about an incident, a superseded proposal among them, and keeps them
// over a snapshot.
func TestEntries(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("o2", entry.RoleAgent)
	id := chain(l)
	from := l.State.Size()
	l.Decide(id, entry.ActEscalate)
	l.Do("o2", "more", entry.EffectNone)
	l.Decide(id, entry.ActEscalate)
	l.Approve(id)
	l.Compensate(id, "c#send")
	want := []uint64{id}
	for i := from; i < l.State.Size(); i++ {
		switch l.Entries[i].Kind {
		case entry.KindDecision, entry.KindApproval, entry.KindOutcome:
			want = append(want, i)
		}
	}
	if got := l.State.IncidentEntries(id); !slices.Equal(got, want) || len(got) < 5 {
		t.Errorf("entries %v, want %v", got, want)
	}
	clone, restored, kept := l.State.Clone(), coord.NewState(testlog.Origin), new(bytes.Buffer)
	if err := errors.Join(l.State.Snapshot(kept), restored.Restore(kept)); err != nil {
		t.Fatal(err)
	}
	if got := restored.IncidentEntries(id); !slices.Equal(got, want) || restored.AgentCounts("c", l.At) != l.State.AgentCounts("c", l.At) {
		t.Errorf("entries after a restore: %v", got)
	}
	l.Outcome(id, "b#note", entry.ResultFailed)
	if got := clone.IncidentEntries(id); !slices.Equal(got, want) {
		t.Errorf("entries of a clone: %v", got)
	}
	if l.State.IncidentEntries(id+1) != nil {
		t.Error("entries of no incident")
	}
}
