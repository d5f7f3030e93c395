package coord

import (
	"recoveryledger/coord/hour"
	"recoveryledger/ledger/entry"
)

const (
	minuteMS = 60_000
	hourMS   = 60 * minuteMS
	dayMS    = 24 * hourMS
)

// usage counts the entries that an issuer has written in the last hour, and holds the verdicts on
// its signals.
type usage struct {
	entries hour.Count
	signals hour.Count // among the entries
	// spoke is the last signal about its own executions. The issuer is heard about them once an
	// hour, however much it wrote about other executions. Derived.
	spoke hour.Last
	// judged are the verdicts on its last signals, the newest last; verdicts
	// counts them.
	judged []verdict
	verdicts
	corrections int64    // outcomes by which it corrected itself after the record
	incidents   []uint32 // numbers of the incidents that concern it, ascending
	last        uint32   // index of its newest entry
	name        entry.Principal
	span        entry.Span // once it was looked up; derived
}

// verdicts count the verdicts on signals. The independent signals are among the corroborated.
type verdicts struct{ corroborated, independent, selfReported, dismissed int64 }

// judge counts one more verdict.
func (u *usage) judge(v verdict) {
	if u.judged = append(u.judged, v); len(u.judged) > judgedMax {
		u.count(u.judged[0], -1)
		u.judged = append(u.judged[:0:0], u.judged[1:]...)
	}
	u.count(v, 1)
}

func (u *verdicts) count(v verdict, n int64) {
	switch v.disposition {
	case corroborated:
		if u.corroborated += n; v.independent {
			u.independent += n
		}
	case selfReported:
		u.selfReported += n
	case dismissed:
		u.dismissed += n
	}
}

// admitQuota checks REG-7. A refused request costs nothing: only Apply counts.
func (s *State) admitQuota(e *entry.Entry, at int64) error {
	policy, _ := s.chain.Policy()
	number, known := s.principals.Find([]byte(e.Header.Iss))
	if policy == nil || !known || e.Kind == entry.KindIndex {
		return nil
	}
	u := &s.usage[number]
	if limit := policy.Quotas.EntriesPerHour; limit > 0 {
		if free := u.entries.Wait(at, limit); free > 0 {
			return rateLimited(e, "entries", limit, free-at)
		}
	}
	if signal, ok := e.Body.(*entry.Signal); ok {
		limit := u.signalLimit(policy.Quotas.SignalsPerHour)
		free := u.signals.Wait(at, limit)
		if signal.Standing == entry.StandingExecutor {
			limit, free = max(1, limit), min(free, u.spoke.Wait(at))
		}
		if free > 0 {
			return rateLimited(e, "signals", limit, free-at)
		}
	}
	return nil
}

// signalLimit returns how many signals an issuer may write in an hour (protocol.md, section 8).
// Dismissed signals lower the limit. Only a signal that an independent principal confirmed makes
// up for that.
func (u *usage) signalLimit(base int64) int64 {
	return entry.Quotas{SignalsPerHour: base}.Signals(u.independent, u.dismissed)
}

func rateLimited(e *entry.Entry, what string, limit, waitMS int64) error {
	refusal := entry.Refuse(entry.RateLimited, "iss", "%s has used its %d %s an hour", e.Header.Iss, limit, what)
	refusal.RetryAfterMS = waitMS
	return refusal
}

// applyQuota counts an entry of the principal.
func (s *State) applyQuota(e *entry.Entry, principal uint32, at int64) {
	u := &s.usage[principal]
	if e.Kind == entry.KindIndex { // the ledger sets their pace, and decisions must not wait for them
		return
	}
	u.entries.Add(at)
	if signal, ok := e.Body.(*entry.Signal); ok {
		u.signals.Add(at)
		if signal.Standing == entry.StandingExecutor {
			u.spoke = hour.LastAt(at)
		}
	}
}
