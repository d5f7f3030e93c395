package ledger

import (
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
)

// TestSettle counts what becomes of submissions: for which key, for which kind,
// and how much.
func TestSettle(t *testing.T) {
	of := func(key string, kind entry.Kind) *entry.Entry {
		return &entry.Entry{KeyID: key, Kind: kind, SignatureChecked: true}
	}
	signal, work, forged := of("a", entry.KindSignal), of("a", entry.KindExecution), of("a", entry.KindSignal)
	forged.SignatureChecked = false
	key, kind := lanesOf(signal)[0], lanesOf(signal)[1]
	for _, c := range []struct {
		desc      string
		entries   []*entry.Entry
		checked   int // of the entries, in front of the order
		taken     int
		duplicate bool
		problem   entry.Problem
		key, kind int // what is owed then, of 5 and 5 before
		proven    bool
	}{
		{"taken", []*entry.Entry{signal}, 1, 1, false, "", 4, 4, false},
		{"of another kind", []*entry.Entry{work}, 1, 1, false, "", 4, 5, false},
		{"there already", []*entry.Entry{signal}, 1, 1, true, "", 5, 5, false},
		{"refused", []*entry.Entry{signal}, 1, 0, false, entry.StateConflict, 6, 5, true},
		{"refused for a fence", []*entry.Entry{work}, 1, 0, false, entry.FencedDependency, 6, 5, true},
		{"taken, then refused", []*entry.Entry{work, signal}, 2, 1, false, entry.UnknownSubject, 5, 5, true},
		{"refused before two that were checked", []*entry.Entry{signal, signal, work}, 3, 0, false, entry.StateConflict, 8, 5, true},
		{"refused in front of the order", []*entry.Entry{signal, signal}, 0, 0, false, entry.StateConflict, 6, 5, true},
		{"over its quota", []*entry.Entry{signal}, 1, 0, false, entry.RateLimited, 5, fair.LaneDebt, true},
		{"a signature of somebody else", []*entry.Entry{forged}, 0, 0, false, entry.BadSignature, 5, 5, false},
		{"a clock that is off", []*entry.Entry{signal}, 1, 0, false, entry.NotReady, 5, 5, true},
		{"a full disk", []*entry.Entry{signal}, 1, 0, false, entry.InsufficientStorage, 5, 5, true},
	} {
		l := &Log{lanes: fair.NewLanes[laneID](8)}
		l.lanes.Refused(key, 5)
		l.lanes.Refused(kind, 5)
		s := &submission{all: c.entries, entries: c.entries[:c.checked]}
		for range c.taken {
			s.answer.Registered = append(s.answer.Registered, Registration{Duplicate: c.duplicate})
		}
		if c.problem != "" {
			s.answer.Refused = entry.Refuse(c.problem, "", "by the test")
		}
		l.settle(s, &s.answer)
		if gotKey, gotKind := l.lanes.Owes(key), l.lanes.Owes(kind); gotKey != c.key || gotKind != c.kind || s.answer.Proven != c.proven {
			t.Errorf("%s: the key owes %d, with its kind %d, proven %t", c.desc, gotKey, gotKind, s.answer.Proven)
		}
	}
}
