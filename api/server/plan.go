package server

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// planQuery is what GET /v1/incidents/{id}/plan asks for.
type planQuery struct {
	id      uint64
	preview bool
	without []uint64 // indexes of signals that a preview leaves out
	before  uint64   // only members below this index; 0: all
	limit   int
}

func parsePlanQuery(id uint64, rawQuery string) (planQuery, error) {
	p := parseParams(rawQuery, "preview", "unfounded", "before", "limit")
	q := planQuery{id: id, preview: p.flag("preview"), without: p.numbers("unfounded"),
		before: p.number("before", 0, entry.MaxInteger), limit: p.page(api.MaxPage, api.MaxPage)}
	if len(q.without) > 0 && !q.preview {
		p.refuse("unfounded", "is for a preview: say preview=true too")
	}
	return q, p.err()
}

// page returns the members that a plan's answer shows, and where it goes on.
func (q *planQuery) page(plan *api.Plan) *api.Plan {
	from := 0
	if q.before != 0 {
		from, _ = slices.BinarySearchFunc(plan.Members, q.before, func(m api.PlanMember, before uint64) int {
			return cmp.Compare(before, m.Index+1) // descending: the first below
		})
	}
	page := *plan
	if page.Members = plan.Members[from:]; from > 0 {
		page.Review = []entry.Ref{}
	}
	if len(page.Members) > q.limit {
		page.Members = page.Members[:q.limit]
		v := url.Values{"before": {strconv.FormatUint(page.Members[q.limit-1].Index, 10)}, "limit": {strconv.Itoa(q.limit)}}
		if q.preview {
			v.Set("preview", "true")
		}
		for i, index := range q.without {
			if i > 0 {
				v.Set("unfounded", v.Get("unfounded")+","+strconv.FormatUint(index, 10))
				continue
			}
			v.Set("unfounded", strconv.FormatUint(index, 10))
		}
		page.Next = fmt.Sprintf("%s/%d/plan?%s", incidentsPath, q.id, v.Encode())
	}
	return &page
}

// computed is the plan that was computed last, and of what.
type computed struct {
	query  string
	size   uint64 // of the log
	second int64  // of the ledger's clock
	plan   *api.Plan
}

// getPlan is GET /v1/incidents/{id}/plan: the plan in force, or what a decision
// would have now. Plans are computed one at a time, whoever asks, and the last
// is kept for a second for its other pages.
func (s *Server) getPlan(ctx context.Context, r *request) (*api.Plan, error) {
	id, err := r.pathNumber("id")
	if err != nil {
		return nil, err
	}
	q, err := parsePlanQuery(id, r.query())
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
		want := computed{fmt.Sprint(q.id, q.preview, q.without), state.Size(), now / 1000, nil}
		if last.query == want.query && last.size == want.size && last.second == want.second {
			return
		}
		if want.plan, err = q.compute(state, now); err == nil {
			last = &want
		}
	})
	if err != nil {
		return nil, err
	}
	return q.page(last.plan), nil
}

// compute returns the plan that is asked for.
func (q *planQuery) compute(state *coord.State, now int64) (*api.Plan, error) {
	if v, ok := state.PlanInForce(q.id, now); ok && !q.preview {
		incident, _ := state.Incident(q.id, now)
		return NewPlan(q.id, incident.Decision.Ref.Index, v), nil
	}
	v, ok := state.Preview(q.id, q.without, now)
	if !ok {
		return nil, noIncident(q.id)
	}
	for _, index := range q.without {
		if !slices.Contains(v.Basis, index) { // the preview would not be what was meant
			return nil, entry.Refuse(entry.Malformed, "unfounded", "entry %d is no signal that a decision about incident %d rests on", index, q.id).
				WithRemedy(fmt.Sprintf("GET %s/%d names the signals of the incident", incidentsPath, q.id))
		}
	}
	return NewPlan(q.id, 0, v), nil
}
