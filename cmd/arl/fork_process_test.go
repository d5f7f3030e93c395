//go:build unix

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/program"
	"recoveryledger/verify"
)

// witnessProcess is arl witness, listening.
type witnessProcess struct {
	process     *exec.Cmd
	line, URL   string // line of a policy, address
	state, told string // directory, URL of the monitor
}

func (m *machine) witness(w *witnessProcess) {
	m.t.Helper()
	if w.URL == "" {
		w.URL = "http://127.0.0.1:0"
	}
	w.process = exec.Command(program.Arl(m.t), "witness", "--state", w.state, "--name", "one.example", "--log", m.root().LedgerKeys[0],
		"--listen", strings.TrimPrefix(w.URL, "http://"), "--monitor", w.told, "--output", "json")
	w.process.Env = append(os.Environ(), "ARL_HOME="+m.home)
	stdout, err := w.process.StdoutPipe()
	m.must(err)
	m.must(w.process.Start())
	process := w.process
	m.t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() }) // it may have ended
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	m.must(err)
	var started struct {
		URL    string
		Policy []string
	}
	m.must(json.Unmarshal(line, &started))
	w.URL, w.line = started.URL, started.Policy[0]
}

func (w *witnessProcess) kill(m *machine) {
	m.t.Helper()
	m.must(w.process.Process.Kill())
	_ = w.process.Wait() // killed is what it says
}

// TestAForkReachesMonitors has a ledger sign a second history. The witness that cosigned the
// first one refuses: the ledger stops, both tell their monitors, and the witness serves the
// evidence, also after a restart. The ledger is refused again where no witness answers.
func TestAForkReachesMonitors(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "--witness-every", "0s")
	m.start()
	m.enrol()
	atWitness, ofWitness := newMonitor(t)
	atLedger, ofLedger := newMonitor(t)
	w := &witnessProcess{state: filepath.Join(t.TempDir(), "witness"), told: atWitness}
	m.witness(w)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := m.arl("policy", "show") + "\nwitnesses: |\n  " + w.line + "\n  quorum one.example\n"
	m.must(os.WriteFile(policy, []byte(text), 0o600))
	m.arl("policy", "apply", policy, "--reason", "a witness", "--yes")
	m.stop()
	first, twin := m.data, filepath.Join(t.TempDir(), "twin")
	for _, part := range []string{"", ".anchor"} {
		m.must(exec.Command("cp", "-a", first+part, twin+part).Run()) // with who may read the keys
	}
	shows := func(data string, entries int, args ...string) (index uint64) {
		m.data, m.args = data, append([]string{"--witness-every", "0s"}, args...)
		m.start()
		for range entries {
			status, body, err := m.post(m.execution())
			if err != nil || status != http.StatusCreated {
				t.Fatalf("%d %s %v", status, body, err)
			}
			var receipt verify.Receipt
			m.must(json.Unmarshal(body, &receipt))
			index = receipt.Index
		}
		return index
	}
	for last, n := shows(first, 2), 0; ; n++ {
		response, err := http.Get(fmt.Sprintf("%s/v1/entries/%d/receipt?witnessed=true&wait=20000", m.url, last))
		m.must(err)
		m.must(response.Body.Close())
		if response.Header.Get("Witnessed") != "false" {
			break
		}
		if n == 3 {
			t.Fatalf("entry %d is not witnessed\n%s", last, m.stderr.String())
		}
	}
	m.stop()
	elsewhere := t.TempDir() // a machine that has accepted nothing
	shows(twin, 3, "--home", elsewhere, "--witness", "one.example=http://127.0.0.1:1")
	m.stop()
	third := filepath.Join(t.TempDir(), "third")
	for _, part := range []string{"", ".anchor"} {
		m.must(exec.Command("cp", "-a", twin+part, third+part).Run())
	}

	forked := func(why string) {
		t.Helper()
		cmd, said := m.command(nil, "serve", "--data", twin, "--listen", "127.0.0.1:0", "--home", elsewhere, "--monitor", atLedger)
		if exitOf(cmd.Run()) != 10 || !strings.Contains(said.String(), why) || !strings.Contains(said.String(), "Evidence: ") {
			t.Errorf("a second history: %s", said)
		}
		convicts(t, <-ofLedger)
	}
	forked("one.example has cosigned another history of this log")
	heads := <-ofWitness
	convicts(t, heads)
	for range 2 {
		file := filepath.Join(t.TempDir(), "evidence.json")
		m.url = w.URL
		m.save("/v1/evidence", file)
		cmd, said := m.command(nil, "verify", file)
		if exitOf(cmd.Run()) != 10 || !strings.Contains(said.String(), "the ledger forked") {
			t.Errorf("what the witness serves: %s", said)
		}
		w.kill(m)
		m.witness(w)
		if again := <-ofWitness; again != heads {
			t.Errorf("after a restart the monitor gets %q", again)
		}
	}
	w.kill(m)
	forked("witnessed has cosigned another history of this log")
	m.opened() // the last metrics come at the socket of a service manager, too
	shows(third, 1, "--home", t.TempDir())
	m.counts(`arl_invariant_violations_total{invariant="forked"} 0`)
	m.witness(w)
	m.halts()
	if cmd, said := m.command(nil, "serve", "--data", twin, "--monitor", "monitor.example"); exitOf(cmd.Run()) != 2 {
		t.Errorf("a monitor without a URL: %s", said)
	}
}

// opened has a service manager open the listener of the next start. The manager holds the socket,
// so that nobody else can listen at its address.
func (m *machine) opened() {
	m.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	m.t.Cleanup(func() { _ = listener.Close() }) // a test that failed
	m.socket, err = listener.(*net.TCPListener).File()
	m.must(err)
	m.t.Cleanup(func() { _ = m.socket.Close() })
}

// halts has a running ledger convicted of a fork. The counter of that invariant is shown, and the
// ledger ends. The metrics are read until then, as a Prometheus does: the counter may have been
// read before the ledger halted, and its last word waits for one more reader.
func (m *machine) halts() {
	m.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- m.process.Wait() }()
	for shown, end := false, time.Now().Add(time.Minute); ; {
		select {
		case err := <-ended:
			m.process = nil
			if exitOf(err) != 10 || !shown {
				m.t.Errorf("a convicted ledger: %v; its counter was shown: %t\n%s", err, shown, m.stderr.String())
			}
			return
		default:
		}
		if time.Now().After(end) {
			m.t.Fatalf("it goes on\n%s", m.stderr.String())
		}
		if !shown {
			_, _, _ = m.post(m.execution()) // a round of cosignatures, unless it has halted
		}
		shown = m.shows(`arl_invariant_violations_total{invariant="forked"} 1`) || shown
	}
}

// convicts holds what a monitor got to two signed tree heads.
func convicts(t *testing.T, heads [2]string) {
	t.Helper()
	if heads[0] == heads[1] || !strings.Contains(heads[0], "\n\n— ") || !strings.Contains(heads[1], "\n\n— ") {
		t.Errorf("the monitor got %q", heads)
	}
}
