package console

import (
	"net/http"
	"slices"
	"strconv"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// lanesShown is how many lanes one page shows.
const lanesShown = 200

// part is which part of a large plan a query asks for.
type part struct {
	agent entry.Principal // whose members are drawn; empty: no lane is opened
	from  uint64          // index from which on they are drawn
	lanes int             // place of the first lane shown
}

// partOf reads lane, from and lanes from a query.
func partOf(q *http.Request) (p part, err error) {
	given := q.URL.Query()
	p.agent = entry.Principal(given.Get("lane"))
	if text := given.Get("from"); text != "" {
		if p.from, err = strconv.ParseUint(text, 10, 63); err != nil {
			return p, entry.Refuse(entry.Malformed, "from", "%.140q is not an index of the log", text).WithRemedy("an index is a number from 0 on")
		}
	}
	if text := given.Get("lanes"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, entry.Refuse(entry.Malformed, "lanes", "%.140q is not a number of lanes", text).WithRemedy("the page links further lanes")
		}
		p.lanes = int(n)
	}
	return p, nil
}

// window is what a picture shows of a plan that is too large for one: members of one
// agent, and the members that they are directly linked with.
type window struct {
	plan    *api.Plan
	parents map[entry.Ref][]entry.Parent
	beyond  map[entry.Ref]int // links of a drawn member that are not drawn
	next    uint64            // index of the agent's first member behind the window; 0: there is none
}

// link is a dependency between two members, as places in the plan.
type link struct {
	from, to int
	soft     bool
}

// windowOf opens the window of an agent at its first member with an index or a greater
// one. parentsOf returns what an execution was built on.
func windowOf(plan *api.Plan, parentsOf func(entry.Ref) []entry.Parent, agent entry.Principal, from uint64) *window {
	links, degree := linksOf(plan, parentsOf, agent)
	of := map[int][]link{} // links of the agent's members
	for _, l := range links {
		for _, end := range []int{l.from, l.to} {
			if plan.Members[end].Agent == agent {
				of[end] = append(of[end], l)
			}
		}
	}
	w := &window{plan: &api.Plan{Incident: plan.Incident, Decision: plan.Decision}, parents: map[entry.Ref][]entry.Parent{}, beyond: map[entry.Ref]int{}}
	drawn := map[int]bool{}
	for i := len(plan.Members) - 1; i >= 0; i-- { // they descend
		m := &plan.Members[i]
		if m.Agent != agent || m.Index < from {
			continue
		}
		more := []int{i}
		for _, l := range of[i] {
			more = append(more, l.from, l.to)
		}
		more = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(more))), func(place int) bool { return drawn[place] && place != i })
		if len(drawn)+len(more) > pictured && len(drawn) > 0 {
			w.next = m.Index
			break
		}
		drawn[i] = true // whatever its neighbours leave room for
		for _, place := range more[:min(len(more), pictured-1)] {
			drawn[place] = true
		}
	}
	for _, l := range links {
		if drawn[l.from] && drawn[l.to] {
			dep := entry.Hard
			if l.soft {
				dep = entry.Soft
			}
			to := plan.Members[l.to].Exec
			w.parents[to] = append(w.parents[to], entry.Parent{Exec: plan.Members[l.from].Exec, Dep: dep})
			degree[l.from]--
			degree[l.to]--
		}
	}
	for i := range plan.Members {
		if drawn[i] {
			w.plan.Members = append(w.plan.Members, plan.Members[i])
			w.beyond[plan.Members[i].Exec] = degree[i]
		}
	}
	return w
}

// linksOf returns the dependencies that members of an agent have a part in, and how many
// dependencies each member has with others.
func linksOf(plan *api.Plan, parentsOf func(entry.Ref) []entry.Parent, agent entry.Principal) (links []link, degree []int) {
	places := make(map[entry.Ref]int, len(plan.Members))
	for i := range plan.Members {
		places[plan.Members[i].Exec] = i
	}
	degree = make([]int, len(plan.Members))
	for to := range plan.Members {
		for _, parent := range parentsOf(plan.Members[to].Exec) {
			from, member := places[parent.Exec]
			if !member {
				continue
			}
			degree[from]++
			degree[to]++
			if plan.Members[from].Agent == agent || plan.Members[to].Agent == agent {
				links = append(links, link{from, to, parent.Dep == entry.Soft})
			}
		}
	}
	return links, degree
}
