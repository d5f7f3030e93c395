package conformance_test

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"recoveryledger/api/conformance"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/needs"
)

const top = "../../"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func run(t *testing.T, vectors fs.FS, argv ...string) *conformance.Report {
	t.Helper()
	v := &conformance.Verifier{Argv: argv, Vectors: vectors, Limit: 20 * time.Second, Stderr: io.Discard}
	report, err := v.Run(t.Context())
	must(t, err)
	return report
}

// ours runs the verifier of this test binary, which behaves as it is told.
func ours(t *testing.T, vectors fs.FS, behavior string) *conformance.Report {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	return run(t, vectors, "/usr/bin/env", "VERIFIER="+behavior, program)
}

var vectors = os.DirFS(top + "testdata/vectors")

// TestVerifiers: the verifier in Go gives every verdict that it says it gives. Those in JavaScript
// and Python judge every vector, of some groups only where the budget is not large.
func TestVerifiers(t *testing.T) {
	few := some(t, "envelope", "evidence", "hash", "history", "leaf", "merkle", "note", "prefix")
	if budget.Large() {
		few = vectors
	}
	check := func(t *testing.T, asked fs.FS, least, left int, argv ...string) {
		t.Helper()
		cases, err := conformance.Cases(asked)
		must(t, err)
		r := run(t, asked, argv...)
		if r.Failed > 0 || r.Passed < least || len(r.Results) != len(cases) || r.NotApplicable > left {
			t.Error(r.Text())
		}
	}
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		program, err := os.Executable()
		must(t, err)
		check(t, vectors, 1000, 150, "/usr/bin/env", "VERIFIER=", program)
	})
	t.Run("JavaScript", func(t *testing.T) {
		t.Parallel()
		check(t, few, 200, 0, jsverify.Node(t), "--no-warnings", top+"verify/js/judge.js")
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		python := needs.Program(t, "python3", "python3", "its verifier is not run")
		check(t, few, 200, 0, python, top+"testdata/crosscheck/judge.py")
	})
}

// some are the vectors of a few groups, so that a test starts many verifiers.
func some(t *testing.T, folders ...string) fs.FS {
	t.Helper()
	few := fstest.MapFS{}
	for _, group := range conformance.Groups() {
		few[group] = &fstest.MapFile{Mode: fs.ModeDir}
	}
	for _, group := range folders {
		files, err := fs.Glob(vectors, group+"/*.json")
		must(t, err)
		for _, file := range files {
			data, err := fs.ReadFile(vectors, file)
			must(t, err)
			few[file] = &fstest.MapFile{Data: data}
		}
	}
	return few
}

// TestBadTargets: a program that hangs, crashes, or answers garbage or out of order is said to, and
// the cases after that one are judged by a new process.
func TestBadTargets(t *testing.T) {
	few := some(t, "hash")
	for behavior, want := range map[string]string{
		"hangs": "hangs: no answer within", "crashes": "ended its output without an answer", "garbage": "garbage: Segmentation fault",
		"order": "out of order: the answer has the id", "silent": "no verdict", "long": "its line is longer than",
	} {
		t.Run(behavior, func(t *testing.T) {
			program, err := os.Executable()
			must(t, err)
			limits := []time.Duration{20 * time.Second}
			if behavior == "hangs" {
				limits = []time.Duration{300 * time.Millisecond, 10 * time.Second} // on a busy machine a program starts slowly
			}
			var r *conformance.Report
			for _, limit := range limits {
				v := &conformance.Verifier{Argv: []string{"/usr/bin/env", "VERIFIER=" + behavior, program}, Vectors: few, Limit: limit, Stderr: io.Discard}
				r, err = v.Run(t.Context())
				must(t, err)
				if r.Failed > 0 && r.Passed > 0 && strings.Contains(r.Text(), want) {
					return
				}
			}
			t.Errorf("%s\nwant %q", r.Text(), want)
		})
	}
	if r := run(t, few, "/nowhere/verifier"); r.Passed != 0 || !strings.Contains(r.Text(), "does not start") || !strings.Contains(r.Text(), "not asked") {
		t.Error(r.Text())
	}
}

// TestFaultsChaos: each of the faults of a verifier is caught, by a case that names a statement.
func TestFaultsChaos(t *testing.T) {
	budget.Unraced(t, "one question after the other")
	if len(faults) < 30 {
		t.Errorf("%d faults", len(faults))
	}
	names := slices.Sorted(maps.Keys(faults))
	for _, name := range names[:budget.Budget{Short: 1, Usual: 1, Chaos: len(names)}.Now()] {
		t.Run(name, func(t *testing.T) {
			r := ours(t, vectors, "fault "+name)
			var named []string
			for _, result := range r.Results {
				if result.Outcome == conformance.Failed {
					named = append(named, result.Statements...)
					if result.Sent == "" || result.Expected == "" || result.Got == "" {
						t.Errorf("%+v", result)
					}
				}
			}
			if r.Failed == 0 || r.Failed > r.Passed || len(named) == 0 {
				t.Errorf("%d failed, which name %v", r.Failed, named)
			}
			t.Logf("%d cases, %q", r.Failed, slices.Compact(slices.Sorted(slices.Values(named))))
		})
	}
}

// TestReports: the report in JSON and as JUnit has every case.
func TestReports(t *testing.T) {
	r := ours(t, some(t, "hash"), "fault lacks malformed")
	text, err := r.JUnit()
	must(t, err)
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Failure *string `xml:"failure"`
		} `xml:"testcase"`
	}
	must(t, xml.Unmarshal(text, &suite))
	failures := 0
	for _, c := range suite.Cases {
		if c.Failure != nil {
			failures++
		}
	}
	if suite.Tests != len(r.Results) || failures != r.Failed || suite.Failures != r.Failed || r.Failed == 0 {
		t.Errorf("%+v", suite)
	}
	data, err := json.Marshal(r)
	must(t, err)
	if !strings.Contains(string(data), `"outcome":"failed"`) {
		t.Errorf("%s", data)
	}
}

// TestBadVectors: files that are no vectors are named.
func TestBadVectors(t *testing.T) {
	for name, text := range map[string]string{
		"hash/none.json": "nonsense", "bundle/none.json": `{"like":"nothing"}`, "bundle/circle.json": `{"like":"circle"}`,
		"bundle/path.json": `{"case":{"bundle":[]},"patch":[{"op":"add","path":"/bundle/7"}]}`, "leaf/none.json": `{"input":{"repeat":"x","times":-1}}`,
	} {
		few, _ := some(t, "hash").(fstest.MapFS)
		few[name] = &fstest.MapFile{Data: []byte(text)}
		_, err := (&conformance.Verifier{Argv: []string{"true"}, Vectors: few, Limit: time.Second}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "vector "+name[:4]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
