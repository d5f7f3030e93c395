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

// TestFreeCase: what attempts that cost nothing cost is known.
func TestFreeCase(t *testing.T) {
	of := Recovery{Trace: Trace{Case: "c", Attempts: 1}}
	a, err := AttemptOf("", "", &of, nil)
	if err != nil || a.CostMicroUSD == nil || *a.CostMicroUSD != 0 {
		t.Fatalf("%v, %v", a.CostMicroUSD, err)
	}
	of.Trace.CostUnknown = 1
	if a, err = AttemptOf("", "", &of, nil); err != nil || a.CostMicroUSD != nil {
		t.Errorf("%d, %v", *a.CostMicroUSD, err)
	}
}

// TestUnknownTime: the entry of a case has no time if nobody knows how long an attempt took.
func TestUnknownTime(t *testing.T) {
	of := Recovery{Trace: Trace{Case: "c", LatencyMS: 9}}
	a, err := AttemptOf("", "", &of, nil)
	if err != nil || a.ElapsedMS == nil || *a.ElapsedMS != 9 {
		t.Fatalf("%v, %v", a.ElapsedMS, err)
	}
	of.Trace.LatencyUnknown = 1
	if a, err = AttemptOf("", "", &of, nil); err != nil || a.ElapsedMS != nil {
		t.Errorf("%d, %v", *a.ElapsedMS, err)
	}
}
