package server

import (
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// getBundle is GET /v1/incidents/{id}/bundle. The bundle shows an agent that it must undo an
// execution, and why.
func (s *Server) getBundle(r *request) error {
	q := queryOf[api.BundleQuery](r)
	var err error
	if q.Incident, err = r.number("id"); err == nil && q.Incident == 0 {
		err = view.NoIncident(0)
	}
	if err != nil {
		return err
	}
	return s.answerBundle(r.c, q)
}

// getNews is GET /v1/agents/{id}/news: the policies, keys and overrides that an agent must
// know, as a bundle without a decision.
func (s *Server) getNews(r *request) error {
	id, err := r.name("id")
	if err != nil {
		return err
	}
	q := (*api.BundleQuery)(queryOf[api.NewsQuery](r))
	q.Agent = entry.Principal(id)
	return s.answerBundle(r.c, q)
}

// answerBundle makes a bundle and answers with it. The server makes a few bundles at a time.
// The header Link names the next part of the bundle.
func (s *Server) answerBundle(c echo.Context, q *api.BundleQuery) error {
	select {
	case s.bundles <- struct{}{}:
		defer func() { <-s.bundles }()
	case <-c.Request().Context().Done():
		return c.Request().Context().Err()
	}
	made, err := s.maker.Make(committed{s.log, s.coord}, s.terms(c.Request().Context(), q.From), *q)
	if err != nil {
		return err
	}
	if made.Next != 0 {
		rest := *q
		rest.From, rest.After, rest.Whole = made.Size, made.Next, false
		c.Response().Header().Set("Link", "<"+rest.URL()+`>; rel="next"`)
	}
	err = s.answerTagged(c, api.MediaJSON, tagOf(made.Data), made.Data)
	if err == nil && made.Bundle.Decision != 0 {
		s.coord.SentBundles().Note(q.Agent, q.Incident)
	}
	return err
}

// committed is a log with its committed state.
type committed struct {
	*ledger.Log
	replica *coordinator.Replica
}

// View gives package coord/bundle the committed state.
func (c committed) View(f func(*coord.State, verify.SignedHead, *verify.Chain)) {
	c.replica.ReadView(func(s *coord.State, v *coordinator.View) { f(s, v.SignedHead, v.Chain) })
}
