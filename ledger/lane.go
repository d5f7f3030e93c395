package ledger

import "recoveryledger/ledger/entry"

// laneID is a key and a kind of entries, or a key alone.
type laneID struct {
	key  string
	kind entry.Kind
}

// lanesOf returns the lanes of an entry: the lane of its key, and the lane of its key and kind.
// Each key and kind has a quota of its own.
func lanesOf(e *entry.Entry) []laneID { return []laneID{{key: e.KeyID}, {e.KeyID, e.Kind}} }

// settle narrows and widens the lanes of keys by the result of a submission. A refusal counts
// against the key that signed the entry. If the signature was not found good, the signer is not
// known, and Answer.Proven says so.
func (l *Log) settle(s *submission, a *Answer) {
	for i := 0; i < len(a.Registered) && !l.lanes.Idle(); i++ {
		if !a.Registered[i].Duplicate {
			l.lanes.Taken(lanesOf(s.all[i])...)
		}
	}
	if a.Refused == nil || len(a.Registered) == len(s.all) {
		return
	}
	e := s.all[len(a.Registered)]
	if a.Proven = e.SignatureChecked; !a.Proven {
		return
	}
	own := lanesOf(e)
	switch a.Refused.Problem {
	case entry.NotReady, entry.InsufficientStorage: // the cause is the ledger, not the key
	case entry.RateLimited: // the quota is used up: the next one is refused too
		l.lanes.Narrow(own[1])
	default: // with the entries behind it, which were checked for nothing
		l.lanes.Refused(own[0], max(1, len(s.entries)-len(a.Registered)))
	}
}
