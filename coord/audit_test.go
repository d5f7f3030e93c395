package coord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"iter"
	"slices"
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
			report, err := Audit(t.Context(), origin, each(w.log), nil)
			must(t, err)
			found := report.Finding
			if found == nil || found.Refusal.Problem != c.problem || found.Refusal.Field != c.field {
				t.Fatalf("finding %+v, want %s at %q", found, c.problem, c.field)
			}
			if found.Index != uint64(wrong) || report.Size != uint64(wrong) || wrong < good {
				t.Errorf("found at %d of %d, want %d", found.Index, report.Size, wrong)
			}
			went := goneOn(t, w.log, good)
			if went.Finding == nil || went.Finding.Index != found.Index || *went.Finding.Refusal != *found.Refusal {
				t.Errorf("an audit that went on found %+v, want %+v", went.Finding, found)
			}
		})
	}
}

// goneOn audits a log with a stop, behind which a restored follower goes on.
func goneOn(t *testing.T, log []entry.Registered, stop int) AuditReport {
	t.Helper()
	before, after := NewFollower(origin), NewFollower(origin)
	_, err := before.Follow(t.Context(), each(log[:stop]), nil)
	must(t, err)
	must(t, after.Restore(bytes.NewReader(followerSnapshot(t, before))))
	report, err := after.Follow(t.Context(), each(log[stop:]), nil)
	must(t, err)
	return report
}

// TestAuditReport counts what it read, over several batches.
func TestAuditReport(t *testing.T) {
	w := populated(t)
	for range 2 * auditBatch {
		e := w.sign(w.exec("a", w.header("a").JTI))
		w.state.Apply(e, w.state.Size(), w.at)
		w.forge(e)
	}
	var progress []uint64
	report, err := Audit(t.Context(), origin, each(w.log), func(size uint64) { progress = append(progress, size) })
	must(t, err)
	if report.Finding != nil || report.Size != uint64(len(w.log)) {
		t.Fatalf("report %+v", report)
	}
	want := []uint64{auditBatch, 2 * auditBatch, report.Size}
	if !slices.Equal(progress, want) {
		t.Errorf("progress %v, want %v", progress, want)
	}
	for _, kind := range report.Kinds {
		count := uint64(0)
		for _, e := range w.log {
			if e.Kind == kind.Kind {
				count++
			}
		}
		if kind.Count != count {
			t.Errorf("%d of kind %s, want %d", kind.Count, kind.Kind, count)
		}
	}
}

// then yields the entries and an error behind them.
func then(log []entry.Registered, err error) iter.Seq2[entry.Registered, error] {
	return func(yield func(entry.Registered, error) bool) {
		for e, err := range each(log) {
			if !yield(e, err) {
				return
			}
		}
		yield(entry.Registered{}, err)
	}
}

// TestAuditOfUnreadableLogs tells an entry that is none (REG-1) from a log that
// cannot be read, and a finding before it from both.
func TestAuditOfUnreadableLogs(t *testing.T) {
	w := populated(t)
	size := uint64(len(w.log))
	_, malformed := entry.Decode([]byte("{}"))
	report, err := Audit(t.Context(), origin, then(w.log, malformed), nil)
	must(t, err)
	if f := report.Finding; f == nil || f.Index != size || f.Refusal.Problem != entry.Malformed {
		t.Errorf("finding %+v", f)
	}
	broken := errors.New("broken disk")
	if report, err = Audit(t.Context(), origin, then(w.log, broken), nil); !errors.Is(err, broken) || report.Size != size {
		t.Errorf("error %v after %d", err, report.Size)
	}
	w.forge(w.sign(w.exec("stranger", "x")))
	report, err = Audit(t.Context(), origin, then(w.log, broken), nil)
	must(t, err)
	if f := report.Finding; f == nil || f.Index != size {
		t.Errorf("finding %+v", f)
	}
	gap := slices.Delete(slices.Clone(w.log), 3, 4)
	if report, err = Audit(t.Context(), origin, each(gap), nil); err == nil || report.Finding != nil || report.Size != 3 {
		t.Errorf("error %v, report %+v", err, report)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = Audit(ctx, origin, each(populated(t).log), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestAuditTellsEquivocation shows that only a payload that its issuer signed
// is called so.
func TestAuditTellsEquivocation(t *testing.T) {
	w := populated(t)
	x, y := w.exec("a", "x"), w.exec("a", "y")
	y.JTI = x.JTI
	w.put(x)
	for _, c := range []struct {
		signer string
		want   string
	}{{"a", ": its issuer equivocated"}, {"b", "with another payload"}} {
		e := w.sign(y)
		e.Seal(e.KeyID, ed25519.Sign(private(c.signer), e.PAE()))
		log := append(slices.Clone(w.log), entry.Registered{Entry: e, Index: uint64(len(w.log)), RegisteredAt: w.at})
		report, err := Audit(t.Context(), origin, each(log), nil)
		must(t, err)
		if detail := report.Finding.Refusal.Detail; detail[len(detail)-len(c.want):] != c.want {
			t.Errorf("signed by %s: %s", c.signer, detail)
		}
	}
}
