package record_test

import (
	"testing"

	"github.com/google/uuid"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger/entry"
)

// TestQuestionAfterCrash: a run that ended between the entry of a case and the question asks when
// it is resumed, once, and cites the entry that the log has. Another run with the case asks
// nothing.
func TestQuestionAfterCrash(t *testing.T) {
	s := newSite(t)
	id := uuid.NewString()
	body := func() *entry.Attempt {
		return &entry.Attempt{Run: id, Agent: "desk", AttemptCase: entry.AttemptCase{Case: "c1", Status: entry.StatusEscalated,
			TraceDigest: entry.DigestOf([]byte("c1")), Rungs: []entry.Rung{}}}
	}
	s.use(func(reg *access.Recording, signer *access.Signer) {
		recorder := func(ask bool) *record.Recorder {
			r := &record.Recorder{Ledger: reg, Root: s.root, Sign: signer.Sign, Issuer: signer.Principal, Run: id, Ask: ask, Rules: []*recovery.Policy{nil, recovery.Default()}}
			s.must(r.Resume(t.Context()))
			s.must(r.Begin(t.Context(), &entry.Run{Run: id, Op: "open", ConfigDigest: entry.DigestOf(""), ScenarioDigest: entry.DigestOf(""), Engine: "e"}))
			return r
		}
		run := func(ask bool, want int64) {
			t.Helper()
			r := recorder(ask)
			s.must(r.Attempt(t.Context(), body()))
			s.must(r.Flush(t.Context()))
			if r.Asked != want {
				t.Errorf("asked %d times, want %d", r.Asked, want)
			}
		}
		run(false, 0) // as if it had ended there
		run(true, 1)
		run(true, 0)
		id = uuid.NewString()
		run(true, 0)
		var asked []*entry.Task
		attempts := map[string]bool{}
		for _, kind := range []entry.Kind{entry.KindAttempt, entry.KindTask} {
			for receipt, err := range reg.Receipts(t.Context(), entry.ByKind, string(kind)) {
				s.must(err)
				e, _, err := entry.DecodeLeaf(receipt.Leaf)
				s.must(err)
				if q, ok := e.Body.(*entry.Task); ok {
					asked = append(asked, q)
				}
				attempts[e.Header.JTI] = true
			}
		}
		if len(asked) != 1 || !attempts[asked[0].About.Attempt] || asked[0].About.Agent != "desk" || asked[0].Type != "" {
			t.Errorf("%d questions: %+v", len(asked), asked)
		}
	})
}
