package coord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
)

// reference are the ids of the incidents below one that a principal of a domain,
// and agent if it is named, has to do with: what the lists of the single principals
// say together.
func reference(s *State, domain string, agent entry.Principal, before uint64) (ids []uint64) {
	of := func(p entry.Principal) (list []uint64) {
		for _, v := range s.IncidentsOf(p, before, 1000, 0) {
			list = append(list, v.ID)
		}
		return list
	}
	for _, info := range s.chain.Agents() {
		if info.Domain == domain {
			ids = append(ids, of(info.Principal)...)
		}
	}
	if agent != "" {
		own := of(agent)
		ids = slices.DeleteFunc(ids, func(id uint64) bool { return !slices.Contains(own, id) })
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	return ids
}

// TestIncidentsOfDomain compares the incidents of domains with what those of their
// principals say, from every index on and for pages of every size, in a log where
// principals of four domains signal what two agents did.
func TestIncidentsOfDomain(t *testing.T) {
	w := newWorld(t)
	var monitors []entry.Principal
	for i := range 9 {
		p := entry.Principal(fmt.Sprintf("m%d", i))
		e := w.enrol("root", p, entry.RoleMonitor)
		e.Domain = fmt.Sprintf("d%d", i%4)
		w.put(e)
		monitors = append(monitors, p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 12 {
		agent := entry.Principal([]string{"a", "b"}[i%2])
		x := w.exec(agent, fmt.Sprint(i))
		w.put(x)
		if rng.IntN(3) > 0 {
			w.put(w.signal(agent, entry.StandingExecutor, x.Ref()))
		}
		for range rng.IntN(3) {
			w.put(w.signal(monitors[rng.IntN(len(monitors))], entry.StandingMonitor, x.Ref()))
		}
	}
	several := false
	for _, domain := range []string{"d0", "d1", "d2", "d3", "", "none"} {
		for _, agent := range []entry.Principal{"", "a", "b", "m0", "nobody"} {
			for before := range w.state.Size() {
				want := reference(w.state, domain, agent, before)
				several = several || len(want) > 3
				for limit := range len(want) + 2 {
					var got []uint64
					for _, v := range w.state.IncidentsOfDomain(domain, agent, before, limit, w.at) {
						got = append(got, v.ID)
					}
					if !slices.Equal(got, want[:min(limit, len(want))]) {
						t.Fatalf("domain %q, agent %q, before %d, limit %d: %v of %v", domain, agent, before, limit, got, want)
					}
				}
			}
		}
	}
	if !several {
		t.Error("no domain has several incidents")
	}
}
