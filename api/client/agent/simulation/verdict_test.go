package simulation

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// judgeVerdict is what a record says of a signal: what the decision in force rests
// on is corroborated by those who say so too, or else self-reported.
func (o *observer) judgeVerdict(a *affair, r *entry.Record, one entry.Disposition) {
	want, domains, independent := entry.SelfReported, []string{}, false
	s, own := o.signals[one.Index], o.domains[o.signals[one.Index].Iss]
	switch {
	case a.decision.without(one.Index):
		want = entry.Dismissed
	case one.Index >= a.decision.Pin.Size:
		want = entry.Inconclusive
	default:
		for _, other := range r.Dispositions {
			b := o.signals[other.Index]
			granted := b.Standing == entry.StandingMonitor || b.Standing == entry.StandingOperator
			believed := other.Index < a.decision.Pin.Size && !a.decision.without(other.Index) && !o.voided(o.signedBy[other.Index], other.Index, o.w.ledger.size())
			if b.Subject == s.Subject && (b.Iss != s.Iss || granted) && believed && o.speaks(other.Index) {
				domains, independent = append(domains, o.domains[b.Iss]), independent || granted || o.domains[b.Iss] != own
			}
		}
		for _, d := range o.plans {
			if d.Incident != a.id || !slices.Contains(d.restsOn, one.Index) || d.without(one.Index) {
				continue
			}
			for _, place := range d.Approvals {
				if p := o.approvals[place]; !o.voided(p.keyID, place, o.w.ledger.size()) {
					domains, independent = append(domains, o.domains[p.Iss]), true
				}
			}
		}
		if len(domains) > 0 {
			want = entry.Corroborated
		}
	}
	slices.Sort(domains)
	if one.Disposition != want || one.Independent != independent || !slices.Equal(one.Domains, slices.Compact(domains)) {
		o.w.fail("incident %d: the signal at %d is %+v, but the log makes it %s by %v, independent %t", a.id, one.Index, one, want, domains, independent)
	}
}

// without reports whether a decision does not believe the signal at an index.
func (d *decided) without(index uint64) bool {
	return slices.ContainsFunc(d.Dismissed, func(u entry.Dismissal) bool { return u.Index == index })
}

// speaks reports whether a signal is worth something to others: of who did it, of
// who watches with evidence, and of a neighbour whose edge is older than the end of
// what it is about.
func (o *observer) speaks(index uint64) bool {
	s := o.signals[index]
	subject := o.execs[s.Subject]
	switch s.Standing {
	case entry.StandingExecutor, entry.StandingUpstream:
		return true
	case entry.StandingMonitor, entry.StandingOperator:
		return len(s.Evidence) > 0
	}
	for _, x := range o.order {
		uses := slices.ContainsFunc(x.parents, func(p entry.Parent) bool { return p.Exec == s.Subject })
		if x.agent == s.Iss && uses && x.first < index && (subject.final == 0 || x.first < subject.final) {
			return true
		}
	}
	return false
}
