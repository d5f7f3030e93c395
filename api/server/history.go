package server

import (
	"cmp"
	"context"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// getHistory is GET /v1/agents/{id}/history: what the log says about a principal, a few
// incidents at a time, with the entries that prove it.
func (s *Server) getHistory(_ context.Context, r *request) (*api.History, error) {
	q := queryOf[api.HistoryQuery](r)
	id, err := r.name("id")
	if err != nil {
		return nil, err
	}
	var past *past
	if q.After != nil {
		past = s.recallAfter(entry.Principal(id), *q.After, q.Limit)
	} else {
		past = s.recall(entry.Principal(id), *cmp.Or(q.Before, new(uint64)), q.Limit)
	}
	if past == nil {
		return nil, entry.Refuse(entry.NotFound, "id", "%.140q has no entry in the log", id).WithRemedy("GET " + api.PathAgents + " lists the agents")
	}
	for _, incident := range past.incidents {
		if err := s.reported(past, incident); err != nil {
			return nil, err
		}
	}
	if q.Before == nil && q.After == nil {
		if err := s.attempted(past); err != nil {
			return nil, err
		}
	}
	if past.next != 0 {
		next := api.HistoryQuery{Before: &past.next, Limit: q.Limit}
		if q.After != nil {
			next.Before, next.After = nil, &past.next
		}
		past.Next = api.URL(api.PathHistory, &next, id)
	}
	return past.History, s.prove(past)
}

// sameHistory returns the part of a history that does not depend on its tree head.
func sameHistory(h api.History) any {
	h.Head, h.Entries = "", slices.Clone(h.Entries)
	for i := range h.Entries {
		h.Entries[i].Proof = nil
	}
	return h
}

// past is a history in the making.
type past struct {
	*api.History
	size      uint64 // of the log that the history is made from
	incidents []api.Incident
	next      uint64
}

// recall reads a history from the state; nil if the state does not know the principal.
func (s *Server) recall(principal entry.Principal, before uint64, limit int) (found *past) {
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) {
		h, next, ok := state.History(principal, before, limit)
		if !ok {
			return
		}
		incidents := state.IncidentsOf(principal, before, limit, now)
		found = &past{&h, state.Size(), incidents, next}
	})
	return found
}

// recallAfter is recall for a reader that continues after a cursor.
func (s *Server) recallAfter(principal entry.Principal, after uint64, limit int) (found *past) {
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) {
		c, ok := state.HistoryAfter(principal, after, limit)
		if !ok {
			return
		}
		found = &past{History: &c.History, size: state.Size()}
		if c.More {
			found.next = c.Cursor
		}
		for _, id := range c.Incidents {
			incident, _ := state.Incident(id, now) // the state has it
			found.incidents = append(found.incidents, incident)
		}
	})
	return found
}

// reported adds the outcomes that the principal reported in an incident.
func (s *Server) reported(past *past, incident api.Incident) error {
	q := newListing(&api.ListQuery{Incident: &incident.ID})
	for index, err := range s.candidates(q, incident.ID, past.size) {
		if err != nil {
			return err
		}
		logged, err := s.log.Entry(index)
		if err != nil {
			return err
		}
		if o, ok := logged.Body.(*entry.Outcome); ok && o.Iss == past.Principal {
			past.Outcomes = append(past.Outcomes, api.HistoryOutcome{Index: index, Incident: incident.ID, Exec: o.Exec, Result: o.Result,
				Correction: incident.Corrects(index)})
		}
	}
	return nil
}

// Bounds of the attempts in a history: how many entries are shown, and among how many of the
// principal's newest ones they are looked for.
const (
	attemptsShown  = 5
	attemptsSought = 1000
)

// attempted adds the newest attempts in the principal's work, without those of shadows.
func (s *Server) attempted(past *past) error {
	q := newListing(&api.ListQuery{Agent: past.Principal, Kinds: []entry.Kind{entry.KindAttempt}, Newest: true})
	shown, sought := 0, 0
	for index, err := range s.candidates(q, 0, past.size) {
		if sought++; err != nil || shown == attemptsShown || sought > attemptsSought {
			return err
		}
		logged, err := s.log.Entry(index)
		if err != nil {
			return err
		}
		if a, ok := logged.Body.(*entry.Attempt); ok && a.Of() == past.Principal && a.Arm != entry.ArmShadow {
			past.Attempts = append(past.Attempts, api.AttemptsIn(a, index)...)
			shown++
		}
	}
	return nil
}

// prove adds the entries that a history names, and the entries that closed its incidents, with
// their proofs.
func (s *Server) prove(h *past) error {
	named := h.Named()
	for i := range h.incidents {
		if closed := h.incidents[i].Recorded; closed != 0 {
			named = append(named, closed)
		}
	}
	slices.Sort(named)
	head := s.log.Head()
	h.Head = head.Note
	for _, index := range slices.Compact(named) {
		logged, err := s.log.Entry(index)
		if err != nil {
			return err
		}
		item, err := s.item(logged, head.Head)
		if err != nil {
			return err
		}
		h.Entries = append(h.Entries, *item)
	}
	return nil
}
