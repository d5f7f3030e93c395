package recovery_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// A task that fails again and again climbs the ladder of each failure's rule, and
// who holds it finds in the history what the coordinator has decided; failures of
// other classes stand on ladders of their own, and an interruption uses nothing up.
func TestTaskClimbsLadders(t *testing.T) {
	p := recovery.Default()
	fails := func(text string) (all []entry.TaskFailure) {
		for i, word := range strings.Fields(text) {
			word, tried, _ := strings.Cut(word, "*")    // so often in one claim
			word, point := strings.CutSuffix(word, "+") // there is a checkpoint
			class, code, _ := strings.Cut(word, ".")
			attempts, _ := strconv.ParseInt(tried, 10, 64)
			all = append(all, entry.TaskFailure{Class: class, Code: code, At: int64(1 + i), Attempts: attempts, Checkpoint: point})
		}
		return all
	}
	for _, c := range []struct{ failures, want string }{
		{"transient.timeout*1 transient.timeout*1", "retry retry"},
		{"transient.timeout*2 transient.timeout", "retry fallback_model"}, // the first retry was in the claim
		{"transient.timeout*3 transient.timeout", "fallback_model escalate"},
		{"transient.timeout*64 transient.timeout", "escalate escalate"},
		{"crash.lost*64 crash.lost", "fail_reassign fail_reassign"}, // no rung of which stays in a claim
		{"crash.lost", "fail_reassign"},
		{"crash.lost crash.oom", "fail_reassign fail_reassign"},
		{"crash.lost+ crash.lost+ crash.lost", "checkpoint_resume checkpoint_resume fail_reassign"},
		{"crash.lost crash.lost+", "fail_reassign escalate"},                                                  // a ladder is never climbed down
		{"crash.lost crash.lost crash.lost crash.lost", "fail_reassign fail_reassign fail_reassign escalate"}, // poisoned_loop
		{"safety.violation crash.lost", "quarantine fail_reassign"},
		{"transient.timeout transient.timeout transient.timeout transient.timeout", "retry retry fallback_model escalate"},
		{"capacity.overloaded capacity.overloaded", "fallback_model escalate"}, // the waits are over by then
		{"crash.interrupted crash.interrupted crash.lost", "fail_reassign fail_reassign fail_reassign"},
	} {
		all := fails(c.failures)
		var decided []string
		for n := range all {
			task := recovery.Task{Ref: "o#t", Type: "etl", Epoch: int64(n + 1), MaxRetries: 9, Failures: all[:n+1]}
			d := task.Decide(p)
			if again := task.Decide(p); again.Action != d.Action || again.Rule != d.Rule || again.Due != d.Due {
				t.Errorf("%s: decided otherwise: %+v, %+v", c.failures, d, again)
			}
			if d.Action.Strategy == recovery.Wait || d.Due < all[n].At {
				t.Errorf("%s: %+v", c.failures, d)
			}
			decided = append(decided, string(d.Action.Strategy))
			task.Epoch++ // somebody has claimed it
			h := task.History(p)
			rungs := slices.DeleteFunc(slices.Clone(h.Rungs), func(r recovery.Rung) bool { return !r.Strategy.Attempts() })
			if len(rungs) < n+1 || !strings.Contains(c.failures, "*") && len(rungs) != n+1 || h.Epoch != task.Epoch || h.StartedAt != 1 {
				t.Fatalf("%s: history %+v", c.failures, h)
			}
			if last := rungs[len(rungs)-1]; d.Action.Strategy.Attempts() && (last.Strategy != d.Action.Strategy || last.Rule != d.Rule) ||
				!d.Action.Strategy.Attempts() && last.Rule.ID != "operator" {
				t.Errorf("%s: decided %s, and the history has %+v", c.failures, d.Action, last)
			}
		}
		if got := strings.Join(decided, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.failures, got, c.want)
		}
	}
	if h := (&recovery.Task{Ref: "o#t", MaxRetries: 1}).History(p); h.StartedAt != 0 || len(h.Rungs) != 0 {
		t.Errorf("a task that never failed: %+v", h)
	}
}

// Choose asks nobody: what is built in decides where a rule names it, and the
// ladder where a rule names a program.
func TestChooseAsksNobody(t *testing.T) {
	for name, want := range map[string]string{
		"triage":            "etl_crash[0] fail_reassign on primary: ladder",
		"retry":             "retry retry on primary: external",
		"checkpoint_resume": "checkpoint_resume fail_reassign on primary: external",
	} {
		d := recovery.Choose(crash(nil), namedPolicy(t, name, "retry"), 1)
		if got := d.Rule.String() + " " + d.Action.String(); got != want || d.Failed != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, d.Failed, want)
		}
	}
	doubt := crash(func(h *recovery.History) {
		h.Effect, h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectIrrevocable, entry.EffectsUnknown, ""
	})
	if d := recovery.Choose(doubt, namedPolicy(t, "retry", ""), 1); d.Action.Strategy != recovery.Reconcile {
		t.Errorf("effects in doubt: %s", d.Action)
	}
}

// What people can do is said by the rule that matches, and not by one for another
// type of task.
func TestRemediationFor(t *testing.T) {
	doc := strings.Replace(string(recovery.DefaultDocument()), "  rules:\n", `  rules:
    - id: etl_crash
      when: class == "crash" && task_type == "etl"
      ladder:
        - { strategy: escalate }
      remediation: ask the owner of the tables
`, 1)
	p, err := recovery.Load("p.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.RemediationFor(crash(nil), 1); got != "ask the owner of the tables" {
		t.Errorf("etl: %q", got)
	}
	if got := p.RemediationFor(failedStep("crash", "oom", nil), 1); got != "retries are counted at claim; more memory" {
		t.Errorf("another type: %q", got)
	}
}
