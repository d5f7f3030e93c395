package console

import (
	"maps"
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
	plan   *api.Plan
	beyond []int  // links of the drawn members that are not drawn
	next   uint64 // index of the agent's first member behind the window; 0: there is none
}

// windowOf opens the window of an agent at its first member with an index or a greater
// one.
func windowOf(plan *api.Plan, agent entry.Principal, from uint64) *window {
	linked, degree := linksOf(plan, agent)
	w, drawn := &window{plan: &api.Plan{Incident: plan.Incident, Decision: plan.Decision}}, map[int]int{}
	for i := len(plan.Members) - 1; i >= 0; i-- { // they descend
		m := &plan.Members[i]
		if m.Agent != agent || m.Index < from {
			continue
		}
		more := slices.Compact(slices.Sorted(slices.Values(append(linked[i], i))))
		more = slices.DeleteFunc(more, func(place int) bool { _, in := drawn[place]; return in && place != i })
		if len(drawn)+len(more) > pictured && len(drawn) > 0 {
			w.next = m.Index
			break
		}
		drawn[i] = 0 // whatever its neighbours leave room for
		for _, place := range more[:min(len(more), pictured-1)] {
			drawn[place] = 0
		}
	}
	places := slices.Sorted(maps.Keys(drawn))
	for i, place := range places {
		drawn[place] = i
	}
	w.beyond = make([]int, len(places))
	for i, place := range places {
		m := plan.Members[place]
		w.beyond[i] += degree[place]
		m.Parents = nil
		for _, parent := range plan.Members[place].Parents {
			at, in := drawn[parent.Place]
			if in && (m.Agent == agent || plan.Members[parent.Place].Agent == agent) {
				m.Parents = append(m.Parents, api.PlanParent{Place: at, Dep: parent.Dep})
				w.beyond[i]--
				w.beyond[at]--
			}
		}
		w.plan.Members = append(w.plan.Members, m)
	}
	return w
}

// linksOf returns the members that each member of an agent is linked with, and how many
// dependencies each member has with others.
func linksOf(plan *api.Plan, agent entry.Principal) (linked map[int][]int, degree []int) {
	linked, degree = map[int][]int{}, make([]int, len(plan.Members))
	for to := range plan.Members {
		for _, parent := range plan.Members[to].Parents {
			degree[parent.Place]++
			degree[to]++
			for _, link := range [][2]int{{to, parent.Place}, {parent.Place, to}} {
				if plan.Members[link[0]].Agent == agent {
					linked[link[0]] = append(linked[link[0]], link[1])
				}
			}
		}
	}
	return linked, degree
}
