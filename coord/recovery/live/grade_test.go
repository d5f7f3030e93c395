package live

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// A grade that is none counts as nothing; a grader that is not there ends the
// run.
func TestLiveGrades(t *testing.T) {
	for answer, want := range map[string]string{
		`{"score_ppm": 600000}`: "ok 600000", `{}`: "ok 1000000", `{"score_ppm": "much"}`: "failed 0", `{"score_ppm": 1000001}`: "failed 0", `500 x`: "failed 0",
	} {
		grader, tool := serve(t, answers(answer)), serve(t, answers(`{"n": 1}`))
		l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: Call{URL: tool.URL}}, "grader": {Call: Call{URL: grader.URL}}}})
		step := toolStep(`{"q": 1}`)
		half := int64(500_000)
		step.Expect = &scenario.Expect{Checks: []scenario.Check{{Name: "good", At: "/n", Tool: "grader"}}, ConfidenceMinPPM: &half}
		a := try(t, l, step, scenario.Variation{})
		if got := fmt.Sprint(a.Outcome, " ", *a.ConfidencePPM); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
		if a.Outcome == scenario.Failed && (told(a) != "failed verify.gate_failed complete unsafe check.good" || a.Failure.Evidence != a.OutputDigest) {
			t.Errorf("%s: %s", answer, told(a))
		}
		if want := `{"case":"c","step":"s","attempt":0,"input":{"q":1},"check":"good","output":1}`; grader.bodies[0] != want {
			t.Errorf("graded %s", grader.bodies[0])
		}
		step.Expect.Checks[0].Tool = "nobody"
		if _, err := l.Attempt(t.Context(), scenario.Request{Case: &scenario.Case{}, Step: &step}); err == nil || !strings.Contains(err.Error(), `tool "nobody" of check good`) {
			t.Errorf("error %v", err)
		}
	}
}

// equalJSON says whether two values are the same in canonical form.
func equalJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}
