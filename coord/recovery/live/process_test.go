package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
)

// shell is a tool that is a script of the shell.
func shell(script string) Call {
	return Call{Command: []string{"/bin/sh", "-c", script}, TimeoutMS: 30_000}
}

func shellTool(script string) Config {
	return Config{Tools: map[string]Tool{"tool": {Call: shell(script)}}}
}

// How processes end, and what is known of their effect then: nothing, unless
// they say it.
func TestLiveProcess(t *testing.T) {
	for _, c := range []struct{ desc, script, want string }{
		{"an output", `echo '{"id": 7}'`, "ok"},
		{"a text", `echo seven`, "ok"},
		{"an exit code", `echo no >&2; exit 3`, "failed tool.error unknown unknown exit_3"},
		{"an error it reports", `echo '{"error": {"code": "rate_limit_exceeded"}, "effects": "none"}'; exit 1`, "failed capacity.rate_limited none safe exit_reported"},
		{"an error it reports with success", `echo '{"error": {"code": "rate_limit_exceeded"}}'`, "failed capacity.rate_limited unknown unknown reported"},
		{"truncated JSON", `printf '{"id": '`, "failed output.malformed unknown unknown truncated_json"},
		{"killed", `kill -KILL $$`, "failed crash.oom unknown unknown killed"},
		{"a child was killed", `sh -c 'kill -KILL $$'; exit $?`, "failed crash.oom unknown unknown killed"},
		{"interrupted", `kill -TERM $$`, "failed crash.interrupted unknown unknown signal_15"},
		{"crashed", `kill -SEGV $$`, "failed crash.panic unknown unknown signal_11"},
		{"panicked", `echo 'panic: no' >&2; exit 2`, "failed crash.panic unknown unknown panic"},
		{"no text", `printf '\377'`, "failed output.malformed unknown unknown not_utf8"},
	} {
		a := try(t, newLive(t, shellTool(c.script)), toolStep(`{}`), scenario.Variation{})
		if got := told(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
		if a.Outcome == scenario.Failed && (a.Failure.Evidence == "" || c.desc == "an exit code" && a.Failure.Raw.Text != "no\n") {
			t.Errorf("%s: failure %+v", c.desc, a.Failure)
		}
	}
}

// A process gets the request on standard input and a small environment; both
// its output and its errors are bounded.
func TestLiveProcessInputAndOutput(t *testing.T) {
	t.Setenv("NOT_FOR_TOOLS", "secret")
	config := shellTool(`cat; env | grep -c NOT_FOR_TOOLS >&2; echo "$GIVEN $ARL_CASE $ARL_STEP $ARL_ATTEMPT $ARL_IDEMPOTENCY_KEY" >&2; exit 1`)
	tool := config.Tools["tool"]
	tool.Raw, tool.Env = true, []string{"GIVEN", "ARL_CASE"}
	config.Tools["tool"] = tool
	t.Setenv("GIVEN", "given")
	t.Setenv("ARL_CASE", "another")
	a := try(t, newLive(t, config), toolStep(`{"error": null}`), scenario.Variation{})
	if got := a.Failure.Raw.Text; got != "0\ngiven c s 0 key-1\n" {
		t.Errorf("errors %q", got)
	}
	for size, want := range map[int]string{outputMax - 3: "ok", outputMax - 2: "failed output.malformed unknown unknown output_too_large"} {
		script := fmt.Sprintf(`printf '"'; head -c %d /dev/zero | tr '\0' x; printf '"\n'`, size)
		if got := told(try(t, newLive(t, shellTool(script)), toolStep(`1`), scenario.Variation{})); got != want {
			t.Errorf("%d bytes: %s, want %s", size, got, want)
		}
	}
}

// A program that went away ends the run, since no policy can help.
func TestLiveProcessIsMissing(t *testing.T) {
	config := shellTool("")
	tool := config.Tools["tool"]
	tool.Command, tool.Dir = []string{"./program"}, t.TempDir()
	config.Tools["tool"] = tool
	program := filepath.Join(tool.Dir, "program")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	live := newLive(t, config)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	step := toolStep("1")
	if _, err := live.Attempt(t.Context(), scenario.Request{Case: &scenario.Case{}, Step: &step}); err == nil || !strings.Contains(err.Error(), "start ./program") {
		t.Errorf("error %v", err)
	}
}

// A tool that crashes after its effect: nobody knows whether it took place, so
// that the policy asks the probe before anything else. Where it did, the
// result is taken from there and the tool is not called again; where it did
// not, it is.
func TestLiveCrashAfterEffect(t *testing.T) {
	for _, c := range []struct{ desc, script, rungs string }{
		{"after", `echo x >> booked; [ $(wc -l < booked) -gt 1 ] || exit 9; echo '{"id": 7}'`, "reconcile=ok"},
		{"before", `echo x >> tried; [ $(wc -l < tried) -gt 1 ] || exit 9; echo x >> booked; echo '{"id": 7}'`, "reconcile=ok retry=ok"},
	} {
		call, probe := shell(c.script), shell(`if [ -e booked ]; then echo '{"effects": "complete", "output": {"id": 7}}'; else echo '{"effects": "none"}'; fi`)
		call.Dir, probe.Dir = t.TempDir(), ""
		probe.Dir = call.Dir
		l := newLive(t, Config{Tools: map[string]Tool{"tool": {Call: call, Probe: &probe}}})
		step := toolStep(`{}`)
		done := recoverLive(t, l, step)
		var rungs []string
		for _, r := range done.Trace.Rungs {
			rungs = append(rungs, r.Strategy+"="+r.Result)
		}
		if got := strings.Join(rungs, " "); got != c.rungs || done.Trace.Status != engine.AutoRecovered {
			t.Errorf("%s: %s, %s (%s); want %s", c.desc, got, done.Trace.Status, done.Trace.Reason, c.rungs)
		}
		booked, err := os.ReadFile(filepath.Join(call.Dir, "booked"))
		if err != nil || string(booked) != "x\n" {
			t.Errorf("%s: booked %q, %v", c.desc, booked, err)
		}
	}
}

// recoverLive takes one live case through the default policy, and checks that
// what it recorded gives the same trace again.
func recoverLive(t *testing.T, l *Runtime, steps ...scenario.Step) engine.Recovery {
	t.Helper()
	config := engine.Config{Policy: recovery.Default(), Runtime: l, Instance: "test"}
	done, err := config.Recover(t.Context(), &scenario.Case{ID: "c", Agent: "a", Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	line, err := scenario.Encode(done.Case)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := scenario.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	again, err := (&engine.Config{Policy: recovery.Default()}).Recover(t.Context(), &recorded)
	if err != nil {
		t.Fatal(err)
	}
	live, err := done.Trace.Encode()
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := again.Trace.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(live) != string(replayed) {
		t.Errorf("replay differs:\nlive     %s\nrecorded %s", live, replayed)
	}
	return done
}
