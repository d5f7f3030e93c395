//go:build unix

package main_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// hasty is a policy whose coordinator and approvers have less than a second.
const hasty = `
roles: { agent: [enroller, operator] }
windows: { decide_ms: 900, answer_ms: 600, member_ms: 600, deadline_max_ms: 3600000, cooldown_ms: 1, since_max_ms: 3600000, bundle_max_age_ms: 60000, iat_ms: 300000 }
limits:
  incident: { members: 100, agents: 10, domains: 1, fenced_ms: 7200000 }
  signaler: { members: 1000000, agents: 30, domains: 3, fenced_ms: 7200000000 }
  victim: { members: 1000000, agents: 30, domains: 3, fenced_ms: 7200000000 }
  window_ms: 86400000
quotas: { entries_per_hour: 0, signals_per_hour: 100000 }
quorum: { approve: 1, override: 2, signalers: 2 }
max_step_ms: 60000
`

// conducts are incidents by what the coordinator makes of them alone.
var conducts = []struct {
	name     string
	effect   entry.Effect
	standing entry.Standing
	state    entry.IncidentState
	entries  []string // that the coordinator writes
}{
	{"automatic", entry.EffectCompensable, entry.StandingExecutor, "AUTHORIZED", []string{"authorize"}},
	{"recorded", entry.EffectNone, entry.StandingExecutor, "NO_EFFECTS", []string{"authorize", "record"}},
	{"silent", entry.EffectIrrevocable, entry.StandingExecutor, "DISMISSED", []string{"escalate", "deny"}},
	{"accused", entry.EffectCompensable, entry.StandingDownstream, "DISMISSED", []string{"contain", "escalate", "deny"}},
}

// begin reports an incident of a kind, in a workflow of its own, and returns its
// subject.
func (m *machine) begin(kind int, id string) entry.Ref {
	m.t.Helper()
	is, wid := &conducts[kind], entry.WorkflowID(id)
	register := func(body entry.Body) {
		if status, answer, err := m.post(m.seal(m.agent, body)); err != nil || status != http.StatusCreated {
			m.t.Fatalf("%s: %d %s %v", id, status, answer, err)
		}
	}
	x := &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: is.effect}
	steps := []entry.Progress{entry.Started, entry.Confirmed}
	if is.effect == entry.EffectNone {
		steps = steps[1:]
	} else {
		x.IdempotencyKey = entry.Digest("sha256:" + strings.Repeat("0", 64))
	}
	for _, x.Progress = range steps {
		x.Header = m.header(processAgent, wid)
		register(x)
	}
	if is.standing == entry.StandingDownstream {
		register(&entry.Execution{Header: m.header(processAgent, wid), Exec: id + "-use", Parents: []entry.Parent{{Exec: x.Ref(), Dep: entry.Hard}},
			Effect: entry.EffectNone, Progress: entry.Confirmed})
	}
	register(&entry.Signal{Header: m.header(processAgent, wid), Subject: x.Ref(), Class: "tool", Code: "error", Standing: is.standing,
		Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnsafe, ObservedAt: time.Now().UnixMilli()})
	return x.Ref()
}

// written returns what the coordinator wrote about an incident: what each entry
// is, and its leaf hash by index.
func (m *machine) written(incident uint64) (names []string, hashes map[uint64]merkle.Hash) {
	m.t.Helper()
	hashes = map[uint64]merkle.Hash{}
	for _, kind := range []string{"decision", "record"} {
		var page api.Page
		m.get(fmt.Sprintf("/v1/entries?kind=%s&incident=%d", kind, incident), &page)
		for i := range page.Entries {
			e := &page.Entries[i].Entry
			var body struct{ Act string }
			m.must(json.Unmarshal(e.Envelope.Payload, &body))
			names, hashes[e.Index] = append(names, cmp.Or(body.Act, kind)), e.LeafHash
		}
	}
	return names, hashes
}

// incidents returns all incidents, by subject.
func (m *machine) incidents() map[entry.Ref]api.Incident {
	m.t.Helper()
	all := map[entry.Ref]api.Incident{}
	for next := "/v1/incidents?limit=1000"; next != ""; {
		var page api.Incidents
		m.get(next, &page)
		for _, incident := range page.Incidents {
			all[incident.Signals[0].Subject] = incident
		}
		next = page.Next
	}
	return all
}

// allConducted waits until every incident stands where its kind ends, and checks
// that the coordinator wrote each entry about it once.
func (m *machine) allConducted(reported map[entry.Ref]int) {
	m.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		waits := entry.Ref("")
		all := m.incidents()
		for subject, kind := range reported {
			if all[subject].State != conducts[kind].state {
				waits = subject
			}
		}
		if waits == "" {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%s is %s\n%s", waits, all[waits].State, m.stderr.String())
		}
	}
	for subject, incident := range m.incidents() {
		if names, _ := m.written(incident.ID); !slices.Equal(names, conducts[reported[subject]].entries) {
			m.t.Errorf("%s: the coordinator wrote %v, want %v", subject, names, conducts[reported[subject]].entries)
		}
	}
}

// TestChaosConductSurvivesKill kills the server with SIGKILL at any moment of
// incidents that take every way the coordinator can go by itself: authorized,
// recorded at once, contained and proposed and denied for want of an answer.
// What anybody was shown before a crash stands in the log after it, and in the
// end every incident got each decision once. ARL_CHAOS=1 does it 100 times.
func TestChaosConductSurvivesKill(t *testing.T) {
	t.Parallel()
	kills := budget.Budget{Short: 3, Usual: 6, Chaos: 100}.Now()
	seed := budget.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(hasty), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "--policy", file)
	m.start()
	m.enrol()
	reported, shown := map[entry.Ref]int{}, map[uint64]merkle.Hash{}
	for kill := range kills {
		for kind := range conducts {
			if rng.IntN(2) == 0 || kind == kill%len(conducts) {
				reported[m.begin(kind, fmt.Sprintf("%s-%d", conducts[kind].name, kill))] = kind
			}
		}
		time.Sleep(time.Duration(rng.IntN(250_000)) * time.Microsecond) // a crash at any moment of what follows
		for _, incident := range m.incidents() {
			if rng.IntN(8) == 0 {
				_, hashes := m.written(incident.ID)
				maps.Copy(shown, hashes)
			}
		}
		m.kill()
		m.start()
	}
	m.allConducted(reported)
	m.stop()
	m.start() // and once more in peace: nothing is left to be written
	var before, after api.Log
	m.get("/v1/log", &before)
	m.allConducted(reported)
	m.get("/v1/log", &after)
	if before.Size != after.Size {
		t.Errorf("the log grew from %d to %d entries by itself", before.Size, after.Size)
	}
	for index, hash := range shown {
		var e api.Entry
		if m.get(fmt.Sprintf("/v1/entries/%d", index), &e); e.LeafHash != hash {
			t.Errorf("entry %d was shown before a crash, and is another now", index)
		}
	}
	t.Logf("%d kills, %d incidents, %d decisions shown before a crash", kills, len(reported), len(shown))
	m.stop()
}
