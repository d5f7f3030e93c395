package coord

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// Policies returns the indexes, ascending, of the policies from an index on.
func (s *State) Policies(from uint64) (indexes []uint64) {
	for _, p := range s.policies {
		if p.index >= from {
			indexes = append(indexes, p.index)
		}
	}
	return indexes
}

// News returns the indexes, ascending, of the entries from an index on that an agent must know
// whatever it undoes. These are policies, agent entries about the agent itself, and agent entries
// about principals that are more than plain agents.
func (s *State) News(agent entry.Principal, from uint64) []uint64 {
	info, _ := s.chain.Agent(agent)
	return since(slices.Concat(s.Policies(from), s.privilegeGrants, info.Entries()), from)
}

// Overrides returns the indexes, ascending, of the overrides from an index on that ended an
// agent's work.
func (s *State) Overrides(agent entry.Principal, from uint64) (indexes []uint64) {
	number, ok := s.principals.Find([]byte(agent))
	if !ok {
		return nil
	}
	for _, of := range s.usage[number].incidents {
		f := s.incidents[of].current
		if f == nil || len(f.byAgent[number]) == 0 {
			continue
		}
		if f.override != 0 {
			indexes = append(indexes, f.override)
		}
		for _, place := range f.byAgent[number] {
			if m := &f.members[place]; m.overridden() { // before an amend, too
				indexes = append(indexes, m.resultAt)
			}
		}
	}
	return since(indexes, from)
}

// since sorts indexes and leaves out those below from.
func since(indexes []uint64, from uint64) []uint64 {
	slices.Sort(indexes)
	begin, _ := slices.BinarySearch(indexes, from)
	return slices.Compact(indexes[begin:])
}
