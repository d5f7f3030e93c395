//go:build unix

package main_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// covered registers an entry that the index covers at once, and waits until it has.
func (m *machine) covered() {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home, "keys", "*", "operator.key"))
	m.must(err)
	operator, err := keys.Load(found[0], nil)
	m.must(err)
	name := uuid.NewString()
	other, err := keys.Generate(filepath.Join(m.home, name+".key"), keys.Ed25519, nil)
	m.must(err)
	status, body, err := m.post(m.seal(operator, &entry.Agent{Header: m.header("operator", ""), Principal: entry.Principal(name), Op: entry.Enrol,
		Key: other.Public(), Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow}))
	if err != nil || status != http.StatusCreated {
		m.t.Fatalf("enrol: %d %s %v", status, body, err)
	}
	var log api.Log
	for deadline := time.Now().Add(time.Minute); log.Index == nil || log.Index.Lag > 2; m.get("/v1/log", &log) { // index entries cover none of themselves
		if log.Index != nil && log.Index.Stopped != "" || time.Now().After(deadline) {
			m.t.Fatalf("the index is %+v\n%s", log.Index, m.stderr.String())
		}
	}
}

// checkHistory asks for the executions of the agent: a complete history, which verifies, and
// has all that were acknowledged. It returns how many it has.
func (m *machine) checkHistory(all []acknowledged) int {
	m.t.Helper()
	response, err := http.Get(m.url + "/v1/complete/agent?labels=execution&limit=10000&value=" + url.QueryEscape(string(processAgent)))
	m.must(err)
	body, err := io.ReadAll(response.Body)
	m.must(err)
	m.must(response.Body.Close())
	h, err := verify.DecodeHistory(body)
	if err != nil {
		m.t.Fatalf("%s: %v: %s", response.Status, err, body)
	}
	root := m.root()
	report, err := root.Verify(verify.Material{Histories: []*verify.History{h}, Questions: []verify.Question{
		{Subject: entry.Subject{Type: entry.SubjectAgent, Value: string(processAgent)}, Label: "execution"}}})
	m.must(err)
	shown := map[uint64]bool{}
	for _, index := range report.Answers[0].Entries {
		shown[index] = true
	}
	for _, a := range all {
		if !shown[a.receipt.Index] {
			m.t.Fatalf("entry %d was acknowledged, and the history of %d entries has %d others", a.receipt.Index, h.Size, len(shown))
		}
	}
	return len(shown)
}

// checkStopped has every root in the log computed again, and the store of the index.
func (m *machine) checkStopped() {
	m.t.Helper()
	for _, args := range [][]string{{"log", "audit", "--from-start"}, {"log", "fsck", "--index"}} {
		check, out := m.command(nil, append(args, "--data", m.data)...)
		if err := check.Run(); err != nil {
			m.t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}

// TestChaosKillIndex kills a server that keeps an index, under load: after each start the index
// has all that was acknowledged, and no root in the log is wrong.
func TestChaosKillIndex(t *testing.T) {
	t.Parallel()
	cycles := budget.Budget{Short: 2, Usual: 3, Chaos: 100}.Now()
	rng := rand.New(rand.NewPCG(budget.Seed(t), 0))
	m := newMachine(t, "--index")
	m.start()
	m.enrol()
	var all []acknowledged
	for range cycles {
		acks, unanswered := m.loadAndKill(20 + rng.IntN(200))
		all = append(all, acks...)
		m.start()
		m.checkAcknowledged(all, rng)
		m.resubmit(unanswered)
		m.covered()
		if m.checkHistory(all); rng.IntN(2) == 0 { // else the store is as the crash left it
			m.stop()
			m.checkStopped()
			m.start()
		}
	}
	m.stop()
	m.checkEverything(all)
	m.checkStopped()
}

// TestIndexOfARestoredDirectory starts a ledger on a store of its index that is missing, or older
// or newer than the log, as restored backups leave it: the answers are right, and the roots.
func TestIndexOfARestoredDirectory(t *testing.T) {
	t.Parallel()
	const older, newer = 100, 300
	for name, c := range map[string]struct {
		entries int // of the agent, afterwards
		restore func(m *machine, backup string)
	}{
		"deleted": {older + newer, func(m *machine, _ string) { m.must(os.RemoveAll(filepath.Join(m.data, "index"))) }},
		"an older index": {older + newer, func(m *machine, backup string) {
			m.must(os.RemoveAll(filepath.Join(m.data, "index")))
			m.copy(filepath.Join(backup, "data", "index"), filepath.Join(m.data, "index"))
		}},
		"an older log": {older, restoreLog},
		"an older log that has grown": {older + 2*newer, func(m *machine, backup string) {
			restoreLog(m, backup)
			m.args = nil
			m.start()
			m.bulk(2 * newer)
			m.stop()
			m.args = []string{"--index"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "--index")
			m.start()
			m.enrol()
			m.bulk(older)
			m.covered()
			m.stop()
			backup := filepath.Join(t.TempDir(), "backup")
			m.copy(filepath.Dir(m.data), backup)
			m.start()
			m.bulk(newer)
			m.covered()
			m.stop()
			c.restore(m, backup)
			m.start()
			m.bulk(10)
			m.covered()
			if got := m.checkHistory(nil); got != c.entries+10 {
				t.Errorf("the history has %d entries, want %d", got, c.entries+10)
			}
			m.stop()
			m.checkStopped()
		})
	}
}

// restoreLog restores everything but the index.
func restoreLog(m *machine, backup string) {
	m.t.Helper()
	m.must(os.Rename(filepath.Join(m.data, "index"), filepath.Join(backup, "newer")))
	for _, path := range []string{m.data, m.data + ".anchor", m.home} {
		m.must(os.RemoveAll(path))
	}
	m.copy(backup+"/.", filepath.Dir(m.data))
	m.must(os.RemoveAll(filepath.Join(m.data, "index")))
	m.must(os.Rename(filepath.Join(filepath.Dir(m.data), "newer"), filepath.Join(m.data, "index")))
}

// copy copies files with their modes.
func (m *machine) copy(from, to string) {
	m.t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		m.t.Fatalf("copy %s: %v\n%s", from, err, out)
	}
}
