//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// probed is arl run of the recipe in Python, with a probe.
func (m *machine) probed(name entry.Principal, task, work, probe string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	m.t.Helper()
	script, err := filepath.Abs(filepath.Join("..", "..", "testdata", "recipes", "agent.py"))
	m.must(err)
	if probe == "" {
		probe = "python3 " + script + " " + work + " probe"
	}
	return m.command(env, "run", "--task", task, "--key", filepath.Join(m.home, string(name)+".key"), "--grace", "2s", "--probe", probe, "--", "python3", script, work)
}

// progress is what the log says of the newest execution of a step of an agent.
func (m *machine) progress(agent entry.Principal, task, step string) (last entry.Progress) {
	m.t.Helper()
	for line := range strings.Lines(m.arl("entry", "list", "--task", task, "--kind", "execution", "--output", "json")) {
		var e struct{ Payload entry.Execution }
		m.must(json.Unmarshal([]byte(line), &e))
		if e.Payload.Iss == agent && strings.HasPrefix(e.Payload.Exec, step+"-") {
			last = e.Payload.Progress
		}
	}
	return last
}

// TestRunReconcilesFirst kills an agent in the middle of an effect. Whoever knows
// is asked whether it took place; the answer is the step's final entry, and opens
// the effect gate, so that another agent goes on. Where nobody knows, a person is
// needed.
// Draft: SIG-4.
func TestRunReconcilesFirst(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	for _, c := range []struct {
		name, variable, probe string
		said                  string
		progress              entry.Progress
	}{
		{"before", "AGENT_DIES_BEFORE", "", "step charge-bob: effects none, says the probe", entry.Failed},
		{"after", "AGENT_DIES_AFTER", "", "step charge-bob: effects complete, says the probe", entry.Confirmed},
		{"fails", "AGENT_DIES_AFTER", "false", "step charge-bob: nobody knows its effects: exit code 1", entry.Started},
		{"babbles", "AGENT_DIES_AFTER", "echo perhaps", "nobody knows its effects: the probe answers \"perhaps\": want none, complete or unknown", entry.Started},
		{"floods", "AGENT_DIES_AFTER", "yes complete", "step charge-bob: nobody knows its effects: ", entry.Started},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.t = t
			task, work := "operator#"+c.name, t.TempDir()
			m.arl("task", "create", c.name, "--type", "charges", "--reason", "three charges")
			holder := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned }).Agent
			first, said := m.probed(holder, task, work, c.probe, c.variable+"=bob")
			if code := exitOf(first.Run()); code != 7 || !strings.Contains(said.String(), c.said) {
				t.Fatalf("exit code %d: %s", code, said)
			}
			if got := m.progress(holder, task, "charge-bob"); got != c.progress {
				t.Errorf("the step is %s, want %s\n%s", got, c.progress, said)
			}
			if c.progress == entry.Started {
				if now := m.stands(task); now.Waits != api.WaitsOperator || !strings.Contains(said.String(), "effects_unknown") {
					t.Errorf("%+v\n%s", now, said)
				}
				return
			}
			if !strings.Contains(said.String(), task+": reconcile: effects_uncertain (gate)") || !strings.Contains(said.String(), task+": checkpoint_resume: ladder (crash[0])") {
				t.Errorf("the policy was not asked again: %s", said)
			}
			next := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned }, said)
			second, more := m.probed(next.Agent, task, work, c.probe)
			if code := exitOf(second.Run()); code != 0 || next.Agent == holder {
				t.Fatalf("%s: exit code %d: %s", next.Agent, code, more)
			}
			if now := m.stands(task); now.State != entry.TaskCompleted || now.ResumeCount != 1 || now.RetryCount != 0 {
				t.Errorf("%+v", now)
			}
			m.charged(work)
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestRunReconcilesEarlierClaim kills a supervisor with its agent, in the middle
// of an effect: nobody gets the task, until the supervisor starts again and asks
// what became of it.
func TestRunReconcilesEarlierClaim(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	m.arl("task", "create", "charges", "--type", "charges", "--lease-ms", m.lease(3000), "--reason", "three charges")
	work := t.TempDir()
	run := func(name entry.Principal, script string) (*exec.Cmd, *bytes.Buffer) {
		return m.command(nil, "run", "--task", "operator#charges", "--key", filepath.Join(m.home, string(name)+".key"),
			"--probe", "sh "+filepath.Join(work, "probe"), "--", "sh", "-c", script, "agent", work)
	}
	m.must(os.WriteFile(filepath.Join(work, "probe"), []byte(`echo "$ARL_STEP $ARL_EFFECT $ARL_IDEMPOTENCY_KEY" >> "$(dirname "$0")/asked"
test -e "$(dirname "$0")/paid" && echo complete || echo none`), 0o600))
	first, said := run("one", `"$ARL_PROGRAM" work begin pay-bob --effect irrevocable && touch "$1/paid" && kill -9 $PPID; kill -9 $$`)
	if code := exitOf(first.Run()); code != -1 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	m.until("operator#charges", func(t *api.Task) bool { return t.State == entry.TaskFailed && t.Gate != "" }, said)
	again, more := run("one", "exit 1")
	m.must(again.Start())
	m.until("operator#charges", func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Agent == "two" }, more)
	if got := m.progress("one", "operator#charges", "pay-bob"); got != entry.Confirmed {
		t.Errorf("the step is %s", got)
	}
	second, words := run("two", `"$ARL_PROGRAM" work begin pay-bob --effect irrevocable --output json > "$1/begun"; "$ARL_PROGRAM" work end pay-bob`)
	if code := exitOf(second.Run()); code != 0 {
		t.Fatalf("exit code %d: %s", code, words)
	}
	if code := exitOf(again.Wait()); code != 6 || !strings.Contains(more.String(), "step pay-bob: effects complete, says the probe") {
		t.Errorf("exit code %d: %s", code, more)
	}
	asked, err := os.ReadFile(filepath.Join(work, "asked"))
	m.must(err)
	begun, err := os.ReadFile(filepath.Join(work, "begun"))
	m.must(err)
	if of := strings.Fields(string(asked)); len(of) != 3 || of[0] != "pay-bob" || of[1] != "irrevocable" || !strings.Contains(string(begun), of[2]) {
		t.Errorf("asked %s, then begun %s", asked, begun)
	}
	m.arl("log", "audit")
	m.stop()
}
