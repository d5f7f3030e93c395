package main_test

import (
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestRunDoesNotBelieveTheEnd has programs end with exit code 0 in the middle of a
// step with an effect. The task is completed only if who knows says that the effect
// took place; if it did not, the policy decides, and if nobody knows, a person.
func TestRunDoesNotBelieveTheEnd(t *testing.T) {
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
		{"unasked", "", begins, 7, "progress.premature_end: exit code 0, and begun and not ended: pay", entry.TaskFailed, entry.Dispatched, "its agent reported progress.premature_end"},
		{"unknown", "echo unknown", begins, 7, "nobody knows its effects: it does not know", entry.TaskFailed, entry.Dispatched, "its agent reported progress.premature_end"},
		{"paid", "echo complete", begins, 0, "step pay: effects complete, says the probe", entry.TaskCompleted, entry.Confirmed, "done; 1 effects that it left open took place, says the probe"},
		{
			"unpaid", "echo none", begins + `if test "$ARL_ATTEMPT" = 2; then "$ARL_PROGRAM" work end pay; fi`, 0,
			"retry_altered(reflect): ladder", entry.TaskCompleted, entry.Confirmed, "done",
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
