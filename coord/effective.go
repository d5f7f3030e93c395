package coord

import "recoveryledger/ledger/entry"

// effectivePolicy is the policy that holds for an open incident (INC-3). It joins the policy at
// the incident's opening and the current policy. Each limit is the stricter, and each quorum the
// larger. A window that bounds what may be done is the shorter. A window in which people or agents
// may act is the longer.
type effectivePolicy struct {
	windows entry.Windows
	limits  entry.Limits // but for those of fences
	fence   entry.FenceLimits
	quorum  entry.Quorum
}

func stricterPolicy(a, b *entry.Policy) effectivePolicy {
	was, is := a.Limits.Fences(), b.Limits.Fences()
	l := effectivePolicy{a.Windows, entry.Limits{
		Incident: stricterCap(a.Limits.Incident, b.Limits.Incident),
		Signaler: stricterCap(a.Limits.Signaler, b.Limits.Signaler),
		Victim:   stricterCap(a.Limits.Victim, b.Limits.Victim),
		WindowMS: max(a.Limits.WindowMS, b.Limits.WindowMS),
	}, entry.FenceLimits{
		Incident: stricterReach(was.Incident, is.Incident), Signaler: stricterReach(was.Signaler, is.Signaler), Victim: stricterReach(was.Victim, is.Victim),
	}, entry.Quorum{
		Approve:   max(a.Quorum.Approve, b.Quorum.Approve),
		Override:  max(a.Quorum.Override, b.Quorum.Override),
		Signalers: max(a.Quorum.Signalers, b.Quorum.Signalers),
	}}
	l.windows.DeadlineMaxMS = min(a.Windows.DeadlineMaxMS, b.Windows.DeadlineMaxMS)
	l.windows.SinceMaxMS = min(a.Windows.SinceMaxMS, b.Windows.SinceMaxMS)
	l.windows.AnswerMS = max(a.Windows.AnswerMS, b.Windows.AnswerMS)
	l.windows.MemberMS = max(a.Windows.MemberMS, b.Windows.MemberMS)
	l.windows.DecideMS = max(a.Windows.DecideMS, b.Windows.DecideMS)
	l.windows.CooldownMS = max(a.Windows.CooldownMS, b.Windows.CooldownMS)
	return l
}

func stricterCap(a, b entry.Cap) entry.Cap {
	return entry.Cap{Members: min(a.Members, b.Members), Agents: min(a.Agents, b.Agents),
		Domains: min(a.Domains, b.Domains), FencedMS: min(a.FencedMS, b.FencedMS)}
}

func stricterReach(a, b entry.Reach) entry.Reach {
	return entry.Reach{Members: min(a.Members, b.Members), Agents: min(a.Agents, b.Agents), Domains: min(a.Domains, b.Domains)}
}

// all returns the limits with those of fences.
func (l *effectivePolicy) all() entry.Limits {
	limits, fence := l.limits, l.fence
	limits.Fence = &fence
	return limits
}

// policyFor returns the policy that holds for an incident now.
func (s *State) policyFor(inc *incident) effectivePolicy {
	current, _ := s.chain.Policy()
	return stricterPolicy(s.policies[inc.policy].body, current)
}

// policyAt is a policy of the chain.
type policyAt struct {
	index uint64
	body  *entry.Policy
}
