package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// bundleQuery is what is asked of a bundle: of an incident, or for news alone.
type bundleQuery struct {
	agent    entry.Principal
	incident uint64 // 0: news
	from     uint64 // size of the head that the agent accepted last
	after    uint64 // where the bundle before ended
	whole    bool   // all policies and keys, whatever the agent accepted
	limit    int
}

func bundleParams() []string { return []string{"from", "after", "whole", "limit"} }

func (q *bundleQuery) parse(p *params) error {
	q.from, q.after = p.number("from", 0, entry.MaxInteger), p.number("after", 0, entry.MaxInteger)
	q.whole, q.limit = p.flag("whole"), p.page(bundleDefault, verify.MaxBundleMembers)
	return p.err()
}

// next returns the path of the bundle that goes on where one ended.
func (q *bundleQuery) next(size, after uint64) string {
	v := url.Values{"from": {strconv.FormatUint(size, 10)}, "after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(q.limit)}}
	if q.incident == 0 {
		return agentsPath + "/" + url.PathEscape(string(q.agent)) + "/news?" + v.Encode()
	}
	v.Set("agent", string(q.agent))
	return fmt.Sprintf("%s/%d/bundle?%s", incidentsPath, q.incident, v.Encode())
}

// getBundle is GET /v1/incidents/{id}/bundle: what shows an agent that it is to
// undo something, and why.
func (s *Server) getBundle(c echo.Context) error {
	r := &request{c}
	p := parseParams(r.query(), append(bundleParams(), "agent")...)
	id, err := r.pathNumber("id")
	q := bundleQuery{incident: id, agent: entry.Principal(p.name("agent"))}
	if q.agent == "" {
		p.refuse("agent", "whose bundle is it to be?")
	}
	if id == 0 && err == nil {
		err = noIncident(0)
	}
	return s.answerBundle(c, &q, cmp.Or(err, q.parse(p)))
}

// getNews is GET /v1/agents/{id}/news: the policies, keys and overrides that an
// agent is to know of, as a bundle without a decision.
func (s *Server) getNews(c echo.Context) error {
	r := &request{c}
	p := parseParams(r.query(), bundleParams()...)
	id, err := r.pathName("id")
	q := bundleQuery{agent: entry.Principal(id)}
	return s.answerBundle(c, &q, cmp.Or(err, q.parse(p)))
}

// answerBundle makes a bundle, a few at a time, and answers with it; where it
// goes on stands in the header Link.
func (s *Server) answerBundle(c echo.Context, q *bundleQuery, refused error) error {
	if refused != nil {
		return refused
	}
	select {
	case s.bundles <- struct{}{}:
		defer func() { <-s.bundles }()
	case <-c.Request().Context().Done():
		return c.Request().Context().Err()
	}
	data, next, err := s.bundle(q)
	if err != nil {
		return err
	}
	if next != "" {
		c.Response().Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	return s.answerTagged(c, api.MediaJSON, tagOf(data), data)
}

// errManyEntries says that a bundle would have more entries than it may.
var errManyEntries = fmt.Errorf("more than %d entries", verify.MaxBundleEntries)

// bundle makes a bundle that keeps the limits, of fewer members if need be.
func (s *Server) bundle(q *bundleQuery) (data []byte, next string, err error) {
	for limit := q.limit; ; {
		m, err := s.currentBundle(q, limit)
		if err == nil {
			data, err = m.Encode()
		}
		_, large := errors.AsType[*verify.FormatError](err)
		switch large = large || errors.Is(err, errManyEntries); {
		case large && min(limit, m.held) > 1:
			limit = min(limit, m.held) / 2
			continue
		case large:
			return nil, "", entry.Refuse(entry.TooLarge, "", "%v", err).
				WithRemedy("if it is policies and keys, read GET " + agentsPath + "/{id}/news first, and ask from the size that it brings")
		case err != nil:
			return nil, "", err
		}
		if m.next != 0 {
			next = q.next(m.size, m.next)
		}
		return data, next, nil
	}
}

// currentBundle makes a bundle under a head that it says all of: what is read
// from the state may be older than the newest head, so that it is made again if
// anything that belongs into it came in between.
func (s *Server) currentBundle(q *bundleQuery, limit int) (*making, error) {
	for range bundleAttempts {
		m := &making{Bundle: &verify.Bundle{Agent: q.agent, From: q.from}, server: s, query: q, logged: map[uint64]*entry.Registered{}}
		if err := m.read(limit); err != nil {
			return m, err
		}
		head := s.log.Head()
		m.Head, m.size = head.Note, head.Size
		changed, err := m.changed()
		if err == nil && !changed {
			err = m.prove()
		}
		if err != nil || !changed {
			return m, err
		}
	}
	return nil, entry.Refuse(entry.NotReady, "", "policies, keys or the incident changed %d times while the bundle was made", bundleAttempts)
}
