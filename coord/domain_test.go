package coord

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// abroad is a world whose plan touches two domains: a#1 of d, and z#2 of
// another, where z2 is at home too, and watches with w2.
func abroad(t *testing.T) (w *world, z *entry.Execution) {
	t.Helper()
	w = newWorld(t)
	p := w.nextPolicy()
	p.Limits.Incident.Domains = 5
	w.put(p)
	for name, role := range map[entry.Principal]entry.Role{"z": entry.RoleAgent, "z2": entry.RoleAgent, "w2": entry.RoleMonitor} {
		other := w.enrol("root", name, role)
		other.Domain = "another"
		w.put(other)
	}
	w.done("a", "1", entry.EffectCompensable)
	z = w.done("z", "2", entry.EffectCompensable, "a#1")
	w.put(w.exec("b", "look", "a#1"))
	w.put(w.exec("z2", "look", "z#2"))
	return w, z
}

func (w *world) proven(iss entry.Principal, subject entry.Ref) *entry.Signal {
	s := w.signal(iss, entry.StandingMonitor, subject)
	s.Evidence = []entry.Evidence{{Digest: someDigest("e")}}
	return s
}

// TestOneDomain asks people before work of several domains is undone, if not
// each has its own quorum.
func TestOneDomain(t *testing.T) {
	w, _ := abroad(t)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.next()
	w.put(w.answer("p1", id, "approve"))
	w.next()
	w.is(id, entry.IncidentAuthorized)
	w.checkAll()
}

// TestEachDomainItsOwnQuorum lets the coordinator alone undo work of two domains
// as soon as two of each speak for it, and not before: nobody counts twice, for
// another domain, without evidence, over a late edge, or unbelieved.
// Draft: INC-2a.
func TestEachDomainItsOwnQuorum(t *testing.T) {
	w, _ := abroad(t)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActContain, id)
	authorize := func(dismissed ...entry.Dismissal) *entry.Entry {
		return w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Dismissed: dismissed}))
	}
	refused := func() { w.t.Helper(); w.refuse(authorize(), entry.ScopeExceedsPolicy, "act") }
	w.put(w.proven("m", "a#1")) // two of d
	refused()
	w.put(w.signal("z", entry.StandingExecutor, "z#2"))
	w.put(w.signal("z", entry.StandingExecutor, "z#2")) // again: one principal
	refused()
	w.put(w.signal("z2", entry.StandingDownstream, "z#2")) // its edge is late
	w.put(w.signal("w2", entry.StandingMonitor, "z#2"))    // no evidence
	refused()
	last := w.put(w.proven("w2", "z#2"))
	w.refuse(authorize(entry.Dismissal{Index: last.Index, Reason: "not believed"}), entry.ScopeExceedsPolicy, "act")
	w.next()
	w.is(id, entry.IncidentAuthorized)
	if got := w.members(id); len(got) < 3 {
		t.Fatalf("members %v", got)
	}
	w.checkAll()
}

// TestEarlyEdgesAreADomainsQuorum counts signalers over edges that were logged
// before the subject's end.
func TestEarlyEdgesAreADomainsQuorum(t *testing.T) {
	w, _ := abroad(t)
	p := w.nextPolicy()
	p.Quorum.Signalers = 1
	w.put(p)
	x := w.flying("z", "stream", entry.EffectCompensable, "z#2")
	w.put(w.exec("z2", "use", "z#stream"))
	w.put(w.step(x, entry.Confirmed))
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActContain, id)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.put(w.signal("z2", entry.StandingDownstream, "z#stream"))
	w.decide("k", entry.ActAuthorize, id)
	w.checkAll()
}

// TestDomainsWithinTheLimit holds plans that each domain's quorum speaks for to
// the limit of domains all the same.
func TestDomainsWithinTheLimit(t *testing.T) {
	w, _ := abroad(t)
	p := w.nextPolicy()
	p.Quorum.Signalers = 1
	w.put(p)
	id := w.put(w.signal("a", entry.StandingExecutor, "a#1")).Index
	w.decide("k", entry.ActContain, id)
	w.put(w.signal("z", entry.StandingExecutor, "z#2"))
	must(t, w.state.Admit(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), w.state.Size(), w.at))
	p = w.nextPolicy()
	p.Limits.Incident.Domains = 1
	w.put(p)
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "rollback_set")
	w.checkAll()
}

// TestAmendIntoAnotherDomain lets an incident grow into another domain only as
// its own quorum speaks for that.
func TestAmendIntoAnotherDomain(t *testing.T) {
	w, _ := abroad(t)
	id := w.put(w.signal("z", entry.StandingExecutor, "z#2")).Index
	w.decide("k", entry.ActAuthorize, id)
	w.put(w.signal("a", entry.StandingExecutor, "a#1"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.ScopeExceedsPolicy, "act")
	w.put(w.proven("m", "a#1"))
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAmend})), entry.ScopeExceedsPolicy, "act") // z alone speaks for the other
	w.put(w.proven("w2", "z#2"))
	w.next()
	if got := w.members(id); len(got) != 4 {
		t.Fatalf("members %v", got)
	}
	w.checkAll()
}
