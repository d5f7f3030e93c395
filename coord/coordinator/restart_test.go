package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// laddered returns a site whose rules have one ladder for tasks of type "work", and agents that may
// get such tasks.
func laddered(t *testing.T, ladder string, agents ...entry.Principal) (*site, *clock, *recovery.Policy) {
	t.Helper()
	s, now := newSite(t), &clock{time.Now()}
	s.c.leases.now = now.now
	rules := "\n  rules:\n    - id: work\n      when: task_type == \"work\"\n      ladder:\n" + ladder + "        - { strategy: escalate }\n"
	p, err := recovery.Load("rules", []byte(strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n", rules, 1)))
	must(t, err)
	policy := s.genesis()
	policy.Recovery = p.JSON()
	s.submit(3, "", s.signed(policy, s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	for _, name := range agents {
		agent := s.Enrol("root", name, entry.RoleAgent)
		agent.Capabilities = []string{"work"}
		s.submit(1, "", s.Sign(agent))
	}
	return s, now, p
}

// workTask registers a task of type "work".
func (s *site) workTask(id string) {
	s.t.Helper()
	task := s.newTask(id)
	task.Type, task.MaxRetries = "work", new(int64(3))
	s.submit(1, "", s.Sign(task))
}

// attempts returns the attempts in the log about a task, or about all.
func (s *site) attempts(task entry.Ref) (all []*entry.Attempt) {
	s.t.Helper()
	for e, err := range s.entries() {
		must(s.t, err)
		if a, ok := e.Body.(*entry.Attempt); ok && (task == "" || a.Task == task) {
			all = append(all, a)
		}
	}
	return all
}

// TestRestartWithManyFailedTasks has more tasks wait for people than are decided at a time. A
// coordinator that has just started signs no decision that the log has, and writes one that the log
// lacks in its first step, though the log has all that come before it. Without a look at the log it
// signs each decision once.
func TestRestartWithManyFailedTasks(t *testing.T) {
	const tasks = openMax + 6
	s, now, _ := laddered(t, "", "a", "b", "c", "d", "e") // each agent gets 16 tasks
	for n := range tasks {
		s.workTask(fmt.Sprint("task-", n))
	}
	s.sweep()
	s.pass(now, 2*time.Minute) // the leases are lost
	s.sweep()
	if n := len(s.attempts("")); n != tasks {
		t.Fatalf("%d attempts of %d tasks", n, tasks)
	}
	s.workTask("last")
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#last", entry.TaskAssign, "a") }))
	s.pass(now, 2*time.Minute) // an entry signed again has other bytes, too
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#last", entry.TaskFail, "") }))
	signs := func(has func(*entry.Header) (bool, error)) (signatures int) {
		k := s.coordinator()
		seal := k.Seal
		k.Has, k.Seal = has, func(e *entry.Entry) error {
			signatures++
			return seal(e)
		}
		_, _, err := k.Step(t.Context())
		must(t, err)
		return signatures
	}
	if n := signs(s.log.Has); n != 1 {
		t.Errorf("%d signatures for the last task", n)
	}
	if n := len(s.attempts("o#last")); n != 1 {
		t.Errorf("%d attempts of the last task", n)
	}
	if n := signs(nil); n != tasks+1 {
		t.Errorf("%d signatures without a look at the log, want %d", n, tasks+1)
	}
	if n := len(s.attempts("")); n != tasks+1 {
		t.Errorf("%d attempts, want %d", n, tasks+1)
	}
	s.check()
}

// TestShadowBehindAKnownDecision begins a shadow, with another candidate, about a task that waits.
// The log has what the baseline decided, and gets what the second candidate decides beside: by the
// coordinator that goes on, and with the claim of one that has just started.
func TestShadowBehindAKnownDecision(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s, now, p := laddered(t, "        - { strategy: retry, backoff: { base_ms: 600000, factor: 2, max_ms: 600000, jitter_ppm: 0 } }\n", "a")
		first := s.shadow("r1", p, 5)
		s.workTask("task")
		s.sweep()
		s.pass(now, 2*time.Minute) // the lease is lost
		k := s.coordinator()
		_, _, err := k.Step(t.Context())
		must(t, err)
		abort := &entry.Rollout{Header: s.Header("o"), Rollout: "r1", Op: entry.RolloutAbort, Reason: "because"}
		abort.Wid = "r1"
		s.submit(1, "", s.Sign(abort))
		second := s.shadow("r2", p, 4)
		if restarts {
			k = s.coordinator()
			s.pass(now, 10*time.Minute) // the task is given to an agent again
		}
		_, _, err = k.Step(t.Context())
		must(t, err)
		var got []string
		for _, a := range s.attempts("o#task") {
			got = append(got, fmt.Sprint(a.Arm, " ", a.Policy))
			if a.Status != entry.StatusPassedOn || a.Rungs[0].Strategy != "retry" {
				t.Errorf("%s: %s %s", a.Arm, a.Rungs[0].Strategy, a.Status)
			}
		}
		want := []string{fmt.Sprint(entry.ArmControl, " ", p.Hash()), fmt.Sprint(entry.ArmShadow, " ", first), fmt.Sprint(entry.ArmShadow, " ", second)}
		if !slices.Equal(got, want) {
			t.Errorf("restarts: %t\ngot  %q\nwant %q", restarts, got, want)
		}
		s.check()
	}
}

// shadow begins the shadow of a candidate that differs from the baseline in a number of attempts.
func (s *site) shadow(name string, baseline *recovery.Policy, attempts int) entry.Digest {
	s.t.Helper()
	rules := jsontext.Value(strings.Replace(string(baseline.JSON()), `"attempts":6`, fmt.Sprintf(`"attempts":%d`, attempts), 1))
	r := &entry.Rollout{Header: s.Header("o"), Rollout: name, Op: entry.RolloutStart, Stage: entry.StageShadow, Reason: "because"}
	r.Wid = entry.WorkflowID(name)
	r.Start = &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(rules), BaselineDigest: baseline.Hash(), Candidate: rules, Salt: "s",
		Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: start + 1000*minute}
	s.submit(1, "", s.Sign(r))
	return r.Start.CandidateDigest
}
