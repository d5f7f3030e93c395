package console

import (
	"fmt"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
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

// TestConcernBound counts no plan after the bound.
func TestConcernBound(t *testing.T) {
	l := incidentLister{}
	if r := l.row(&api.Incident{Signals: []api.IncidentSignal{{Subject: "a#x"}}}); r.Concern != nil {
		t.Errorf("%+v", r.Concern)
	}
}
