package conformance_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/api/conformance"
	"recoveryledger/docs/draft"
	"recoveryledger/testdata/budget"
)

// kit runs the kit for agents on the program of this test binary, which behaves as it is told.
func kit(t *testing.T, behavior string, change func(*conformance.Agent)) *conformance.Report {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	a := &conformance.Agent{Argv: []string{"/usr/bin/env", "AGENT=" + behavior, program}, Limit: 10 * time.Second, Case: os.Getenv("KIT_CASE")}
	if change != nil {
		change(a)
	}
	r, err := a.Run(t.Context())
	must(t, err)
	return r
}

// TestAgent: the agent of this repository passes every case.
func TestAgent(t *testing.T) {
	t.Parallel()
	r := kit(t, "ours", func(a *conformance.Agent) {
		a.Limit = time.Minute // other tests may hold the processors for long
		if !budget.Large() {
			a.Settle = 200 * time.Millisecond // it obeys nothing wrong, however long it is watched
		}
	})
	if r.Failed > 0 || r.NotApplicable > 0 || r.Passed < 40 && os.Getenv("KIT_CASE") == "" {
		t.Error(r.Text())
	}
	inTheDraft(t, r)
}

// inTheDraft sees that every statement that a case names is one of the draft.
func inTheDraft(t *testing.T, r *conformance.Report) {
	t.Helper()
	for _, result := range r.Results {
		for _, id := range result.Statements {
			if _, ok := draft.Statement(id); !ok {
				t.Errorf("%s names %s, which the draft does not have", result.Case, id)
			}
		}
	}
}

// TestAgentFaultsChaos: each of the mistakes of an agent is caught, by a case that names the
// statement.
func TestAgentFaultsChaos(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(agentFaults))
	for _, name := range names[:budget.Budget{Short: 2, Usual: 4, Chaos: len(names)}.Now()] {
		t.Run(name, func(t *testing.T) {
			f := agentFaults[name]
			r := kit(t, name, func(a *conformance.Agent) { a.Case, a.Limit = f.cases, 5*time.Second })
			caught := slices.ContainsFunc(r.Results, func(r conformance.Result) bool {
				return r.Outcome == conformance.Failed && slices.Contains(r.Statements, f.statement) && r.Sent != "" && r.Expected != "" && r.Got != ""
			})
			if !caught {
				t.Errorf("no failure names %s:\n%s", f.statement, r.Text())
			}
			t.Log(r.Text())
		})
	}
}

// TestNaiveAgent: an agent that believes what it reads fails where a decision is forged, a bundle
// is changed, and a crash takes its memory.
func TestNaiveAgent(t *testing.T) {
	t.Parallel()
	r := kit(t, "naive", func(a *conformance.Agent) { a.NoWork, a.Limit = true, 2*time.Second })
	var passed []string
	named := map[string]bool{}
	for _, result := range r.Results {
		if result.Outcome == conformance.Passed {
			passed = append(passed, result.Case)
		}
		for _, id := range result.Statements {
			named[id] = named[id] || result.Outcome == conformance.Failed
		}
	}
	for _, id := range []string{"AGT-0", "AGT-7", "TRU-1", "TRU-2", "TRU-3", "TRU-4", "ENV-3", "ENV-8", "RPL-1", "INC-2a", "INC-5", "INC-5a", "INC-5b", "INC-7a", "INC-7b", "AGT-4b", "AGT-1a", "AGT-1b"} {
		if !named[id] {
			t.Errorf("no failure names %s", id)
		}
	}
	for _, name := range passed {
		if group, _, _ := strings.Cut(name, "/"); group == "decision" || group == "approval" || group == "bundle" || group == "crash" {
			t.Errorf("%s passes", name)
		}
	}
	t.Logf("%d cases fail; these pass: %q", r.Failed, passed)
}

// TestBadAgents: a program that is no agent is told from one at once, and a pattern that is none is
// refused.
func TestBadAgents(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"does not start": {"/nowhere/agent"}, "the program ended (exit status 1)": {"false"}, "nothing of it within 300ms": {"sleep", "60"},
		"the program ended (exit status 0): nonsense": {"echo", "nonsense"},
	} {
		a := &conformance.Agent{Argv: argv, Limit: 300 * time.Millisecond}
		r, err := a.Run(t.Context())
		must(t, err)
		if name == "does not start" {
			name = "no such file"
		}
		if r.Passed > 0 || !strings.Contains(r.Text(), name) || !strings.Contains(r.Text(), "not played") {
			t.Errorf("%s: %.600s", name, r.Text())
		}
	}
	if _, err := (&conformance.Agent{Argv: []string{"true"}, Limit: time.Second, Case: "["}).Run(t.Context()); err == nil {
		t.Error("no error about the pattern")
	}
}
