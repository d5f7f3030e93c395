//go:build unix

package main_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify"
)

// TestKilledImportsGoOn loses the database and its anchor, and rebuilds it from an
// export by imports that are killed at random, until one comes through. In between
// nobody takes the part for a log. Afterwards everything acknowledged is there, under
// the receipts of then, and nothing is registered twice.
func TestKilledImportsGoOn(t *testing.T) {
	t.Parallel()
	seed := budget.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	m := newMachine(t)
	m.start()
	m.enrol()
	all, unanswered := m.loadAndKill(1500)
	m.start()
	export := filepath.Join(filepath.Dir(m.data), "export")
	m.arl("log", "export", export)
	m.stop()
	imports := []string{"log", "import", export, "--data", m.data, "--newest", filepath.Join(export, "checkpoint")}
	lose := func() {
		for _, path := range []string{"/db", "/db.import", ".anchor"} {
			m.must(os.RemoveAll(m.data + path))
		}
	}
	lose()
	began := time.Now()
	m.arl(imports...)
	whole := time.Since(began)
	lose()
	kills := 0
	for done := false; !done; {
		if _, err := os.Stat(m.data + "/db"); err == nil { // one came through too soon
			lose()
		}
		cmd, _ := m.command(nil, imports...)
		m.must(cmd.Start())
		// Each goes on where the one before was, until one comes through.
		kill := time.AfterFunc(time.Duration(rng.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err == nil {
			done = kills >= 8
			continue
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		kills++
		if _, err := os.Stat(m.data + "/db"); err == nil {
			continue // it was killed behind its last step
		}
		head, said := m.command(nil, "log", "head", "--data", m.data)
		if exit, ok := errors.AsType[*exec.ExitError](head.Run()); !ok || exit.ExitCode() != 10 {
			t.Fatalf("after %d kills a part is taken for a log: %s", kills, said)
		}
	}
	t.Logf("%d kills, an import takes %v", kills, whole)
	m.arl("log", "fsck", "--data", m.data)
	m.start()
	m.checkAcknowledged(all, rng)
	for range 50 {
		a := all[rng.IntN(len(all))]
		var again verify.Receipt
		status, body, err := m.post(a.envelope)
		m.must(err)
		m.must(json.Unmarshal(body, &again))
		_, at, err := entry.DecodeLeaf(a.receipt.Leaf)
		m.must(err)
		_, atNow, err := entry.DecodeLeaf(again.Leaf)
		m.must(err)
		if status != http.StatusOK || again.Index != a.receipt.Index || at != atNow {
			t.Fatalf("%d: entry %d of %d is now %d of %d", status, a.receipt.Index, at, again.Index, atNow)
		}
	}
	m.resubmit(unanswered)
	m.checkEverything(all)
	m.stop()
}
