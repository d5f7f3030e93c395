package client

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Incidents yields the incidents as the server shows them, the newest first. Nothing proves
// them. Incidents yields an error last.
func (c *Client) Incidents(ctx context.Context, q api.IncidentQuery) iter.Seq2[*api.Incident, error] {
	return func(yield func(*api.Incident, error) bool) {
		for path := api.URL(api.PathIncidents, &q); path != ""; {
			page, err := get[api.Incidents](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, api.PathIncidents+"?")
			}
			if err != nil {
				yield(nil, fmt.Errorf("client: list incidents: %w", err))
				return
			}
			for i := range page.Incidents {
				if !yield(&page.Incidents[i], nil) {
					return
				}
			}
			path = page.Next
		}
	}
}

// Escalations yields the tasks and incidents that wait for people, as the server shows them, the
// newest first. Nothing proves them. Escalations yields an error last.
func (c *Client) Escalations(ctx context.Context) iter.Seq2[*api.Escalation, error] {
	return func(yield func(*api.Escalation, error) bool) {
		for path := api.PathEscalations; path != ""; {
			page, err := get[api.Escalations](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, api.PathEscalations+"?")
			}
			if err != nil {
				yield(nil, fmt.Errorf("client: list escalations: %w", err))
				return
			}
			for i := range page.Escalations {
				if !yield(&page.Escalations[i], nil) {
					return
				}
			}
			path = page.Next
		}
	}
}

// AgentCounts returns what the server counts of each principal. Nothing proves the counts.
func (c *Client) AgentCounts(ctx context.Context, domain string) (map[entry.Principal]api.AgentCounts, error) {
	q, counts := api.AgentsQuery{Domain: domain, Counts: true}, map[entry.Principal]api.AgentCounts{}
	for path := api.URL(api.PathAgents, &q); path != ""; {
		page, err := get[api.Agents](ctx, c, path, maxAnswer)
		if err != nil {
			return nil, fmt.Errorf("client: list agents: %w", err)
		}
		for i := range page.Agents {
			a := &page.Agents[i]
			if a.Principal <= q.After || a.Counts == nil {
				return nil, malformed("the list of agents has %.140q behind %.140q", a.Principal, q.After)
			}
			q.After, counts[a.Principal] = a.Principal, *a.Counts
		}
		if path = page.Next; path != "" && len(page.Agents) == 0 {
			return nil, malformed("the list of agents goes on behind nothing")
		}
	}
	return counts, nil
}

// Why returns the chain of executions that leads to a member of the plan that a decision about an
// incident would have now, as the server shows it. Nothing proves it.
func (c *Client) Why(ctx context.Context, id uint64, exec entry.Ref) (*api.Why, error) {
	why, err := get[api.Why](ctx, c, api.URL(api.PathWhy, nil, id, exec), maxAnswer)
	if err == nil && (why.Incident != id || why.Exec != exec || len(why.Chain) == 0) {
		err = malformed("the reasons of %.280q in incident %d in the place of %s in %d", why.Exec, why.Incident, exec, id)
	}
	return why, err
}

// further checks the path of the next page of a list. Each page must begin below the page
// before, so that every list ends.
func further(path, next, prefix string) error {
	if next == "" {
		return nil
	}
	if strings.HasPrefix(next, prefix) {
		if below := beginning(next); below != 0 && (beginning(path) == 0 || below < beginning(path)) {
			return nil
		}
	}
	return malformed("the list goes on at %.200q", next)
}

// beginning returns the index below which a page of a list begins; 0: none.
func beginning(path string) uint64 {
	_, query, _ := strings.Cut(path, "?")
	v, err := url.ParseQuery(query)
	if err != nil {
		return 0
	}
	before, err := strconv.ParseUint(v.Get("before"), 10, 64)
	if err != nil {
		return 0
	}
	return before
}

// Incident returns an incident as the server shows it. Nothing proves it.
func (c *Client) Incident(ctx context.Context, id uint64) (*api.Incident, error) {
	found, err := get[api.Incident](ctx, c, api.URL(api.PathIncident, nil, id), maxAnswer)
	if err == nil && found.ID != id {
		err = malformed("incident %d in the place of %d", found.ID, id)
	}
	return found, err
}

// Plan returns the plan of an incident as the server shows it: the plan in force, or else the
// plan that a decision would have now. The members of the plan give the rollback set that the
// plan names. A verified decision with that rollback set proves the members. Nothing proves the
// rest.
func (c *Client) Plan(ctx context.Context, id uint64) (*api.Plan, error) {
	plan, err := c.planPages(ctx, api.URL(api.PathPlan, nil, id))
	if err != nil {
		return nil, err
	}
	var leaves []merkle.Hash
	for _, m := range plan.Set() {
		leaves = append(leaves, merkle.HashLeaf(m.AppendJSON(nil)))
	}
	head := merkle.HeadOf(leaves)
	if plan.Incident != id || head != plan.RollbackSet {
		return nil, malformed("the plan of incident %d: its members give the rollback set %s of %d", id, head.Root, head.Size)
	}
	return plan, nil
}

// planPages reads a plan with all its members.
func (c *Client) planPages(ctx context.Context, start string) (*api.Plan, error) {
	plan, err := get[api.Plan](ctx, c, start, maxAnswer)
	if err != nil {
		return nil, err
	}
	for path := start; plan.Next != ""; {
		if err := further(path, plan.Next, start+"?"); err != nil {
			return nil, err
		}
		path = plan.Next
		page, err := get[api.Plan](ctx, c, path, maxAnswer)
		switch {
		case err != nil:
			return nil, err
		case page.RollbackSet != plan.RollbackSet || page.Decision != plan.Decision:
			return nil, malformed("the plan changed while it was read")
		case uint64(len(plan.Members)+len(page.Members)) > plan.RollbackSet.Size:
			return nil, malformed("the plan has more members than its rollback set")
		}
		plan.Members, plan.Next = append(plan.Members, page.Members...), page.Next
	}
	return plan, nil
}

// Workflow yields the executions of a workflow as the server shows them, the newest first. Only
// their entries prove them. Workflow yields an error last.
func (c *Client) Workflow(ctx context.Context, wid entry.WorkflowID) iter.Seq2[*api.Execution, error] {
	return func(yield func(*api.Execution, error) bool) {
		start := api.URL(api.PathGraph, nil, wid)
		for path := start; path != ""; {
			page, err := get[api.Graph](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, start+"?")
			}
			if err != nil {
				yield(nil, fmt.Errorf("client: read workflow: %w", err))
				return
			}
			for i := range page.Executions {
				if !yield(&page.Executions[i], nil) {
					return
				}
			}
			path = page.Next
		}
	}
}
