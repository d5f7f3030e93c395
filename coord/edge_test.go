package coord

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// TestInstants shows that what ends at an instant has ended at that instant.
func TestInstants(t *testing.T) {
	w, id := escalated(t)
	over := w.answer("p1", id, "approve")
	over.Exp = w.at / 1000
	w.refuse(w.sign(over), entry.Stale, "exp")
	again := w.order("k", Order{Incident: id, Act: entry.ActEscalate})
	*again.Pin = w.incident(id).proposal.pin
	w.refuse(w.sign(again), entry.ScopeMismatch, "pin.size") // a proposal again, but on nothing newer
	w, id = reported(t)
	late := w.order("k", Order{Incident: id, Act: entry.ActAuthorize})
	late.DeadlineAt = w.at
	w.refuse(w.sign(late), entry.Stale, "deadline_at")
	w.checkAll()
}

// TestHeldByOwn refuses the owner of what is fenced, though nothing is proposed
// yet, as a judge.
func TestHeldByOwn(t *testing.T) {
	w := newWorld(t)
	w.put(w.enrol("root", "owner", entry.RoleAgent, entry.RoleApprover))
	w.pipeline()
	w.done("owner", "use", entry.EffectNone, "a#make")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	w.decide("k", entry.ActContain, id)
	w.refuse(w.sign(w.order("owner", Order{Incident: id, Act: entry.ActDeny})), entry.NoStanding, "iss")
	w.checkAll()
}

// TestLateEdges lets an agent name a failed execution as parent afterwards, to
// get standing: it speaks for no automatic rollback, whoever speaks beside it.
func TestLateEdges(t *testing.T) {
	w := newWorld(t)
	p := w.nextPolicy()
	p.Quorum.Signalers = 1
	w.put(p)
	w.done("a", "pay", entry.EffectCompensable)
	w.done("b", "late", entry.EffectNone, "a#pay")
	id := w.put(w.signal("b", entry.StandingDownstream, "a#pay")).Index
	m := w.signal("m", entry.StandingMonitor, "a#pay")
	w.put(m) // without evidence
	w.refuse(w.sign(w.order("k", Order{Incident: id, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "act")
	w.checkAll()
}

// TestEdgesThatAreFenced fences, for signals over edges alone, the subject and, for
// one from downstream, what its issuer built on it: not what else was.
// Draft: INC-4f.
func TestEdgesThatAreFenced(t *testing.T) {
	for _, c := range []struct {
		iss      entry.Principal
		standing entry.Standing
		want     []entry.Ref
	}{
		{"a", entry.StandingUpstream, []entry.Ref{"b#2"}},
		{"a", entry.StandingDownstream, []entry.Ref{"b#2", "a#3"}},
		{"c", entry.StandingDownstream, []entry.Ref{"b#2", "c#4"}},
	} {
		w := newWorld(t)
		w.done("a", "1", entry.EffectCompensable)
		w.done("b", "2", entry.EffectCompensable, "a#1")
		w.done("a", "3", entry.EffectCompensable, "b#2")
		w.done("c", "4", entry.EffectCompensable, "b#2")
		id := w.put(w.signal(c.iss, c.standing, "b#2")).Index
		w.decide("k", entry.ActContain, id)
		var got []entry.Ref
		for _, exec := range w.incident(id).hold.members {
			got = append(got, w.state.refOf(exec))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s by %s fences %s, want %s", c.standing, c.iss, got, c.want)
		}
		w.checkAll()
	}
}

// TestOutcomeForAnEarlierDecision refuses an outcome for a decision that had no
// such member.
func TestOutcomeForAnEarlierDecision(t *testing.T) {
	w := newWorld(t)
	w.done("a", "1", entry.EffectCompensable)
	w.done("b", "2", entry.EffectCompensable, "a#1")
	id := w.put(w.signal("b", entry.StandingExecutor, "b#2")).Index
	first := w.decide("k", entry.ActAuthorize, id)
	w.put(w.signal("a", entry.StandingExecutor, "a#1"))
	w.next()
	early := w.outcome("a", id, "a#1", entry.ResultFailed)
	early.Decision = first
	w.refuse(w.sign(early), entry.StateConflict, "decision")
	b := w.outcome("b", id, "b#2", entry.ResultFailed)
	b.Decision = first // had it
	w.put(b)
	w.checkAll()
}

// TestWithheldByAgents records at once what agents themselves withheld: there
// is nobody to wait for.
func TestWithheldByAgents(t *testing.T) {
	w, id := chain(t)
	for _, exec := range []entry.Ref{"c#3", "b#2", "a#1"} {
		agent, _ := exec.Split()
		w.put(w.outcome(agent, id, exec, entry.Withheld))
	}
	w.next()
	w.is(id, entry.IncidentFailed)
	w.checkAll()
}

// TestRollingWindow counts what a signaler caused over the window, and no
// longer; by members and by domains.
func TestRollingWindow(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit func(*entry.Cap)
	}{
		{"members", func(c *entry.Cap) { c.Members = 1 }},
		{"domains", func(c *entry.Cap) { c.Domains = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.nextPolicy()
			c.limit(&p.Limits.Signaler)
			w.put(p)
			z := w.enrol("root", "z", entry.RoleAgent)
			z.Domain = "elsewhere"
			w.put(z)
			verdict := func(exec entry.Ref) uint64 {
				s := w.signal("m", entry.StandingMonitor, exec)
				s.Evidence = []entry.Evidence{{Digest: someDigest("e")}}
				return w.put(s).Index
			}
			w.done("a", "1", entry.EffectCompensable)
			w.done("z", "2", entry.EffectCompensable)
			first := verdict("a#1")
			w.decide("k", entry.ActAuthorize, first)
			w.compensate(first, "a#1")
			w.next()
			w.is(first, entry.IncidentRecovered)
			second := verdict("z#2")
			w.refuse(w.sign(w.order("k", Order{Incident: second, Act: entry.ActAuthorize})), entry.ScopeExceedsPolicy, "rollback_set")
			w.at += p.Limits.WindowMS
			w.decide("k", entry.ActAuthorize, second)
			w.checkAll()
		})
	}
}

// TestAmendDoesNotHurryAgents leaves those who act on an earlier decision until
// its exp, though the amend expires sooner.
func TestAmendDoesNotHurryAgents(t *testing.T) {
	w, id := chain(t)
	short := w.order("k", Order{Incident: id, Act: entry.ActAmend, Exp: w.at/1000 + 3600})
	w.put(short)
	w.at += 2 * hourMS // its exp, skew and the member's time are over
	w.refuse(w.sign(w.outcome("k", id, "c#3", entry.ResultUnknown)), entry.StateConflict, "exec")
	w.at = start + dayMS + skewMS + 1
	w.put(w.outcome("k", id, "c#3", entry.ResultUnknown))
	w.checkAll()
}

// TestStricterOfEach compares every limit, quorum and window of two policies,
// either way round (INC-3).
func TestStricterOfEach(t *testing.T) {
	a := newWorld(t).genesis()
	b := *a
	low, high := entry.Cap{Members: 1, Agents: 1, Domains: 1, FencedMS: 1}, entry.Cap{Members: 9, Agents: 9, Domains: 9, FencedMS: 9}
	near, far := entry.Reach{Members: 1, Agents: 1, Domains: 1}, entry.Reach{Members: 9, Agents: 9, Domains: 9}
	a.Limits = entry.Limits{Incident: low, Signaler: high, Victim: low, WindowMS: 1, Fence: &entry.FenceLimits{Incident: near, Signaler: far, Victim: near}}
	b.Limits = entry.Limits{Incident: high, Signaler: low, Victim: high, WindowMS: 9, Fence: &entry.FenceLimits{Incident: far, Signaler: near, Victim: far}}
	a.Quorum = entry.Quorum{Approve: 1, Override: 2, Signalers: 1}
	b.Quorum = entry.Quorum{Approve: 2, Override: 1, Signalers: 2}
	a.Windows = entry.Windows{DecideMS: 1, AnswerMS: 2, MemberMS: 1, DeadlineMaxMS: 2, CooldownMS: 1, SinceMaxMS: 2}
	b.Windows = entry.Windows{DecideMS: 2, AnswerMS: 1, MemberMS: 2, DeadlineMaxMS: 1, CooldownMS: 2, SinceMaxMS: 1}
	want := effectivePolicy{
		entry.Windows{DecideMS: 2, AnswerMS: 2, MemberMS: 2, DeadlineMaxMS: 1, CooldownMS: 2, SinceMaxMS: 1},
		entry.Limits{Incident: low, Signaler: low, Victim: low, WindowMS: 9},
		entry.FenceLimits{Incident: near, Signaler: near, Victim: near},
		entry.Quorum{Approve: 2, Override: 2, Signalers: 2},
	}
	if one, other := stricterPolicy(a, &b), stricterPolicy(&b, a); one != want || other != want {
		t.Errorf("%+v and %+v, want %+v", one, other, want)
	}
}
