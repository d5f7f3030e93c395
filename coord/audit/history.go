package audit

import (
	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// History returns what the log says of a principal, with the outcomes that the principal reported.
// after leaves out the incidents in which nothing changed behind that index; nil: none. now is the
// ledger's clock, in Unix milliseconds. proof are the indexes of the entries that prove the
// history, which has no entries and no tree head itself. known is false if the principal was never
// enrolled, and no entry is its own or about it.
func (f *Follower) History(p entry.Principal, after *uint64, now int64) (h api.History, proof []uint64, known bool) {
	var past coord.Past
	size := int(f.state.Size())
	if after == nil {
		past, known = f.state.History(p, 0, size, now)
	} else {
		past, known = f.state.HistoryAfter(p, *after, size, now)
	}
	incidents := map[uint64]*api.Incident{}
	for i := range past.Incidents {
		incidents[past.Incidents[i].ID] = &past.Incidents[i]
	}
	for _, o := range f.OutcomesBy(p) {
		if in := incidents[o.Incident]; in != nil {
			past.Outcomes = append(past.Outcomes, api.HistoryOutcome{Index: o.Index, Incident: o.Incident, Exec: o.Exec, Result: o.Result,
				Correction: in.Corrects(o.Index)})
		}
	}
	return past.History, past.Proof(past.Incidents), known || f.AttemptsOf(p).Cases > 0
}
