package budget

import (
	"flag"
	"testing"
)

// TestUnraced: without the race detector no test is left out, whatever the budgets are. With it and
// the small budgets the test is left out, unless the command line names it.
func TestUnraced(t *testing.T) {
	t.Run("a test", func(t *testing.T) {
		t.Cleanup(func() {
			if t.Skipped() && !raced {
				t.Error("a run without the race detector leaves a test out")
			}
		})
		Unraced(t, "the test shows that make race leaves it out")
		if raced && testing.Short() && !Large() && flag.Lookup("test.run").Value.String() == "" {
			t.Error("make race does not leave the test out")
		}
	})
	for _, c := range []struct {
		small bool
		named string
		want  bool
	}{{true, "", true}, {true, "TestOne", false}, {false, "", false}, {false, "TestOne", false}} {
		if got := leaves(c.small, c.named); got != c.want {
			t.Errorf("small %v, named %q: %v", c.small, c.named, got)
		}
	}
}
