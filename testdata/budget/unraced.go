package budget

import (
	"flag"
	"strings"
	"testing"
)

// Raced runs the tests of a package, and returns their exit code. make race runs those with these
// names, and leaves the others to runs without the detector, for the reasons that [Unraced] has.
//
//	func TestMain(m *testing.M) { os.Exit(budget.Raced(m, "TestWorkersChangeNothing")) }
func Raced(m *testing.M, names ...string) int {
	flag.Parse()
	if leaves(raced && testing.Short() && !Large(), flag.Lookup("test.run").Value.String()) {
		if err := flag.Set("test.run", "^("+strings.Join(names, "|")+")$"); err != nil {
			panic(err) // a name is none
		}
	}
	return m.Run()
}

// Unraced leaves a test out of make race, which says so with the reason. It is
// for a test in which one goroutine works and no other, in this process or in one that it starts
// with the race detector, or in which the goroutines do what those of a named test do. The detector
// can find nothing there, and costs ten times the processor time.
//
//	budget.Unraced(t, "the fold has one goroutine")
//
// A test that the command line names runs, and so does every test with the large budgets.
func Unraced(tb testing.TB, reason string) {
	tb.Helper()
	if leaves(raced && testing.Short() && !Large(), flag.Lookup("test.run").Value.String()) {
		tb.Skip("left out of make race: " + reason)
	}
}

// leaves says whether a test is left out of a run with the race detector and small budgets.
func leaves(small bool, named string) bool { return small && named == "" }
