package worker

import (
	"errors"
	"testing"

	"recoveryledger/api"
)

// TestInside reads environments of a program, and those that are none.
func TestInside(t *testing.T) {
	whole := map[string]string{
		"ARL_TASK": "operator#report", "ARL_WORKFLOW": "flow", "ARL_EPOCH": "3", "ARL_AGENT": "ann", "ARL_EXEC": "ann#run-1",
		"ARL_RUN_DIR": "/tmp/run", "ARL_RUN_URL": "http://127.0.0.1:8087", "ARL_RUN_KEY": "ann.key",
	}
	w, err := Inside(func(name string) string { return whole[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := Work{Dir: "/tmp/run", URL: "http://127.0.0.1:8087", Key: "ann.key", Agent: "ann",
		Claim: Claim{Exec: "ann#run-1", Task: api.Task{Task: "operator#report", Wid: "flow", Epoch: 3}}}
	if w.Dir != want.Dir || w.URL != want.URL || w.Key != want.Key || w.Agent != want.Agent || w.Claim.Exec != want.Claim.Exec ||
		w.Claim.Task.Task != want.Claim.Task.Task || w.Claim.Task.Wid != want.Claim.Task.Wid || w.Claim.Task.Epoch != want.Claim.Task.Epoch {
		t.Errorf("%+v, want %+v", w, want)
	}
	for name, value := range map[string]string{"ARL_TASK": "", "ARL_RUN_DIR": "", "ARL_EPOCH": "three"} {
		_, err := Inside(func(asked string) string {
			if asked == name {
				return value
			}
			return whole[asked]
		})
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Reason != ReasonInvalid {
			t.Errorf("%s=%q: %v", name, value, err)
		}
	}
}

// TestStepFile takes names of steps that are names of files everywhere, up to 64
// bytes.
func TestStepFile(t *testing.T) {
	longest := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
	for name, ok := range map[string]bool{"charge-bob_1.x": true, longest: true, longest + "-": false, "": false, "a/b": false, "ä": false, "a b": false} {
		_, err := stepFile("/tmp/run", name)
		if failed, typed := errors.AsType[*Error](err); (err == nil) != ok || typed && failed.Reason != ReasonInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
