package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// forge appends an entry that was never admitted, as whoever owns the ledger
// could.
func (w *world) forge(e *entry.Entry) {
	w.log = append(w.log, entry.Registered{Entry: e, Index: uint64(len(w.log)), RegisteredAt: w.at})
}

// TestAuditFindsTampering gives an audit logs of a ledger that lied. Each holds
// one wrong entry, with good ones before and behind it.
func TestAuditFindsTampering(t *testing.T) {
	for _, c := range []struct {
		name    string
		lie     func(w *world)
		problem entry.Problem
		field   string
	}{
		{"another ledger's entry", func(w *world) {
			x := w.exec("a", "x")
			x.Aud = "elsewhere"
			w.forge(w.sign(x))
		}, entry.WrongAudience, "aud"},
		{"a key that nobody enrolled", func(w *world) { w.forge(w.sign(w.exec("stranger", "x"))) },
			entry.UnknownIssuer, "signatures[0].keyid"},
		{"a role that the ledger granted itself", func(w *world) { w.forge(w.sign(w.enrol("e", "x", entry.RoleApprover))) },
			entry.UnauthorizedRole, "iss"},
		{"a policy of its own", func(w *world) {
			p := w.nextPolicy()
			p.Iss = "a"
			w.forge(w.sign(p))
		}, entry.UnauthorizedRole, "iss"},
		{"no signature", func(w *world) {
			e := w.sign(w.exec("a", "x"))
			clear(e.Sig)
			w.forge(e)
		}, entry.BadSignature, "signatures[0].sig"},
		{"a stale entry", func(w *world) {
			x := w.exec("a", "x")
			x.Iat -= 1000
			w.forge(w.sign(x))
		}, entry.Stale, "iat"},
		{"a child before its parent", func(w *world) { w.forge(w.sign(w.exec("a", "x", "a#later"))) },
			entry.UnknownSubject, "parents[0].exec"},
		{"a final step that changed", func(w *world) {
			x := w.exec("a", "done")
			x.Effect, x.Progress = entry.EffectReversible, entry.Failed
			w.forge(w.sign(x))
		}, entry.StateConflict, "progress"},
		{"a signal without standing", func(w *world) { w.forge(w.sign(w.signal("b", entry.StandingExecutor, "a#done"))) },
			entry.NoStanding, "standing"},
		{"an entry twice", func(w *world) { w.forge(w.log[len(w.log)-1].Entry) }, entry.IDConflict, "jti"},
		{"equivocation", func(w *world) {
			x, y := w.exec("a", "x"), w.exec("a", "y")
			y.JTI = x.JTI
			w.put(x)
			w.forge(w.sign(y))
		}, entry.IDConflict, "jti"},
		{"time that falls", func(w *world) {
			w.at--
			w.forge(w.sign(w.exec("a", "x")))
			w.at++
		}, entry.StateConflict, "registered_at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := populated(t)
			good := len(w.log)
			c.lie(w)
			wrong := len(w.log) - 1
			w.forge(w.sign(w.exec("b", "after")))
			size, found := AuditLog(t, origin, w.log, good)
			if found == nil || found.Refusal.Problem != c.problem || found.Refusal.Field != c.field {
				t.Fatalf("finding %+v, want %s at %q", found, c.problem, c.field)
			}
			if found.Index != uint64(wrong) || size != uint64(wrong) || wrong < good {
				t.Errorf("found at %d of %d, want %d", found.Index, size, wrong)
			}
		})
	}
}
