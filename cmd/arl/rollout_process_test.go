//go:build unix

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// crashRule has a rule in front of the default policy that says what follows the first crash of a
// task of charges.
func (m *machine) crashRule(first string) (file string, digest entry.Digest) {
	m.t.Helper()
	rule := fmt.Sprintf(`
  rules:
    - id: crashed
      when: class == "crash" && task_type == "charges"
      ladder:
        - { strategy: %s }
        - { strategy: escalate }
`, first)
	file = filepath.Join(m.t.TempDir(), first+".yaml")
	m.must(os.WriteFile(file, []byte(strings.Replace(m.arl("policy", "show", "--default"), "\n  rules:\n", rule, 1)), 0o600))
	document, err := os.ReadFile(file)
	m.must(err)
	p, err := recovery.Load(file, document)
	m.must(err)
	return file, p.Hash()
}

// rollsOut starts a machine with a rollout in its shadow: after a crash the policy in force has
// another agent try, and the candidate the same one.
func rollsOut(t *testing.T) (m *machine, baseline, candidate entry.Digest) {
	t.Helper()
	m = newMachine(t)
	m.start()
	m.workers("one", "two")
	before, baseline := m.crashRule("fail_reassign")
	after, candidate := m.crashRule("retry")
	m.arl("policy", "apply", before, "--reason", "rules in the log", "--yes")
	m.arl("rollout", "start", "r1", "--policy", after, "--salt", "spring", "--reason", "fewer agents", "--yes")
	return m, baseline, candidate
}

// armed is an id of a task that the canary of half of the cases has, or has not.
func armed(name string, canary bool) string {
	for n := 0; ; n++ {
		if id := name + strconv.Itoa(n); canary == (rollout.Draw("spring", id) < entry.ShareMax) {
			return id
		}
	}
}

// decision is an attempt entry as this test compares it.
type decision struct {
	by     entry.Principal
	arm    entry.Arm
	policy entry.Digest
	action string // strategy and result of each rung
}

// decisions crashes the first holder of a task, and returns what is in the log about the task when
// the coordinator has given it on.
func (m *machine) decisions(id string) (holder entry.Principal, all []decision) {
	m.t.Helper()
	task, holder := m.given(id, "--max-retries", "5")
	run, said := m.scripted(holder, task, "exit 1")
	if code := exitOf(run.Run()); code != 7 {
		m.t.Fatalf("%s: exit code %d: %s", id, code, said)
	}
	m.until(task, func(t *api.Task) bool { return t.Epoch == 2 || t.State == entry.TaskBlocked }, said)
	for _, a := range entriesOf[entry.Attempt](m, entry.KindAttempt, "--task", task) {
		d := decision{by: a.Iss, arm: a.Arm, policy: a.Policy}
		for _, r := range a.Rungs {
			d.action = strings.TrimPrefix(d.action+" "+r.Strategy+":"+r.Result, " ")
		}
		if a.Agent != holder || a.Case != id {
			m.t.Errorf("%s: %+v", id, a)
		}
		all = append(all, d)
	}
	return holder, all
}

// TestRunObeysRollout crashes agents in each stage of a rollout: arl run and the router decide by
// the rules of the task's arm, and say so; the candidate of a shadow decides beside, and nothing is
// done about it; after an abort the baseline decides.
func TestRunObeysRollout(t *testing.T) {
	t.Parallel()
	m, baseline, candidate := rollsOut(t)
	const router entry.Principal = "coordinator"
	check := func(id string, want func(holder entry.Principal) []decision) {
		t.Helper()
		if holder, got := m.decisions(id); !slices.Equal(got, want(holder)) {
			t.Errorf("%s of %s:\n%+v, want\n%+v", id, holder, got, want(holder))
		}
	}
	check("shadow", func(holder entry.Principal) []decision {
		return []decision{
			{holder, entry.ArmControl, baseline, "fail_reassign:decided"}, {holder, entry.ArmShadow, candidate, "retry:decided"},
			{router, entry.ArmControl, baseline, "fail_reassign:decided"}, {router, entry.ArmShadow, candidate, "retry:decided"},
		}
	})
	m.arl("rollout", "promote", "r1", "--stage", "canary", "--share", "500", "--reason", "the shadow agrees", "--yes")
	check(armed("canary", true), func(holder entry.Principal) []decision {
		return []decision{{holder, entry.ArmCanary, candidate, "retry:failed escalate:decided"}}
	})
	check(armed("control", false), func(holder entry.Principal) []decision {
		return []decision{{holder, entry.ArmControl, baseline, "fail_reassign:decided"}, {router, entry.ArmControl, baseline, "fail_reassign:decided"}}
	})
	m.arl("rollout", "abort", "r1", "--reason", "not now", "--yes")
	check(armed("late", true), func(holder entry.Principal) []decision {
		return []decision{{holder, "", baseline, "fail_reassign:decided"}, {router, "", baseline, "fail_reassign:decided"}}
	})
	m.arl("log", "audit")
	m.stop()
}
