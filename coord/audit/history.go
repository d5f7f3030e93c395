package audit

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// History returns what the log says of a principal, with the outcomes that the principal reported.
// after leaves out the incidents in which nothing changed behind that index; nil: none. now is the
// ledger's clock, in Unix milliseconds. ok is false if the log does not know the principal: the
// principal was never enrolled, and no entry is about it. The history has no entries and no tree
// head.
func (f *Follower) History(p entry.Principal, after *uint64, now int64) (h api.History, ok bool) {
	var changes coord.Changes
	size := int(f.state.Size())
	if after == nil {
		changes.History, _, ok = f.state.History(p, 0, size)
	} else {
		changes, ok = f.state.HistoryAfter(p, *after, size)
	}
	if _, enrolled := f.state.Chain().Agent(p); !ok && !enrolled && f.AttemptsOf(p).Cases == 0 {
		return h, false
	}
	h = changes.History
	h.Principal = p
	for _, o := range f.OutcomesBy(p) {
		if after != nil && !slices.Contains(changes.Incidents, o.Incident) {
			continue
		}
		incident, _ := f.state.Incident(o.Incident, now) // the outcome was admitted
		h.Outcomes = append(h.Outcomes, api.HistoryOutcome{Index: o.Index, Incident: o.Incident, Exec: o.Exec, Result: o.Result,
			Correction: incident.Corrects(o.Index)})
	}
	return h, true
}
