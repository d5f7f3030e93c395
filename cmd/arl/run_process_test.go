//go:build unix

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/testdata/program"
)

// workers enrols agents that can do the tasks of types charges, fragile, stubborn.
func (m *machine) workers(names ...entry.Principal) {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home, "keys", "*", "operator.key"))
	m.must(err)
	operator, err := keys.Load(found[0], nil)
	m.must(err)
	for _, name := range names {
		key, err := keys.Generate(filepath.Join(m.home, string(name)+".key"), keys.Ed25519, nil)
		m.must(err)
		envelope := m.seal(operator, &entry.Agent{Header: m.header("operator", ""), Principal: name, Op: entry.Enrol, Key: key.Public(),
			Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow, Capabilities: []string{"charges", "fragile", "stubborn"}})
		if status, body, err := m.post(envelope); err != nil || status != http.StatusCreated {
			m.t.Fatalf("enrol %s: %d %s %v", name, status, body, err)
		}
	}
}

// arl runs a command line to its end.
func (m *machine) arl(args ...string) string {
	m.t.Helper()
	cmd, said := m.command(nil, args...)
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return said.String()
}

// head is the newest tree head, without its signatures: the second key signs it a
// moment after the first.
func (m *machine) head() (head merkle.Head) {
	m.t.Helper()
	m.must(json.Unmarshal([]byte(m.arl("log", "head", "--output", "json")), &head))
	return head
}

// command makes a command line, with further variables of the environment.
func (m *machine) command(env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	m.t.Helper()
	binary := program.Arl(m.t)
	ctx, cancel := context.WithTimeout(m.t.Context(), 3*time.Minute) // nothing waits for what never comes
	m.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.WaitDelay = time.Second // what arl has started outlives a killed arl, and keeps its output open
	cmd.Env = append(append(os.Environ(), "ARL_HOME="+m.home), env...)
	said := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// lease is a lease in milliseconds that is lost soon, and longer than a holder takes to start: a
// busy machine, or the race detector, makes a start of arl take seconds.
func (m *machine) lease(ms int64) string {
	m.t.Helper()
	began := time.Now()
	m.arl("task", "list")
	return strconv.FormatInt(max(ms, 30*time.Since(began).Milliseconds()), 10)
}

// supervised is arl run of a recipe, for a worker.
func (m *machine) supervised(name entry.Principal, task, work, recipe string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	m.t.Helper()
	interpreter := map[string]string{".py": "python3", ".mjs": "node"}[filepath.Ext(recipe)]
	script, err := filepath.Abs(filepath.Join("..", "..", "testdata", "recipes", recipe))
	m.must(err)
	return m.command(env, "run", "--task", task, "--key", filepath.Join(m.home, string(name)+".key"), "--grace", "2s", "--", interpreter, script, work)
}

// stands reads a task.
func (m *machine) stands(task string) (t api.Task) {
	m.t.Helper()
	m.get("/v1/tasks/"+strings.ReplaceAll(task, "#", "%23"), &t)
	return t
}

// until waits until a task stands as it should.
func (m *machine) until(task string, what func(*api.Task) bool, said ...*bytes.Buffer) api.Task {
	m.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		t := m.stands(task)
		if what(&t) {
			return t
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("the task stands so: %+v\n%s", t, said)
		}
	}
}

// charged is that every customer was charged once.
func (m *machine) charged(work string) {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(work, "charges", "*"))
	m.must(err)
	if len(found) != 3 {
		m.t.Errorf("charges %v", found)
	}
}

// TestRunIsTakenOver kills an agent in Python with SIGKILL, and has its task
// finished by another one in Node, from the checkpoint; the log proves it, and has
// none of what the first one said.
func TestRunIsTakenOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	m.arl("task", "create", "charges", "--type", "charges", "--lease-ms", "600000", "--reason", "three charges") // longer than the test: it must not be waited for
	work := t.TempDir()
	first, said := m.supervised("one", "operator#charges", work, "agent.py", "AGENT_FAILS=bob", "SECRET_TOKEN=hunter2hunter2")
	if code := exitOf(first.Run()); code != 7 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	m.until("operator#charges", func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Agent == "two" }, said)
	second, more := m.supervised("two", "operator#charges", work, "agent.mjs")
	if code := exitOf(second.Run()); code != 0 {
		t.Fatalf("exit code %d: %s", code, more)
	}
	task := m.stands("operator#charges")
	if task.State != entry.TaskCompleted || task.RetryCount != 0 || task.ResumeCount != 1 || task.Epoch != 2 {
		t.Errorf("the task stands so: %+v", task)
	}
	m.charged(work)
	if entries := m.arl("entry", "list", "--kind", "task", "--output", "json"); !strings.Contains(entries, `"code":"lost"`) || !strings.Contains(entries, `"turns":2`) {
		t.Errorf("no snapshot in %s", entries)
	}
	m.secretFree("hunter2hunter2", "ann@example.org")
	m.arl("log", "audit")
	m.stop()
}

// TestRunIsInterrupted ends a supervisor with SIGTERM: the task is interrupted, at
// no cost, and another agent goes on from the checkpoint.
func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	m.arl("task", "create", "charges", "--type", "charges", "--max-retries", "0", "--reason", "three charges")
	work := t.TempDir()
	first, said := m.supervised("one", "operator#charges", work, "agent.py", "AGENT_WAITS=ann")
	m.must(first.Start())
	m.until("operator#charges", func(*api.Task) bool {
		_, err := os.Stat(filepath.Join(work, "state-1.json"))
		return err == nil && strings.Contains(m.arl("entry", "list", "--kind", "checkpoint", "--output", "json"), `"index":`)
	}, said)
	m.must(first.Process.Signal(syscall.SIGTERM))
	if code := exitOf(first.Wait()); code != 130 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	task := m.until("operator#charges", func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 })
	second, more := m.supervised(task.Agent, "operator#charges", work, "agent.py")
	if code := exitOf(second.Run()); code != 0 {
		t.Fatalf("exit code %d: %s", code, more)
	}
	if task := m.stands("operator#charges"); task.State != entry.TaskCompleted || task.RetryCount != 0 {
		t.Errorf("the task stands so: %+v", task)
	}
	m.charged(work)
	m.stop()
}

// TestRunRefuses gives arl run what it cannot work on.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	m.arl("task", "create", "by-hand", "--reason", "nobody has it")
	before := m.head()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--task", "operator#nowhere"}, 3, "no task operator#nowhere"},
		{[]string{"--task", "nowhere"}, 2, "is not a task"},
		{[]string{"--task", "operator#by-hand", "--once"}, 6, "not assigned to this agent"},
		{[]string{"--task", "operator#by-hand", "--probe", "/not/there"}, 2, "--probe: "},
		{[]string{"--task", "operator#by-hand", "--strategies", "/not/there"}, 3, "/not/there"},
	} {
		cmd, said := m.command(nil, append(append([]string{"run"}, c.args...), "--key", filepath.Join(m.home, "one.key"), "--", "true")...)
		if code := exitOf(cmd.Run()); code != c.code || !strings.Contains(said.String(), c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, said)
		}
	}
	if cmd, said := m.command(nil, "work", "begin", "x"); exitOf(cmd.Run()) != 2 {
		t.Errorf("outside of arl run: %s", said)
	}
	for _, retries := range []string{"-1", "101", "9223372036854775808"} {
		if cmd, said := m.command(nil, "task", "create", "bad", "--max-retries", retries, "--reason", "x"); exitOf(cmd.Run()) != 2 {
			t.Errorf("%s retries: %s", retries, said)
		}
	}
	if now := m.head(); now != before {
		t.Errorf("something was written: %v, then %v", before, now)
	}
	m.arl("task", "cancel", "operator#by-hand", "--reason", "no", "--yes")
	cmd, said := m.command(nil, "run", "--task", "operator#by-hand", "--key", filepath.Join(m.home, "one.key"), "--", "true")
	if code := exitOf(cmd.Run()); code != 6 {
		t.Errorf("a task that is over: exit code %d: %s", code, said)
	}
	m.stop()
}
