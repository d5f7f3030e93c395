package entry

const (
	minuteMS = 60_000
	hourMS   = 60 * minuteMS
	dayMS    = 24 * hourMS
)

// Genesis returns the policy to begin a ledger with, for the first of its authority keys to sign.
// The caller sets jti and iat. Enrollers may enrol plain agents. The authority does the rest.
//
// The policy is meant for one team on one ledger. One approver authorizes, two override. Up to
// 100 executions of 10 agents in one domain are undone without asking people. A plan that waits
// for people is fenced, for two hours at most. The limits of a fence are much wider than the
// limits of an undo, because a fence is lifted again. Entries have no quota, because floods are
// shed in front of the order. Signals have a quota, because they make work for others.
func Genesis(origin string, authority ...AuthorityKey) *Policy {
	fence := DefaultFence()
	header := Header{V: 1, Aud: origin}
	if len(authority) > 0 {
		header.Iss = authority[0].Principal
	}
	return &Policy{
		Header:    header,
		Authority: authority,
		Roles:     map[Role][]Role{RoleAgent: {RoleEnroller}},
		Windows: Windows{
			DecideMS:       10 * minuteMS,
			AnswerMS:       hourMS,
			MemberMS:       15 * minuteMS,
			DeadlineMaxMS:  dayMS,
			CooldownMS:     hourMS,
			SinceMaxMS:     7 * dayMS,
			BundleMaxAgeMS: 10 * minuteMS,
			IatMS:          5 * minuteMS,
		},
		Limits: Limits{
			Incident: Cap{Members: 100, Agents: 10, Domains: 1, FencedMS: 2 * hourMS},
			Signaler: Cap{Members: 300, Agents: 30, Domains: 3, FencedMS: 2 * dayMS},
			Victim:   Cap{Members: 300, Agents: 30, Domains: 3, FencedMS: 2 * dayMS},
			WindowMS: dayMS,
			Fence:    &fence,
		},
		Quotas:    Quotas{EntriesPerHour: 0, SignalsPerHour: 3600},
		Quorum:    Quorum{Approve: 1, Override: 2, Signalers: 2},
		MaxStepMS: minuteMS,
	}
}
