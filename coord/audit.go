package coord

import (
	"context"
	"iter"

	"recoveryledger/ledger/entry"
)

// AuditReport is what an audit found.
type AuditReport struct {
	Size    uint64        // entries from the first on that rightly stand where they do
	State   *State        // that follows from these; it is the caller's now
	Kinds   []KindCount   // how many of each kind among them, in the order of [entry.Kinds]
	Finding *AuditFinding // the entry behind them, if it should not be there
}

// KindCount is the number of entries of a kind.
type KindCount struct {
	Kind  entry.Kind
	Count uint64
}

// AuditFinding is the first entry that should not be in the log, and why. What
// stands behind it was not looked at: no state follows from a log that breaks
// its rules.
type AuditFinding struct {
	Index   uint64
	Refusal *entry.Refusal
}

// Audit runs the rules of registration again over a log's entries, from the
// first on, and with them that registered_at never falls. Signatures are
// checked with the standard library, except where SignatureChecked is set. An
// error from entries that is a [*entry.Refusal] is a finding too (REG-1); any
// other ends the audit. progress, which may be nil, is told how many entries
// were found to be right. A [Follower] does the same, and can go on later.
//
// That the leaves are those under a signed tree head is not checked here.
func Audit(ctx context.Context, origin string, entries iter.Seq2[entry.Registered, error], progress func(size uint64)) (AuditReport, error) {
	return NewFollower(origin).Follow(ctx, entries, progress)
}
