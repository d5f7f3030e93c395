//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// routeRules leave crashes of one type of task to people, and have those of
// another tried again by whoever is free; the rest is as it is built in.
const routeRules = `  rules:
    - id: fragile_crash
      when: class == "crash" && task_type == "fragile"
      ladder:
        - { strategy: quarantine }
        - { strategy: escalate }
      remediation: look at the host before anybody goes on
    - id: stubborn_crash
      when: class == "crash" && task_type == "stubborn"
      ladder:
        - { strategy: retry }
        - { strategy: escalate }
`

// ruled puts routeRules in front of the default policy.
func (m *machine) ruled() {
	m.t.Helper()
	file := filepath.Join(m.t.TempDir(), "policy.yaml")
	m.must(os.WriteFile(file, []byte(strings.Replace(m.arl("policy", "show", "--default"), "  rules:\n", routeRules, 1)), 0o600))
	m.arl("policy", "apply", file, "--reason", "fragile tasks are for people", "--yes")
}

// loses has the holder of a task killed together with its supervisor, once it
// works, and returns how the task stands when its lease is lost and the
// coordinator has done with it what it does by itself.
func (m *machine) loses(task string, done func(*api.Task) bool) api.Task {
	m.t.Helper()
	agent := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned }).Agent
	pid := filepath.Join(m.t.TempDir(), "pid")
	cmd, said := m.command(nil, "run", "--task", task, "--key", filepath.Join(m.home, string(agent)+".key"), "--", "sh", "-c", `echo $$ > "$1.new" && mv "$1.new" "$1"; exec sleep 60`, "agent", pid)
	m.must(cmd.Start())
	// On a busy machine the lease may be over before the program begins, and both may have ended by
	// themselves: the agent is lost as well.
	m.until(task, func(t *api.Task) bool { _, err := os.Stat(pid); return err == nil || done(t) }, said)
	_ = cmd.Process.Kill()
	if text, err := os.ReadFile(pid); err == nil {
		number, err := strconv.Atoi(strings.TrimSpace(string(text)))
		m.must(err)
		_ = syscall.Kill(number, syscall.SIGKILL)
	}
	_ = cmd.Wait()
	return m.until(task, done, said)
}

// TestRouterObeysPolicy loses agents of three types of task for real. By the
// policy one type waits for a person, who sees strategy, rule and remediation, and
// gives it on; one is tried again by the same agent; one goes to another.
func TestRouterObeysPolicy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	m.ruled()
	for _, kind := range []string{"fragile", "stubborn", "charges"} {
		m.arl("task", "create", kind, "--type", kind, "--lease-ms", m.lease(2000), "--reason", "to be lost")
		first := m.until("operator#"+kind, func(t *api.Task) bool { return t.State == entry.TaskAssigned })
		again := func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }
		if kind == "fragile" {
			again = func(t *api.Task) bool { return t.State == entry.TaskFailed }
		}
		task := m.loses("operator#"+kind, again)
		switch kind {
		case "fragile":
			if task.Waits != api.WaitsOperator || task.Recovery == nil || task.Recovery.Strategy != "quarantine" || task.Recovery.Rule != "fragile_crash[0]" {
				t.Errorf("%s: %+v, %+v", kind, task, task.Recovery)
			}
		case "stubborn":
			if task.Agent != first.Agent || task.RetryCount != 1 || task.Reason != "retry: ladder (stubborn_crash[0])" {
				t.Errorf("%s, before by %s: %+v", kind, first.Agent, task)
			}
		default:
			if task.Agent == first.Agent || task.RetryCount != 1 || task.Reason != "fail_reassign: ladder (crash[1])" {
				t.Errorf("%s, before by %s: %+v", kind, first.Agent, task)
			}
		}
	}
	const question = "quarantine: ladder (fragile_crash[0]): look at the host before anybody goes on"
	for _, args := range [][]string{{"escalation", "list"}, {"task", "list"}, {"task", "show", "operator#fragile"}} {
		if said := m.arl(args...); !strings.Contains(said, question) {
			t.Errorf("%v: %s", args, said)
		}
	}
	m.arl("escalation", "resolve", "operator#fragile", "--agent", "two", "--reason", "the host is new", "--yes")
	if task := m.stands("operator#fragile"); task.State != entry.TaskAssigned || task.Agent != "two" || task.RetryCount != 1 {
		t.Errorf("%+v", task)
	}
	m.arl("log", "audit")
	m.stop()
}

// TestReassignObeysPolicy has an operator reassign tasks that were lost: to whom the
// coordinator would choose, and to who lost it just now only where the policy has
// it tried again.
func TestReassignObeysPolicy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: later
      when: class == "crash" && task_type == "charges"
      ladder:
        - { strategy: fail_reassign, backoff: { base_ms: 600000, factor: 1, max_ms: 600000 } }
        - { strategy: escalate }
    - id: again
      when: class == "crash" && task_type == "stubborn"
      ladder:
        - { strategy: retry, backoff: { base_ms: 600000, factor: 1, max_ms: 600000 } }
        - { strategy: escalate }`)
	m.workers("one", "two", "three")
	reassign := func(task string, code int, want string, flags ...string) {
		t.Helper()
		before := m.stands(task)
		cmd, said := m.command(nil, append([]string{"task", "reassign", task, "--reason", "it waits", "--yes"}, flags...)...)
		if got := exitOf(cmd.Run()); got != code || !strings.Contains(said.String(), want) {
			t.Errorf("%s %v: exit code %d: %s", task, flags, got, said)
		}
		if now := m.stands(task); code != 0 && now.Changed != before.Changed {
			t.Errorf("%s %v was refused, and the task is %+v", task, flags, now)
		}
	}
	m.arl("task", "create", "untyped", "--lease-ms", m.lease(3000), "--reason", "for a person")
	reassign("operator#untyped", 2, "name the agent with --agent")
	reassign("operator#untyped", 0, "  new\n", "--agent", "one")
	m.arl("task", "create", "strange", "--type", "dance", "--reason", "nobody can")
	reassign("operator#strange", 6, "no agent has the capability dance")
	failed := func(t *api.Task) bool { return t.State == entry.TaskFailed }
	m.loses("operator#untyped", failed)
	reassign("operator#untyped", 6, "one just failed at this task", "--agent", "one")
	reassign("operator#untyped", 0, "  new\n", "--agent", "two")

	charges, _ := m.given("charges", "--lease-ms", m.lease(3000))
	lost := m.loses(charges, failed)
	reassign(charges, 6, "(later[0])", "--agent", string(lost.Agent))
	if now := m.stands(charges); len(now.Candidates) != 2 || now.Candidates[0].Agent == lost.Agent || now.Candidates[1].Agent == lost.Agent {
		t.Errorf("lost by %s: %+v", lost.Agent, now.Candidates)
	}
	first := m.stands(charges).Candidates[0].Agent
	reassign(charges, 0, "candidates  "+string(first)+" (holds 0), ")
	if now := m.stands(charges); now.Agent != first || now.RetryCount != 1 || len(now.Candidates) != 0 {
		t.Errorf("%+v, want it held by %s", now, first)
	}

	m.until(charges, failed)
	reassign(charges, 6, "1 of 1 retries used")
	const lonely = "no agent has the capability dance"
	if list := m.arl("escalation", "list"); !strings.Contains(list, "operator#strange") || !strings.Contains(list, lonely) {
		t.Errorf("%s, want %s", list, lonely)
	}

	m.arl("task", "create", "stubborn", "--type", "stubborn", "--lease-ms", m.lease(3000), "--reason", "to be lost")
	lost = m.loses("operator#stubborn", failed)
	reassign("operator#stubborn", 0, "  new\n", "--agent", string(lost.Agent))
	m.arl("log", "audit")
	m.stop()
}

// TestRunAsksAPerson has a program crash under arl run where the policy leaves
// that to people: while there are retries the claim ends with a question, and what
// has none left fails.
func TestRunAsksAPerson(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	m.ruled()
	crash := func(name, retries string) (api.Task, string) {
		t.Helper()
		m.arl("task", "create", name, "--type", "fragile", "--max-retries", retries, "--reason", "crashes")
		cmd, said := m.command(nil, "run", "--task", "operator#"+name, "--key", filepath.Join(m.home, "one.key"), "--", "sh", "-c", "exit 3")
		if code := exitOf(cmd.Run()); code != 7 {
			t.Fatalf("%s: exit code %d: %s", name, code, said)
		}
		return m.stands("operator#" + name), said.String()
	}
	const question = "crash.panic: quarantine (critical): ladder (fragile_crash[0]): look at the host before anybody goes on"
	if task, said := crash("asked", "1"); task.State != entry.TaskBlocked || task.Reason != question || !strings.Contains(said, "operator#asked waits for a person: "+question) {
		t.Errorf("%+v\n%s", task, said)
	}
	if said := m.arl("escalation", "list"); !strings.Contains(said, question) {
		t.Errorf("no question in %s", said)
	}
	m.arl("escalation", "resolve", "operator#asked", "--agent", "one", "--reason", "the host is new", "--yes")
	if task := m.stands("operator#asked"); task.State != entry.TaskAssigned || task.RetryCount != 0 || len(task.Failures) != 0 {
		t.Errorf("%+v", task)
	}
	if task, said := crash("spent", "0"); task.State != entry.TaskFailed || task.Waits != api.WaitsOperator {
		t.Errorf("%+v\n%s", task, said)
	}
	m.arl("log", "audit")
	m.stop()
}
