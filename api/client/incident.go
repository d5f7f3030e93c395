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

// IncidentQuery says which incidents are asked for. The zero value is all of
// them.
type IncidentQuery struct {
	State    string           // a state, open or closed; empty: any
	Agent    entry.Principal  // only those that it has to do with
	Domain   string           // only those that a principal of this domain has to do with
	Workflow entry.WorkflowID // only those whose opening signal is of it
	Before   uint64           // only those below this id; 0: all
	Page     int              // incidents fetched at once; 0: as many as the server likes
}

func (q *IncidentQuery) path() string {
	v := url.Values{}
	for name, value := range map[string]string{"state": q.State, "agent": string(q.Agent), "domain": q.Domain, "workflow": string(q.Workflow)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Before != 0 {
		v.Set("before", strconv.FormatUint(q.Before, 10))
	}
	if q.Page != 0 {
		v.Set("limit", strconv.Itoa(q.Page))
	}
	if len(v) == 0 {
		return "/v1/incidents"
	}
	return "/v1/incidents?" + v.Encode()
}

// Incidents yields what the server says of incidents, the newest first. Nothing
// proves it. An error is the last that is yielded.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) iter.Seq2[*api.Incident, error] {
	return func(yield func(*api.Incident, error) bool) {
		for path := q.path(); path != ""; {
			page, err := get[api.Incidents](ctx, c, path, maxAnswer)
			if err == nil {
				err = further(path, page.Next, "/v1/incidents?")
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
	found, err := get[api.Incident](ctx, c, pathOf("v1", "incidents", id), maxAnswer)
	if err == nil && found.ID != id {
		err = malformed("incident %d in the place of %d", found.ID, id)
	}
	return found, err
}

// Plan returns what the server says is to be undone for an incident: the plan in
// force, or if there is none, what a decision would have now. Its members give
// the scope that it names, so that a verified decision with that scope proves
// them; nothing proves the rest.
func (c *Client) Plan(ctx context.Context, id uint64) (*api.Plan, error) {
	plan, err := c.planPages(ctx, pathOf("v1", "incidents", id, "plan"))
	if err != nil {
		return nil, err
	}
	tree, err := merkle.NewFrontier(0, nil)
	if err != nil {
		return nil, err
	}
	for i := range plan.Members {
		m := &plan.Members[i]
		leaf := entry.Member{Agent: m.Agent, Checkpoint: m.Checkpoint, Exec: m.Exec, Index: m.Index, LeafHash: m.LeafHash, Method: m.Method}
		if err := tree.Append(merkle.HashLeaf(leaf.AppendJSON(nil)), func(uint, uint64, merkle.Hash) {}); err != nil {
			return nil, err
		}
	}
	head, err := tree.Head()
	if err == nil && (plan.Incident != id || head != plan.Scope) {
		err = malformed("the plan of incident %d: its members give the scope %s of %d", id, head.Root, head.Size)
	}
	return plan, err
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
		case page.Scope != plan.Scope || page.Decision != plan.Decision:
			return nil, malformed("the plan has changed while it was read")
		case uint64(len(plan.Members)+len(page.Members)) > plan.Scope.Size:
			return nil, malformed("the plan has more members than its scope")
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
		start := pathOf("v1", "workflows", wid, "graph")
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
