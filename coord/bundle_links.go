package coord

import (
	"cmp"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Links returns the indexes, ascending, of what shows by what right principals
// signed (TRU-2): the policies from the index from on, and all agent entries
// about the principals, about whoever enrolled them, and so on.
func (s *State) Links(of []entry.Principal, from uint64) []uint64 {
	found := map[uint64]struct{}{}
	for _, p := range s.policies {
		if p.index >= from {
			found[p.index] = struct{}{}
		}
	}
	links, known := s.chain.Links(), map[entry.Principal]bool{}
	for todo := slices.Clone(of); len(todo) > 0; {
		principal := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if known[principal] {
			continue
		}
		known[principal] = true
		for _, index := range s.linksOf(principal) {
			found[index] = struct{}{}
			todo = append(todo, signerOf(links, index))
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// linksOf returns the indexes of the agent entries about a principal: a key is
// enrolled by one entry and revoked by one.
func (s *State) linksOf(p entry.Principal) (indexes []uint64) {
	info, _ := s.chain.Agent(p)
	for _, key := range info.Keys {
		if indexes = append(indexes, key.Enrolled); key.Revoked != 0 {
			indexes = append(indexes, key.Revoked)
		}
	}
	return indexes
}

// signerOf returns who signed the entry at an index of the chain.
func signerOf(links []verify.Link, index uint64) entry.Principal {
	i, _ := slices.BinarySearchFunc(links, index, func(l verify.Link, index uint64) int { return cmp.Compare(l.Index, index) })
	return links[i].Issuer
}

// News returns the indexes, ascending, of the entries from an index on that an
// agent is to know of whatever it undoes: policies, and agent entries about
// itself and about whoever is more than a plain agent.
func (s *State) News(agent entry.Principal, from uint64) (indexes []uint64) {
	for _, p := range s.policies {
		indexes = append(indexes, p.index)
	}
	return since(slices.Concat(indexes, s.raised, s.linksOf(agent)), from)
}

// Overrides returns the indexes, ascending, of those from an index on that ended
// what an agent had to do.
func (s *State) Overrides(agent entry.Principal, from uint64) (indexes []uint64) {
	number, ok := s.principals.Find([]byte(agent))
	if !ok {
		return nil
	}
	for _, of := range s.usage[number].incidents {
		f := s.incidents[of].force
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
