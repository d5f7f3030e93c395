package coord

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// IncidentsOfDomain is [State.Incidents] for the incidents that concern a principal of a domain,
// as [State.IncidentsOf] means it. If agent is set, the incidents must concern that principal too.
func (s *State) IncidentsOfDomain(domain string, agent entry.Principal, before uint64, limit int, now int64) (views []api.Incident) {
	end := uint32(s.incidentsBefore(before))
	lists := s.incidentsIn(domain, end)
	var found []uint32
	if agent == "" {
		found = newest(lists, limit)
	} else if number, ok := s.principals.Find([]byte(agent)); ok {
		found = newest([][]uint32{s.intersect(s.usage[number].incidents, lists, end)}, limit)
	}
	for _, number := range found {
		views = append(views, s.view(s.incidents[number], now))
	}
	return views
}

// incidentsIn returns, for each principal of a domain, the incidents below end that concern the
// principal, in their order.
func (s *State) incidentsIn(domain string, end uint32) (lists [][]uint32) {
	for number := range s.usage {
		if s.domain(uint32(number)) != domain {
			continue
		}
		list := s.usage[number].incidents
		if at, _ := slices.BinarySearch(list, end); at > 0 {
			lists = append(lists, list[:at])
		}
	}
	return lists
}

// intersect returns the numbers of a list that are below end and in any of the other
// lists.
func (s *State) intersect(list []uint32, others [][]uint32, end uint32) (found []uint32) {
	for _, number := range list {
		in := func(other []uint32) bool { _, ok := slices.BinarySearch(other, number); return ok }
		if number < end && slices.ContainsFunc(others, in) {
			found = append(found, number)
		}
	}
	return found
}

// newest returns the largest numbers of some ascending lists, each number once and from the
// largest down.
func newest(lists [][]uint32, limit int) (found []uint32) {
	for _, list := range lists {
		found = append(found, list[max(0, len(list)-limit):]...)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	slices.Reverse(found)
	return found[:min(len(found), limit)]
}
