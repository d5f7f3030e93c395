package server

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// getComplete is GET /v1/complete/{type}: the entries about a subject, and the proof that
// there are no others (IDX-4).
func (s *Server) getComplete(r *request) error {
	q, ctx := queryOf[api.CompleteQuery](r), r.c.Request().Context()
	if s.cfg.Index == nil {
		return entry.Refuse(entry.NotFound, "", "the ledger keeps no index").WithRemedy("start the ledger with arl serve --index")
	}
	of, err := r.name("type")
	if err != nil {
		return err
	}
	status := s.cfg.Index.Settle(ctx, s.cfg.IndexWait)
	var head verify.SignedHead
	if q.Witnessed {
		want := witness.Want{Size: max(q.Size, status.Entry+1)}
		if q.Size == 0 {
			want.Most = status.Size + complete.TailMax
		}
		if head, err = s.awaitWitnessed(ctx, want, cmp.Or(q.Wait, s.cfg.WitnessWait)); err != nil {
			return entry.Refuse(entry.NotReady, "witnessed", "the quorum of witnesses has cosigned no tree head with the newest index entry yet").
				WithRemedy("ask again, or with a longer wait")
		}
	}
	view := s.coord.View() // taken after the head, so that it covers the head
	if !q.Witnessed {
		if head, err = s.nearIndex(q.Size, view.SignedHead); err != nil {
			return err
		}
	}
	question := complete.Question{Subject: entry.Subject{Type: entry.SubjectType(of), Value: q.Value},
		Labels: q.Labels, From: q.Since, Size: q.Size, Limit: q.Limit}
	if q.Incidents {
		if question.Beside, err = s.incidentsBeside(&question); err != nil {
			return err
		}
	}
	h, err := s.completeHistory(ctx, question, head, view.Chain)
	if err != nil {
		return err
	}
	body, err := h.Encode()
	if err != nil {
		return err
	}
	same, err := json.Marshal(complete.ContentOf(h))
	if err != nil {
		return err
	}
	return s.answerTagged(r.c, api.MediaJSON, tagOf(same), body)
}

// nearIndex returns the head for a history of a size, 0 for all entries: the newest head, or
// the head right behind the index entry where all entries are too many that it does not cover.
func (s *Server) nearIndex(size uint64, newest verify.SignedHead) (verify.SignedHead, error) {
	status := s.cfg.Index.Status()
	if size > 0 || status.Entry == 0 || newest.Size <= status.Size+complete.TailMax {
		return newest, nil
	}
	return s.log.SignedAt(status.Entry + 1)
}

// incidentsBeside returns the incidents that involve the agent of a question. It leaves out a
// closed incident without an entry in the part of the log that the question asks about.
func (s *Server) incidentsBeside(q *complete.Question) (subjects []entry.Subject, err error) {
	if q.Subject.Type != entry.SubjectAgent {
		return nil, entry.Refuse(entry.Malformed, "incidents", "needs an agent as the subject, and the subject is a %s", q.Subject.Type)
	}
	var involved []uint64
	s.coord.Read(func(state *coord.State) {
		for _, v := range state.IncidentsOf(entry.Principal(q.Subject.Value), q.Size, math.MaxInt, 0) { // of any size with 0
			if v.State.Open() {
				subjects = append(subjects, entry.Subject{Type: entry.SubjectIncident, Value: entry.IncidentValue(v.ID)})
				continue
			}
			involved = append(involved, v.ID)
		}
	})
	for _, id := range involved {
		value := entry.IncidentValue(id)
		newer, err := s.log.Find(ledger.Query{Index: entry.ByIncident, Value: value, From: q.From, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(newer) > 0 && (q.Size == 0 || newer[0] < q.Size) {
			subjects = append(subjects, entry.Subject{Type: entry.SubjectIncident, Value: value})
		}
	}
	if len(subjects) >= verify.MaxSubjects {
		return nil, entry.Refuse(entry.TooLarge, "incidents", "%[2]d incidents involve %[1]s there, and a history has at most %[3]d subjects",
			q.Subject.Value, len(subjects), verify.MaxSubjects).WithRemedy("ask for a part: since and size")
	}
	return subjects, nil
}

// completeHistory makes a history. The server makes a few at a time.
func (s *Server) completeHistory(ctx context.Context, q complete.Question, head verify.SignedHead, chain *verify.Chain) (*verify.History, error) {
	select {
	case s.bundles <- struct{}{}:
		defer func() { <-s.bundles }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h, err := s.cfg.Index.History(ctx, q, head, chain, s.log)
	switch {
	case errors.Is(err, complete.ErrNotReady):
		return nil, entry.Refuse(entry.NotReady, "", "%v", err).WithRemedy("ask again in a second: the index goes on by itself")
	case errors.Is(err, complete.ErrStopped):
		return nil, entry.Refuse(entry.NotFound, "", "%v", err).WithRemedy("ask the operator of the ledger, who finds the cause in the server's log")
	}
	return h, err
}

// indexStatus returns how far the index is; nil: the ledger keeps no index.
func (s *Server) indexStatus() *api.IndexStatus {
	if s.cfg.Index == nil {
		return nil
	}
	status := api.IndexStatus(s.cfg.Index.Status())
	return &status
}
