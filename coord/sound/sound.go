// Package sound says which policies a ledger of this version should not take, and which entries a
// ledger with such keys and such an index should not take.
package sound

import (
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Policy returns why a policy asks for something that a ledger of this version cannot do, or
// that no principal could keep; else nil. The fold admits such a policy, so that every log can be
// audited. Call Policy before a new policy is made or taken. A refused policy that is in
// force can be replaced.
func Policy(p *entry.Policy) *entry.Refusal {
	refuse := func(field, format string, args ...any) *entry.Refusal {
		return entry.Refuse(entry.Malformed, field, format, args...)
	}
	q, err := (verify.Root{}).Quorum(p.Witnesses)
	if err != nil {
		return refuse("witnesses", "%.800s", strings.TrimPrefix(err.Error(), "verify: ")).
			WithRemedy("write a witness policy (c2sp.org/tlog-policy): agents refuse every bundle under one that they cannot read")
	}
	if q != nil && q.Emergency() != nil {
		for _, w := range q.Witnesses() {
			if q.Counts(w.Name) && q.Emergency().Counts(w.Name) {
				return refuse("witnesses", "%.80q of group %s counts for quorum %.80q too, so that nothing would be waived", w.Name, verify.EmergencyGroup, q.Name()).
					WithRemedy("leave the group out of the quorum (WIT-6)")
			}
		}
	}
	switch {
	case p.Windows.IatMS < secondMS:
		return refuse("windows.iat_ms", "%d: iat is in seconds, so every entry would be stale when it is signed, and so would the next policy", p.Windows.IatMS).
			WithRemedy("write at least 1000")
	case p.Windows.DeadlineMaxMS < secondMS:
		return refuse("windows.deadline_max_ms", "%d: exp is in seconds, so no rollback could be authorized", p.Windows.DeadlineMaxMS).
			WithRemedy("write at least 1000")
	case p.Recovery != nil:
		if _, err := recovery.FromEntry(p); err != nil {
			return refuse("recovery", "the built-in rules would apply instead: %.800v", err).
				WithRemedy("correct the rules: arl policy lint names every mistake")
		}
	}
	return verify.CheckLedgerKeys(p)
}

// secondMS is the resolution of iat and exp.
const secondMS = 1_000
