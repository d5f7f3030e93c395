package coord

import (
	"recoveryledger/api"
	"recoveryledger/coord/ascending"
	"recoveryledger/ledger/entry"
)

// IncidentsOfDomain is [State.Incidents] for the incidents that concern a principal of a domain,
// as [State.IncidentsOf] means it. If agent is set, the incidents must concern that principal too.
func (s *State) IncidentsOfDomain(domain string, agent entry.Principal, before uint64, limit int, now int64) (views []api.Incident) {
	end := uint32(s.incidentsBefore(before))
	lists := s.incidentsIn(domain, end)
	var found []uint32
	if agent == "" {
		found = ascending.Largest(limit, lists...)
	} else if number, ok := s.principals.Find([]byte(agent)); ok {
		found = ascending.Largest(limit, ascending.Within(s.usage[number].incidents, lists...))
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
		lists = append(lists, ascending.Below(s.usage[number].incidents, end))
	}
	return lists
}
