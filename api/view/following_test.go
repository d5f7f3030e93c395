package view_test

import (
	"slices"
	"testing"

	"recoveryledger/api/view"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

// TestFollowingMerged: what follows from the signal of an incident that was merged are the entries
// about that incident, and those about the older one that took the signal.
func TestFollowingMerged(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectReversible)
	l.Do("b", "note", entry.EffectReversible, "a#make")
	older := l.Signal("b", "b#note")
	l.Approve(older)
	younger := l.Signal("a", "a#make") // upstream of the plan in force
	l.Approve(older)
	if got := l.Incident(younger).MergedInto; got != older {
		t.Fatalf("incident %d was merged into %d", younger, got)
	}
	following := view.Following(l.State, &l.Entries[younger], l.At)
	var want []uint64
	for _, index := range slices.Concat(l.State.IncidentEntries(older), l.State.IncidentEntries(younger)) {
		if index > younger {
			want = append(want, index)
		}
	}
	if !slices.Equal(following, want) || len(want) < 3 {
		t.Errorf("following %d, want %d", following, want)
	}
	for _, index := range following {
		if e := &l.Entries[index]; e.RestsOn(&l.Entries[younger]) != (e.Kind == entry.KindDecision) {
			t.Errorf("entry %d, %s: rests on the signal: %v", index, e.Kind, e.RestsOn(&l.Entries[younger]))
		}
	}
	if of := view.Following(l.State, &l.Entries[0], l.At); len(of) > 0 {
		t.Errorf("from the genesis follow %d", of)
	}
}
