package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// canary registers a rollout of half of the cases.
func (s *site) canary() (candidate entry.Digest) {
	s.t.Helper()
	rules := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
	policy := s.genesis()
	policy.Recovery = recovery.Default().JSON()
	step := func(op entry.RolloutOp) *entry.Rollout {
		r := &entry.Rollout{Header: s.Header("o"), Rollout: "r1", Op: op, Reason: "because"}
		r.Wid = "r1"
		return r
	}
	begin, half := step(entry.RolloutStart), step(entry.RolloutAdvance)
	begin.Stage, half.Stage, half.SharePermille = entry.StageShadow, entry.StageCanary, entry.ShareMax
	begin.Start = &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(rules), BaselineDigest: recovery.Default().Hash(), Candidate: rules, Salt: "s",
		Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: start + 1000*minute}
	s.submit(7, "", s.signed(policy, s.Enrol("root", "o", entry.RoleOperator), s.Enrol("root", "k", entry.RoleCoordinator),
		s.Enrol("root", "a", entry.RoleAgent), s.Enrol("root", "r", entry.RoleEngine), begin, half)...)
	return begin.Start.CandidateDigest
}

// worse registers an attempt about each of 120 cases: the baseline recovers all of its cases, and
// the candidate none. They are registered ten at a time, until enough says that it is enough. worse
// returns how many entries the log has if the coordinator has written none.
func (s *site) worse(candidate entry.Digest, enough func() bool) (size uint64) {
	s.t.Helper()
	size = s.log.Head().Size
	var bodies []entry.Body
	for n := range 120 {
		a := &entry.Attempt{Header: s.Header("r"), Agent: "a", Arm: entry.ArmControl, Policy: recovery.Default().Hash(),
			AttemptCase: entry.AttemptCase{Case: fmt.Sprint("case-", n), Status: entry.StatusRecovered, Rungs: []entry.Rung{}}}
		if rollout.Draw("s", a.Case) < entry.ShareMax {
			a.Arm, a.Policy, a.Status = entry.ArmCanary, candidate, entry.StatusEscalated
		}
		if bodies = append(bodies, a); len(bodies) == 10 {
			s.submit(10, "", s.signed(bodies...)...)
			if bodies, size = nil, size+10; enough() {
				break
			}
		}
	}
	return size
}

// fell reports whether a gate of the rollout has fallen.
func (s *site) fell() (fell bool) {
	s.c.Read(func(state *coord.State) {
		now := state.Rollouts().Current()
		fell = now == nil || now.Evidence.Fell != ""
	})
	return fell
}

// aborts returns the gates for which the log has aborts.
func (s *site) aborts() (gates []entry.Gate) {
	s.t.Helper()
	for e, err := range s.log.Entries(s.t.Context(), 0, s.log.Head().Size) {
		must(s.t, err)
		if r, ok := e.Body.(*entry.Rollout); ok && r.Op == entry.RolloutAbort {
			gates = append(gates, r.Gate)
		}
	}
	return gates
}

// TestTwoCoordinatorsAbortOnce has two coordinators of one log decide while evidence comes: the log
// has one abort, by which the auditor derives the same state. The abort comes right behind the
// batch that has the gate fall, and waits for no other entry.
func TestTwoCoordinatorsAbortOnce(t *testing.T) {
	s := newSite(t)
	candidate := s.canary()
	ctx, stop := context.WithCancel(t.Context())
	var both sync.WaitGroup
	for range 2 {
		k := s.coordinator()
		k.Refused = nil // the other one overtakes it
		both.Go(func() {
			if err := k.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	size := s.worse(candidate, s.fell)
	must(t, s.log.Wait(t.Context(), size+1))
	for e, err := range s.log.Entries(t.Context(), size, size+1) {
		must(t, err)
		if r, ok := e.Body.(*entry.Rollout); !ok || r.Op != entry.RolloutAbort {
			t.Errorf("entry %d, behind the evidence: %+v", size, e.Body)
		}
	}
	for range 2 { // both have seen the abort when nothing is due
		k := s.coordinator()
		if _, _, err := k.Step(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	both.Wait()
	if got := s.aborts(); len(got) != 1 || got[0] != entry.GateRecovered {
		t.Errorf("aborts for %v", got)
	}
	s.check()
}

// TestCrashAtTheAbort ends the coordinator at its abort, before it is sent and when it is durable
// and nobody has heard of it; what is not synced is lost. Whoever starts again aborts once.
func TestCrashAtTheAbort(t *testing.T) {
	budget.Unraced(t, "the goroutines are those of TestTwoCoordinatorsAbortOnce")
	for _, before := range []bool{true, false} {
		disk := vfs.NewCrashableMem()
		s := &site{world: emptyWorld(t), fs: disk, dir: "data"}
		s.open()
		s.worse(s.canary(), func() bool { return false })
		k := s.coordinator()
		k.Log = &fragile{desk{s}, 1, before}
		if _, _, err := k.Step(t.Context()); !errors.Is(err, errCrash) {
			t.Fatalf("no crash: %v", err)
		}
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 0))})
		s.stop()
		s.fs = after
		s.open()
		if _, _, err := s.coordinator().Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.aborts(); len(got) != 1 || got[0] != entry.GateRecovered {
			t.Errorf("before the write %t: aborts for %v", before, got)
		}
		s.check()
	}
}
