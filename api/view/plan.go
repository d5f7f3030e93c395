package view

import (
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
)

// Plan returns the plan in force of an incident, or the plan that a decision would have now: with
// preview, and while none is in force. The error is a [*entry.Refusal] if there is no such
// incident, or if q leaves out a signal that a decision would not rest on.
func Plan(s *coord.State, id uint64, q *api.PlanQuery, now int64) (*api.Plan, error) {
	if plan, ok := InForce(s, id, now); ok && !q.Preview {
		return plan, nil
	}
	v, ok := s.Preview(id, q.Dismissed, now)
	if !ok {
		return nil, NoIncident(id)
	}
	for _, index := range q.Dismissed {
		if !slices.Contains(v.Considered, index) { // the preview would not be the one meant
			return nil, entry.Refuse(entry.Malformed, "dismissed", "entry %d is not a signal that a decision about incident %d rests on", index, id).
				WithRemedy("GET " + api.URL(api.PathIncident, nil, id) + " names the signals of the incident")
		}
	}
	AddParents(s, &v.Plan)
	return &v.Plan, nil
}

// InForce returns the plan in force of an incident; ok is false if there is none.
func InForce(s *coord.State, id uint64, now int64) (plan *api.Plan, ok bool) {
	v, ok := s.PlanInForce(id, now)
	if !ok {
		return nil, false
	}
	AddParents(s, &v.Plan)
	addAfter(s, &v.Plan)
	return &v.Plan, true
}

// WhyOf returns the chain of executions that leads to a member of the plan that a decision would
// have now. The error is a [*entry.Refusal] if the execution is no member of that plan.
func WhyOf(s *coord.State, id uint64, exec entry.Ref, now int64) (*api.Why, error) {
	if _, ok := s.Incident(id, now); !ok {
		return nil, NoIncident(id)
	}
	why := &api.Why{Incident: id, Exec: exec, Chain: s.Why(id, exec, now)}
	if len(why.Chain) == 0 {
		return nil, entry.Refuse(entry.NotFound, "exec", "%.280s is not a member of the plan of incident %d", exec, id).
			WithRemedy("GET " + api.URL(api.PathPlan, nil, id) + " lists the members")
	}
	AddParents(s, &api.Plan{Members: why.Chain})
	return why, nil
}

// AddParents fills in what each member of a plan was built on.
func AddParents(s *coord.State, p *api.Plan) {
	execs, places := make([]uint32, len(p.Members)), make(map[uint32]int, len(p.Members))
	for i := range p.Members {
		execs[i], _ = s.FindExecution(p.Members[i].Exec) // the plan is of this state
		places[execs[i]] = i
	}
	for i, exec := range execs {
		for parent := range s.Graph().Parents(exec) {
			place, member := places[parent.Exec]
			if !member {
				continue
			}
			dep := entry.Hard
			if parent.Soft {
				dep = entry.Soft
			}
			p.Members[i].Parents = append(p.Members[i].Parents, api.PlanParent{Place: place, Dep: dep})
		}
	}
}

// addAfter fills in which members hold up the members of a plan in force (INC-7).
func addAfter(s *coord.State, p *api.Plan) {
	d, err := s.DecisionInForce(p.Incident)
	if err != nil {
		return // the caller has found the plan
	}
	order := bundle.NewUndoOrder(s, d)
	for i := range p.Members {
		p.Members[i].After = order.Ahead(i)
	}
}
