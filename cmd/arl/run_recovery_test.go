//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// triaged starts a machine whose policy has a strategy for crashes, beside the
// ladder: once more here, then another agent.
func triaged(t *testing.T, args ...string) *machine {
	t.Helper()
	m := newMachine(t, args...)
	rules := strings.Replace(m.arl("policy", "show", "--default"), "\n  rules:\n", `
  strategies:
    - { name: triage, version: "1", capabilities: [retry, fail_reassign], timeout_ms: 500 }
  rules:
    - id: triaged
      when: class == "crash" && task_type == "charges"
      strategy: triage
      ladder:
        - { strategy: retry }
        - { strategy: fail_reassign }
        - { strategy: escalate }
`, 1)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	m.must(os.WriteFile(file, []byte(rules), 0o600))
	m.args = append(m.args, "--policy", file)
	m.start()
	m.workers("one", "two")
	return m
}

// scripted is arl run --once of a script of the shell.
func (m *machine) scripted(agent entry.Principal, task, script string, flags ...string) (*exec.Cmd, *bytes.Buffer) {
	m.t.Helper()
	args := append([]string{"run", "--once", "--task", task, "--key", filepath.Join(m.home, string(agent)+".key")}, flags...)
	return m.command(nil, append(args, "--", "sh", "-c", script)...)
}

// given creates a task and waits until somebody gets it.
func (m *machine) given(id string, flags ...string) (task string, holder entry.Principal) {
	m.t.Helper()
	m.arl(append([]string{"task", "create", id, "--type", "charges", "--reason", "three charges"}, flags...)...)
	task = "operator#" + id
	return task, m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned }).Agent
}

// TestRunGoesOnInTheLadder tries a task twice in one claim, as the policy wants it,
// and hands it back: the coordinator finds it on the rung where it was left, and
// so does the next claim.
func TestRunGoesOnInTheLadder(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: twice
      when: class == "crash" && code == "panic"
      ladder:
        - { strategy: retry }
        - { strategy: fail_reassign }
        - { strategy: escalate }`)
	m.workers("one", "two")
	task, holder := m.given("climbs", "--max-retries", "5")
	first, said := m.scripted(holder, task, "exit 1")
	if code := exitOf(first.Run()); code != 7 || strings.Count(said.String(), "crash.panic: exit code 1") != 2 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	next := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }, said)
	if next.Agent == holder || next.Failures[0].Attempts != 2 || !strings.Contains(next.Reason, "(twice[1])") {
		t.Errorf("%+v\n%s", next, said)
	}
	tried := entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", string(holder))
	if len(tried) < 2 || len(tried[0].Rungs) != 1 || tried[0].Rungs[0].Strategy != "retry" || tried[0].Rungs[0].Result != "decided" || // before it was made
		tried[1].Agent != holder || tried[1].Task != entry.Ref(task) || tried[1].Policy == "" || tried[1].Status != entry.StatusPassedOn ||
		len(tried[1].Rungs) != 2 || tried[1].Rungs[0].Strategy != "retry" || tried[1].Rungs[0].Result != "failed" || tried[1].Rungs[0].LatencyMS == nil ||
		tried[1].Rungs[1].Strategy != "fail_reassign" || tried[1].Rungs[1].Result != "decided" {
		t.Errorf("%+v", tried)
	}
	second, more := m.scripted(next.Agent, task, "exit 1")
	if code := exitOf(second.Run()); code != 7 || strings.Contains(more.String(), "(twice[0])") || !strings.Contains(more.String(), "(twice[1])") {
		t.Errorf("exit code %d: %s", code, more)
	}
	m.arl("log", "audit")
	m.stop()
}

// TestRunSpends tries a task that notes what each attempt spent: the rungs have the money of their
// attempts, the last entry of the claim has all of it, and the limit of the policy ends the claim.
func TestRunSpends(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: often
      when: class == "crash" && code == "panic"
      ladder:
        - { strategy: retry, max: 5, backoff: { base_ms: 1, factor: 2, max_ms: 2, jitter_ppm: 0 } }
        - { strategy: escalate }`)
	m.workers("one", "two")
	task, holder := m.given("spends", "--max-retries", "5")
	run, said := m.scripted(holder, task, `test "$ARL_ATTEMPT" = 2 || "$ARL_PROGRAM" work progress --cost-micro-usd 1000000 --tokens 70; exit 1`)
	if code := exitOf(run.Run()); code != 7 || !strings.Contains(said.String(), "cost_exhausted") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	all := entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", string(holder))
	var got []string
	for i := range all {
		for _, r := range all[i].Rungs {
			got = append(got, fmt.Sprintf("%s %s %d %d", r.Strategy, r.Result, orZero(r.CostMicroUSD), orZero(r.Tokens)))
		}
		got = append(got, fmt.Sprintf("%s %d %d", all[i].Status, orZero(all[i].CostMicroUSD), orZero(all[i].Tokens)))
	}
	want := []string{"retry decided 0 0", "passed_on 0 0", "retry failed 0 0", "retry decided 0 0", "passed_on 0 0",
		"retry failed 1000000 70", "escalate decided 0 0", "escalated 2000000 140"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s", got, want, said)
	}
	if h := m.arl("agent", "history", string(holder)); !strings.Contains(h, "$2.00") {
		t.Errorf("the history:\n%s", h)
	}
	m.stop()
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// entries are the payloads of entries of a kind that are about a task.
func entriesOf[T any](m *machine, kind entry.Kind, flags ...string) (all []T) {
	m.t.Helper()
	for line := range strings.Lines(m.arl(append([]string{"entry", "list", "--kind", string(kind), "--limit", "0", "--output", "json"}, flags...)...)) {
		var e struct{ Payload T }
		m.must(json.Unmarshal([]byte(line), &e))
		all = append(all, e.Payload)
	}
	return all
}

// TestRunStrategyFails has the policy name a strategy that answers, and some that
// do not: then the ladder decides, and an entry of the log says so.
func TestRunStrategyFails(t *testing.T) {
	t.Parallel()
	m := triaged(t)
	for _, c := range []struct {
		name, strategy string
		said           string // of why it does not count; empty: it does
	}{
		{"answers", `echo '{"strategy":"retry","reason":"told"}'`, ""},
		{"crashes", `echo no luck with password=hunter2hunter2 >&2; exit 3`, "exit status 3: no luck with password=[secret]: the ladder decides"},
		{"hangs", `sleep 600`, "no answer within 500ms"},
		{"answers no action", `echo '{"strategy":"pray"}'`, `is "pray"`},
		{"is incapable", `echo '{"strategy":"quarantine"}'`, "chose an action outside its capabilities"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.t = t
			dir := t.TempDir()
			file := filepath.Join(dir, "strategies.yaml")
			m.must(os.WriteFile(filepath.Join(dir, "triage"), []byte("#!/bin/sh\n"+c.strategy+"\n"), 0o700))
			m.must(os.WriteFile(file, []byte("triage: [./triage]\n"), 0o600))
			task, holder := m.given(strings.ReplaceAll(c.name, " ", "-"))

			// again here, where the step that is done is not begun again
			again, said := m.scripted(holder, task, `"$ARL_PROGRAM" work begin pay --effect irrevocable --output json; "$ARL_PROGRAM" work end pay; exit $((2 - ARL_ATTEMPT))`,
				"--strategies", file)
			if code := exitOf(again.Run()); code != 0 || !strings.Contains(said.String(), c.said) || strings.Contains(said.String(), "hunter2") {
				t.Fatalf("exit code %d: %s", code, said)
			}
			moves := entriesOf[entry.Task](m, entry.KindTask, "--task", task)
			unanswered := strings.Contains(moves[len(moves)-1].Reason, "a strategy did not answer, and the ladder decided")
			if unanswered != (c.said != "") || moves[len(moves)-1].Op != entry.TaskComplete {
				t.Errorf("the last entry is %+v", moves[len(moves)-1])
			}
			if n := strings.Count(said.String(), `"progress":"confirmed"`); n != 1 {
				t.Errorf("%d times the step was found done: %s", n, said)
			}
			if steps := entriesOf[entry.Execution](m, entry.KindExecution, "--task", task); len(steps) != 4 {
				t.Errorf("%d entries of executions, want two of the claim's and two of the step's", len(steps))
			}

			// the end of the claim
			if c.said == "" {
				return
			}
			task, holder = m.given(strings.ReplaceAll(c.name, " ", "-") + "-twice")
			twice, said := m.scripted(holder, task, "exit 1", "--strategies", file)
			if code := exitOf(twice.Run()); code != 7 || !strings.Contains(said.String(), "fail_reassign: strategy_failed (triaged[1])") {
				t.Fatalf("exit code %d: %s", code, said)
			}
			for _, move := range entriesOf[entry.Task](m, entry.KindTask, "--task", task) {
				if move.Op == entry.TaskFail && (move.Snapshot == nil || move.Snapshot.Status != "strategy_failed") {
					t.Errorf("snapshot %+v", move.Snapshot)
				}
			}
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestRunSignals counts signals: none while retries are left and all effects are
// known, exactly one when they are spent, however often the program is run.
// Draft: SIG-1a.
func TestRunSignals(t *testing.T) {
	t.Parallel()
	m := triaged(t)
	task, holder := m.given("spent")
	for retry := range 2 {
		if n := len(entriesOf[entry.Signal](m, entry.KindSignal)); n != 0 {
			t.Errorf("%d signals after %d failures", n, retry)
		}
		cmd, said := m.scripted(holder, task, "exit 9")
		if code := exitOf(cmd.Run()); code != 7 || strings.Count(said.String(), "crash.panic: exit code 9") != 2-retry { // once more here, then on from there
			t.Fatalf("exit code %d: %s", code, said)
		}
		if retry == 0 {
			holder = m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }).Agent
		}
	}
	signals := entriesOf[entry.Signal](m, entry.KindSignal)
	if len(signals) != 1 || signals[0].Iss != holder || signals[0].Class != "crash" || signals[0].Effects != entry.EffectsNone {
		t.Errorf("signals %+v", signals)
	}
	if now := m.stands(task); now.State != entry.TaskFailed || now.Waits != api.WaitsOperator || now.RetryCount != 1 {
		t.Errorf("%+v", now)
	}
	if late, said := m.scripted(holder, task, "true"); exitOf(late.Run()) != 6 {
		t.Errorf("it is run again: %s", said)
	}
	if n := len(entriesOf[entry.Signal](m, entry.KindSignal)); n != 1 {
		t.Errorf("%d signals", n)
	}
	m.stop()
}

// TestRunRecoveryFails damages what a recovery goes by, so that it fails itself:
// the task is BLOCKED with a question, never left IN_PROGRESS, and goes on when a
// person has answered.
func TestRunRecoveryFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	for name, script := range map[string]string{
		"steps":    `"$ARL_PROGRAM" work begin pay --effect compensable; echo '{"token=hunter2hunter2' > "$ARL_RUN_DIR/step-pay.json"; exit 1`,
		"progress": `mkdir "$ARL_RUN_DIR/progress.json"; kill -9 $$`,
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			task, holder := m.given(name)
			cmd, said := m.scripted(holder, task, script)
			if code := exitOf(cmd.Run()); code != 74 || strings.Contains(said.String(), "hunter2") {
				t.Errorf("exit code %d: %s", code, said)
			}
			if now := m.stands(task); now.State != entry.TaskBlocked || now.Waits != api.WaitsOperator || !strings.HasPrefix(now.Reason, "recovery failed: ") {
				t.Fatalf("%+v\n%s", now, said)
			}
			moves := entriesOf[entry.Task](m, entry.KindTask, "--task", task)
			if last := moves[len(moves)-1]; last.Op != entry.TaskBlock || last.Snapshot == nil || last.Snapshot.Status != "recovery_failed" {
				t.Errorf("%+v", last)
			}
			if list := m.arl("escalation", "list"); !strings.Contains(list, task) || !strings.Contains(list, "recovery failed: ") {
				t.Errorf("escalations: %s", list)
			}
			m.arl("escalation", "resolve", task, "--agent", "two", "--reason", "the disk is mended", "--yes")
			next, words := m.scripted("two", task, "true")
			if code := exitOf(next.Run()); code != 0 || m.stands(task).State != entry.TaskCompleted {
				t.Errorf("exit code %d: %s", code, words)
			}
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestRunFindsStepsDone has the second agent of a task find what the first one has
// done before it died: nothing is done or logged twice.
func TestRunFindsStepsDone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	task, holder := m.given("pay")
	const script = `"$ARL_PROGRAM" work begin pay --effect irrevocable --output json; "$ARL_PROGRAM" work end pay; exit $((2 - ARL_EPOCH))`
	first, said := m.scripted(holder, task, script)
	if code := exitOf(first.Run()); code != 7 || !strings.Contains(said.String(), `"progress":"started"`) {
		t.Fatalf("exit code %d: %s", code, said)
	}
	other := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }, said).Agent
	second, more := m.scripted(other, task, script)
	if code := exitOf(second.Run()); code != 0 || !strings.Contains(more.String(), `"progress":"confirmed"`) {
		t.Fatalf("exit code %d: %s", code, more)
	}
	entries := entriesOf[entry.Execution](m, entry.KindExecution, "--task", task)
	if other == holder || len(entries) != 6 {
		t.Errorf("%d entries of executions by %s and %s, want two of each claim's and two of the step's", len(entries), holder, other)
	}
	m.arl("log", "audit")
	m.stop()
}
