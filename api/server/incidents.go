package server

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// incidentQuery is the query of GET /v1/incidents.
type incidentQuery struct {
	state  string
	agent  entry.Principal
	domain string
	wid    entry.WorkflowID
	before uint64
	limit  int
}

func parseIncidentQuery(rawQuery string) (incidentQuery, error) {
	p := parseParams(rawQuery, "state", "agent", "domain", "workflow", "before", "limit")
	q := incidentQuery{
		state: p.values.Get("state"), agent: entry.Principal(p.name("agent")), domain: p.name("domain"), wid: entry.WorkflowID(p.name("workflow")),
		before: p.number("before", 0, entry.MaxInteger), limit: p.limit(),
	}
	if states := incidentStates(); q.state != "" && !slices.Contains(states, q.state) {
		p.refuse("state", "%.40q is none of %s", q.state, strings.Join(states, ", "))
	}
	return q, p.err()
}

// incidentStates are the values of the parameter state: the states, and three for
// several of them.
func incidentStates() []string {
	states := []string{stateOpen, stateClosed, stateUnacknowledged}
	for s := coord.Reported; s <= coord.Failed; s++ {
		states = append(states, s.String())
	}
	return states
}

const (
	stateOpen   = "open"
	stateClosed = "closed"
	// stateUnacknowledged is what silence has dismissed, and nobody has taken note of.
	stateUnacknowledged = "unacknowledged"
)

func (q *incidentQuery) matches(v *coord.IncidentView) bool {
	switch {
	case q.wid != "" && v.Wid != q.wid:
		return false
	case q.state == stateOpen:
		return v.State.Open()
	case q.state == stateClosed:
		return !v.State.Open()
	case q.state == stateUnacknowledged:
		return v.Unacknowledged()
	}
	return q.state == "" || v.State.String() == q.state
}

// next returns the path of the page behind an incident.
func (q *incidentQuery) next(last uint64) string {
	v := url.Values{"before": {strconv.FormatUint(last, 10)}, "limit": {strconv.Itoa(q.limit)}}
	for name, value := range map[string]string{"state": q.state, "agent": string(q.agent), "domain": q.domain, "workflow": string(q.wid)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return incidentsPath + "?" + v.Encode()
}

// getIncidents is GET /v1/incidents.
func (s *Server) getIncidents(_ context.Context, r *request) (*api.Incidents, error) {
	q, err := parseIncidentQuery(r.query())
	if err != nil {
		return nil, err
	}
	page := &api.Incidents{Incidents: []api.Incident{}}
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) {
		page.Size = state.Size()
		before := q.before
		for scanned := 0; ; {
			views := q.block(state, before, now)
			for i := range views {
				if len(page.Incidents) == q.limit || scanned == maxIncidentScan {
					page.Next = q.next(before)
					return
				}
				scanned++
				before = views[i].ID
				if q.matches(&views[i]) {
					page.Incidents = append(page.Incidents, *NewIncident(&views[i]))
				}
			}
			if len(views) < incidentBlock {
				return
			}
		}
	})
	return page, nil
}

// block returns the next candidates.
func (q *incidentQuery) block(state *coord.State, before uint64, now int64) []coord.IncidentView {
	switch {
	case q.domain != "":
		return state.IncidentsOfDomain(q.domain, q.agent, before, incidentBlock, now)
	case q.agent != "":
		return state.IncidentsOf(q.agent, before, incidentBlock, now)
	}
	return state.Incidents(before, incidentBlock, now)
}

// getIncident is GET /v1/incidents/{id}.
func (s *Server) getIncident(_ context.Context, r *request) (*api.Incident, error) {
	id, err := r.number("id")
	if err != nil {
		return nil, err
	}
	now, found := s.log.Now(), (*api.Incident)(nil)
	s.coord.Read(func(state *coord.State) {
		if v, ok := state.Incident(id, now); ok {
			found = NewIncident(&v)
		}
	})
	if found == nil {
		return nil, noIncident(id)
	}
	return found, nil
}

func noIncident(id uint64) error {
	return entry.Refuse(entry.NotFound, "id", "entry %d did not open an incident", id).
		WithRemedy("an incident's id is the index of its opening signal: GET " + incidentsPath + " lists them")
}

// getGraph is GET /v1/workflows/{wid}/graph.
func (s *Server) getGraph(_ context.Context, r *request) (*api.Graph, error) {
	p := parseParams(r.query(), "before", "limit")
	before, limit := p.number("before", 0, entry.MaxInteger), p.limit()
	if err := p.err(); err != nil {
		return nil, err
	}
	id, err := r.pathName("wid")
	if err != nil {
		return nil, err
	}
	graph := &api.Graph{Wid: entry.WorkflowID(id), Executions: []api.Execution{}}
	now, known := s.log.Now(), false
	var views []coord.ExecutionView
	s.coord.Read(func(state *coord.State) {
		graph.Size = state.Size()
		views, known = state.Workflow(graph.Wid, before, limit+1, now)
	})
	if !known {
		return nil, entry.Refuse(entry.NotFound, "wid", "no execution of workflow %.140q in the log", id).
			WithRemedy("GET " + entriesPath + "?kind=execution lists executions with their workflows")
	}
	if len(views) > limit {
		views = views[:limit]
		graph.Next = "/v1/workflows/" + url.PathEscape(id) + "/graph?" +
			url.Values{"before": {strconv.FormatUint(views[limit-1].Index, 10)}, "limit": {strconv.Itoa(limit)}}.Encode()
	}
	for i := range views {
		graph.Executions = append(graph.Executions, newExecution(&views[i]))
	}
	return graph, nil
}
