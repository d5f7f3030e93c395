package coord

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/sound"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

// TestPolicyThatNobodyCanKeep refuses before the order what would hold a ledger up
// for ever, by the policy's own authority or in a genesis; the fold takes it, so
// that a log which has it is still audited.
func TestPolicyThatNobodyCanKeep(t *testing.T) {
	for field, change := range map[string]func(p *entry.Policy){
		"witnesses":               func(p *entry.Policy) { p.Witnesses = "quorum nobody" },
		"windows.iat_ms":          func(p *entry.Policy) { p.Windows.IatMS = 999 },
		"windows.deadline_max_ms": func(p *entry.Policy) { p.Windows.DeadlineMaxMS = 999 },
		"recovery":                func(p *entry.Policy) { p.Recovery = jsontext.Value(`{"rules":[]}`) },
	} {
		w := newWorld(t)
		chain := verify.NewChain()
		check := func(p *entry.Policy, want bool) {
			t.Helper()
			e := w.sign(p)
			refusal, refused := errors.AsType[*entry.Refusal](Precheck(chain, origin, verify.Signature, e))
			if refused != want || refused && (refusal.Problem != entry.Malformed || refusal.Field != field || refusal.Remedy == "") {
				t.Errorf("%s: %v", field, refusal)
			}
		}
		genesis := w.genesis()
		check(genesis, false)
		change(genesis)
		check(genesis, true)
		chain = w.state.Chain().Clone()
		p := w.nextPolicy()
		check(p, false)
		change(p)
		check(p, true)
		w.put(p)
		w.checkAll()
	}
	p := entry.Genesis(origin)
	p.Windows.IatMS, p.Windows.DeadlineMaxMS = 1000, 1000
	if refusal := sound.Policy(p); refusal != nil {
		t.Errorf("at the limit: %v", refusal)
	}
}

// TestShortestDeadline authorizes with the shortest deadline that sound.Policy
// lets pass, at any part of a second.
// Draft: INC-7b.
func TestShortestDeadline(t *testing.T) {
	for _, part := range []int64{0, 1, 500, 999} {
		w := newWorld(t)
		p := w.nextPolicy()
		p.Windows.DeadlineMaxMS = 1000
		w.put(p)
		w.done("a", "bad", entry.EffectCompensable)
		w.at += part
		w.decide("k", entry.ActAuthorize, w.put(w.signal("a", entry.StandingExecutor, "a#bad")).Index)
		w.checkAll()
	}
}

// TestTheEmergencyGroupStandsApart: a group that could waive the witnesses, and counts for
// their quorum too, would waive nothing (WIT-6).
func TestTheEmergencyGroupStandsApart(t *testing.T) {
	_, w1 := testlog.WitnessKey("w1")
	_, anna := testlog.WitnessKey("anna")
	both := "witness w1 " + w1 + "\nwitness anna " + anna + "\ngroup emergency any anna\n"
	for text, good := range map[string]bool{
		both + "quorum w1\n":                               true,
		both + "quorum none\n":                             true,
		both + "quorum emergency\n":                        false,
		both + "group g any w1 emergency\nquorum g\n":      false,
		"witness emergency " + w1 + "\nquorum emergency\n": true, // no group
	} {
		p := entry.Genesis(origin)
		p.Witnesses = text
		refusal := sound.Policy(p)
		if (refusal == nil) != good || !good && (refusal.Field != "witnesses" || !strings.Contains(refusal.Detail, `"anna" of group emergency`)) {
			t.Errorf("%s%v", text, refusal)
		}
	}
}
