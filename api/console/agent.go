package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/api/words"
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
		if body.Rows, next = view.Agents(state, &api.AgentsQuery{After: after, Counts: true, Limit: rows}, at.Now); next != nil {
			body.More = k.link("/agents") + "?after=" + url.QueryEscape(string(next.After))
		}
	})
	return p, nil
}

// counting is how many keys count.
func counting(keys []api.Key) (count int) {
	for i := range keys {
		if keys[i].Revoked == nil {
			count++
		}
	}
	return count
}

// agentPage is what the log says of a principal.
type agentPage struct {
	Enrolled bool
	Agent    api.Agent
	api.History
	Counts   api.AgentCounts
	Commands []command  // what it has to undo
	Tasks    []api.Task // that it holds, the newest first
	NotTold  string     // why the ledger does not tell when bundles were sent; empty: it does
	More     bool       // whether there are further ones
	Older    string
}

// command is what an agent has to undo, and how to get the proof of that.
type command struct {
	api.Command
	Fetch, Verify string
	Sent          string // when the ledger last sent the bundle, by its word; empty: it does not tell
}

// newCommand says how to fetch and verify the bundle of an agent's command.
func newCommand(c api.Command, agent entry.Principal) command {
	file := fmt.Sprintf("bundle-%d.json", c.Incident)
	return command{Command: c, Fetch: fmt.Sprintf("arl incident bundle %d --agent %s > %s", c.Incident, words.Quoted(string(agent)), file), Verify: "arl verify " + file}
}

// askSent asks the ledger when it last sent the bundles of the commands.
func (b *agentPage) askSent(ctx context.Context, k *Console, agent entry.Principal) {
	if len(b.Commands) == 0 {
		return
	}
	if k.cfg.Commands == nil {
		b.NotTold = "the ledger does not run"
		return
	}
	ctx, stop := context.WithTimeout(ctx, leaseTime)
	defer stop()
	told, err := k.cfg.Commands(ctx, agent)
	switch {
	case err != nil:
		b.NotTold = err.Error()
		return
	case told.Since == 0:
		b.NotTold = "the ledger does not remember"
		return
	}
	for i := range b.Commands {
		for j := range told.Commands {
			if told.Commands[j].Incident == b.Commands[i].Incident {
				b.Commands[i].Sent = words.BundleSent(&told.Commands[j], told.Since)
			}
		}
	}
}

// agent is GET /agents/{id}.
func (k *Console) agent(q *http.Request) (*page, error) {
	older, err := before(q)
	if err != nil {
		return nil, err
	}
	id, body := entry.Principal(q.PathValue("id")), &agentPage{}
	p := &page{name: "agent", Title: "Agent " + string(id), Command: "arl agent history " + words.Quoted(string(id)), Section: "Agents", Body: body, About: []string{subject(entry.SubjectAgent, id)}}
	known := false
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		if info, ok := state.Chain().Agent(id); ok {
			body.Enrolled, body.Agent = true, api.NewAgent(&info)
		}
		var past coord.Past
		past, known = state.History(id, older, rows, at.Now)
		if body.History = past.History; past.Rest != 0 {
			body.Older = k.link("/agents", id) + "?before=" + decimal(past.Rest)
		}
		for _, c := range state.Commands(id) {
			body.Commands = append(body.Commands, newCommand(c, id))
		}
		body.Counts = state.AgentCounts(id, at.Now)
		var held int
		body.Tasks, held = state.HeldBy(id, rows)
		body.More = held > len(body.Tasks)
	})
	if !known {
		return nil, entry.Refuse(entry.NotFound, "agent", "%.140q is not in the log", id).WithRemedy("the page of agents lists every enrolled principal")
	}
	body.askSent(q.Context(), k, id)
	return p, nil
}
