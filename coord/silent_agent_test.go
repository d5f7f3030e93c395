package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestPeopleAnswerForASilentAgent has an agent whose compensation comes first say nothing. Nothing
// behind it starts, and nobody else may answer for it while its decision could still be obeyed. Its
// enroller gives its name a key of a person's, who answers: the next compensation starts at once.
func TestPeopleAnswerForASilentAgent(t *testing.T) {
	w, id := chain(t)
	early := w.compensation(id, "b#2")
	w.refuse(w.sign(early), entry.StateConflict, "compensates.exec")
	w.at = w.incident(id).current.deadline - hourMS
	if written := w.next(); len(written) != 0 {
		t.Fatalf("the coordinator writes %v before the deadline", written)
	}
	w.keys["c"] = "a key of the enroller's"
	rotate := w.enrol("root", "c", entry.RoleAgent)
	rotate.Op, rotate.Span = entry.Rotate, entry.SpanAgent
	w.put(rotate)
	w.put(w.outcome("c", id, "c#3", entry.ResultFailed))
	w.compensate(id, "b#2")
	w.compensate(id, "a#1")
	w.next()
	w.is(id, entry.IncidentPartial)
	w.checkAll()
}

// TestPeopleRenewWhatHasExpired has a decision expire before its deadline, with open members. The
// coordinator does not renew it. Approvers propose the plan again, and the amend lets it go on.
func TestPeopleRenewWhatHasExpired(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.put(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Exp: w.at/1000 + 600}))
	w.at += hourMS / 4
	w.refuse(w.sign(w.compensation(id, "a#1")), entry.StateConflict, "compensates.decision")
	if todo := w.next(); slices.ContainsFunc(todo, func(b entry.Body) bool { _, is := b.(*entry.Decision); return is }) {
		t.Fatalf("the coordinator decides %v", todo)
	}
	w.decide("p3", entry.ActEscalate, id)
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.compensate(id, "a#1")
	w.next()
	w.is(id, entry.IncidentRecovered)
	w.checkAll()
}
