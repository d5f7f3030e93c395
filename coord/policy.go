package coord

import (
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// CheckPolicy returns what a policy asks for that a ledger of this version cannot
// do, or that nobody could keep; nil if there is nothing. The fold admits such a
// policy, so that every log remains to be audited: whoever makes or takes a new
// policy asks here before. A policy in force that this refuses can be replaced.
func CheckPolicy(p *entry.Policy) *entry.Refusal {
	refuse := func(field, format string, args ...any) *entry.Refusal {
		return entry.Refuse(entry.Malformed, field, format, args...)
	}
	switch {
	case p.Witnesses != "":
		return refuse("witnesses", "nothing collects cosignatures of witnesses yet: every bundle would be refused for ever").
			WithRemedy("leave witnesses out")
	case p.Windows.IatMS < secondMS:
		return refuse("windows.iat_ms", "%d: iat is in seconds, so that entries would be stale as they are signed, a next policy among them", p.Windows.IatMS).
			WithRemedy("write at least 1000")
	case p.Windows.DeadlineMaxMS < secondMS:
		return refuse("windows.deadline_max_ms", "%d: exp is in seconds, so that no rollback could be authorized", p.Windows.DeadlineMaxMS).
			WithRemedy("write at least 1000")
	case p.Recovery != nil:
		if _, err := recovery.FromEntry(p); err != nil {
			return refuse("recovery", "the rules that are built in would be taken instead: %.800v", err).
				WithRemedy("correct it: arl policy lint names every mistake")
		}
	}
	return verify.CheckLedgerKeys(p)
}

// secondMS is the resolution of iat and exp.
const secondMS = 1_000
