package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestMain leaves make race what the workers of a pipeline share.
func TestMain(m *testing.M) {
	os.Exit(budget.Raced(m, "TestBadLinesClaimNoID", "TestScenarioMistakes"))
}

// A line that cannot be used claims no id: the first good case of that id
// counts, and those behind it are refused in its name.
func TestBadLinesClaimNoID(t *testing.T) {
	bad := func(id string) string { return `{"v":1,"id":"` + id + `","agent":"x"}` }
	good := func(id string) string {
		return `{"v":1,"id":"` + id + `","agent":"x","steps":[{"id":"s","outcome":"ok"}]}`
	}
	lines := []string{bad("a"), good("b"), bad("a"), good("a"), good("a"), bad("b"), good("b"), bad("a"), good("c")}
	for range jobLines { // over several jobs
		lines = append(lines, bad("d"))
	}
	lines = append(lines, good("d"), good("d"))
	want := []int{2, 4, 9, 10 + jobLines}
	for _, workers := range []int{1, 8} {
		p := Pipeline[struct{}]{Workers: workers, Do: func(context.Context, *Case) (struct{}, error) { return struct{}{}, nil }}
		var done []int
		conflicts := map[int]string{}
		for c, err := range p.Run(t.Context(), "scenario.ndjson", strings.NewReader(strings.Join(lines, "\n"))) {
			if wrong, ok := errors.AsType[*Error](err); ok {
				if wrong.File == "" || wrong.Line == 0 {
					t.Fatalf("without file or line: %+v", wrong)
				}
				if wrong.Problem == entry.IDConflict {
					conflicts[wrong.Line] = wrong.Detail
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, c.Line)
		}
		if !slices.Equal(done, want) {
			t.Errorf("%d workers: lines %d are done, want %d", workers, done, want)
		}
		wanted := map[int]string{5: `line 4 has the id "a" already`, 6: `line 2 has the id "b" already`, 7: `line 2 has the id "b" already`,
			8: `line 4 has the id "a" already`, 11 + jobLines: fmt.Sprintf(`line %d has the id "d" already`, 10+jobLines)}
		if fmt.Sprint(conflicts) != fmt.Sprint(wanted) {
			t.Errorf("%d workers: conflicts %v, want %v", workers, conflicts, wanted)
		}
	}
}
