package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// TestUnknownReleasesTheNext closes a member whose agent is silent once its time
// and the decision's are over: what waits for it is released then, and has a time
// of its own. The agent comes back before the record, and says the truth in the
// place of that (INC-6, INC-7).
func TestUnknownReleasesTheNext(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	w.done("c", "3", entry.EffectCompensable, "b#2")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	exp := w.at + 20*minuteMS
	w.put(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Exp: exp / 1000}))
	running := w.compensation(id, "c#3")
	w.put(running)
	w.put(w.step(running, entry.Started))
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} { // each in its turn, after a time of its own
		_, due := w.state.Next(w.at)
		if least := exp/1000*1000 + skewMS; exec == "c#3" && due != least+1 || exec != "c#3" && due != w.at+15*minuteMS+1 {
			t.Fatalf("%s is due in %d ms", exec, due-w.at)
		}
		w.at = due - 1
		w.refuse(w.sign(w.outcome("k", id, exec, entry.ResultUnknown)), entry.StateConflict, "exec")
		w.at = due
		written := w.next()
		if o, ok := written[0].(*entry.Outcome); len(written) != 1 || !ok || o.Exec != exec || o.Result != entry.ResultUnknown {
			t.Fatalf("%s: written %+v", exec, written)
		}
		if exec == "b#2" { // c is back
			w.put(w.step(running, entry.Confirmed))
			w.put(w.outcome("c", id, "c#3", entry.Compensated))
		}
	}
	w.next()
	w.is(id, entry.IncidentPartial)
	if _, tally := w.incident(id).current.verdict(); tally[entry.Compensated] != 1 || tally[entry.ResultUnknown] != 2 {
		t.Errorf("%v", tally)
	}
	w.checkAll()
}

// TestAmendReopensARestore takes a line further back than it went: what was
// restored is open again, its outcome void, and the state of the older checkpoint
// is what counts (INC-6).
func TestAmendReopensARestore(t *testing.T) {
	w := newWorld(t)
	put := func(name string, after entry.Ref) {
		cp := w.checkpoint("a", name, after)
		cp.Digest = someDigest(name)
		w.put(cp)
	}
	put("older", "")
	w.done("a", "first", entry.EffectReversible)
	put("newer", "a#first")
	w.done("a", "second", entry.EffectReversible)
	w.done("a", "third", entry.EffectReversible)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#second")).Index
	w.decide("k", entry.ActAuthorize, id)
	restored := func(exec entry.Ref, name string) *entry.Outcome {
		o := w.outcome("a", id, exec, entry.Restored)
		o.PostDigest = someDigest(name)
		return o
	}
	w.put(restored("a#second", "newer"))
	further := w.signal("a", entry.StandingExecutor, "a#third")
	further.Since = "a#first"
	w.put(further)
	w.next()
	if f := w.incident(id).current; len(f.decisions) != 2 || len(f.members) != 3 || f.members[1].result != "" {
		t.Fatalf("not reopened: %+v", f.members)
	}
	w.refuse(w.sign(w.recordBy("k", id)), entry.StateConflict, "tally")
	w.refuse(w.sign(restored("a#second", "newer")), entry.StateConflict, "post_digest")
	w.put(restored("a#second", "older"))
	w.put(restored("a#first", "older"))
	w.put(restored("a#third", "older"))
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}

// TestOutcomeNamesADecisionThatHadTheMember takes an outcome for any authorize or
// amend that had the member, as an agent gives it that has not seen the newest,
// and for no other (INC-6).
// Draft: INC-6b.
func TestOutcomeNamesADecisionThatHadTheMember(t *testing.T) {
	w := newWorld(t)
	w.done("a", "0", entry.EffectCompensable)
	w.done("a", "1", entry.EffectCompensable, "a#0")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	first := w.decide("k", entry.ActAuthorize, id)
	further := w.signal("a", entry.StandingExecutor, "a#1")
	further.Since = "a#0"
	signal := w.put(further)
	w.next()
	for _, c := range []struct {
		exec     entry.Ref
		decision entry.LogRef
		taken    bool
	}{
		{"a#0", first, false}, {"a#1", signal, false}, {"a#1", entry.LogRef{Index: first.Index, LeafHash: signal.LeafHash}, false}, {"a#1", first, true},
	} {
		o := w.outcome("a", id, c.exec, entry.ResultFailed)
		if o.Decision = c.decision; !c.taken {
			w.refuse(w.sign(o), entry.StateConflict, "decision")
			continue
		}
		w.put(o)
	}
	w.checkAll()
}

// TestWhatADrainEnds takes not_executed of what was in flight, whatever its method,
// when its agent has made it final without an effect: cancelled, or failed and
// signaled as without one. Before that, and with an effect, it does not fit (INC-6).
func TestWhatADrainEnds(t *testing.T) {
	methods := map[entry.Effect]entry.Method{entry.EffectReversible: entry.MethodRestore, entry.EffectCompensable: entry.MethodCompensate,
		entry.EffectIrrevocable: entry.MethodResidual}
	for effect, method := range methods {
		for _, c := range []struct {
			final   entry.Progress
			effects entry.Effects // that its executor signals then; empty: it does not
			fits    bool
		}{
			{"", "", false}, {entry.Confirmed, "", false}, {entry.Cancelled, "", true}, {entry.Failed, "", false},
			{entry.Failed, entry.EffectsNone, true}, {entry.Failed, entry.EffectsPartial, false}, {entry.Failed, entry.EffectsUnknown, false},
		} {
			w := newWorld(t)
			w.put(w.checkpoint("a", "cp", ""))
			x := w.flying("a", "busy", effect)
			id := w.put(w.signal("a", entry.StandingExecutor, "a#busy")).Index
			w.decide("k", entry.ActEscalate, id)
			w.put(w.answer("p1", id, "approve"))
			w.next()
			if got := w.members(id)["a#busy"]; got != method {
				t.Fatalf("%s: method %s", effect, got)
			}
			if c.final != "" {
				w.put(w.step(x, c.final))
			}
			if c.effects != "" {
				s := w.signal("a", entry.StandingExecutor, "a#busy")
				s.Effects = c.effects
				w.put(s)
			}
			o := w.sign(w.outcome("a", id, "a#busy", entry.NotExecuted))
			if !c.fits {
				w.refuse(o, entry.StateConflict, "result")
				continue
			}
			must(t, w.admit(o))
			w.next()
			w.is(id, entry.IncidentNoEffects)
			w.checkAll()
		}
	}
}

// TestEndWithoutEffect makes what was in flight, and has no effect, final: it counts
// as not_executed, whatever others have said of it before, but not against the word
// of its agent (INC-6).
func TestEndWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		before, after entry.Result
		by            entry.Principal
	}{
		{"", entry.NotExecuted, ""}, {entry.Withheld, entry.NotExecuted, "o"}, {entry.ResultUnknown, entry.NotExecuted, "k"},
		{entry.ResultFailed, entry.ResultFailed, "a"}, {entry.ResultUnknown, entry.ResultUnknown, "a"},
	} {
		w := newWorld(t)
		x := w.flying("a", "busy", entry.EffectNone)
		id := w.put(w.signal("a", entry.StandingExecutor, "a#busy")).Index
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
		w.next()
		if got := w.members(id)["a#busy"]; got != entry.MethodNone {
			t.Fatalf("method %s", got)
		}
		switch c.by {
		case "":
		case "o":
			w.decide("o", entry.ActOverride, id)
		default:
			if c.by == "k" {
				w.at = w.incident(id).current.deadline + 10*minuteMS
			}
			w.put(w.outcome(c.by, id, "a#busy", c.before))
		}
		result := func() entry.Result { return w.incident(id).current.members[0].result }
		if got := result(); got != c.before {
			t.Fatalf("before it ends: %s, want %s", got, c.before)
		}
		w.put(w.step(x, entry.Confirmed))
		if got := result(); got != c.after {
			t.Errorf("%s by %s, then it ends: %s, want %s", c.before, c.by, got, c.after)
		}
		w.checkAll()
	}
}

// TestCorrectionsAreForTheWorse tries every result after every other, by the
// member's agent and by the coordinator: nothing definite is taken back, and only
// its agent corrects anything (INC-6).
// Draft: INC-6d.
func TestCorrectionsAreForTheWorse(t *testing.T) {
	rank := map[entry.Result]int{entry.ResultUnknown: -1, entry.Withheld: -1, entry.ResultIrrevocable: 1, entry.Refused: 2, entry.ResultFailed: 3}
	for before, from := range rank {
		for after, to := range rank {
			w := newWorld(t)
			w.done("a", "mail", entry.EffectIrrevocable)
			id := w.put(w.signal("a", entry.StandingExecutor, "a#mail")).Index
			w.decide("k", entry.ActEscalate, id)
			w.put(w.answer("p1", id, "approve"))
			w.next()
			w.put(w.outcome("a", id, "a#mail", before))
			w.at = max(w.incident(id).current.deadline, w.incident(id).current.expMax+skewMS) + 1
			if err := w.admit(w.sign(w.outcome("k", id, "a#mail", after))); err == nil {
				t.Errorf("the coordinator puts %s in the place of %s", after, before)
			}
			if err := w.admit(w.sign(w.outcome("a", id, "a#mail", after))); (err == nil) != (from < 0 || to > from) {
				t.Errorf("%s in the place of %s: %v", after, before, err)
			}
			w.checkAll()
		}
	}
}
