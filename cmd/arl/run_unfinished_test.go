//go:build unix

package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestRunDoesNotBelieveTheEnd has programs end with exit code 0 in the middle of a
// step with an effect. The task is completed only if who knows says that the effect
// took place; if it did not, the policy decides, and if nobody knows, a person.
func TestRunDoesNotBelieveTheEnd(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	const begins = `"$ARL_PROGRAM" work begin pay --effect irrevocable; `
	for _, c := range []struct {
		id, probe, script string
		code              int
		said              string
		state             entry.TaskState
		progress          entry.Progress
		reason            string
	}{
		{"unasked", "", begins, 7, "progress.premature_end: exit code 0, but steps began and did not end: pay", entry.TaskFailed, entry.Started, "its agent reported progress.premature_end"},
		{"unknown", "echo unknown", begins, 7, "nobody knows its effects: the probe does not know", entry.TaskFailed, entry.Started, "its agent reported progress.premature_end"},
		{"paid", "echo complete", begins, 0, "step pay: effects complete, says the probe", entry.TaskCompleted, entry.Confirmed, "done; the probe says that 1 of the open steps took place"},
		{
			"unpaid", "echo none", begins + `if test "$ARL_ATTEMPT" = 2; then "$ARL_PROGRAM" work end pay; fi`, 0,
			"retry_altered(reflect): ladder", entry.TaskCompleted, entry.Confirmed, "done",
		},
		{ // arl work end reached the log, and was killed before it could say so
			"logged", "echo none", begins + `cp "$ARL_RUN_DIR/step-pay.json" "$ARL_RUN_DIR/saved" && "$ARL_PROGRAM" work end pay && mv "$ARL_RUN_DIR/saved" "$ARL_RUN_DIR/step-pay.json"`, 0,
			"", entry.TaskCompleted, entry.Confirmed, "done",
		},
		{ // and it is called again, and not to say something else
			"again", "echo none", begins + `cp "$ARL_RUN_DIR/step-pay.json" "$ARL_RUN_DIR/saved" && "$ARL_PROGRAM" work end pay && mv "$ARL_RUN_DIR/saved" "$ARL_RUN_DIR/step-pay.json"; ` +
				`"$ARL_PROGRAM" work end pay --failed; echo "failed: $?"; "$ARL_PROGRAM" work end pay`, 0,
			"failed: 6", entry.TaskCompleted, entry.Confirmed, "done",
		},
	} {
		t.Run(c.id, func(t *testing.T) {
			m.t = t
			task, holder := m.given(c.id)
			var flags []string
			if c.probe != "" {
				flags = []string{"--probe", c.probe}
			}
			cmd, said := m.scripted(holder, task, c.script, flags...)
			if code := exitOf(cmd.Run()); code != c.code || !strings.Contains(said.String(), c.said) {
				t.Errorf("exit code %d: %s", code, said)
			}
			now := m.stands(task)
			if now.State != c.state || now.Reason != c.reason || m.progress(holder, task, "pay") != c.progress {
				t.Errorf("%s step, %+v\n%s", m.progress(holder, task, "pay"), now, said)
			}
			signals := entriesOf[entry.Signal](m, entry.KindSignal, "--workflow", c.id)
			switch unclear := c.state == entry.TaskFailed; {
			case unclear && (len(signals) != 1 || signals[0].Class != "progress" || signals[0].Effects != entry.EffectsUnknown || now.Waits != api.WaitsOperator):
				t.Errorf("%+v, waits for %q", signals, now.Waits)
			case !unclear && len(signals) > 0:
				t.Errorf("%+v", signals)
			}
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestWorkBeginsUndoneStepAnew has the effect of a failed task undone, and the task
// released: who gets it does the step again, as a new execution with the same key,
// where a step that stands is not begun again.
func TestWorkBeginsUndoneStepAnew(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	head, work := filepath.Join(t.TempDir(), "head"), t.TempDir()
	m.save("/checkpoint", head)
	key := filepath.Join(m.home, "one.key")
	if cmd, said := m.listen("--key", key, "--init"); exitOf(cmd.Run()) != 0 {
		t.Fatal(said)
	}
	listener, heard := m.listen("--key", key, "--confirm", head, "--hooks", "compensate", "--exec", "sh", "--", "-c", `echo '{"status":"done"}'`)
	m.must(listener.Start())
	m.arl("task", "create", "back", "--max-retries", "0", "--reason", "one charge")
	m.arl("task", "reassign", "operator#back", "--agent", "one", "--reason", "begin", "--yes")
	const pays = `"$ARL_PROGRAM" work begin pay --effect compensable --output json > "$0" && "$ARL_PROGRAM" work end pay`
	first, said := m.scripted("one", "operator#back", strings.ReplaceAll(pays, "$0", work+"/first")+"; exit 1")
	if code := exitOf(first.Run()); code != 7 { // without a retry left, so that the agent signals, and the coordinator may act
		t.Fatalf("exit code %d: %s", code, said)
	}
	m.recorded(1, heard)
	m.arl("task", "release", "operator#back", "--agent", "two", "--reason", "it was paid back", "--yes")
	again, more := m.scripted("two", "operator#back", strings.ReplaceAll(pays, "$0", work+"/second")+"; "+strings.ReplaceAll(pays, "$0", work+"/third"))
	if code := exitOf(again.Run()); code != 0 {
		t.Fatalf("exit code %d: %s", code, more)
	}
	var steps []step
	for _, name := range []string{"first", "second", "third"} {
		text, err := os.ReadFile(filepath.Join(work, name))
		m.must(err)
		var s step
		m.must(json.Unmarshal(text, &s))
		steps = append(steps, s)
	}
	if s := steps; s[1].Exec == s[0].Exec || s[1].Progress != entry.Started || s[1].Key != s[0].Key || s[2].Exec != s[1].Exec || s[2].Progress != entry.Confirmed {
		t.Errorf("%+v", steps)
	}
	m.must(listener.Process.Signal(syscall.SIGTERM))
	if code := exitOf(listener.Wait()); code != 0 {
		t.Errorf("exit code %d: %s", code, heard)
	}
	m.arl("log", "audit")
	m.stop()
}

// step is what arl work begin prints.
type step struct {
	Exec     entry.Ref      `json:"exec"`
	Progress entry.Progress `json:"progress"`
	Key      string         `json:"idempotency_key"`
}

// TestRunSignalsForLostClaim kills a supervisor with its agent in the last claim
// that the task may have. The coordinator, who finds the lost lease, has no standing
// to signal; the agent has, and does as soon as its supervisor starts again, once.
func TestRunSignalsForLostClaim(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	for _, c := range []struct {
		id, script, probe string
		effects           entry.Effects // of the signal
	}{
		{"doubtful", `"$ARL_PROGRAM" work begin pay --effect irrevocable`, "", entry.EffectsUnknown},
		{"known", `"$ARL_PROGRAM" work begin pay --effect irrevocable`, "echo complete", entry.EffectsNone},
		{"harmless", `"$ARL_PROGRAM" work begin look`, "", entry.EffectsNone},
		{"idle", "true", "", entry.EffectsNone},
	} {
		t.Run(c.id, func(t *testing.T) {
			m.t = t
			m.arl("task", "create", c.id, "--lease-ms", m.lease(3000), "--max-retries", "0", "--reason", "one charge")
			task := "operator#" + c.id
			m.arl("task", "reassign", task, "--agent", "one", "--reason", "begin", "--yes")
			killed, said := m.scripted("one", task, c.script+"; kill -9 $PPID; kill -9 $$")
			if code := exitOf(killed.Run()); code != -1 {
				t.Fatalf("exit code %d: %s", code, said)
			}
			m.until(task, func(t *api.Task) bool { return t.State == entry.TaskFailed }, said)
			if signals := entriesOf[entry.Signal](m, entry.KindSignal, "--workflow", c.id); len(signals) > 0 {
				t.Fatalf("%+v", signals)
			}
			if list := m.arl("escalation", "list"); !strings.Contains(list, task) {
				t.Errorf("no person is asked: %s", list)
			}
			for range 2 {
				flags := []string{}
				if c.probe != "" {
					flags = []string{"--probe", c.probe}
				}
				again, more := m.scripted("one", task, "true", flags...)
				if code := exitOf(again.Run()); code != 6 {
					t.Fatalf("exit code %d: %s", code, more)
				}
			}
			signals := entriesOf[entry.Signal](m, entry.KindSignal, "--workflow", c.id)
			if len(signals) != 1 || signals[0].Iss != "one" || signals[0].Standing != entry.StandingExecutor || signals[0].Class != "crash" ||
				signals[0].Code != "lost" || signals[0].Effects != c.effects {
				t.Errorf("%+v", signals)
			}
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestRunTwiceAfterLostClaim starts two supervisors of one agent after its last
// claim was lost, and has both ask about the same step at once: who is slower takes
// what the log says by then, and goes on.
func TestRunTwiceAfterLostClaim(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	const task = "operator#twice"
	m.arl("task", "create", "twice", "--lease-ms", m.lease(3000), "--max-retries", "0", "--reason", "one charge")
	m.arl("task", "reassign", task, "--agent", "one", "--reason", "begin", "--yes")
	killed, said := m.scripted("one", task, `"$ARL_PROGRAM" work begin pay --effect irrevocable; kill -9 $PPID; kill -9 $$`)
	if code := exitOf(killed.Run()); code != -1 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	m.until(task, func(t *api.Task) bool { return t.State == entry.TaskFailed }, said)
	work := t.TempDir()
	probe := filepath.Join(work, "probe") // answers when both are asked
	m.must(os.WriteFile(probe, []byte("#!/bin/sh\ntouch "+work+"/asked-$$\nwhile test $(ls "+work+"/asked-* | wc -l) -lt 2; do sleep 0.01; done\necho complete\n"), 0o700))
	first, one := m.scripted("one", task, "true", "--probe", probe)
	second, two := m.scripted("one", task, "true", "--probe", probe)
	m.must(first.Start())
	m.must(second.Start())
	for i, said := range []*bytes.Buffer{one, two} {
		if code := exitOf([]*exec.Cmd{first, second}[i].Wait()); code != 6 || !strings.Contains(said.String(), "not assigned to this agent") {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
	if signals := entriesOf[entry.Signal](m, entry.KindSignal, "--workflow", "twice"); len(signals) == 0 {
		t.Error("neither signals")
	}
	m.arl("log", "audit")
	m.stop()
}
