package importer

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// leavesOf yields leaves as a reader of a log does.
func leavesOf(leaves [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, leaf := range leaves {
			if !yield(leaf, nil) {
				return
			}
		}
	}
}

// pastOf reads the incidents of a log and checks each as a line of a scenario.
func pastOf(tb testing.TB, leaves [][]byte, since int64) []scenario.Case {
	tb.Helper()
	var cases []scenario.Case
	for c, err := range FromLog("log", leavesOf(leaves), since) {
		if err != nil {
			tb.Fatal(err)
		}
		cases = append(cases, c)
	}
	checkScenario(tb, cases)
	return cases
}

// incidentLog is a log with a chain of three executions of two agents, of which
// the last fails without anybody knowing what it left.
func incidentLog(tb testing.TB) (l *testLog, failed *entry.Signal) {
	tb.Helper()
	l = newTestLog(tb)
	header := func(name string, agent entry.Principal) entry.Header {
		return entry.Header{V: 1, JTI: testJTI(name), Iss: agent, Aud: testOrigin, Iat: testNow, Wid: "w"}
	}
	run := func(agent entry.Principal, exec string, effect entry.Effect, ends entry.Progress, parents ...entry.Parent) {
		steps := []entry.Progress{entry.Started, ends}
		if effect == entry.EffectNone {
			steps = steps[1:]
		}
		for _, progress := range steps {
			x := &entry.Execution{Header: header(exec+string(progress), agent), Exec: exec, Parents: append([]entry.Parent{}, parents...), Effect: effect, Progress: progress}
			if effect == entry.EffectCompensable {
				x.IdempotencyKey = entry.Digest("hmac-sha256:" + strings.Repeat("0", 64))
			}
			if progress.Final() {
				cost, latency := int64(7), int64(30)
				x.CostMicroUSD, x.LatencyMS = &cost, &latency
			}
			l.register(x)
		}
	}
	run("reader", "read", entry.EffectNone, entry.Confirmed)
	run("reader", "odd", entry.EffectNone, entry.Failed)
	run("reader", "aside", entry.EffectNone, entry.Confirmed)
	run("writer", "book", entry.EffectCompensable, entry.Failed,
		entry.Parent{Exec: "reader#read", Dep: entry.Hard}, entry.Parent{Exec: "reader#odd", Dep: entry.Soft})
	wait := int64(2000)
	failed = &entry.Signal{
		Header: header("signal", "writer"), Subject: "writer#book", Class: "transient", Code: "timeout", Standing: entry.StandingExecutor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: testNow * 1000, RetryAfterMS: &wait,
		Evidence: []entry.Evidence{{Digest: entry.Digest("hmac-sha256:" + strings.Repeat("1", 64))}},
	}
	l.register(failed)
	return l, failed
}

// A signal becomes a case with what its subject depends on; a later one that
// knows the effects is what a reconcile found out.
func TestPastIncident(t *testing.T) {
	l, failed := incidentLog(t)
	at := l.size - 1
	want := fmt.Sprintf("incident-%d", at)
	cases := pastOf(t, l.leaves, 0)
	if len(cases) != 1 || cases[0].ID != want || cases[0].Agent != "writer" || cases[0].Workflow != "w" || len(cases[0].Steps) != 2 {
		t.Fatalf("cases %+v, want %s", cases, want)
	}
	read, book := cases[0].Steps[0], cases[0].Steps[1]
	if read.Agent != "reader" || read.Outcome != scenario.OK || *read.CostMicroUSD != 7 || *read.LatencyMS != 30 || parentList(book) != read.ID {
		t.Errorf("steps %+v, %+v", read, book)
	}
	f := book.Failure
	if book.Effect != entry.EffectCompensable || f.String() != "transient.timeout" || f.Effects != entry.EffectsUnknown ||
		*f.Raw.RetryAfterMS != 2000 || f.Evidence != failed.Evidence[0].Digest || len(book.Attempts) != 0 {
		t.Errorf("step %+v failed with %+v", book, f)
	}
	if before := pastOf(t, l.leaves, testNow*1000); len(before) != 1 {
		t.Errorf("%d cases at the instant itself", len(before))
	}
	if after := pastOf(t, l.leaves, testNow*1000+1); len(after) != 0 {
		t.Errorf("%d cases after it", len(after))
	}
	known := *failed
	known.JTI, known.Effects = testJTI("known"), entry.EffectsNone
	e, _, err := entry.DecodeLeaf(l.leaves[at])
	if err != nil {
		t.Fatal(err)
	}
	known.Supersedes = &entry.LogRef{Index: at, LeafHash: e.LeafHash(testNow * 1000)}
	l.register(&known)
	cases = pastOf(t, l.leaves, 0)
	want2 := []scenario.Attempt{{Variation: scenario.Variation{Strategy: "reconcile"}, Outcome: scenario.OK, Effects: entry.EffectsNone}}
	if diff := cmp.Diff(want2, cases[0].Steps[1].Attempts); len(cases) != 1 || diff != "" {
		t.Errorf("%d cases, attempts (-want +got):\n%s", len(cases), diff)
	}
}

// The result of an undo tells whether the effect had taken place.
func TestPastOutcomes(t *testing.T) {
	for result, want := range map[entry.Result]entry.Effects{
		entry.NotExecuted: entry.EffectsNone, entry.Restored: entry.EffectsComplete, entry.Compensated: entry.EffectsComplete,
		entry.ResultIrrevocable: entry.EffectsComplete, entry.ResultFailed: "", entry.Refused: "", entry.Withheld: "", entry.ResultUnknown: "",
	} {
		if got := left(result); got != want {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
	}
}

// A log that cannot be read ends the import with the place.
func TestPastOfDamagedLog(t *testing.T) {
	l, _ := incidentLog(t)
	l.leaves[2] = l.leaves[2][1:]
	var wrong *scenario.Error
	for _, err := range FromLog("log", leavesOf(l.leaves), 0) {
		if !errors.As(err, &wrong) || wrong.Record != 3 || wrong.File != "log" {
			t.Errorf("error %v", err)
		}
	}
	broken := errors.New("no disk")
	for _, err := range FromLog("log", func(yield func([]byte, error) bool) { yield(nil, broken) }, 0) {
		if !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
}

// What real runs left in a log comes out again as incidents: one for each
// signal.
func TestPastOfRealRuns(t *testing.T) {
	sets := []struct {
		format    Format
		name, ext string
		want      int
	}{
		{ToolBench, "toolbench", ".json", 6}, {Attempts, "aider_swe_bench", ".ndjson", 85}, {OpenAIChat, "tau_bench_airline", ".json", 116},
	}
	for _, set := range sets[:budget.Budget{Short: 2, Usual: len(sets)}.Now()] {
		t.Run(set.name, func(t *testing.T) {
			files := dataFiles(t, set.name, set.ext)
			l := newTestLog(t)
			l.importSet(set.format, files)
			if cases := pastOf(t, l.leaves, 0); len(cases) != set.want {
				t.Errorf("%d incidents, want %d", len(cases), set.want)
			}
		})
	}
}

// No leaf makes the import fail in another way than with an error that names
// it.
func FuzzPast(f *testing.F) {
	l, _ := incidentLog(f)
	for _, leaf := range l.leaves {
		f.Add(leaf)
	}
	f.Fuzz(func(t *testing.T, leaf []byte) {
		for c, err := range FromLog("log", leavesOf(append(slices.Clone(l.leaves), leaf)), 0) {
			if err != nil {
				_ = checkError(t, err)
				continue
			}
			checkCase(t, MergeRetries(c))
		}
	})
}
