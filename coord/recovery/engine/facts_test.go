package engine

import (
	"bytes"
	"testing"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// TestFactsDecideAlike recovers each case of the fixture, and then what an entry keeps of the case.
// The second time ends like the first one, by the same actions.
func TestFactsDecideAlike(t *testing.T) {
	b := Batch{Config: Config{Policy: recovery.Default()}, Workers: 1}
	found := 0
	for done, err := range b.Run(t.Context(), "scenario.ndjson", bytes.NewReader(fixture(t))) {
		if err != nil {
			t.Fatal(err)
		}
		a, err := AttemptOf("run", b.Policy.Hash(), &done.Recovery, done.Encoded)
		if err != nil {
			t.Fatal(err)
		}
		c, complete, err := scenario.FromFacts(a.Facts)
		if err != nil || !complete {
			t.Fatalf("%s: complete %t, %v", done.ID, complete, err)
		}
		again, err := b.Recover(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		was, is := &done.Trace, &again.Trace
		if was.Status != is.Status || was.Reason != is.Reason || was.CostMicroUSD != is.CostMicroUSD || was.LatencyMS != is.LatencyMS || len(was.Rungs) != len(is.Rungs) {
			t.Errorf("%s: %s %s, then %s %s by %d and %d actions", done.ID, was.Status, was.Reason, is.Status, is.Reason, len(was.Rungs), len(is.Rungs))
			continue
		}
		for i := range was.Rungs {
			if was.Rungs[i].Strategy != is.Rungs[i].Strategy || was.Rungs[i].Result != is.Rungs[i].Result {
				t.Errorf("%s: action %d: %+v, then %+v", done.ID, i, was.Rungs[i], is.Rungs[i])
			}
			if was.Rungs[i].Strategy == string(recovery.Reconcile) && was.Rungs[i].OutputDigest != "" {
				if found++; is.Rungs[i].OutputDigest == was.Rungs[i].OutputDigest {
					t.Errorf("%s: the facts have the digest of a result", done.ID)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no probe found a result: the test lacks what it is for")
	}
}

// TestUnknownSums: an entry has no time if nobody knows how long an attempt took. It has no cost if
// nothing of it is known; that attempts cost nothing is known.
func TestUnknownSums(t *testing.T) {
	failed := StepCount{Failed: 1}
	for _, test := range []struct {
		name          string
		trace         Trace
		cost, elapsed int64 // -1: the entry has none
	}{
		{"known", Trace{Steps: failed, CostMicroUSD: 7, LatencyMS: 9}, 7, 9},
		{"free", Trace{Steps: failed, LatencyMS: 9}, 0, 9},
		{"nothing known", Trace{Steps: failed, CostUnknown: 1, LatencyUnknown: 1}, -1, -1},
		{"some known", Trace{Steps: failed, CostMicroUSD: 7, LatencyMS: 9, CostUnknown: 1, LatencyUnknown: 1}, 7, -1},
		{"no attempt", Trace{}, -1, -1},
	} {
		a, err := AttemptOf("", "", &Recovery{Trace: test.trace}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := func(n *int64) int64 {
			if n == nil {
				return -1
			}
			return *n
		}
		if sum(a.CostMicroUSD) != test.cost || sum(a.ElapsedMS) != test.elapsed {
			t.Errorf("%s: cost %d, time %d", test.name, sum(a.CostMicroUSD), sum(a.ElapsedMS))
		}
	}
}
