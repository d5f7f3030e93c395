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

// Incidents yields what the server says of incidents, the newest first. Nothing
// proves it. An error is the last that is yielded.
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

// further checks where a list goes on: each page begins below the one before, so
// that every list ends.
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

// beginning returns the index that a page of a list begins below; 0: none.
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

// Incident returns what the server says of an incident. Nothing proves it.
func (c *Client) Incident(ctx context.Context, id uint64) (*api.Incident, error) {
	found, err := get[api.Incident](ctx, c, api.URL(api.PathIncident, nil, id), maxAnswer)
	if err == nil && found.ID != id {
		err = malformed("incident %d in the place of %d", found.ID, id)
	}
	return found, err
}

// Plan returns what the server says is to be undone for an incident: the plan in
// force, or if there is none, what a decision would have now. Its members give
// the rollback set that it names, so that a verified decision with that set proves
// them; nothing proves the rest.
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

// Workflow yields what the server says of the executions of a workflow, the
// newest first. Nothing proves it but their entries. An error is the last that
// is yielded.
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
