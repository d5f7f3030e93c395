package view

import (
	"slices"

	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// Following returns the indexes of the entries behind an entry that may rest on it, ascending:
// those about its incidents, those that were built on its execution, and the end of that execution.
// [entry.Registered.RestsOn] says which of them do.
func Following(s *coord.State, e *entry.Registered, now int64) (indexes []uint64) {
	for _, id := range incidentsOf(s, e, now) {
		indexes = append(indexes, s.IncidentEntries(id)...)
	}
	if x, ok := e.Body.(*entry.Execution); ok {
		if view, known := s.Execution(x.Ref(), now); known {
			indexes = append(indexes, view.Final)
		}
		if number, known := s.FindExecution(x.Ref()); known {
			for child := range s.Graph().Children(number) {
				indexes = append(indexes, s.Graph().Node(child).First)
			}
		}
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	at, there := slices.BinarySearch(indexes, e.Index)
	if there {
		at++
	}
	return indexes[at:]
}

// incidentsOf returns the incidents that an entry is about. A signal may be of two: of the one that
// it opened or joined, and of the older one that the first was merged into.
func incidentsOf(s *coord.State, e *entry.Registered, now int64) (ids []uint64) {
	switch b := e.Body.(type) {
	case *entry.Decision:
		return []uint64{b.Incident}
	case *entry.Approval:
		return []uint64{b.Incident}
	case *entry.Outcome:
		return []uint64{b.Incident}
	case *entry.Signal:
		id, ok := s.IncidentOf(e.Index)
		if !ok {
			return nil
		}
		ids = []uint64{id}
		if own, _ := s.Incident(id, now); own.MergedInto != 0 && slices.Contains(s.IncidentEntries(own.MergedInto), e.Index) {
			ids = append(ids, own.MergedInto)
		}
	}
	return ids
}
