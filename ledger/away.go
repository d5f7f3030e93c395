package ledger

import (
	"slices"
	"time"

	"recoveryledger/ledger/entry"
)

// awayPause is the time between two requests for a signature that failed.
const awayPause = 100 * time.Millisecond

// untilSigned calls try until the keys of the log sign. Meanwhile it answers submissions with
// not-ready, so that nobody waits for a key that is away. It returns false if the log ends before.
// cause is the error of the call before; nil: there was none.
//
// The entries of a commit that waits here stand in the fold, and no reader sees them. Once the keys
// sign, the commit goes on as it is. If the process ends before, no submitter has a receipt.
func (l *Log) untilSigned(try func() error, cause error) bool {
	if cause != nil {
		l.away.Store(keyAway(cause))
	}
	retry := time.NewTicker(awayPause)
	defer retry.Stop()
	for {
		select {
		case <-retry.C:
			if cause = try(); cause == nil {
				l.away.Store(nil)
				return true
			}
			l.away.Store(keyAway(cause))
		case s := <-l.in:
			l.turnAway(nil, s)
		case <-l.halted:
			return false
		case <-l.order.ending:
			return false
		}
	}
}

func keyAway(cause error) *entry.Refusal {
	return entry.Refuse(entry.NotReady, "", "a key of the ledger does not sign: %v", cause).
		WithRemedy("the entry may be registered when the key signs again: send the same entry again later, or look whether it is there")
}

// turnAway answers submissions without an order. cause nil stands for the refusal that is in force.
func (l *Log) turnAway(cause error, batch ...*submission) {
	refusal := l.away.Load()
	if cause != nil {
		refusal = keyAway(cause)
	}
	for _, s := range batch {
		s.answer = l.standing(s, refusal)
		close(s.done)
	}
}

// standing is the answer to a submission of which nothing more is registered now. Entries that were
// agreed on or that readers see have their place, and the first other one is refused.
func (l *Log) standing(s *submission, refusal *entry.Refusal) Answer {
	v := l.view.Load()
	a := Answer{Registered: slices.Clone(s.answer.Registered[:s.agreed]), Refused: s.refused, Head: v.signed(), log: l, view: v}
	for _, known := range s.known[s.agreed:] {
		if known == nil {
			a.Refused = refusal
			break
		}
		a.Registered = append(a.Registered, *known)
	}
	return a
}

// publishFirst publishes the newest head when the log is opened. While a key is away, readers get
// the head as it was signed before.
func (l *Log) publishFirst() {
	if err := l.published.make(); err != nil {
		l.published.head = l.view.Load().signed()
		l.away.Store(keyAway(err))
	}
}

// signNewest publishes the newest head. Readers do not wait for the keys.
func (l *Log) signNewest() error {
	v := l.view.Load()
	if _, err := signHead(l.cfg.Origin, v.head, classic(v.keys)...); err != nil {
		return err
	}
	l.published.mu.Lock() // the signers know the head now
	defer l.published.mu.Unlock()
	return l.published.make()
}
