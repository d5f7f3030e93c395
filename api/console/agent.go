package console

import (
	"net/http"
	"net/url"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// agentsPage is a page of the list of agents.
type agentsPage struct {
	Rows []api.Agent
	More string // link; empty: there are none
}

// agents is GET /agents, in the order of the names.
func (k *Console) agents(q *http.Request) (*page, error) {
	after := entry.Principal(q.URL.Query().Get("after"))
	body := &agentsPage{}
	p := &page{name: "agents", Title: "Agents", Command: "arl agent list", Section: "Agents", Body: body, About: []string{subject(entry.SubjectLog, "")}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		var next *api.AgentsQuery
		if body.Rows, next = view.Agents(state, &api.AgentsQuery{After: after, Counts: true, Limit: rows}); next != nil {
			body.More = k.link("/agents") + "?after=" + url.QueryEscape(string(next.After))
		}
	})
	return p, nil
}

// agentPage is what the log says of a principal.
type agentPage struct {
	Enrolled bool
	Agent    api.Agent
	Known    bool // whether it wrote an entry
	api.History
	Commands []api.Command // what it has to undo
	Older    string
}

// agent is GET /agents/{id}.
func (k *Console) agent(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	id, body := entry.Principal(q.PathValue("id")), &agentPage{}
	p := &page{name: "agent", Title: "Agent " + string(id), Command: "arl agent history " + Quoted(string(id)), Section: "Agents", Body: body, About: []string{subject(entry.SubjectAgent, id)}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		if info, ok := state.Chain().Agent(id); ok {
			body.Enrolled, body.Agent = true, api.NewAgent(&info)
		}
		var next uint64
		if body.History, next, body.Known = state.History(id, older, rows); next != 0 {
			body.Older = k.link("/agents", id) + "?before=" + decimal(next)
		}
		body.Commands = state.Commands(id)
	})
	if !body.Enrolled && !body.Known {
		return nil, entry.Refuse(entry.NotFound, "agent", "%.140q is not in the log", id).WithRemedy("the page of agents lists every enrolled principal")
	}
	return p, nil
}
