//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
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
	"recoveryledger/testdata/budget"
)

// chaosAgent has three effects, each declared, and under the key that it gets for
// it: whoever takes it, here a directory, takes the same key once. It tells its
// process id, so that it can be hit.
const chaosAgent = `echo $$ > "$1/pid-$2.new"; mv "$1/pid-$2.new" "$1/pid-$2"
for step in 1 2 3; do
	said=$("$ARL_PROGRAM" work begin "step$step" --effect compensable --output json) || exit 1
	key=${said##*idempotency_key\":\"}
	(set -C; echo $$ > "$1/effect-$2-${key%%\"*}") 2>/dev/null || echo $$ >> "$1/refused-$2-$step"
	case $said in *confirmed*) ;; *) "$ARL_PROGRAM" work end "step$step" || exit 1 ;; esac
done
exit 0`

// chaosProbe knows what became of an effect.
const chaosProbe = `test -e "$1/effect-$2-$ARL_IDEMPOTENCY_KEY" && echo complete || echo none`

// chaosEater takes more memory than it may have, and never ends by itself.
const chaosEater = `echo $$ > "$1/pid-$2.new"; mv "$1/pid-$2.new" "$1/pid-$2"; exec python3 -c "x = b'1' * (512 << 20); import time; time.sleep(600)"`

// chaos is a machine whose workers are hit.
type chaos struct {
	*machine
	dir string
	rng *rand.Rand
	// late is set if the newest holder that was frozen had done its work before.
	late bool
}

// again kills the server, and starts it at the same address.
func (c *chaos) again() {
	c.t.Helper()
	c.kill()
	c.start()
}

// faults are what happens to the first holder of a task, once it works. Each
// returns when it has happened.
var faults = []struct {
	name string
	hit  func(c *chaos, supervisor *exec.Cmd, agent int, task string)
}{
	{"SIGKILL of the agent", func(_ *chaos, _ *exec.Cmd, agent int, _ string) { _ = syscall.Kill(agent, syscall.SIGKILL) }},
	{"SIGKILL of the supervisor", func(_ *chaos, s *exec.Cmd, _ int, _ string) { _ = s.Process.Kill() }},
	{"SIGKILL of both", func(_ *chaos, s *exec.Cmd, agent int, _ string) {
		_ = s.Process.Kill()
		_ = syscall.Kill(-agent, syscall.SIGKILL)
	}},
	{"out of memory", nil}, // its agent brings it about
	{"SIGSTOP past the lease", func(c *chaos, s *exec.Cmd, agent int, task string) {
		_ = syscall.Kill(-agent, syscall.SIGSTOP)
		_ = s.Process.Signal(syscall.SIGSTOP)
		now := c.until(task, func(t *api.Task) bool { return t.Epoch > 1 || !t.State.Held() })
		c.late = now.State == entry.TaskCompleted && now.Epoch == 1
		_ = s.Process.Signal(syscall.SIGCONT)
		_ = syscall.Kill(-agent, syscall.SIGCONT)
	}},
	{"the coordinator is killed with the agent", func(c *chaos, _ *exec.Cmd, agent int, _ string) {
		_ = syscall.Kill(agent, syscall.SIGKILL)
		c.again()
	}},
	{"the coordinator is killed alone", func(c *chaos, _ *exec.Cmd, _ int, _ string) { c.again() }},
	{"SIGTERM of the supervisor", func(_ *chaos, s *exec.Cmd, _ int, _ string) { _ = s.Process.Signal(syscall.SIGTERM) }},
}

// run has a worker hold a task, and reports how its supervisor ended.
func (c *chaos) run(task string, agent entry.Principal, script string, hit func(*exec.Cmd, int)) (code int, said string) {
	c.t.Helper()
	name := strings.TrimPrefix(task, "operator#")
	pid := filepath.Join(c.dir, "pid-"+name)
	_ = os.Remove(pid) // of the holder before
	cmd, output := c.command(nil, "run", "--task", task, "--once", "--url", c.url, "--key", filepath.Join(c.home, string(agent)+".key"), "--memory", "96", "--grace", "1s",
		"--probe", strings.Join([]string{"sh", filepath.Join(c.dir, "probe"), c.dir, name}, " "), "--", "sh", "-c", script, "agent", c.dir, name)
	c.must(cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if hit != nil {
		if number := c.started(pid, done); number != 0 {
			time.Sleep(time.Duration(c.rng.IntN(250)) * time.Millisecond) // anywhere in its work: that is what is tried
			hit(cmd, number)
		}
	}
	return exitOf(<-done), output.String()
}

// started waits for an agent's process id; 0: its supervisor has ended.
func (c *chaos) started(pid string, done chan error) int {
	for {
		text, err := os.ReadFile(pid)
		if number, _ := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && number != 0 {
			return number
		}
		select {
		case err := <-done:
			done <- err
			return 0
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// once reports whether a task may not be retried: it fails, and an operator cancels
// it, unless the fault leaves its claim alone, or only interrupts it.
func once(number int) bool { return number%7 == 6 }

// finish has workers hold a task until it is over.
func (c *chaos) finish(number int) (fault string) {
	c.t.Helper()
	task := fmt.Sprintf("operator#t%d", number)
	retries := "20"
	if once(number) {
		retries = "0"
	}
	c.arl("task", "create", "t"+strconv.Itoa(number), "--type", "charges", "--lease-ms", c.lease(1000), "--max-retries", retries, "--reason", "chaos")
	f := faults[number%len(faults)]
	script, hit := chaosAgent, func(s *exec.Cmd, agent int) {
		if f.hit != nil {
			f.hit(c, s, agent, task)
		}
	}
	if f.hit == nil {
		script = chaosEater
	}
	for holders := 0; ; holders++ {
		t := c.until(task, func(t *api.Task) bool {
			return t.State == entry.TaskAssigned || t.State.Over() || t.Waits == api.WaitsOperator
		})
		if holders > 100 {
			c.t.Fatalf("%s after %s: a hundred holders, and no end: %+v", task, f.name, t)
		}
		if t.State.Over() {
			if t.State != entry.TaskCompleted && !once(number) {
				c.t.Errorf("%s: %s after %s", task, t.State, f.name)
			}
			return f.name
		}
		if t.State == entry.TaskFailed && once(number) { // what it did is an incident's now
			c.arl("task", "cancel", task, "--yes", "--reason", "chaos")
			continue
		}
		if t.State == entry.TaskFailed && t.Gate == "" { // nobody ran, this machine was too slow, and the ladder is at its end
			again := "reassign"
			if t.RetriesSpent() {
				again = "release"
			}
			cmd, said := c.command(nil, "task", again, task, "--agent", "one", "--yes", "--reason", "chaos")
			if code := exitOf(cmd.Run()); code != 0 && code != 6 { // 6: the task has gone on since this look
				c.t.Errorf("%s: %s ends with %d: %s", task, again, code, said)
			}
			continue
		}
		if t.State != entry.TaskAssigned { // whoever held it says what became of its effects
			if code, said := c.run(task, t.Agent, script, nil); code != 6 && code != 0 {
				c.t.Errorf("%s: reconciles with %d: %s", task, code, said)
			}
			continue
		}
		code, said := c.run(task, t.Agent, script, hit)
		if now := c.stands(task); f.name == "SIGSTOP past the lease" && hit != nil && !c.late && (code != 6 || now.State == entry.TaskCompleted && now.Epoch == 1) {
			c.t.Errorf("%s: a zombie ended with %d: %s", task, code, said)
		}
		script, hit = chaosAgent, nil
	}
}

// TestRunSurvivesFaultsChaos hits workers and the coordinator at random points.
// Every task ends COMPLETED, by one entry, or FAILED, for an operator to cancel, if
// it may not be retried; no effect happens twice; claims add up as TSK-1 says, and
// the log audits clean. ARL_CHAOS=1 makes it 200 faults.
func TestRunSurvivesFaultsChaos(t *testing.T) {
	t.Parallel()
	count, seed := budget.Budget{Short: 3, Usual: 6, Chaos: 200}.Now(), budget.Seed(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // for the server to listen at, again and again
	c := &chaos{machine: newMachine(t, "--listen", address), dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 0))}
	c.must(os.WriteFile(filepath.Join(c.dir, "probe"), []byte(chaosProbe), 0o600))
	c.start()
	c.workers("one", "two", "three")
	happened := map[string]int{}
	for number := range count {
		happened[c.finish(number)]++
	}
	t.Logf("faults: %v", happened)
	c.addsUp(count)
	c.arl("log", "audit")
	c.stop()
}

// addsUp checks what the log and the directory of effects say of all tasks.
func (c *chaos) addsUp(count int) {
	c.t.Helper()
	type tally struct{ claims, retries, resumes, interrupts, releases, completes, cancels int64 }
	of := map[string]*tally{}
	for line := range strings.Lines(c.arl("entry", "list", "--kind", "task", "--limit", "0", "--output", "json")) {
		var e struct{ Body, Payload *entry.Task }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue
		}
		b := e.Body
		if b == nil {
			b = e.Payload
		}
		if b == nil {
			c.t.Fatalf("no entry of a task: %s", line)
		}
		n := of[string(b.Task)]
		if n == nil {
			n = &tally{}
			of[string(b.Task)] = n
		}
		switch b.Op {
		case entry.TaskAssign:
			n.claims++
			n.retries, n.resumes = b.RetryCount, b.ResumeCount
		case entry.TaskInterrupt:
			n.interrupts++
		case entry.TaskRelease:
			n.claims++
			n.releases++
		case entry.TaskComplete:
			n.completes++
		case entry.TaskCancel:
			n.cancels++
		}
	}
	if len(of) != count {
		c.t.Errorf("%d tasks in the log, want %d", len(of), count)
	}
	completed := int64(0)
	for task, n := range of {
		completed += n.completes
		if n.completes+n.cancels != 1 || n.claims != 1+n.retries+n.resumes+n.interrupts+n.releases {
			c.t.Errorf("%s: %+v", task, *n)
		}
	}
	hit := int64(0)
	for _, n := range of {
		hit += n.claims - 1
	}
	c.t.Logf("%d tasks of %d completed; claims after a fault: %d", completed, count, hit)
	if hit < int64(count)/4 { // the others came when the work was done, or hit the coordinator alone
		c.t.Errorf("only %d of %d faults took a task from its holder", hit, count)
	}
	effects, err := filepath.Glob(filepath.Join(c.dir, "effect-*"))
	c.must(err)
	if n := int64(len(effects)); n < 3*completed || n > 3*int64(count) {
		c.t.Errorf("%d effects of %d tasks, %d of them completed", n, count, completed)
	}
	for _, path := range effects {
		if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 1 {
			c.t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}
