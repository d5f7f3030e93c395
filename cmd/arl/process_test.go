//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/program"
	"recoveryledger/verify"
)

// spoken is what a process has said so far, also while it runs.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements [io.Writer].
func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String implements [fmt.Stringer].
func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *spoken) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

// machine is a disk with a ledger on it, across starts of its process.
type machine struct {
	t          testing.TB
	home, data string
	args       []string // of arl serve, beside the usual ones
	socket     *os.File // that a service manager has opened; nil: arl serve opens its own

	process *exec.Cmd
	stderr  spoken
	url     string
	origin  string
	agent   *keys.Signer
}

const processAgent entry.Principal = "agent@process"

func newMachine(tb testing.TB, args ...string) *machine {
	tb.Helper()
	dir := tb.TempDir()
	m := &machine{t: tb, home: filepath.Join(dir, "home"), data: filepath.Join(dir, "data"), args: args}
	tb.Cleanup(func() { m.kill() })
	return m
}

// start runs arl serve until it takes entries.
func (m *machine) start() {
	m.t.Helper()
	m.launch("exec \"$0\" \"$@\"")
}

// startLimited is start, with files that cannot grow beyond half a mebibyte.
func (m *machine) startLimited() {
	m.t.Helper()
	m.launch("ulimit -f 1024; exec \"$0\" \"$@\"") // in blocks of 512 bytes
}

// launch starts the program by a line of shell.
func (m *machine) launch(shell string) {
	m.t.Helper()
	binary := program.Arl(m.t)
	if m.socket != nil {
		shell = "export LISTEN_FDS=1 LISTEN_PID=$$; " + shell
	}
	args := append([]string{"-c", shell, binary, "serve", "--data", m.data, "--listen", "127.0.0.1:0", "--output", "json"}, m.args...)
	m.process = exec.Command("sh", args...)
	m.process.Env = append(os.Environ(), "ARL_HOME="+m.home)
	if m.socket != nil {
		m.process.ExtraFiles = []*os.File{m.socket}
	}
	m.stderr.reset()
	m.process.Stderr = &m.stderr
	stdout, err := m.process.StdoutPipe()
	m.must(err)
	m.must(m.process.Start())
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		_ = m.process.Wait() // its words are in stderr
		m.t.Fatalf("start: %v\n%s", err, m.stderr.String())
	}
	var started struct{ URL, Origin string }
	m.must(json.Unmarshal(line, &started))
	m.url, m.origin = started.URL, started.Origin
}

// kill ends the process as a crash does.
func (m *machine) kill() {
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill() // it may have ended by itself
	_ = m.process.Wait()         // killed is what it says
	m.process = nil
}

// stop ends the process as an operator does.
func (m *machine) stop() {
	m.t.Helper()
	m.must(m.process.Process.Signal(syscall.SIGTERM))
	if err := m.process.Wait(); err != nil {
		m.t.Fatalf("stop: %v\n%s", err, m.stderr.String())
	}
	m.process = nil
}

// enrol makes the agent that submits.
func (m *machine) enrol() {
	m.t.Helper()
	operator := m.operator()
	var err error
	m.agent, err = keys.Generate(filepath.Join(m.home, "agent.key"), keys.Ed25519, nil)
	m.must(err)
	envelope := m.seal(operator, &entry.Agent{Header: m.header("operator", ""), Principal: processAgent, Op: entry.Enrol, Key: m.agent.Public(),
		Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow})
	if status, body, err := m.post(envelope); err != nil || status != http.StatusCreated {
		m.t.Fatalf("enrol: %d %s %v", status, body, err)
	}
}

// operator returns the key of the operator, which the first start made.
func (m *machine) operator() *keys.Signer {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home, "keys", "*", "operator.key"))
	m.must(err)
	operator, err := keys.Load(found[0], nil)
	m.must(err)
	return operator
}

func (m *machine) header(issuer entry.Principal, wid entry.WorkflowID) entry.Header {
	return entry.Header{V: 1, JTI: uuid.NewString(), Iss: issuer, Aud: m.origin, Iat: time.Now().Unix(), Wid: wid}
}

func (m *machine) seal(signer *keys.Signer, body entry.Body) []byte {
	m.t.Helper()
	e, err := entry.New(body)
	m.must(err)
	m.must(signer.Sign(e))
	return e.AppendEnvelope(nil)
}

// execution returns a new signed entry of the agent.
func (m *machine) execution() []byte {
	m.t.Helper()
	return m.seal(m.agent, &entry.Execution{Header: m.header(processAgent, "w"), Exec: uuid.NewString(), Parents: []entry.Parent{},
		Effect: entry.EffectNone, Progress: entry.Confirmed})
}

// post submits an envelope; the error says that there was no answer.
func (m *machine) post(envelope []byte) (status int, body []byte, err error) {
	response, err := http.Post(m.url+"/v1/entries", "application/json", bytes.NewReader(envelope))
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, errors.Join(err, response.Body.Close())
}

// get reads JSON.
func (m *machine) get(path string, into any) {
	m.t.Helper()
	response, err := http.Get(m.url + path)
	m.must(err)
	body, err := io.ReadAll(response.Body)
	m.must(errors.Join(err, response.Body.Close()))
	if response.StatusCode != http.StatusOK {
		m.t.Fatalf("GET %s: %d %s", path, response.StatusCode, body)
	}
	m.must(json.Unmarshal(body, into))
}

// root returns the root of trust that the first start pinned.
func (m *machine) root() verify.Root {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home, "profiles", "*.json"))
	m.must(err)
	content, err := os.ReadFile(found[0])
	m.must(err)
	var p struct{ Root verify.Root }
	m.must(json.Unmarshal(content, &p))
	return p.Root
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}
