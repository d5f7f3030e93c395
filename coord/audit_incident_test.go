package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestAuditFindsDecisions gives an audit logs of a ledger whose operator holds
// the coordinator's key and admits what it likes: every wrong decision is
// validly signed and included, and found.
func TestAuditFindsDecisions(t *testing.T) {
	authorize := func(w *world, id uint64) *entry.Decision {
		return w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	}
	for _, c := range []struct {
		name    string
		lie     func(w *world, id uint64) entry.Body
		problem entry.Problem
		field   string
	}{
		{"a wrong scope", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.RollbackSet.Root[0] ^= 1
			return d
		}, entry.ScopeMismatch, "rollback_set.root"},
		{"a member too few", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.RollbackSet.Size, d.Impact.Members = d.RollbackSet.Size-1, d.Impact.Members-1
			return d
		}, entry.ScopeMismatch, "rollback_set.size"},
		{"a impact made small", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.Impact.Agents--
			return d
		}, entry.ScopeMismatch, "impact"},
		{"other signals", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.Signals.Root[0] ^= 1
			return d
		}, entry.ScopeMismatch, "signals"},
		{"a pin of another log", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.Pin.Root[0] ^= 1
			return d
		}, entry.ScopeMismatch, "pin.root"},
		{"a policy that was replaced", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			w.put(w.nextPolicy())
			return d
		}, entry.PolicySuperseded, "policy"},
		{"an epoch that is over", func(w *world, id uint64) entry.Body {
			w.decide("k", entry.ActEscalate, id)
			w.put(w.answer("p1", id, "approve"))
			d := authorize(w, id)
			d.Epoch--
			return d
		}, entry.StaleEpoch, "epoch"},
		{"approvals that nobody gave", func(w *world, id uint64) entry.Body {
			w.decide("k", entry.ActEscalate, id)
			d := authorize(w, id)
			p := w.incident(id).proposal
			*d.Pin, d.Approvals = p.pin, []uint64{p.index}
			return d
		}, entry.StateConflict, "approvals"},
		{"beyond what is automatic", func(w *world, id uint64) entry.Body {
			w.done("c", "mail", entry.EffectIrrevocable, "a#make")
			return authorize(w, id)
		}, entry.ScopeExceedsPolicy, "act"},
		{"a deadline without end", func(w *world, id uint64) entry.Body {
			d := authorize(w, id)
			d.DeadlineAt *= 2
			return d
		}, entry.ScopeExceedsPolicy, "deadline_at"},
		{"an outcome of another", func(w *world, id uint64) entry.Body {
			w.decide("k", entry.ActAuthorize, id)
			return w.outcome("b", id, "a#make", entry.Restored)
		}, entry.NoStanding, "iss"},
		{"a record made good", func(w *world, id uint64) entry.Body {
			w.decide("k", entry.ActAuthorize, id)
			w.finish(id, entry.ResultFailed)
			r, err := w.state.DraftRecord(id)
			must(w.t, err)
			w.head("k", r)
			r.State = "RECOVERED"
			return r
		}, entry.StateConflict, "state"},
		{"what is fenced", func(w *world, id uint64) entry.Body {
			w.decide("k", entry.ActContain, id)
			return w.exec("c", "x", "a#make")
		}, entry.FencedDependency, "parents[0].exec"},
		{"a compensation out of turn", func(w *world, id uint64) entry.Body {
			w.done("b", "pay2", entry.EffectCompensable, "b#pay")
			w.decide("k", entry.ActAuthorize, id)
			return w.compensation(id, "b#pay")
		}, entry.StateConflict, "compensates.exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, id := reported(t)
			w.forge(w.sign(c.lie(w, id)))
			wrong := uint64(len(w.log) - 1)
			w.forge(w.sign(w.exec("b", "after")))
			_, found := AuditLog(t, origin, w.log, 0)
			if found == nil || found.Index != wrong || found.Refusal.Problem != c.problem || found.Refusal.Field != c.field {
				t.Fatalf("finding %+v, want %s at %q of entry %d", found, c.problem, c.field, wrong)
			}
		})
	}
}
