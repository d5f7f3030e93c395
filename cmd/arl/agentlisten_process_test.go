//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/testdata/program"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// listen runs arl agent listen for the machine's agent.
func (m *machine) listen(args ...string) (*exec.Cmd, *bytes.Buffer) {
	m.t.Helper()
	binary := program.Arl(m.t)
	cmd := exec.Command(binary, append([]string{"agent", "listen", "--key", filepath.Join(m.home, "agent.key"), "--output", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "ARL_HOME="+m.home)
	said := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// TestAgentListen has the program of docs/tutorial.md, and the recipe for Node, undo what
// was reported, under the real command against a real server, to the record. The second
// life of an agent goes on with the state of the first.
func TestAgentListen(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	head := filepath.Join(t.TempDir(), "head") // as somebody else has seen it
	m.save("/checkpoint", head)
	if cmd, said := m.listen("--exec", "true"); exitOf(cmd.Run()) != 78 || !strings.Contains(said.String(), "--init") {
		t.Fatalf("without a secret: %s", said)
	}
	for _, wrong := range [][]string{{"--exec", "/no/such/program"}, {"--exec", "true", "--limit", "-1s"}, {"--exec", "true", "--attempts", "-1"}, {"--exec", "true", "--init"}, {}} {
		if cmd, said := m.listen(wrong...); exitOf(cmd.Run()) != 2 {
			t.Errorf("%v: %s", wrong, said)
		}
	}
	if cmd, said := m.listen("--exec", "true", "--agent", "nobody"); exitOf(cmd.Run()) != 3 || !strings.Contains(said.String(), "never enrolled") {
		t.Errorf("an agent that was never enrolled: %s", said)
	}
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 0 {
		t.Fatalf("init: %s", said)
	}
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 6 {
		t.Fatalf("a second init: %s", said)
	}
	secret := filepath.Join(m.home, "agent.key.secret")
	m.must(os.Rename(secret, secret+".lost"))
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 6 {
		t.Errorf("init without the secret of a state: %s", said)
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("another secret was made for a state that is there: all idempotency keys would change")
	}
	m.must(os.Rename(secret+".lost", secret))
	m.warned("--confirm")
	m.doubted(head, withoutHead)
	foreign := filepath.Join(t.TempDir(), "foreign")
	m.must(os.WriteFile(foreign, []byte("no head\n"), 0o600))
	for file, want := range map[string]int{head + ".missing": 3, foreign: 5} {
		if cmd, said := m.listen("--exec", "true", "--confirm", file); exitOf(cmd.Run()) != want || !strings.Contains(said.String(), "--confirm: ") || !strings.Contains(said.String(), "GET /checkpoint") {
			t.Errorf("a second source that is none: %s", said)
		}
	}
	local := strings.Replace(m.url, "127.0.0.1", "localhost", 1)
	for _, itself := range []string{m.url, m.url + "/", m.url + "/checkpoint", m.url + "/checkpoint/", local, "HTTP" + strings.TrimPrefix(m.url, "http")} {
		if cmd, said := m.listen("--exec", "true", "--confirm", itself); exitOf(cmd.Run()) != 2 || !strings.Contains(said.String(), "is the ledger itself") ||
			!strings.Contains(said.String(), withoutHead) {
			t.Errorf("%s as the second source of itself: %s", itself, said)
		}
	}
	for _, none := range []string{"ftp://mirror.example", m.url + "/checkpoint?of=another"} {
		if cmd, said := m.listen("--exec", "true", "--confirm", none); exitOf(cmd.Run()) != 2 || !strings.Contains(said.String(), "want http://host or https://host") {
			t.Errorf("%s as a second source: %s", none, said)
		}
	}
	for i, recipe := range [][]string{{"python3", fileOf(t, "tutorial.md", "undo.py")}, {"node", filepath.Join(root, "testdata", "recipes", "undo.mjs")}} {
		interpreter, err := exec.LookPath(recipe[0])
		if err != nil {
			t.Logf("there is no %s on this machine", recipe[0])
			continue
		}
		script, err := filepath.Abs(recipe[1])
		m.must(err)
		work, order := t.TempDir(), fmt.Sprintf("x%d", i)
		for _, dir := range []string{"orders", "cancelled"} {
			m.must(os.Mkdir(filepath.Join(work, dir), 0o700))
		}
		m.must(os.WriteFile(filepath.Join(work, "orders", order+".json"), []byte("{}"), 0o600))
		cmd, said := m.listen("--confirm", head, "--hooks", "restore,compensate,probe", "--exec", interpreter, "--", script, work)
		m.must(cmd.Start())
		m.must(m.report(order))
		m.recorded(i+1, said)
		if again, said := m.listen("--exec", "true"); exitOf(again.Run()) != 6 {
			t.Errorf("a second process with the same state: %s", said)
		}
		m.must(cmd.Process.Signal(syscall.SIGTERM))
		if code := exitOf(cmd.Wait()); code != 0 || strings.Contains(said.String(), "signal received") {
			t.Errorf("exit code %d: %s", code, said)
		}
		left, err := filepath.Glob(filepath.Join(work, "orders", "*"))
		m.must(err)
		cancelled, err := filepath.Glob(filepath.Join(work, "cancelled", "*.json"))
		m.must(err)
		if len(left) != 0 || len(cancelled) != 1 {
			t.Errorf("%s: orders %v, cancelled %v; %s", recipe[0], left, cancelled, said)
		}
	}
	m.explained()
	m.stop()
}

// TestAgentListenBeginsWithThePinnedHead has one ledger and nobody else who has
// seen it: the root that the enrolment leaves behind carries a head, and with that
// the agent undoes what is proven to it.
func TestAgentListenBeginsWithThePinnedHead(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	if out := m.arl("root", "show"); strings.Contains(out, `"head"`) {
		t.Fatalf("a head before any enrolment by the command: %s", out)
	}
	m.arl("key", "generate", "--out", filepath.Join(m.home, "other.key"))
	m.arl("agent", "enrol", "--principal", "other", "--key", filepath.Join(m.home, "other.key"), "--domain", "test")
	root := filepath.Join(t.TempDir(), "root.json")
	m.must(os.WriteFile(root, []byte(m.arl("root", "show")), 0o600))
	m.stop()
	m.start() // which pins the ledger again, and forgets no head
	if again := m.arl("root", "show"); !strings.Contains(again, `"head"`) {
		t.Fatalf("after a start: %s", again)
	}
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 0 {
		t.Fatalf("init: %s", said)
	}
	if cmd, said := m.listen("--exec", "true", "--confirm", m.url); exitOf(cmd.Run()) != 2 || !strings.Contains(said.String(), withHead) {
		t.Errorf("the ledger as its own second source: %s", said)
	}
	head := filepath.Join(t.TempDir(), "head")
	m.save("/checkpoint", head)
	m.doubted(head, withHead)
	cmd, said := m.listen("--root", root, "--hooks", "compensate", "--exec", "sh", "--", "-c", `echo '{"status":"done"}'`)
	m.must(cmd.Start())
	m.must(m.report("x"))
	m.recorded(1, said)
	m.must(cmd.Process.Signal(syscall.SIGTERM))
	if code := exitOf(cmd.Wait()); code != 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
	for _, want := range []string{"the pinned root carries the tree head of size", "would also show that others see the same log"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it says %q, want %q in it", said, want)
		}
	}
	m.stop()
}

// explained looks at a bundle with the eyes of the agent, by what is in its state.
func (m *machine) explained() {
	m.t.Helper()
	documents, err := filepath.Glob(filepath.Join(m.home, "agents", "*", "accepted.doc"))
	m.must(err)
	text, err := os.ReadFile(documents[0])
	m.must(err)
	_, content, _ := bytes.Cut(text, []byte("\n"))
	accepted, err := bundle.DecodeAccepted(content)
	m.must(err)
	var page api.Incidents
	m.get("/v1/incidents", &page)
	file := filepath.Join(m.t.TempDir(), "bundle.json")
	m.must(os.WriteFile(file, []byte(m.arl("incident", "bundle", fmt.Sprint(page.Incidents[0].ID), "--agent", string(processAgent),
		"--from", strings.Split(accepted.Head, "\n")[1])), 0o600))
	if out := m.arl("verify", file, "--accepted", documents[0]); !strings.Contains(out, "AGT-1 consistency") || strings.Contains(out, "first contact") {
		m.t.Errorf("%s", out)
	}
}

// What the command says where something that may be no second source is given as one.
const (
	withoutHead = "A second source shows that others see the same log. Without one, pass --root FILE in place of --confirm, " +
		"with a pinned root that carries a tree head: arl root show --out FILE writes it where arl agent enrol has run"
	withHead = "A second source shows that others see the same log. Without one, leave --confirm out: the pinned root carries the tree head of size "
)

// doubted wants that the command doubts a file that may come from the ledger. A state of its own
// keeps the first contact of the agent.
func (m *machine) doubted(file, want string) {
	m.t.Helper()
	state := m.t.TempDir()
	if cmd, said := m.listen("--init", "--state", state); exitOf(cmd.Run()) != 0 {
		m.t.Fatalf("init: %s", said)
	}
	m.warned("confirms nothing, and arl cannot tell the difference. "+want, "--state", state, "--confirm", file)
}

// warned wants that the command says, as it starts, what it waits for, or has.
func (m *machine) warned(want string, args ...string) {
	m.t.Helper()
	cmd, _ := m.listen(append([]string{"--exec", "true"}, args...)...)
	cmd.Stderr = nil
	said, err := cmd.StderrPipe()
	m.must(err)
	m.must(cmd.Start())
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, want) {
		m.t.Errorf("%v: %q, %v, want %q in it", args, line, err, want)
	}
	m.must(cmd.Process.Signal(syscall.SIGTERM))
	if code := exitOf(cmd.Wait()); code != 0 {
		m.t.Errorf("exit code %d", code)
	}
}

// TestAgentListenKilledInAHook kills the command while its program is at work:
// the program goes on, and nobody asks what became of it before it has ended.
func TestAgentListenKilledInAHook(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	work := t.TempDir()
	head, began, goes, effect := filepath.Join(work, "head"), filepath.Join(work, "began"), filepath.Join(work, "goes"), filepath.Join(work, "effect")
	m.save("/checkpoint", head)
	for _, pipe := range []string{began, goes} {
		m.must(syscall.Mkfifo(pipe, 0o600))
	}
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 0 {
		t.Fatalf("init: %s", said)
	}
	compensates := "echo > " + began + "; read x < " + goes + "; echo undone >> " + effect + "; echo '{\"status\":\"done\"}'"
	first, _ := m.listen("--confirm", head, "--hooks", "compensate", "--exec", "sh", "--", "-c", compensates)
	words, err := os.Create(filepath.Join(work, "words")) // a pipe would be held by the program
	m.must(err)
	first.Stdout, first.Stderr = words, words
	m.must(first.Start())
	m.must(m.report("x"))
	_, err = os.ReadFile(began)
	m.must(err)
	m.must(first.Process.Kill())
	if code := exitOf(first.Wait()); code != -1 {
		t.Fatalf("exit code %d", code)
	}
	m.must(words.Close())
	probes := `{"status":"no_effect"}`
	second := []string{"--confirm", head, "--hooks", "compensate,probe", "--exec", "sh", "--", "-c",
		"grep -q '\"hook\":\"probe\"' && test -e " + effect + " && echo '{\"status\":\"done\"}' || echo '" + probes + "'"}
	if cmd, said := m.listen(second...); exitOf(cmd.Run()) != 6 || !strings.Contains(said.String(), "still runs") {
		t.Errorf("while the program runs: %s", said)
	}
	pipe, err := os.OpenFile(goes, os.O_WRONLY, 0)
	m.must(err)
	m.must(pipe.Close())
	held, err := filepath.Glob(filepath.Join(m.home, "agents", "*", ".program"))
	m.must(err)
	lock, err := os.OpenFile(held[0], os.O_RDWR, 0)
	m.must(err)
	m.must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)) // waits for the end of the program
	m.must(lock.Close())
	last, said := m.listen(second...)
	m.must(last.Start())
	m.recorded(1, said)
	m.must(last.Process.Signal(syscall.SIGTERM))
	if code := exitOf(last.Wait()); code != 0 || !strings.Contains(said.String(), "probe done") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if text, err := os.ReadFile(effect); err != nil || string(text) != "undone\n" {
		t.Errorf("undone: %q %v", text, err)
	}
	m.stop()
}

// TestAgentListenStaysStopped: a fork that the command sees as it connects, by the
// head that this machine has accepted, stops the agent for good, whatever the
// server shows at the next start. Monitors get both heads each time (AGT-1), and one
// that is away holds nothing up.
func TestAgentListenStaysStopped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	monitor, told := newMonitor(t)
	for _, wrong := range []string{"monitor.example", "ftp://monitor.example", "http://"} {
		if cmd, said := m.listen("--exec", "true", "--monitor", wrong); exitOf(cmd.Run()) != 2 {
			t.Errorf("%s as a monitor: %s", wrong, said)
		}
	}
	if cmd, said := m.listen("--init"); exitOf(cmd.Run()) != 0 {
		t.Fatalf("init: %s", said)
	}
	m.stop()
	accepted, twin := m.data, filepath.Join(t.TempDir(), "twin")
	for _, part := range []string{"", ".anchor"} {
		m.must(exec.Command("cp", "-a", accepted+part, twin+part).Run()) // with who may read the keys
	}
	shows := func(data string, entries int) {
		m.data = data
		m.start()
		for range entries {
			if status, body, err := m.post(m.execution()); err != nil || status != http.StatusCreated {
				t.Fatalf("%d %s %v", status, body, err)
			}
		}
	}
	shows(accepted, 1)
	m.arl("log", "head")
	m.stop()
	m.args = []string{"--home", t.TempDir()} // a machine that has accepted nothing
	shows(twin, 2)
	m.args = nil
	if cmd, said := m.listen("--url", m.url, "--exec", "true", "--monitor", "http://127.0.0.1:1/", "--monitor", monitor); exitOf(cmd.Run()) != 10 ||
		!strings.Contains(said.String(), "Evidence: ") || !strings.Contains(said.String(), "--monitor http://127.0.0.1:1/") {
		t.Errorf("another log: %s", said)
	}
	m.stop()
	shows(accepted, 0)
	if cmd, said := m.listen("--exec", "true", "--monitor", monitor); exitOf(cmd.Run()) != 10 || !strings.Contains(said.String(), "remove the document fork") {
		t.Errorf("the accepted log again: %s", said)
	}
	for range 2 {
		select {
		case heads := <-told:
			convicts(t, heads)
		default:
			t.Error("the monitor got nothing")
		}
	}
	forks, err := filepath.Glob(filepath.Join(m.home, "agents", "*", "fork.doc"))
	m.must(err)
	if len(forks) != 1 {
		t.Fatalf("documents %v", forks)
	}
	m.must(os.Remove(forks[0])) // it is settled
	m.warned("--confirm")
	m.stop()
}

// newMonitor is a server that takes the evidence of forks, and the heads in it.
func newMonitor(t *testing.T) (url string, told chan [2]string) {
	t.Helper()
	told = make(chan [2]string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fork verify.Evidence
		if err := json.NewDecoder(r.Body).Decode(&fork); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, r.Header.Get("Content-Type"), err)
		}
		told <- [2]string{fork.Older, fork.Newer}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return server.URL, told
}

func exitOf(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// save writes the answer to a path of the server to a file.
func (m *machine) save(path, file string) {
	m.t.Helper()
	response, err := http.Get(m.url + path)
	m.must(err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	m.must(err)
	m.must(os.WriteFile(file, body.Bytes(), 0o600))
}

// recorded waits until so many incidents are recovered.
func (m *machine) recorded(count int, said *bytes.Buffer) {
	m.t.Helper()
	var page api.Incidents
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		m.get("/v1/incidents?state=RECOVERED", &page)
		if len(page.Incidents) == count {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d recovered, want %d\n%s", len(page.Incidents), count, said.String())
		}
	}
}
