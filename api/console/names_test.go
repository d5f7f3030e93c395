package console

import (
	"fmt"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

// TestNames bounds the names that stand in one place, and spells out what hides.
func TestNames(t *testing.T) {
	var list names
	for i := range namesShown + 3 {
		list.add(entry.Principal(fmt.Sprintf("a%d\u202e", i/2*2)))
	}
	if got, want := list[:2].String(), "a0[U+202E], a2[U+202E]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := agentsOf(&api.Plan{Members: membersOf(namesShown + 3)})
	if text := many.String(); len(many) != namesShown+3 || text[len(text)-8:] != ", 3 more" {
		t.Errorf("%d names: %s", len(many), text)
	}
	if few := many[:namesInCell+2].Few(); few != "agent-18, agent-17, agent-16, agent-15, 2 more" {
		t.Error(few)
	}
}

// membersOf returns members of as many agents.
func membersOf(n int) (list []api.PlanMember) {
	for i := range n {
		list = append(list, api.PlanMember{Agent: entry.Principal(fmt.Sprintf("agent-%d", i))})
	}
	return list
}

// TestConcernBound counts plans until the bound on members is reached, and the concern of no
// further incident.
func TestConcernBound(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "note", entry.EffectCompensable, "a#make")
	l.Do("c", "other", entry.EffectNone)
	large, small := l.Signal("a", "a#make"), l.Signal("c", "c#other")
	concerns := func(left int) (counted [2]bool) {
		list := newIncidentLister(l.State, l.At)
		if list.left != listMembers {
			t.Errorf("a list begins with %d members to count", list.left)
		}
		list.left = left
		for i, id := range []uint64{large, small} {
			v, _ := l.State.Incident(id, l.At)
			counted[i] = list.row(&v).Concern != nil
		}
		return counted
	}
	for left, want := range map[int][2]bool{0: {}, 1: {true, false}, 2: {true, false}, 3: {true, true}} {
		if got := concerns(left); got != want {
			t.Errorf("%d members left to count: %v, want %v", left, got, want)
		}
	}
}
