package coord

import (
	"slices"
	"strings"

	"recoveryledger/coord/ascending"
	"recoveryledger/ledger/entry"
)

// judge returns the disposition of a signal in the recovery record. A signal that the decision in
// force leaves out is dismissed. A signal behind the pin is inconclusive. A signal that the
// decision rests on is corroborated if another principal confirms it, else self-reported. The
// success of the rollback does not matter, because the signaler's own word confirms nothing.
func (s *State) judge(inc *incident, n uint32) entry.Disposition {
	one := entry.Disposition{Index: s.signals[n].index}
	switch {
	case slices.Contains(inc.current.dismissed, one.Index):
		one.Disposition = entry.Dismissed
	case one.Index >= inc.current.pin:
		one.Disposition = entry.Inconclusive
	default:
		one.Disposition = entry.SelfReported
		if one.Domains, one.Independent = s.corroboration(inc, n); len(one.Domains) > 0 {
			one.Disposition = entry.Corroborated
		}
	}
	return one
}

// corroboration returns the domains, ascending, of the principals that confirm a signal, and
// whether one of them is independent of the signal's issuer. An independent principal is of
// another domain, or has a role that only the policy's authority grants. Enrollers can make as
// many principals of a domain as they like.
func (s *State) corroboration(inc *incident, n uint32) (domains []string, independent bool) {
	sig := &s.signals[n]
	own := s.domain(sig.issuer)
	add := func(principal uint32, granted bool) {
		domain := s.domain(principal)
		domains, independent = append(domains, domain), independent || granted || domain != own
	}
	for _, other := range inc.signals {
		o := &s.signals[other]
		switch evident := s.evident(o); {
		case o.issuer == sig.issuer && !evident, !o.countsForAutomatic(), !s.sameSubject(o.subject, sig.subject):
		case !inc.current.believes(o.index), s.void(&decided{index: o.index, keyID: o.keyID}):
		default:
			add(o.issuer, evident)
		}
	}
	for i := range inc.current.consents {
		a := &inc.current.consents[i]
		if !ascending.Has(a.signals, n) {
			continue
		}
		for j := range a.answers {
			if !s.void(&a.answers[j].decided) {
				add(a.answers[j].issuer, true)
			}
		}
	}
	slices.Sort(domains)
	return slices.Compact(domains), independent
}

// evident reports whether a signal confirms itself: a monitor or an operator gives evidence about
// work that is not its own. Only the authority grants both roles, and people can look at the
// evidence.
func (s *State) evident(sig *signal) bool {
	third := sig.standing == entry.StandingMonitor || sig.standing == entry.StandingOperator
	return third && sig.evidence && !s.ownsSome(sig.issuer, sig.subject)
}

// sameSubject reports whether two signals are about the same work: one execution,
// one task, or a task and an execution of it.
func (s *State) sameSubject(a, b uint32) bool {
	one := signal{subject: a}
	if _, task := s.taskOf(b); task {
		one.subject, b = b, a
	}
	return a == b || s.isAbout(&one, b)
}

// believes reports whether the decision in force rests on the signal at an index.
func (f *decisionInForce) believes(index uint64) bool {
	return index < f.pin && !slices.Contains(f.dismissed, index)
}

// domain returns the domain of a principal; empty if it was never enrolled.
func (s *State) domain(principal uint32) string {
	info, _ := s.chain.Agent(s.principal(principal))
	return info.Domain
}

// consentOf returns the consent that the approvals at some indexes have given.
func (s *State) consentOf(p *proposal, indexes []uint64, a *assessment) consent {
	one := consent{}
	for _, n := range a.signals {
		if !slices.Contains(a.dismissed, s.signals[n].index) {
			one.signals = append(one.signals, n)
		}
	}
	for _, answer := range p.approvals {
		if slices.Contains(indexes, answer.index) {
			one.answers = append(one.answers, answer)
		}
	}
	return one
}

// checkVerdict compares the disposition of a signal in a record with the one that follows from
// the log. place is the place of the disposition in the record.
func (s *State) checkVerdict(inc *incident, said *entry.Disposition, place string) error {
	n := inc.signals[slices.IndexFunc(inc.signals, func(n uint32) bool { return s.signals[n].index == said.Index })] // checkDispositions
	want := s.judge(inc, n)
	switch {
	case said.Disposition != want.Disposition:
		return conflict(place+"disposition", "%s, but the decision in force gives the signal at %d the disposition %s", said.Disposition, said.Index, want.Disposition)
	case !slices.Equal(said.Domains, want.Domains):
		return conflict(place+"domains", "%s, but the signal at %d is corroborated by %s", names(said.Domains), said.Index, names(want.Domains))
	case said.Independent != want.Independent:
		return conflict(place+"independent", "%t, but the value for the signal at %d is %t", said.Independent, said.Index, want.Independent)
	}
	return nil
}

func names(domains []string) string {
	if len(domains) == 0 {
		return "none"
	}
	return strings.Join(domains, ", ")
}

// checkVouched checks the dispositions in an approver's deny. The approver's own word says that a
// signal is true, so the approver's domain corroborates the signal.
func (s *State) checkVouched(d *decisionOf) error {
	info, _ := s.chain.Agent(d.Iss)
	for i := range d.Dispositions {
		switch one := &d.Dispositions[i]; {
		case one.Disposition == entry.SelfReported:
			return conflict("dispositions", "the signal at %d is self_reported, and a deny never gives that disposition", one.Index).
				WithRemedy("give the disposition inconclusive, or corroborated if the signal was true")
		case one.Disposition == entry.Corroborated && (!slices.Equal(one.Domains, []string{info.Domain}) || !one.Independent):
			return conflict("dispositions", "the signal at %d is corroborated by %s, whose domain is %s", one.Index, d.Iss, info.Domain).
				WithRemedy("name only that domain, and set independent to true")
		}
	}
	return nil
}
