//go:build unix

package main_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// recoveries has the server decide and record n cases, each of which recovers if its rules retry.
func (m *machine) recoveries(name string, n int) {
	m.t.Helper()
	var cases strings.Builder
	for i := range n {
		fmt.Fprintf(&cases, `{"v":1,"id":"%s-%d","agent":"desk","task_type":"charges","steps":[{"id":"call","tool":"call","effect":"none","outcome":"failed",`+
			`"failure":{"raw":{"http_status":529}},"attempts":[{"strategy":"retry","outcome":"ok"}]}]}`+"\n", name, i)
	}
	response, err := http.Post(m.url+api.PathBatch, api.MediaNDJSON, strings.NewReader(cases.String()))
	m.must(err)
	body, err := io.ReadAll(response.Body)
	m.must(errors.Join(err, response.Body.Close()))
	if want := fmt.Sprintf(`"recorded":{"cases":%d,`, n); response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
		m.t.Fatalf("%s: %s, want %s in %.2000s", name, response.Status, want, body)
	}
}

// rollouts is what the server says of rollouts.
func (m *machine) rollouts() (v api.Rollouts) {
	m.t.Helper()
	m.get("/v1/rollouts", &v)
	v.Size = 0
	return v
}

// same fails if a rollout stands otherwise than before.
func (m *machine) same(what string, before api.Rollouts) {
	m.t.Helper()
	if now := m.rollouts(); !reflect.DeepEqual(now, before) {
		m.t.Errorf("%s: %+v, before %+v", what, now.Current, before.Current)
	}
}

// TestRolloutSurvives kills the ledger in each stage of a rollout, loses its disk in the canary,
// and kills it when a gate has fallen and nobody has aborted yet: stage, evidence and arms stay,
// and the rollout is aborted once. An export gives each arm again.
func TestRolloutSurvives(t *testing.T) {
	t.Parallel()
	m := newEngine(t, 100_000)
	before, _ := m.crashRule("retry")
	after, _ := m.crashRule()
	m.arl("policy", "apply", before, "--reason", "rules in the log", "--yes")
	m.arl("rollout", "start", "r1", "--policy", after, "--salt", "spring", "--reason", "fewer attempts", "--yes")
	m.recoveries("shadow", 20)
	crash := func(stage string) {
		t.Helper()
		stood := m.rollouts()
		m.kill()
		m.start()
		m.same(stage, stood)
	}
	crash("shadow")
	m.arl("rollout", "promote", "r1", "--stage", "canary", "--share", "500", "--reason", "the shadow agrees", "--yes")
	m.recoveries("canary", 40)
	crash("canary")
	canary := m.rollouts()
	if c := canary.Current; c == nil || c.Canary.Cases+c.Control.Cases != 40 || c.Canary.Recovered != 0 || c.Control.Recovered != c.Control.Cases || len(c.Groups) == 0 {
		t.Errorf("evidence: %+v", canary.Current)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	m.arl("backup", backup, "--data", m.data)
	m.kill()
	m.must(os.Rename(m.data, m.data+".lost"))
	m.arl("restore", backup, "--data", m.data)
	m.start()
	m.same("restored", canary)
	m.arl("log", "audit")

	m.kill()
	m.args = append(m.args, "--accept-no-coordinator")
	m.start()
	m.recoveries("worse", 100)
	crash("a gate has fallen")
	if c := m.rollouts().Current; c == nil || c.Fell != entry.GateRecovered {
		t.Fatalf("no gate fell: %+v", c)
	}
	m.kill()
	m.args = m.args[:len(m.args)-1]
	m.start()
	for deadline := time.Now().Add(20 * time.Second); m.rollouts().Current != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("nobody aborts\n%s", m.stderr.String())
		}
	}
	crash("aborted")
	m.recoveries("late", 10)
	var aborts []entry.Rollout
	for _, r := range entriesOf[entry.Rollout](m, entry.KindRollout) {
		if r.Op == entry.RolloutAbort {
			aborts = append(aborts, r)
		}
	}
	if len(aborts) != 1 || aborts[0].Gate != entry.GateRecovered || aborts[0].Iss != "coordinator" {
		t.Errorf("aborts: %+v", aborts)
	}
	m.arl("log", "audit")
	if said := m.arl("agent", "history", "desk"); !strings.Contains(said, "170 cases: ") {
		t.Errorf("history of the agent: %s", said)
	}
	public := filepath.Join(t.TempDir(), "public")
	m.arl("log", "export", public)
	found := arms(t, public)
	for _, arm := range []entry.Arm{entry.ArmControl, entry.ArmShadow, entry.ArmCanary, ""} {
		if found[arm] == 0 {
			t.Errorf("the export has attempts of %v", found)
		}
	}
	m.stop()
}
