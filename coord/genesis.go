package coord

import "recoveryledger/ledger/entry"

// Genesis returns the policy to begin a ledger with, signed by the first of its
// authority keys; jti and iat are left to the caller. Enrollers may enrol plain
// agents, everything else is the authority's.
//
// What it allows is meant for one team on one ledger: one approver's word
// authorizes, two override; up to 100 executions of 10 agents in one domain are
// undone without asking. What waits for people is fenced, for two hours at most,
// and much farther than it would be undone, since a fence is lifted again.
// Entries have no quota, since floods are shed in front of the order; signals,
// which make work for others, have one.
func Genesis(origin string, authority ...entry.AuthorityKey) *entry.Policy {
	fence := entry.DefaultFence()
	header := entry.Header{V: 1, Aud: origin}
	if len(authority) > 0 {
		header.Iss = authority[0].Principal
	}
	return &entry.Policy{
		Header:    header,
		Authority: authority,
		Roles:     map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleEnroller}},
		Windows: entry.Windows{
			DecideMS:       10 * minuteMS,
			AnswerMS:       hourMS,
			MemberMS:       15 * minuteMS,
			DeadlineMaxMS:  dayMS,
			CooldownMS:     hourMS,
			SinceMaxMS:     7 * dayMS,
			BundleMaxAgeMS: 10 * minuteMS,
			IatMS:          5 * minuteMS,
		},
		Limits: entry.Limits{
			Incident: entry.Cap{Members: 100, Agents: 10, Domains: 1, FencedMS: 2 * hourMS},
			Signaler: entry.Cap{Members: 300, Agents: 30, Domains: 3, FencedMS: 2 * dayMS},
			Victim:   entry.Cap{Members: 300, Agents: 30, Domains: 3, FencedMS: 2 * dayMS},
			WindowMS: dayMS,
			Fence:    &fence,
		},
		Quotas:    entry.Quotas{EntriesPerHour: 0, SignalsPerHour: 3600},
		Quorum:    entry.Quorum{Approve: 1, Override: 2, Signalers: 2},
		MaxStepMS: minuteMS,
	}
}
