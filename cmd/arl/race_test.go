//go:build unix

package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
)

// racedScripts are the scripts that run with go test -short, and so in make race: what goes on at
// once in a server, a witness, an agent or an engine, behind every group of routes. What the other
// scripts run is one command after the other on the same routes; make e2e runs them all.
var racedScripts = []string{
	"entries",        // entries and receipts: submitted, in batches, listed, read
	"evidence",       // what convicts an agent that signs two objects under one id
	"incidents",      // signals, decisions, approvals, plans, graphs; the coordinator beside the store
	"log",            // tiles, heads, consistency; an export and a mirror
	"push",           // witnesses that fetch and cosign beside the ledger, and one that is killed
	"recover_ledger", // runs of the engine, recorded by HTTP
	"recover_live",   // attempts that are made for real
	"silence",        // the coordinator decides when a time is over, beside requests
	"tasks_page",     // leases, heartbeats, a router
	"tls",            // connections with certificates
	"witness",        // rounds with two witnesses, and one that ends
}

// unraced are the tests that do not run with go test -short, and so not in make race, with the
// reason. make e2e runs them all.
var unraced = map[string]string{
	"TestPages":                        "the commands of the documents run one after the other, on routes that scripts have",
	"TestImportRealRunsChaos":          "one client submits what TestScripts submits, 5,000 times",
	"TestKilledImportsGoOn":            "one process copies an export",
	"TestInterruptedExportsGoOn":       "one process copies an export",
	"TestChaosKillIndex":               "one process writes an index",
	"TestADamagedEntryIsCounted":       "one process reads a log in order",
	"TestRecoverIsInterrupted":         "the script recover_ledger has the goroutines",
	"TestRecoverObeysRollout":          "the script recover_ledger has the goroutines",
	"TestADamagedDatabaseIsNamed":      "one process reads a database",
	"TestADamagedSnapshotIsBuiltAgain": "one process starts, again and again",
	"TestAuditFindsDecisions":          "one process reads a log in order",
	"TestAuditFindsWhatTheRulesForbid": "one process reads a log in order",
	"TestAuditThroughAMirrorThatLies":  "one process reads a log in order",
	"TestAuditOfAnExport":              "one process reads files",
	"TestAuditGoesOn":                  "one process reads files",
	"TestDamagedKeptFold":              "one process reads a file",
	"TestKeptFoldGivesTheSameAnswers":  "one process reads a file; TestKeptFoldIsWrittenByOne has two",
	"TestKeptFoldUnderARightDigest":    "one process reads a file",
	"TestKeptFoldOfAnother":            "one process reads a file",
	"TestKeptFoldOfAFork":              "one process reads a file",
	"TestInterruptedAuditGoesOn":       "one process reads a file",
	"TestBegunFoldAccusesNobody":       "one process reads a file",
	"TestKeptFoldOfALongerLog":         "one process reads a file",
	"TestOnlyNewEntriesAreFetched":     "one process reads a file",
	"TestNoCacheTouchesNothing":        "one process reads a file",
	"TestDemoEnds":                     "TestDemo and TestDemoKilled have the same processes",
	"TestDemoElsewhere":                "TestDemo and TestDemoKilled have the same processes",
	"TestReassignObeysPolicy":          "TestRouterObeysPolicy has the same processes",
	"TestRunReconcilesFirst":           "TestRunReconcilesEarlierClaim has the same processes",
	"TestRunStrategyFails":             "TestRunGoesOnInTheLadder has the same processes",
	"TestRunRecoveryFails":             "TestRunGoesOnInTheLadder has the same processes",
	"TestRunDoesNotBelieveTheEnd":      "TestWorkBeginsUndoneStepAnew has the same processes",
	"TestRunSignalsForLostClaim":       "TestRunTwiceAfterLostClaim has the same processes",
	"TestRunInterruptedWhileItWaits":   "TestRunIsInterrupted has the same processes",
	"TestRunKeepsSecrets":              "TestRunFollowsPolicy has the same processes",
	"TestTestsDoNotDependOnLuck":       "it parses files",
	"TestArchitectureSizes":            "it parses files",
	"TestArchitectureArrows":           "it parses files",
	"TestExitReasons":                  "it parses files",
	"TestLinks":                        "it parses files",
	"TestNoPlaceholders":               "it parses files",
	"TestLargeBudgetsAreSpent":         "it parses files",
	"TestCommandsAreRun":               "it parses files",
	"TestNamedTests":                   "it parses files",
	"TestRacedNames":                   "it parses files",
	"TestHiddenPackages":               "it parses files",
	"TestCommentWidth":                 "it parses files",
	"TestPromtool":                     "it starts a program of others",
	"TestWithoutAHome":                 "one command after the other",
	"TestArchitectureForeign":          "it parses files",
	"TestArchitectureClosure":          "it parses files",
	"TestArchitectureStyle":            "it parses files",
	"TestCountsFitTheirNouns":          "it parses files",
	"TestIndexOfARestoredDirectory":    "one process reads a directory",
	"TestConsoleStartsChaos":           "its goals are those of a process that the race detector does not watch",
}

// TestUnracedAreTests finds every test that is named above.
func TestUnracedAreTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for name := range unraced {
		if !strings.Contains(all.String(), "\nfunc "+name+"(t *testing.T) {") {
			t.Errorf("%s is no test: who renames one names it here, too", name)
		}
	}
}

// TestUnracedPackages holds the packages that make race leaves out to the reason: neither such a
// package nor a test of it starts a goroutine, a process or a server.
func TestUnracedPackages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.FromSlash("../../Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nUNRACED := ")
	list, _, _ = strings.Cut(list, "\n\n")
	packages := strings.Fields(strings.ReplaceAll(list, "\\\n", " "))
	if len(packages) < 20 {
		t.Fatalf("the Makefile leaves out %q", packages)
	}
	starts := regexp.MustCompile(`(?m)^\s*go (func\b|[\w.]+\()|\.(Go|Parallel|RunParallel|AfterFunc)\(|httptest\.New|exec\.Command|net\.Listen|synctest\.|\bprogram\.(Main|Build|Arl|NewFolder)\b|\b(node|ledger)\.Open\(`)
	others := regexp.MustCompile(`needs\.Go\(|exec\.CommandContext\(t\.Context\(\), python,`) // which the detector does not watch
	for _, name := range packages {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(name), "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s is no package: who renames one names it in the Makefile, too", name)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := starts.Find(others.ReplaceAll(text, nil)); found != nil {
				t.Errorf("%s has %q: the race detector has something to look at in %s", file, found, name)
			}
		}
	}
}

// skipUnraced leaves the tests out that are not for the race detector, unless the command line
// says itself which tests run.
func skipUnraced() error {
	flag.Parse()
	if !testing.Short() || budget.Large() || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	names := make([]string, 0, len(unraced))
	for name := range unraced {
		names = append(names, name)
	}
	return flag.Set("test.skip", "^("+strings.Join(names, "|")+")$")
}

// scriptsOfRun returns the scripts that run: all where the command line names tests. Where it names
// none, all but the drills, which make operations has; with -short, those for the race detector.
func scriptsOfRun(t *testing.T) (scripts []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.FromSlash("../../testdata/scripts/*.txtar"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d scripts, %v", len(all), err)
	}
	if flag.Lookup("test.run").Value.String() != "" {
		return all
	}
	raced := testing.Short() && !budget.Large()
	for _, script := range all {
		name := strings.TrimSuffix(filepath.Base(script), ".txtar")
		if slices.Contains(racedScripts, name) || !raced && !strings.HasPrefix(name, "drill_") && !strings.HasPrefix(name, "watched") {
			scripts = append(scripts, script)
		}
	}
	if raced && len(scripts) != len(racedScripts) {
		t.Errorf("%d scripts of %q", len(scripts), racedScripts)
	}
	return scripts
}
