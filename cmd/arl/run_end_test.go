//go:build unix

package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// between puts something between the workers and the ledger: it is told of every
// request, and whether it is passed on.
func (m *machine) between(passes func(*http.Request) bool) (address string) {
	m.t.Helper()
	to, err := url.Parse(m.url)
	m.must(err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // after that its context ends with the connection
		if err != nil {
			return
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); passes(r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	m.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// TestRunInterruptedBeforeTheProgram sends SIGTERM while the task is looked at that
// is given to the agent already, while its start is logged, and while its
// checkpoint is looked for: the task is handed back at no cost, as with a program
// that runs.
func TestRunInterruptedBeforeTheProgram(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	looks := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/tasks/")
	}
	starts := func(r *http.Request) bool { return r.Method == http.MethodPost }
	begun := atomic.Bool{}
	for id, hit := range map[string]func(*http.Request) bool{
		"looks":  looks,
		"starts": starts,
		"resumes": func(r *http.Request) bool {
			if starts(r) {
				begun.Store(true)
			}
			return begun.Load() && looks(r)
		},
	} {
		t.Run(id, func(t *testing.T) {
			m.t = t
			task, holder := m.given(id, "--max-retries", "0")
			started, done := make(chan *os.Process, 1), atomic.Bool{}
			address := m.between(func(r *http.Request) bool {
				if !hit(r) || done.Swap(true) {
					return true
				}
				_ = (<-started).Signal(syscall.SIGTERM)
				select { // the request is given up, or goes on in spite of the signal
				case <-r.Context().Done():
					return false
				case <-time.After(200 * time.Millisecond):
					return true
				}
			})
			cmd, said := m.scripted(holder, task, "sleep 600", "--url", address, "--grace", "1s")
			m.must(cmd.Start())
			started <- cmd.Process
			if code := exitOf(cmd.Wait()); code != 130 {
				t.Errorf("exit code %d: %s", code, said)
			}
			now := m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }, said)
			if now.RetryCount != 0 || len(now.Failures) != 1 || now.Failures[0].Code != "interrupted" {
				t.Errorf("%+v\n%s", now, said)
			}
		})
	}
	m.t = t
	m.arl("log", "audit")
	m.stop()
}

// TestRunInterruptedWhileItWaits sends SIGTERM while the policy has it wait for the
// next attempt: the task is handed back at no cost, and no entry says that the attempt was made. An
// entry without actions says what the claim spent, and the import gives the failure and its cost.
func TestRunInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: patient
      when: class == "crash" && code == "panic"
      ladder:
        - { strategy: wait, min_ms: 600000, max_ms: 600000 }
        - { strategy: escalate }`)
	m.workers("one", "two")
	task, holder := m.given("patient", "--max-retries", "0")
	cmd, said := m.scripted(holder, task, `"$ARL_PROGRAM" work progress --cost-micro-usd 250000 --tokens 70; echo now >&2; exit 1`)
	m.follows(cmd, said, "patient[0]")
	m.must(cmd.Process.Signal(syscall.SIGTERM))
	if code := exitOf(cmd.Wait()); code != 130 || strings.Count(said.String(), "now") != 2 { // and in the words of the failure
		t.Errorf("exit code %d: %s", code, said)
	}
	if now := m.until(task, func(t *api.Task) bool { return t.Epoch == 2 }); now.RetryCount != 0 || now.Failures[0].Code != "interrupted" {
		t.Errorf("%+v", now)
	}
	if got := m.tried(task); len(got) != 3 || got[0] != string(holder)+" passed_on wait:decided" || got[1] != string(holder)+" passed_on" || !strings.HasPrefix(got[2], "coordinator ") {
		t.Errorf("tried %q", got)
	}
	if spent := entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", string(holder))[1]; orZero(spent.CostMicroUSD) != 250000 || orZero(spent.Tokens) != 70 {
		t.Errorf("the entry without actions: %+v", spent)
	}
	if h := m.arl("agent", "history", string(holder)); !strings.Contains(h, "$0.25") {
		t.Errorf("the history:\n%s", h)
	}
	if c := m.arl("scenario", "import", "--format", "ledger"); !strings.Contains(c, `"code":"panic"`) || strings.Contains(c, "interrupted") || !strings.Contains(c, `"cost_micro_usd":250000`) {
		t.Errorf("the case:\n%s", c)
	}
	m.arl("log", "audit")
	m.stop()
}

// policyWith is a file of the default policy with a rule before all others.
func (m *machine) policyWith(rule string) (file string) {
	m.t.Helper()
	text := strings.Replace(m.arl("policy", "show", "--default"), "\n  rules:\n", "\n  rules:"+rule+"\n", 1)
	file = filepath.Join(m.t.TempDir(), "policy.yaml")
	m.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// startUnder starts the ledger under a policy with a rule more.
func (m *machine) startUnder(rule string) {
	m.t.Helper()
	m.args = append(m.args, "--policy", m.policyWith(rule))
	m.start()
}

// follows starts a command and waits until it has said something.
func (m *machine) follows(cmd *exec.Cmd, said *bytes.Buffer, want string) {
	m.t.Helper()
	heard := make(chan struct{})
	words := &listener{said: said, want: want, heard: heard}
	cmd.Stdout, cmd.Stderr = words, words
	m.must(cmd.Start())
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m.t.Fatalf("never said %q: %s", want, said)
	}
}

// listener tells when something has been said. One goroutine writes to it.
type listener struct {
	said  *bytes.Buffer
	want  string
	heard chan struct{}
	over  bool
}

// Write implements [io.Writer].
func (l *listener) Write(p []byte) (int, error) {
	n, err := l.said.Write(p)
	if !l.over && strings.Contains(l.said.String(), l.want) {
		l.over = true
		close(l.heard)
	}
	return n, err
}

// TestRunLosesTouch has nobody answer renewals: when the term is over by its own
// clock, the program is killed, and not when the request is given up.
func TestRunLosesTouch(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one")
	lease := m.lease(2000)
	task, holder := m.given("hangs", "--lease-ms", lease, "--max-retries", "0")
	address := m.between(func(r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/lease") {
			return true
		}
		<-r.Context().Done()
		return false
	})
	began := time.Now()
	cmd, said := m.scripted(holder, task, `trap "" TERM; sleep 600`, "--url", address)
	term, err := time.ParseDuration(lease + "ms")
	m.must(err)
	if code, took := exitOf(cmd.Run()), time.Since(began); code != 6 || took > term+18*time.Second { // a request has a minute
		t.Errorf("exit code %d after %v: %s", code, took, said)
	}
	m.until(task, func(t *api.Task) bool { return t.State == entry.TaskFailed }, said)
	const why = "0 of 0 retries used: the lease was lost"
	if list, all := m.arl("escalation", "list"), m.arl("task", "list"); !strings.Contains(list, why) || !strings.Contains(all, "operator: "+why) {
		t.Errorf("%s\n%s", list, all)
	}
	m.stop()
}

// TestRunEndsWhileNobodyAnswers has requests fail when the program has ended, more of
// them than a client repeats one: it is told how it ended when they are answered again,
// and nobody is asked for that.
func TestRunEndsWhileNobodyAnswers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	const pay = `"$ARL_PROGRAM" work begin pay --effect irrevocable && cp "$ARL_RUN_DIR/step-pay.json" saved && "$ARL_PROGRAM" work end pay && mv saved "$ARL_RUN_DIR/step-pay.json" && `
	for _, c := range []struct {
		id, script string
		code       int
		state      entry.TaskState
	}{
		{"completes", "touch away", 0, entry.TaskCompleted},
		{"pays", pay + "touch away", 0, entry.TaskCompleted}, // the log alone knows that the step is ended
		{"crashes", "touch away; kill -9 $$", 7, entry.TaskAssigned},
	} {
		t.Run(c.id, func(t *testing.T) {
			m.t = t
			task, holder := m.given(c.id)
			away, failed := filepath.Join(t.TempDir(), "away"), atomic.Int64{}
			address := m.between(func(r *http.Request) bool {
				if _, err := os.Stat(away); err == nil && r.Method == http.MethodGet && failed.Add(1) <= 7 {
					panic(http.ErrAbortHandler) // ends the connection
				}
				return true
			})
			cmd, said := m.scripted(holder, task, `cd "`+filepath.Dir(away)+`" && `+c.script, "--url", address)
			if code := exitOf(cmd.Run()); code != c.code || failed.Load() <= 7 {
				t.Errorf("exit code %d after %d requests: %s", code, failed.Load(), said)
			}
			if now := m.until(task, func(t *api.Task) bool { return t.State == c.state || t.State == entry.TaskBlocked }, said); now.State != c.state {
				t.Errorf("%+v\n%s", now, said)
			}
		})
	}
	m.t = t
	m.stop()
}

// TestRunFollowsPolicy changes the policy while a program runs: the one in force
// when it fails decides.
func TestRunFollowsPolicy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	task, holder := m.given("changes")
	cmd, said := m.scripted(holder, task, `echo begun; while ! test -e "`+filepath.Join(m.home, "go")+`"; do sleep 0.05; done; exit 1`)
	m.follows(cmd, said, "begun")
	m.arl("policy", "apply", m.policyWith(`
    - id: changed
      when: class == "crash" && code == "panic"
      remediation: look at the host
      ladder:
        - { strategy: quarantine }
        - { strategy: escalate }`), "--reason", "crashes are for people", "--yes")
	m.must(os.WriteFile(filepath.Join(m.home, "go"), nil, 0o600))
	if code := exitOf(cmd.Wait()); code != 7 || !strings.Contains(said.String(), "changed[0]") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if now := m.stands(task); now.State != entry.TaskBlocked || !strings.Contains(now.Reason, "look at the host") {
		t.Errorf("%+v", now)
	}
	signals := entriesOf[entry.Signal](m, entry.KindSignal)
	if len(signals) != 1 || signals[0].Iss != holder || len(signals[0].Evidence) != 0 || signals[0].Standing != entry.StandingExecutor {
		t.Errorf("a quarantine is a signal without evidence: %+v", signals)
	}
	m.stop()
}

// TestRunRollsBack: a rollback of the policy is a signal of the agent, with the digest of its
// context as evidence, also while retries are left.
func TestRunRollsBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: undone
      when: class == "crash" && code == "panic"
      ladder:
        - { strategy: rollback }
        - { strategy: escalate }`)
	m.workers("one")
	task, holder := m.given("undone", "--max-retries", "5")
	cmd, said := m.scripted(holder, task, "exit 1")
	if code := exitOf(cmd.Run()); code != 7 || !strings.Contains(said.String(), "rollback") {
		t.Errorf("exit code %d: %s", code, said)
	}
	signals := entriesOf[entry.Signal](m, entry.KindSignal)
	if len(signals) != 1 || signals[0].Iss != holder || len(signals[0].Evidence) != 1 || signals[0].Code != "panic" {
		t.Errorf("%+v", signals)
	}
	tried := entriesOf[entry.Attempt](m, entry.KindAttempt, "--agent", string(holder))
	if len(tried) == 0 || tried[0].Iss != holder || tried[0].Status != entry.StatusEscalated || tried[0].Rungs[0].Strategy != "rollback" {
		t.Errorf("%+v", tried)
	}
	m.arl("log", "audit")
	m.stop()
}

// TestWorkBeginsOnce begins a step that was begun and not ended: it is the same
// one, so that nothing is left in doubt. A step that the ledger refuses is none.
func TestWorkBeginsOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	task, holder := m.given("once")
	cmd, said := m.scripted(holder, task, `
"$ARL_PROGRAM" work begin pay --effect compensible; echo "misspelt: $?"
"$ARL_PROGRAM" work begin pay --effect compensable
"$ARL_PROGRAM" work begin pay --effect compensable
"$ARL_PROGRAM" work begin pay --effect irrevocable; echo "other effect: $?"
"$ARL_PROGRAM" work end pay
"$ARL_PROGRAM" work begin pay --effect compensable
exit 1`)
	if code := exitOf(cmd.Run()); code != 7 || !strings.Contains(said.String(), "misspelt: 2") || !strings.Contains(said.String(), "other effect: 2") {
		t.Errorf("exit code %d: %s", code, said)
	}
	var ids []string
	for _, x := range entriesOf[entry.Execution](m, entry.KindExecution, "--task", task) {
		if strings.HasPrefix(x.Exec, "pay-") {
			ids = append(ids, x.Exec)
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] || strings.Count(said.String(), ids[0]) != 3 {
		t.Errorf("%v: %s", ids, said)
	}
	if next := m.until(task, func(t *api.Task) bool { return t.Epoch == 2 }, said); next.Agent == holder {
		t.Errorf("%+v", next)
	}
	m.stop()
}

// TestRunLeavesAZombie kills a supervisor, whose program goes on, and gives the
// task to the same agent again: what the old program would begin is refused, and
// its checkpoint is none.
func TestRunLeavesAZombie(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.startUnder(`
    - id: alone
      when: class == "crash" && task_type == "charges"
      ladder:
        - { strategy: retry }
        - { strategy: escalate }`)
	m.workers("one")
	task, _ := m.given("haunted", "--lease-ms", m.lease(3000), "--max-retries", "5")
	dir := t.TempDir()
	zombie, said := m.scripted("one", task, `cd "`+dir+`"; kill -9 $PPID; while ! test -e go; do sleep 0.05; done
"$ARL_PROGRAM" work begin late --effect irrevocable 2>> words; echo "begin $?" >> words
echo state > state; "$ARL_PROGRAM" work checkpoint state 2>> words; echo "checkpoint $?" >> words; mv words out`)
	zombie.Stdout, zombie.Stderr = nil, nil // which it holds longer than its supervisor lives
	if code := exitOf(zombie.Run()); code != -1 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	m.until(task, func(t *api.Task) bool { return t.State == entry.TaskAssigned && t.Epoch == 2 }, said)
	again, more := m.scripted("one", task, `while ! test -e "`+dir+`/out"; do sleep 0.05; done; cat "`+dir+`/out"`)
	m.must(again.Start())
	m.until(task, func(t *api.Task) bool { return t.State == entry.TaskInProgress && t.Executions == 2 }, more)
	m.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if code := exitOf(again.Wait()); code != 0 || !strings.Contains(more.String(), "begin 6") || !strings.Contains(more.String(), "checkpoint 6") {
		t.Errorf("exit code %d: %s", code, more)
	}
	if now := m.stands(task); now.State != entry.TaskCompleted || now.Executions != 2 {
		t.Errorf("%+v", now)
	}
	m.arl("log", "audit")
	m.stop()
}

// TestRunDoesNotClaimAHandOver ends a supervisor whose agent has lost its key. The ledger refuses
// to take the task back, and nobody reads that it did.
func TestRunDoesNotClaimAHandOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.workers("one", "two")
	task, holder := m.given("kept", "--lease-ms", "20000")
	begun := filepath.Join(t.TempDir(), "begun")
	run, said := m.scripted(holder, task, "touch '"+begun+"'; exec sleep 60")
	m.must(run.Start())
	m.until(task, func(*api.Task) bool { _, err := os.Stat(begun); return err == nil })
	m.arl("agent", "revoke", "--principal", string(holder), "--reason", "it does harm", "--yes")
	m.must(run.Process.Signal(os.Interrupt))
	if code := exitOf(run.Wait()); code == 0 {
		t.Errorf("exit code 0: %s", said)
	}
	if text := said.String(); !strings.Contains(text, "unknown-issuer") || !strings.Contains(text, "interrupted: the task is not handed back") {
		t.Errorf("it says: %s", text)
	}
	m.stop()
}
