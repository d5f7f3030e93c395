package run

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
)

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
		good:              {"/id", "already stands on line 1"},
	} {
		e := serve(t, answers("{}"))
		r := newTestRun(t, good+"\n"+line+"\n", t.TempDir())
		r.Mode, r.Instance, r.Runtime = ModeLive, "run", newLive(t, LiveConfig{Tools: map[string]LiveTool{"tool": {Call: Call{URL: e.URL}}}})
		report, err := r.Do(t.Context())
		wrong := checkError(t, err)
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
	live := newLive(t, LiveConfig{Models: map[string]LiveModel{"m": {BaseURL: "http://127.0.0.1:1"}}, DefaultModel: "m"})
	config := Config{Policy: recovery.Default(), Runtime: live}
	step := modelStep(`"x"`)
	const good = "{\"v\":1,\"id\":\"a\",\"agent\":\"x\",\"steps\":[\n{\"id\":\"s\"}"
	if _, err := config.ReadCase("case.json", strings.NewReader(good+"]}")); err != nil {
		t.Error(err)
	}
	_, err := config.ReadCase("case.json", strings.NewReader(good+",\n{\"id\":\"r\",\"tool\":\"t\"}]}"))
	if wrong := checkError(t, err); wrong.Field != "/steps/1/tool" || wrong.Line != 3 {
		t.Errorf("a tool that is not configured: %v", wrong)
	}
	for _, strategy := range []string{"fallback_model", "fail_reassign"} {
		if a := try(t, live, step, Way{Strategy: strategy, Model: "other"}); a.Outcome != NotObserved {
			t.Errorf("%s on a model that is not configured: %s", strategy, a.Outcome)
		}
	}
}
