package mcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

func named(n int) entry.Ref { return entry.NewRef("a", fmt.Sprint(n)) }

// TestMemoryIsBounded: of many calls one after another few are remembered, and each still rests on
// the one before it. What is rolled back within the memory leaves what was before; what reaches
// farther back has no answer.
func TestMemoryIsBounded(t *testing.T) {
	var m memory
	const calls = 5 * maxRemembered
	for n := range calls {
		parents, err := m.parents(m.given())
		if want := n - 1; err != nil || n == 0 && len(parents) > 0 || n > 0 && !slices.Equal(parents, []entry.Parent{{Exec: named(want), Dep: entry.Hard}}) {
			t.Fatalf("call %d: %v, %v", n, parents, err)
		}
		m.add(given{exec: named(n), tool: "x", seen: n})
		if len(m.kept) >= 2*maxRemembered || len(m.base) > 1 {
			t.Fatalf("%d results and %d older ones are kept", len(m.kept), len(m.base))
		}
	}
	undo := func(from int) {
		about := map[entry.Ref]bool{}
		for n := from; n < calls; n++ {
			about[named(n)] = true
		}
		m.forget(about)
	}
	undo(m.dropped)
	if parents, err := m.parents(m.given()); err != nil || len(parents) != 1 || parents[0].Exec != named(m.dropped-1) {
		t.Errorf("after all that is kept was rolled back: %v, %v", parents, err)
	}
	undo(m.dropped - 1)
	if parents, err := m.parents(m.given()); !errors.Is(err, errForgotten) {
		t.Errorf("after the base was rolled back: %v, %v", parents, err)
	}
	if parents, err := m.parents(0); !errors.Is(err, errForgotten) {
		t.Errorf("a call that came before what is kept: %v, %v", parents, err)
	}
}

// TestMemoryRandom compares the memory with one that forgets nothing: calls one after another and
// side by side rest, directly or not, on the same results, and on nothing that came later, unless
// they are older than what is kept.
func TestMemoryRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m memory
		rests := map[entry.Ref]map[entry.Ref]bool{} // on what a call rests, directly or not
		var order []entry.Ref
		cut := rapid.IntRange(0, 40).Draw(t, "cut")
		for n := range rapid.IntRange(1, 60).Draw(t, "calls") {
			seen := len(order) - rapid.IntRange(0, min(3, len(order))).Draw(t, "side by side")
			parents, err := m.parents(seen)
			if err != nil {
				t.Fatal(err)
			}
			on := map[entry.Ref]bool{}
			for _, p := range parents {
				on[p.Exec] = true
				maps.Copy(on, rests[p.Exec])
			}
			for i, r := range order {
				if want := i < seen; on[r] != want && i >= m.dropped || want && !on[r] {
					t.Fatalf("call %d came after %d of %v, and rests on %v", n, seen, order, on)
				}
			}
			rests[named(n)] = on
			order = append(order, named(n))
			m.add(given{exec: named(n), tool: "x", seen: seen})
			if n == cut { // as add does with more results
				m.base, m.kept, m.dropped = m.newest(m.given()-1), slices.Clone(m.kept[len(m.kept)-1:]), m.given()-1
			}
		}
	})
}
