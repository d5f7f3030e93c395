package coord

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

var update = flag.Bool("update", false, "write the table of the Internet-Draft anew; read the difference")

// draftColumns are the states of an incident as the draft's table has them; the last four share
// a column.
var draftColumns = []struct {
	name   string
	states []entry.IncidentState
}{
	{"R", []entry.IncidentState{entry.IncidentReported}},
	{"C", []entry.IncidentState{entry.IncidentContained}},
	{"E", []entry.IncidentState{entry.IncidentEscalated}},
	{"A", []entry.IncidentState{entry.IncidentAuthorized}},
	{"D", []entry.IncidentState{entry.IncidentDismissed}},
	{"T", []entry.IncidentState{entry.IncidentRecovered, entry.IncidentNoEffects, entry.IncidentPartial, entry.IncidentFailed}},
}

func draftColumn(state entry.IncidentState) string {
	for _, c := range draftColumns {
		if slices.Contains(c.states, state) {
			return c.name
		}
	}
	return string(state)
}

// TestDraftStates makes the draft's table of states: every entry that the fold admits in a state,
// and the state after it.
// Draft: REG-9.
func TestDraftStates(t *testing.T) {
	after := map[string]map[string]bool{} // by act and column
	var acts []string
	for _, step := range tableSteps {
		act, _, _ := strings.Cut(step.name, " by ")
		if !slices.Contains(acts, act) {
			acts = append(acts, act)
		}
		for _, in := range tableStates {
			if !slices.Contains(tableWant[in.name], step.name) {
				continue // TestTable sees that it is refused
			}
			w := newWorld(t)
			w.pipeline()
			id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
			in.make(w, id)
			incidents := len(w.state.incidents)
			w.put(step.make(w, id))
			view, _ := w.state.Incident(id, w.at)
			now := draftColumn(view.State)
			if len(w.state.incidents) > incidents {
				now = "new R"
			}
			cell := act + "/" + draftColumn(in.state)
			if after[cell] == nil {
				after[cell] = map[string]bool{}
			}
			after[cell][now] = true
		}
	}
	var b strings.Builder
	b.WriteString("| entry |")
	for _, c := range draftColumns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString("\n|---|---|---|---|---|---|---|\n")
	for _, act := range acts {
		fmt.Fprintf(&b, "| %s |", act)
		for _, c := range draftColumns {
			var states []string
			for state := range after[act+"/"+c.name] {
				states = append(states, state)
			}
			slices.Sort(states)
			fmt.Fprintf(&b, " %s |", strings.Join(states, ", "))
		}
		b.WriteString("\n")
	}
	path := filepath.FromSlash("../docs/draft/generated/states.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(path); err != nil || string(is) != b.String() {
		t.Errorf("%s is not what the fold does: go test ./coord -run TestDraftStates -update (%v)\n%s", path, err, b.String())
	}
}
