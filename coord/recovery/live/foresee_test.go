package live

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
)

// liveRun is a live run of a scenario under the default policy.
func liveRun(t *testing.T, lines string, l *Runtime) *engine.Run {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scenario.ndjson")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := engine.CreateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	p := recovery.Default()
	config := engine.Config{Policy: p, Runtime: l, Instance: "run"}
	return &engine.Run{Batch: engine.Batch{Config: config, Workers: 2, Neighbours: engine.Neighbours(p)}, Scenario: path, Mode: engine.ModeLive, Dir: d, ID: "test"}
}

// inputError checks what is promised of an error about an input.
func inputError(tb testing.TB, err error) *scenario.Error {
	tb.Helper()
	wrong, ok := errors.AsType[*scenario.Error](err)
	if !ok {
		tb.Fatalf("error %v is no *scenario.Error", err)
	}
	if wrong.Problem == "" || wrong.File == "" || wrong.Detail == "" || wrong.Remedy == "" || wrong.Field != "" && wrong.Field[0] != '/' {
		tb.Fatalf("error %+v is incomplete", wrong)
	}
	return wrong
}

// A live run that could not come to its end does nothing: a line that would end
// it is found before the first attempt, wherever it stands.
func TestLiveRunIsForeseen(t *testing.T) {
	const good = `{"v":1,"id":"a","agent":"x","steps":[{"id":"s","tool":"tool"}]}`
	for line, want := range map[string][2]string{
		`{"v":1,"id":"b","agent":"x","steps":[{"id":"r","tool":"tool"},{"id":"s","tool":"else"}]}`: {"/steps/1/tool", `names the tool "else"`},
		`{"v":1,"id":"b","agent":"x","steps":[{"id":"s","model":"big"}]}`:                          {"/steps/0/model", `names the model "big"`},
		`{"v":1,"id":"b","agent":"x","steps":[{"id":"s"}]}`:                                        {"/steps/0/model", "has no default_model"},
		`{"v":1,"id":"b","agent":"x","steps":[{"id":"s","tool":"tool","expect":{"checks":[{"name":"n","min":1},{"name":"m","tool":"judge"}]}}]}`: {
			"/steps/0/expect/checks/1/tool", `names the tool "judge"`},
		`{"v":1,"id":"b"`: {"", "is not JSON"},
		good:              {"/id", "line 1 has the id"},
	} {
		e := serve(t, answers("{}"))
		r := liveRun(t, good+"\n"+line+"\n", newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: e.URL}}}}))
		report, err := r.Do(t.Context())
		wrong := inputError(t, err)
		if e.count() > 0 || report.V != 0 || wrong.File != r.Scenario || wrong.Line != 2 || wrong.Field != want[0] || !strings.Contains(wrong.Detail, want[1]) {
			t.Errorf("%s: %v after %d requests", line, err, e.count())
		}

		// Passed over, the line is one of the rejected.
		r.KeepGoing = true
		if report, err = r.Do(t.Context()); err != nil || e.count() != 1 || report.Total != 1 || report.Rejected != 1 || report.Rejections[0].Line != 2 {
			t.Errorf("%s: kept going: %v, %d requests, %d cases", line, err, e.count(), report.Total)
		}
	}
}

// One case is checked likewise, and a fallback to a model that nobody
// configured is not observed.
func TestLiveCaseIsChecked(t *testing.T) {
	live := newLive(t, Config{Models: map[string]Endpoint{"m": {BaseURL: "http://127.0.0.1:1"}}, DefaultModel: "m"})
	config := engine.Config{Policy: recovery.Default(), Runtime: live}
	step := modelStep(`"x"`)
	const good = "{\"v\":1,\"id\":\"a\",\"agent\":\"x\",\"steps\":[\n{\"id\":\"s\"}"
	if _, err := config.ReadCase("case.json", strings.NewReader(good+"]}")); err != nil {
		t.Error(err)
	}
	_, err := config.ReadCase("case.json", strings.NewReader(good+",\n{\"id\":\"r\",\"tool\":\"t\"}]}"))
	if wrong := inputError(t, err); wrong.Field != "/steps/1/tool" || wrong.Line != 3 {
		t.Errorf("a tool that is not configured: %v", wrong)
	}
	for _, strategy := range []string{"fallback_model", "fail_reassign"} {
		if a := try(t, live, step, scenario.Variation{Strategy: strategy, Model: "other"}); a.Outcome != scenario.NotObserved {
			t.Errorf("%s on a model that is not configured: %s", strategy, a.Outcome)
		}
	}
}
