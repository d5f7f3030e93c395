package simulation

import (
	"math/rand/v2"
	"slices"

	"recoveryledger/ledger/entry"
)

// changes is what the authority does while incidents are open. It is drawn from a
// stream of its own, so that the runs of seeds without any stay as they are.
type changes struct {
	rng     *rand.Rand
	domains bool   // agents are of two domains
	policy  bool   // another policy is applied
	revoked string // whose key is stolen, by name; empty: nobody's
}

func drawChanges(seed uint64, s *scenario) (c changes) {
	c.rng = rand.New(rand.NewPCG(seed, 0xc4a9e))
	if c.rng.IntN(4) != 0 {
		return c
	}
	c.domains, c.policy = c.rng.IntN(3) == 0, c.rng.IntN(2) == 0
	if c.rng.IntN(2) == 0 {
		c.revoked = []string{"p1", "p2", "a1", "k"}[c.rng.IntN(4)]
	}
	if s.silent && c.revoked == "p1" { // who stands in for the coordinator
		c.revoked = "p2"
	}
	return c
}

func (c *changes) any() bool { return c.domains || c.policy || c.revoked != "" }

// domain is that of an agent: every second one is of another, if there are two.
func (c *changes) domain(number int) string {
	if c.domains && number%2 == 1 {
		return "e"
	}
	return "d"
}

// change asks for what the authority does.
func (w *world) change() {
	c := &w.changes
	between := func(least, most int64) int64 { return least + c.rng.Int64N(most-least+1) }
	if c.policy {
		for range 1 + c.rng.IntN(2) {
			w.after(between(30*second, 5*minute), "root changes the policy", w.changePolicy)
		}
	}
	if c.revoked != "" {
		at := between(70*second, 4*minute)
		w.after(at, "root revokes a key", func() { w.revoke(c.revoked) })
		if c.revoked != "p2" { // who has another one
			w.after(at+between(1, 5*minute), "root enrols a key", func() { w.enrolAnew(c.revoked) })
		}
	}
}

// changePolicy applies a policy with other limits and quorums.
func (w *world) changePolicy() {
	rng := w.changes.rng
	p := *w.observer.policy
	previous := w.observer.policyAt
	p.Previous = &previous
	p.Limits.Incident.Members, p.Limits.Incident.Agents = []int64{2, 4, 8, 16}[rng.IntN(4)], []int64{1, 3, 5}[rng.IntN(3)]
	p.Quorum.Approve, p.Quorum.Signalers = 1+rng.Int64N(2), 1+rng.Int64N(3)
	p.Windows.AnswerMS, p.Windows.MemberMS = minute*(1+rng.Int64N(3)), minute*(1+rng.Int64N(3))
	w.try(&p, "root", "", "root")
}

// revoke takes a key that was stolen some entries ago from its owner.
func (w *world) revoke(name string) {
	size := w.ledger.size()
	a := w.keyOf(entry.Revoke, name, name)
	a.CompromisedSince = &entry.Compromised{Index: size - w.changes.rng.Uint64N(min(size, 16))}
	w.try(a, "root", "", "root")
	if name == "p2" {
		w.signers["p2"] = "p2 again"
	}
}

// enrolAnew gives somebody another key, with which they go on.
func (w *world) enrolAnew(name string) {
	key := name + " anew"
	w.try(w.keyOf(entry.Enrol, name, key), "root", "", "root")
	w.signers[entry.Principal(name)] = key
}

// keyOf says something about a key of somebody.
func (w *world) keyOf(op entry.AgentOp, name, key string) *entry.Agent {
	p := entry.Principal(name)
	a := &entry.Agent{Principal: p, Op: op, Key: w.keys.of(key).public, Roles: w.observer.roles[w.keys.of(name).public.KeyID()],
		Domain: w.observer.domains[p], Span: entry.SpanWorkflow}
	if w.observer.spans[p] {
		a.Span = entry.SpanAgent
	}
	return a
}

// signer names the key that somebody signs with now.
func (w *world) signer(name entry.Principal) string {
	if key, other := w.signers[name]; other {
		return key
	}
	return string(name)
}

// revocation is a key that counts no more.
type revocation struct{ index, since uint64 }

// voided reports whether an entry of a key is void, as far as is known when the
// log has so many entries (TRU-4).
func (o *observer) voided(keyID string, index, size uint64) bool {
	r, revoked := o.revoked[keyID]
	return revoked && r.index < size && r.since <= index
}

// law is INC-3, as far as policies differ here: of what held when the incident
// was opened and what holds now each limit is the stricter and each quorum the
// larger.
func (o *observer) law(a *affair) (limit entry.Cap, quorum entry.Quorum) {
	limit, quorum = o.policy.Limits.Incident, o.policy.Quorum
	limit.Members, limit.Agents = min(limit.Members, a.policy.Limits.Incident.Members), min(limit.Agents, a.policy.Limits.Incident.Agents)
	quorum.Approve, quorum.Signalers = max(quorum.Approve, a.policy.Quorum.Approve), max(quorum.Signalers, a.policy.Quorum.Signalers)
	return limit, quorum
}

// judgeDomains is INC-2 where a plan that nobody approved touches several
// domains: in each of them enough agents of its own say that something went wrong.
func (o *observer) judgeDomains(a *affair, d *decided) {
	domains := map[string]bool{}
	for i := range d.members {
		domains[o.domains[d.members[i].Agent]] = true
	}
	if len(d.Approvals) > 0 || len(domains) == 1 {
		return
	}
	speak := map[string]map[entry.Principal]bool{}
	view, _ := o.w.ledger.state.Incident(d.Incident, o.w.now)
	for _, s := range view.Signals {
		if s.Index >= d.Pin.Size || slices.ContainsFunc(d.Dismissed, func(u entry.Dismissal) bool { return u.Index == s.Index }) {
			continue
		}
		domain := o.domains[s.Issuer]
		if speak[domain] == nil {
			speak[domain] = map[entry.Principal]bool{}
		}
		speak[domain][s.Issuer] = true
	}
	_, quorum := o.law(a)
	for domain := range domains {
		if int64(len(speak[domain])) < quorum.Signalers {
			o.w.fail("decision %d is over %d domains, and of domain %s speak only %v", d.ref.Index, len(domains), domain, speak[domain])
		}
	}
}
