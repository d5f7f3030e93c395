//go:build unix

package main_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// tried is what the attempt entries about a task say: whose each is, its status, and strategy and
// result of each rung.
func (m *machine) tried(task string) (all []string) {
	m.t.Helper()
	for _, a := range entriesOf[entry.Attempt](m, entry.KindAttempt, "--task", task) {
		one := fmt.Sprint(a.Iss, " ", a.Status)
		for _, r := range a.Rungs {
			one += " " + r.Strategy + ":" + r.Result
		}
		all = append(all, one)
	}
	return all
}

// TestKilledRetryIsLogged kills arl run with SIGKILL while it tries again by itself. The log has
// the attempt, what the router decided about the lost lease, and how the next claim ended. The task
// that nobody tries again is left to people by an entry of the router.
func TestKilledRetryIsLogged(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	rules, _ := m.crashRule("retry", "fail_reassign")
	m.arl("policy", "apply", rules, "--reason", "rules in the log", "--yes")
	task, holder := m.given("charge", "--max-retries", "5", "--lease-ms", m.lease(6000))
	run, said := m.scripted(holder, task, `[ "$ARL_ATTEMPT" = 1 ] && exit 1; echo once more >&2; exec sleep 20`)
	m.follows(run, said, "once more")
	m.must(run.Process.Kill())
	_ = run.Wait() // it was killed
	next := m.until(task, func(t *api.Task) bool { return t.Epoch == 2 && t.State == entry.TaskAssigned }, said).Agent
	if got, want := m.tried(task), []string{string(holder) + " passed_on retry:decided", "coordinator passed_on retry:decided"}; !slices.Equal(got, want) {
		t.Errorf("killed: %q, want %q", got, want)
	}
	again, said := m.scripted(next, task, "exit 0")
	m.must(again.Run())
	if got, want := m.tried(task), string(next)+" auto_recovered retry:ok"; len(got) != 3 || got[2] != want {
		t.Errorf("done: %q, want %q last; %s", got, want, said)
	}

	task, holder = m.given("last", "--max-retries", "0", "--lease-ms", m.lease(6000))
	run, said = m.scripted(holder, task, `echo begun >&2; exec sleep 20`)
	m.follows(run, said, "begun")
	m.must(run.Process.Kill())
	_ = run.Wait() // it was killed
	m.until(task, func(t *api.Task) bool { return t.State == entry.TaskFailed && len(m.tried(task)) > 0 }, said)
	if got := m.tried(task); len(got) != 1 || !strings.HasPrefix(got[0], "coordinator escalated escalate:decided") {
		t.Errorf("without retries: %q", got)
	}
	m.arl("log", "audit")
	m.stop()
}

// TestEndOfAnotherPolicysClaim begins a canary between the router's decision about a failure and
// the claim that carries it out: how the claim ends is said of the baseline, and is no evidence of
// the canary. A claim that SIGTERM ends was interrupted, and did not fail.
func TestEndOfAnotherPolicysClaim(t *testing.T) {
	t.Parallel()
	m, baseline, _ := rollsOut(t)
	id := armed("grown", true)
	task, holder := m.given(id, "--max-retries", "5")
	first, said := m.scripted(holder, task, "exit 1")
	if code := exitOf(first.Run()); code == 0 {
		t.Fatalf("%s", said)
	}
	next := m.until(task, func(t *api.Task) bool { return t.Epoch == 2 && t.State == entry.TaskAssigned }, said).Agent
	m.arl("rollout", "promote", "r1", "--stage", "canary", "--share", "500", "--reason", "the shadow agrees", "--yes")
	cut, said := m.scripted(next, task, "echo begun >&2; exec sleep 20")
	m.follows(cut, said, "begun")
	m.must(cut.Process.Signal(syscall.SIGTERM))
	_ = cut.Wait() // it was interrupted
	ends := func() (all []entry.Attempt) {
		for _, a := range entriesOf[entry.Attempt](m, entry.KindAttempt, "--task", task) {
			if a.Iss == next {
				all = append(all, a)
			}
		}
		return all
	}
	if got := ends(); len(got) != 1 || got[0].Arm != entry.ArmControl || got[0].Policy != baseline || got[0].Rungs[0].Result != "interrupted" ||
		got[0].Rungs[0].Strategy != "fail_reassign" {
		t.Errorf("%+v; %s", got, said)
	}
	m.stop()
}
