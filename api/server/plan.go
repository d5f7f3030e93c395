package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"recoveryledger/api"
	"recoveryledger/api/view"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// planPage returns a page of a plan, with the path of the next page.
func planPage(id uint64, q *api.PlanQuery, plan *api.Plan) *api.Plan {
	from := 0
	if q.Before != 0 {
		from, _ = slices.BinarySearchFunc(plan.Members, q.Before, func(m api.PlanMember, before uint64) int {
			return cmp.Compare(before, m.Index+1) // descending: the first index below
		})
	}
	page := *plan
	if page.Members = plan.Members[from:]; from > 0 {
		page.Review = []entry.Ref{}
	}
	if len(page.Members) > q.Limit {
		page.Members = page.Members[:q.Limit]
		next := *q
		next.Before = page.Members[q.Limit-1].Index
		page.Next = api.URL(api.PathPlan, &next, id)
	}
	return &page
}

// computed is the plan that was computed last, with its query and the state that it is of.
type computed struct {
	query  string
	size   uint64 // of the log
	second int64  // of the ledger's clock
	plan   *api.Plan
}

// getPlan is GET /v1/incidents/{id}/plan: the plan in force, or the plan that a decision would
// have now. The server computes one plan at a time for all clients. It keeps the last plan for
// a second, for the other pages of that plan.
func (s *Server) getPlan(ctx context.Context, r *request) (*api.Plan, error) {
	q := queryOf[api.PlanQuery](r)
	id, err := r.number("id")
	if err != nil {
		return nil, err
	}
	var last *computed
	select {
	case last = <-s.plans:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.plans <- last }()
	now := s.log.Now()
	s.coord.Read(func(state *coord.State) {
		want := computed{fmt.Sprint(id, q.Preview, q.Dismissed), state.Size(), now / 1000, nil}
		if last.query == want.query && last.size == want.size && last.second == want.second {
			return
		}
		if want.plan, err = view.Plan(state, id, q, now); err == nil {
			last = &want
		}
	})
	if err != nil {
		return nil, err
	}
	return planPage(id, q, last.plan), nil
}
