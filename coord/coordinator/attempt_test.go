package coordinator

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// TestNoCrashLosesTheAttemptOfAClaim has the process die at every write of the coordinator in turn,
// before it and after it, while a task goes from an agent whose lease is lost to the next: the
// attempt follows the claim at once, and is there once.
func TestNoCrashLosesTheAttemptOfAClaim(t *testing.T) {
	for at := 1; ; at++ {
		if crashed := claimed(t, at, true); !crashed {
			if at < 3 {
				t.Errorf("%d writes: the test shows little", at-1)
			}
			return
		}
		claimed(t, at, false)
	}
}

// TestEachDecisionLeavesOneEntry has a task fail for each thing that the router may decide: the log
// has an entry of each decision, once, whatever coordinators start again meanwhile. A decision to
// wait is not written a second time by the claim that follows.
func TestEachDecisionLeavesOneEntry(t *testing.T) {
	s, now := &site{world: emptyWorld(t), fs: vfs.NewMem(), dir: "data"}, &clock{time.Now()}
	s.open()
	s.c.leases.now = now.now
	kinds := map[string]string{"escalates": "", "undoes": "        - { strategy: rollback }\n",
		"isolates": "        - { strategy: quarantine, severity: critical }\n", "spent": "        - { strategy: retry }\n",
		"reflects": "        - { strategy: retry_altered, variant: reflect, backoff: { base_ms: 600000, factor: 2, max_ms: 600000, jitter_ppm: 0 } }\n",
		"later":    "        - { strategy: retry, backoff: { base_ms: 600000, factor: 2, max_ms: 600000, jitter_ppm: 0 } }\n"}
	rules := "\n  rules:\n"
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		rules += "    - id: " + kind + "\n      when: task_type == \"" + kind + "\"\n      ladder:\n" + kinds[kind] + "        - { strategy: escalate }\n"
	}
	p, err := recovery.Load("rules", []byte(strings.Replace(string(recovery.DefaultDocument()), "\n  rules:\n", rules, 1)))
	must(t, err)
	policy, agent := s.genesis(), s.Enrol("root", "a", entry.RoleAgent)
	policy.Recovery, agent.Capabilities = p.JSON(), slices.Sorted(maps.Keys(kinds))
	s.submit(4, "", s.signed(policy, agent, s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	for _, kind := range agent.Capabilities {
		task := s.newTask(kind)
		task.Type, task.MaxRetries = kind, new(int64(3))
		if kind == "spent" {
			task.MaxRetries = new(int64(0))
		}
		s.submit(1, "", s.Sign(task))
	}
	step := func(after time.Duration) {
		for range 4 { // each by a coordinator that remembers nothing
			s.pass(now, after)
			_, _, err := s.coordinator().Step(t.Context())
			must(t, err)
		}
	}
	decided := func() (all []string) {
		for e, err := range s.entries() {
			must(t, err)
			if a, ok := e.Body.(*entry.Attempt); ok {
				_, kind := a.Task.Split()
				all = append(all, strings.Join([]string{kind, a.Rungs[0].Strategy + a.Rungs[0].Variant, a.Rungs[0].Result, string(a.Status), string(a.Agent)}, " "))
			}
		}
		slices.Sort(all)
		return all
	}
	step(2 * time.Minute) // the leases are lost
	want := []string{"escalates escalate decided escalated a", "isolates quarantine decided escalated a", "later retry decided passed_on a",
		"reflects retry_alteredreflect decided passed_on a", "spent escalate decided escalated a", "undoes rollback decided escalated a"}
	if got := decided(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.pass(now, 10*time.Minute)
	_, _, err = s.coordinator().Step(t.Context())
	must(t, err)
	s.c.Read(func(state *coord.State) {
		if v, _ := state.Task("o#later"); v.Epoch != 2 {
			t.Errorf("nobody claims again: %+v", v)
		}
	})
	if got := decided(); !slices.Equal(got, want) {
		t.Errorf("behind the claim: %q, want %q", got, want)
	}
	s.check()
}

// TestInterruptionSpendsNoRetry ends the only claim of a task while an effect is in doubt. An
// interruption costs no retry, so the decision is to wait for the effect. A failure spends the last
// retry, so people get the task.
func TestInterruptionSpendsNoRetry(t *testing.T) {
	for op, want := range map[string]string{
		entry.TaskInterrupt: "router wait effects_unknown passed_on",
		entry.TaskFail:      "router escalate retries_spent escalated",
	} {
		s, now, _ := laddered(t, "        - { strategy: retry }\n", "a")
		task := s.newTask("task")
		task.Type, task.MaxRetries = "work", new(int64(0))
		s.submit(1, "", s.Sign(task))
		for _, move := range []string{entry.TaskAssign, entry.TaskStart} {
			iss := map[string]entry.Principal{entry.TaskAssign: "k", entry.TaskStart: "a"}[move]
			s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move(iss, "o#task", move, "a") }))
		}
		mail := s.work("a", "mail", "o#task", entry.EffectCompensable)
		mail.Progress = entry.Started
		s.submit(1, "", s.Sign(mail))
		s.pass(now, 2*time.Minute)
		s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", op, "") }))
		_, _, err := s.coordinator().Step(t.Context())
		must(t, err)
		var got []string
		for _, a := range s.attempts("o#task") {
			r := &a.Rungs[0]
			got = append(got, strings.Join([]string{r.Rule, r.Strategy, r.Reason, string(a.Status)}, " "))
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", op, got, want)
		}
		s.check()
	}
}

// TestDecisionAfterAnError has the log fail once while a coordinator records a decision: the next
// step of the same coordinator records it.
func TestDecisionAfterAnError(t *testing.T) {
	s, now := &site{world: emptyWorld(t), fs: vfs.NewMem(), dir: "data"}, &clock{time.Now()}
	s.open()
	s.c.leases.now = now.now
	agent, task := s.Enrol("root", "a", entry.RoleAgent), s.newTask("task")
	agent.Capabilities, task.Type, task.MaxRetries = []string{"work"}, "work", new(int64(0))
	s.submit(4, "", s.signed(s.genesis(), agent, s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	s.submit(1, "", s.Sign(task))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", entry.TaskAssign, "a") }))
	s.pass(now, 2*time.Minute) // the lease is lost
	k := s.coordinator()
	k.Log = &fragile{desk{s}, 2, true} // the first write is that of the loss
	if _, _, err := k.Step(t.Context()); !errors.Is(err, errCrash) {
		t.Fatalf("%v, want the error of the log", err)
	}
	_, _, err := k.Step(t.Context())
	must(t, err)
	for e, err := range s.entries() {
		must(t, err)
		if a, ok := e.Body.(*entry.Attempt); ok && a.Rungs[0].Strategy == string(recovery.Escalate) {
			return
		}
	}
	t.Error("the log has no decision")
}

// claimed runs the claims with a crash at a write of the coordinator, and checks the log.
func claimed(t *testing.T, at int, before bool) (crashed bool) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s, now := &site{world: emptyWorld(t), fs: disk, dir: "data"}, &clock{time.Now()}
	s.open()
	s.c.leases.now = now.now
	heir, task := s.Enrol("root", "b", entry.RoleAgent), s.newTask("task")
	heir.Capabilities, task.Type, task.MaxRetries = []string{"work"}, "work", new(int64(1))
	s.submit(5, "", s.signed(s.genesis(), s.Enrol("root", "a", entry.RoleAgent), heir,
		s.Enrol("root", "k", entry.RoleCoordinator), s.Enrol("root", "o", entry.RoleOperator))...)
	s.submit(1, "", s.Sign(task))
	s.submit(1, "", s.drafted(func(w *world) entry.Body { return w.move("k", "o#task", entry.TaskAssign, "a") }))
	log := &fragile{desk{s}, at, before}
	for next, steps := false, 0; !next; steps++ {
		if steps > 60 {
			t.Fatalf("write %d, before it: %t: nobody claims the task", at, before)
		}
		s.pass(now, 10*time.Second)
		k := s.coordinator()
		k.Log = log
		_, _, err := k.Step(t.Context())
		if errors.Is(err, errCrash) {
			crashed = true
			disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(at), 0))})
			s.stop()
			s.fs = disk
			s.open()
			s.c.leases.now = now.now
			s.c.leases.begin(s.c.state)
			continue
		}
		must(t, err)
		s.c.Read(func(state *coord.State) {
			v, _ := state.Task("o#task")
			next = v.Epoch == 2
		})
	}
	var last entry.Body
	attempts := 0
	for e, err := range s.entries() {
		must(t, err)
		if a, is := e.Body.(*entry.Attempt); is {
			claim, follows := last.(*entry.Task)
			if attempts++; !follows || claim.Op != entry.TaskAssign || claim.Agent != "b" || a.Agent != "a" || a.Task != claim.Task {
				t.Errorf("write %d, before it: %t: the attempt %+v follows %+v", at, before, a, last)
			}
		}
		last = e.Body
	}
	if attempts != 1 {
		t.Errorf("write %d, before it: %t: %d attempts", at, before, attempts)
	}
	s.check()
	return crashed
}
