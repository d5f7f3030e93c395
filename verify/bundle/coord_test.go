package bundle_test

import (
	"testing"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// folded is the state of the rules after a log, each entry of which they admit.
func folded(t *testing.T, w *world) *coord.State {
	t.Helper()
	s := coord.NewState(testlog.Origin)
	for i, leaf := range w.Leaves {
		e, at, err := entry.DecodeLeaf(leaf)
		must(t, err)
		if err := s.Admit(e, uint64(i), at); err != nil {
			t.Fatalf("entry %d (%s): %v", i, e.Kind, err)
		}
		s.Apply(e, uint64(i), at)
	}
	return s
}

// TestGoodLogsAreAdmitted folds the good logs of these tests as the ledger does:
// what agents accept here is what the rules let a coordinator decide.
func TestGoodLogsAreAdmitted(t *testing.T) {
	for _, c := range goodCases() {
		t.Run(c.name, func(t *testing.T) {
			w, _, _, _ := c.build(t)
			folded(t, w)
		})
	}
}

// TestCommandsAgreeWithTheFold compares what the agent is told with the plan in
// force, member by member.
func TestCommandsAgreeWithTheFold(t *testing.T) {
	scenes := map[string]func(testing.TB, func(*world)) (*world, *bundle.Bundle){"automatic": automatic, "approved": approved, "amended": amended,
		"ranged": ranged, "wholeLine": wholeLine, "further": further, "restored": restored, "stopped": stopped}
	for name, scene := range scenes {
		w, b := scene(t, plain)
		v, err := b.Check(w.state(), w.now)
		must(t, err)
		plan, ok := folded(t, w).PlanInForce(v.Incident, w.now)
		if !ok {
			t.Fatalf("%s: no plan in force", name)
		}
		own := 0
		for _, m := range plan.Members {
			if m.Agent != "worker" {
				continue
			}
			c := v.Commands[own]
			own++
			result := m.Result
			if m.Method == entry.MethodNone {
				result = "" // which no entry says
			}
			if c.Member != m.Member() || c.Result != result || c.Released != m.Released {
				t.Errorf("%s: told %+v, the plan has %+v", name, c, m)
			}
		}
		if own != len(v.Commands) {
			t.Errorf("%s: %d commands, %d members", name, len(v.Commands), own)
		}
	}
}
