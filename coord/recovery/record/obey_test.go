package record

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

var errAway = errors.New("no connection")

// ledger is a log with rollouts, which answers unless it is away.
type ledger struct {
	*testlog.Log
	author *testlog.Author
	kinds  []entry.Kind // of its entries
	away   bool
	asked  int
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{Log: testlog.New(t)}
	l.author = &testlog.Author{TB: t, Now: func() int64 { return l.At }}
	return l
}

// rollout logs an entry of a rollout. Of a start, the canary has half of the cases.
func (l *ledger) rollout(name string, op entry.RolloutOp) {
	r := &entry.Rollout{Header: l.author.Header("olga"), Rollout: name, Op: op, Reason: "test"}
	if r.Wid = entry.WorkflowID(name); op == entry.RolloutStart {
		candidate := jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
		r.Stage, r.SharePermille = entry.StageCanary, entry.ShareMax
		r.Start = &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate, Salt: "s",
			Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: l.At + 1_000_000}
	}
	l.Add(l.author.Sign(r))
	l.kinds = append(l.kinds, entry.KindRollout)
}

func (l *ledger) Receipts(_ context.Context, _ entry.Index, kind string) iter.Seq2[*verify.Receipt, error] {
	return func(yield func(*verify.Receipt, error) bool) {
		if l.asked++; l.away {
			yield(nil, errAway)
			return
		}
		for i, of := range l.kinds {
			if string(of) != kind {
				continue
			}
			if r := l.Receipt(uint64(i)); !yield(&r, nil) {
				return
			}
		}
	}
}

// TestObey: a live run obeys the rollout that it began with, and looks at the log once a second.
// While the ledger does not answer, and once the rollout is over, the rules of the run decide for
// no arm, even if another rollout is under way by then.
func TestObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t)
		l.rollout("r1", entry.RolloutStart)
		var said []error
		run := engine.NewSetup(recovery.Default(), 0).NewRun(1)
		if err := Obey(t.Context(), l, run, "", func(err error) { t.Error(err) }); err != nil || run.Arms != nil || run.Candidate != nil {
			t.Fatal("a run that is not live obeys", run.Candidate, err)
		}
		run.Mode = engine.ModeLive
		if err := Obey(t.Context(), l, run, "", func(err error) { said = append(said, err) }); err != nil {
			t.Fatal(err)
		}
		ids := map[entry.Arm]string{}
		for n := 0; len(ids) < 2; n++ {
			id, arm := strings.Repeat("c", n+1), entry.ArmControl
			if rollout.Draw("s", id) < entry.ShareMax {
				arm = entry.ArmCanary
			}
			ids[arm] = id
		}
		decide := func(when string, obeys bool) {
			t.Helper()
			for arm, id := range ids {
				want := recovery.Arms{Rules: run.Policy}
				if obeys {
					want.Arm = arm
				}
				if got := run.Arms(id); got.Arm != want.Arm || (got.Rules == run.Policy) != (want.Arm != entry.ArmCanary) || got.Beside != nil || (got.Other != nil) != obeys {
					t.Errorf("%s: %s is of the arm %q, want %q", when, id, got.Arm, want.Arm)
				}
			}
		}
		asked := l.asked
		l.away = true
		if decide("within a second", true); l.asked != asked {
			t.Error("the log is asked twice within a second")
		}
		for range 2 {
			time.Sleep(lookPause)
			decide("without the ledger", false)
		}
		if !slices.Equal(said, []error{errAway}) {
			t.Errorf("said %v", said)
		}
		l.away = false
		time.Sleep(lookPause)
		decide("with the ledger again", true)
		l.rollout("r1", entry.RolloutAbort)
		l.rollout("r2", entry.RolloutStart)
		time.Sleep(lookPause)
		decide("once the rollout is over", false)
	})
}

// TestObeyNothing: a run obeys no rollout that begins later, or whose baseline it does not have.
func TestObeyNothing(t *testing.T) {
	other, err := recovery.Load("policy.yaml", []byte(strings.Replace(string(recovery.DefaultDocument()), "attempts: 6", "attempts: 4", 1)))
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t)
	for _, rules := range []*recovery.Policy{recovery.Default(), other} {
		run := engine.NewSetup(rules, 0).NewRun(1)
		run.Mode = engine.ModeLive
		if err := Obey(t.Context(), l, run, "", func(err error) { t.Error(err) }); err != nil || run.Arms != nil || run.Candidate != nil {
			t.Errorf("obeys %v, %v", run.Candidate, err)
		}
		l.rollout("r1", entry.RolloutStart)
	}
}
