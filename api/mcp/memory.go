package mcp

import (
	"errors"
	"slices"

	"recoveryledger/ledger/entry"
)

// memory is the calls whose results a client was given, in this order. A call rests on all results
// that were given before it came, thus on the newest of them that no other one of them rests on.
//
// The memory is bounded. Of the oldest calls only those are kept that no other one of them rests
// on: whatever comes later and rests on these rests on all of them.
type memory struct {
	kept    []given
	dropped int     // results that were given before the first of kept
	base    []given // of the dropped ones, those that no other one of them rests on; none is soft
}

// given is a call whose result the client was given.
type given struct {
	exec   entry.Ref
	tool   string
	seen   int  // number of results that were given before the call came
	soft   bool // calls after it do not rest on it
	undone bool // a rollback is about it: nothing rests on it any more
}

// errForgotten reports a session of which so much was rolled back that its memory does not say what
// still holds.
var errForgotten = errors.New("more of this session was rolled back than it remembers: begin a new session")

// given is the number of results that were given so far.
func (m *memory) given() int { return m.dropped + len(m.kept) }

// add notes that a result is given to the client.
func (m *memory) add(g given) {
	m.kept = append(m.kept, g)
	if len(m.kept) < 2*maxRemembered {
		return
	}
	cut := m.given() - maxRemembered
	m.base = slices.DeleteFunc(m.newest(cut), func(g given) bool { return g.soft })
	m.kept = slices.Clone(m.kept[cut-m.dropped:])
	m.dropped = cut
}

// newest returns those of the first seen results that no other one of them rests on, the newest
// first. A base that is rolled back is among them.
func (m *memory) newest(seen int) []given {
	seen = max(seen, m.dropped)
	before := m.kept[:seen-m.dropped]
	floor := 0
	for i := range before {
		if r := &before[i]; !r.undone && !r.soft {
			floor = max(floor, r.seen)
		}
	}
	all := slices.DeleteFunc(slices.Clone(before[max(floor-m.dropped, 0):]), func(g given) bool { return g.undone })
	slices.Reverse(all)
	if floor < m.dropped {
		all = append(all, m.base...)
	}
	return all
}

// parents returns what a call rests on that came after the first seen results. Results that a
// rollback is about are left out. Of those that are for information alone the newest are named, as
// many as there is room for. The error is [errForgotten].
func (m *memory) parents(seen int) ([]entry.Parent, error) {
	all := m.newest(seen)
	parents := []entry.Parent{}
	for _, dep := range []entry.Dep{entry.Hard, entry.Soft} {
		for _, r := range all {
			switch {
			case r.undone:
				return nil, errForgotten
			case r.soft == (dep == entry.Soft) && len(parents) < entry.MaxParents:
				parents = append(parents, entry.Parent{Exec: r.exec, Dep: dep})
			}
		}
	}
	return parents, nil
}

// forget takes executions from what later calls rest on, and returns those that the memory has.
func (m *memory) forget(about map[entry.Ref]bool) (undone []*given) {
	for _, part := range [][]given{m.base, m.kept} {
		for i := range part {
			if r := &part[i]; about[r.exec] && !r.undone {
				r.undone = true
				undone = append(undone, r)
			}
		}
	}
	return undone
}
