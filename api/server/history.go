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
	past, size, known := s.recall(entry.Principal(id), q)
	for i := range past.Incidents {
		if err := s.reported(past, &past.Incidents[i], size); err != nil {
			return nil, err
		}
	}
	if first := q.Before == nil && q.After == nil; first || !known {
		attempts, err := s.attempted(past.Principal, size)
		switch {
		case err != nil:
			return nil, err
		case !known && len(attempts) == 0:
			return nil, entry.Refuse(entry.NotFound, "id", "%.140q was never enrolled, and no entry is about it", id).WithRemedy("GET " + api.PathAgents + " lists the agents")
		case first:
			past.Attempts = attempts
		}
	}
	if past.Rest != 0 {
		next := api.HistoryQuery{Before: &past.Rest, Limit: q.Limit}
		if q.After != nil {
			next.Before, next.After = nil, &past.Rest
		}
		past.Next = api.URL(api.PathHistory, &next, id)
	}
	return &past.History, s.prove(past)
}

// sameHistory returns the part of a history that does not depend on its tree head.
func sameHistory(h api.History) any {
	h.Head, h.Entries = "", slices.Clone(h.Entries)
	for i := range h.Entries {
		h.Entries[i].Proof = nil
	}
	return h
}

// recall reads a part of a history from the state, and the size of the log that it is made from.
func (s *Server) recall(p entry.Principal, q *api.HistoryQuery) (past *coord.Past, size uint64, known bool) {
	now := s.log.Now()
	past = &coord.Past{}
	s.coord.Read(func(state *coord.State) {
		size = state.Size()
		if q.After != nil {
			*past, known = state.HistoryAfter(p, *q.After, q.Limit, now)
		} else {
			*past, known = state.History(p, *cmp.Or(q.Before, new(uint64)), q.Limit, now)
		}
	})
	return past, size, known
}

// reported adds the outcomes that the principal reported in an incident.
func (s *Server) reported(past *coord.Past, incident *api.Incident, size uint64) error {
	q := newListing(&api.ListQuery{Incident: &incident.ID})
	for index, err := range s.candidates(q, incident.ID, size) {
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

// attempted returns the newest attempts in the principal's work, without those of shadows.
func (s *Server) attempted(p entry.Principal, size uint64) (list []api.HistoryAttempt, err error) {
	q := newListing(&api.ListQuery{Agent: p, Kinds: []entry.Kind{entry.KindAttempt}, Newest: true})
	shown, sought := 0, 0
	for index, err := range s.candidates(q, 0, size) {
		if sought++; err != nil || shown == attemptsShown || sought > attemptsSought {
			return list, err
		}
		logged, err := s.log.Entry(index)
		if err != nil {
			return nil, err
		}
		if a, ok := logged.Body.(*entry.Attempt); ok && a.Of() == p && a.Arm != entry.ArmShadow {
			list = append(list, api.AttemptsIn(a, index)...)
			shown++
		}
	}
	return list, nil
}

// prove adds the entries that prove a history, with their proofs.
func (s *Server) prove(h *coord.Past) error {
	head := s.log.Head()
	h.Head = head.Note
	for _, index := range h.Proof(h.Incidents) {
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
