package engine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// TestSetup: what makes the attempts and what chooses the actions reach the run, and its
// directory says when it ran.
func TestSetup(t *testing.T) {
	s := NewSetup(recovery.Default(), 7)
	if s.Mode != ModeRecorded || s.Runtime != (Recorded{}) {
		t.Errorf("a setup of %s with %T", s.Mode, s.Runtime)
	}
	model := &OutcomeModel{}
	if s.Simulate(model); s.Mode != ModeSimulated || s.Outcomes != model {
		t.Errorf("simulated: %+v", s)
	}
	if s.MakeLive(Recorded{}, nil, entry.DigestOf([]byte{})); s.Mode != ModeLive || s.Instance == "" {
		t.Errorf("live: %+v", s)
	}
	if err := s.ChooseBy([]string{"program"}); err != nil || s.External == nil {
		t.Errorf("a program: error %v", err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	first := NewSetup(recovery.Default(), 7).NewRun(2)
	first.Scenario = filepath.Join(t.TempDir(), "scenario.ndjson")
	if err := os.WriteFile(first.Scenario, fixture(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Keep(dir, false); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	clock := func() int64 { now += 10; return now }
	report, err := first.Execute(t.Context(), "v1", "origin", clock)
	if err != nil || report.Total != 100 {
		t.Fatalf("report %+v, error %v", report, err)
	}
	info, err := first.Dir.info()
	if err != nil || info.Run != first.ID || info.StartedAt != 10 || info.EndedAt != 20 || info.Workers != 2 || info.Build != "v1" || info.Ledger != "origin" {
		t.Errorf("info %+v, error %v", info, err)
	}
	if err := first.Dir.Close(); err != nil {
		t.Fatal(err)
	}
	second := NewSetup(recovery.Default(), 7).NewRun(1)
	if err := second.Keep(dir, false); !errors.Is(err, ErrUsed) {
		t.Errorf("a directory that holds a run: %v", err)
	}
	second.Scenario = filepath.Join(dir, "missing")
	if report, err := second.Execute(t.Context(), "v1", "", clock); report != nil || err == nil {
		t.Errorf("a run that cannot begin: report %+v, error %v", report, err)
	}
}

// TestChooseByRefusesPolicy: a program does not choose beside strategies that rules name.
func TestChooseByRefusesPolicy(t *testing.T) {
	if err := NewSetup(triagePolicy(t), 0).ChooseBy([]string{"program"}); !errors.Is(err, errNamesStrategies) {
		t.Errorf("error %v", err)
	}
}
