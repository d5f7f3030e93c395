package server

import (
	"cmp"
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"recoveryledger/api"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/witness"
	"recoveryledger/verify"
)

// getComplete is GET /v1/complete/{type}: which entries there are about a subject, and
// the proof that there are no others (IDX-4).
func (s *Server) getComplete(r *request) error {
	q, ctx := queryOf[api.CompleteQuery](r), r.c.Request().Context()
	if s.cfg.Index == nil {
		return entry.Refuse(entry.NotFound, "", "the ledger keeps no index").WithRemedy("start the ledger with arl serve --index")
	}
	of, err := r.name("type")
	if err != nil {
		return err
	}
	var head verify.SignedHead
	if q.Witnessed {
		want := witness.Want{Size: max(q.Size, s.cfg.Index.Status().Entry+1)}
		if head, err = s.awaitWitnessed(ctx, want, cmp.Or(q.Wait, s.cfg.WitnessWait)); err != nil {
			return entry.Refuse(entry.NotReady, "witnessed", "the witnesses that the policy names have cosigned no tree head over the index yet").
				WithRemedy("ask again, or wait longer")
		}
	}
	view := s.coord.View() // taken after the head, which it covers
	if !q.Witnessed {
		head = view.SignedHead
	}
	h, err := s.completeHistory(ctx, complete.Question{Subject: entry.Subject{Type: entry.SubjectType(of), Value: q.Value},
		Labels: q.Labels, From: q.Since, Size: q.Size, Limit: q.Limit}, head, view.Chain)
	if err != nil {
		return err
	}
	body, err := h.Encode()
	if err != nil {
		return err
	}
	return s.answerTagged(r.c, api.MediaJSON, tagOf(body), body)
}

// completeHistory makes a history, a few at a time.
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
		return nil, entry.Refuse(entry.NotFound, "", "%v", err).WithRemedy("the operator of the ledger finds the cause in the server's log")
	}
	return h, err
}

// watchIndex shows how far the index is, when it is asked.
func (m *Metrics) watchIndex(x *complete.Index) {
	gauge := func(name, help string, value func(complete.Status) uint64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(x.Status())) })
	}
	m.registry.MustRegister(
		gauge("arl_index_size", "Entries that the newest index entry covers.", func(s complete.Status) uint64 { return s.Size }),
		gauge("arl_index_lag", "Entries that no index entry covers.", func(s complete.Status) uint64 { return s.Lag }),
		gauge("arl_index_subjects", "Subjects in the index.", func(s complete.Status) uint64 { return s.Subjects }),
		gauge("arl_index_stopped", "1 if the index has stopped; the ledger's log says why.", func(s complete.Status) uint64 {
			if s.Stopped != "" {
				return 1
			}
			return 0
		}))
}
