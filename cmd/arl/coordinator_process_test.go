//go:build unix

package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// report registers a confirmed execution and a signal about it, and returns the
// incident. The error says that there was no answer.
func (m *machine) report(id string) error {
	m.t.Helper()
	x := &entry.Execution{Header: m.header(processAgent, "w"), Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectCompensable,
		IdempotencyKey: entry.Digest("sha256:" + strings.Repeat("0", 64))}
	for _, x.Progress = range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		x.Header = m.header(processAgent, "w")
		if status, body, err := m.post(m.seal(m.agent, x)); err != nil || status != http.StatusCreated {
			return fmt.Errorf("%d %s %w", status, body, err)
		}
	}
	s := &entry.Signal{Header: m.header(processAgent, "w"), Subject: x.Ref(), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()}
	status, body, err := m.post(m.seal(m.agent, s))
	if err == nil && status != http.StatusCreated {
		m.t.Fatalf("signal: %d %s", status, body)
	}
	return err
}

// TestChaosCoordinator kills the server while its coordinator decides, again and
// again. It remembers nothing but the log: after each restart every incident
// that was reported is authorized once, without anybody asking. ARL_CHAOS=1 does
// it 50 times.
func TestChaosCoordinator(t *testing.T) {
	t.Parallel()
	cycles := budget.Budget{Short: 2, Usual: 5, Chaos: 50}.Now() // the limits of the genesis policy allow no more than 50
	seed := budget.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	m := newMachine(t)
	m.start()
	m.enrol()
	for cycle := range cycles {
		for i := range 1 + rng.IntN(6) {
			if err := m.report(fmt.Sprintf("x-%d-%d", cycle, i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond) // a crash at any moment of what follows the last signal
		m.kill()
		m.start()
		m.allAuthorized()
	}
	m.stop()
	m.start() // and once more in peace: nothing is left to be written
	var before, after api.Log
	m.get("/v1/log", &before)
	m.allAuthorized()
	m.get("/v1/log", &after)
	if before.Size != after.Size {
		t.Fatalf("the log grew from %d to %d entries by itself", before.Size, after.Size)
	}
	m.stop()
}

// allAuthorized waits until the coordinator has nothing to write, and checks that
// it decided about every incident, once.
func (m *machine) allAuthorized() {
	m.t.Helper()
	var page api.Incidents
	for deadline := time.Now().Add(20 * time.Second); ; {
		m.get("/v1/incidents?state=REPORTED&limit=1000", &page)
		if len(page.Incidents) == 0 {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("incident %d waits for the coordinator\n%s", page.Incidents[0].ID, m.stderr.String())
		}
	}
	m.get("/v1/incidents?limit=1000", &page)
	for _, incident := range page.Incidents {
		var decisions api.Page
		m.get(fmt.Sprintf("/v1/entries?kind=decision&incident=%d", incident.ID), &decisions)
		if incident.State != "AUTHORIZED" || len(decisions.Entries) != 1 {
			m.t.Fatalf("incident %d is %s after %d decisions", incident.ID, incident.State, len(decisions.Entries))
		}
	}
}
