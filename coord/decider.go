package coord

import "recoveryledger/api"

// Decider says who may put a plan in force.
type Decider int

const (
	// CoordinatorDecides means that the coordinator may authorize the plan alone (INC-2).
	CoordinatorDecides Decider = iota
	// PeopleDecide means that a quorum of approvers has to approve; [api.Plan.Asks] says why.
	PeopleDecide
	// AlreadyDecided means that the decision in force carries out this plan.
	AlreadyDecided
	// NothingToDecide means that the incident is over.
	NothingToDecide
)

// DeciderOf returns who may put a plan for the incident in force at now (Unix milliseconds).
func (s *State) DeciderOf(v *IncidentView, plan *api.Plan, now int64) Decider {
	inForce, decided := s.PlanInForce(v.ID, now)
	switch {
	case plan.Asks != nil:
		return PeopleDecide
	case !v.State.Open():
		return NothingToDecide
	case decided && inForce.RollbackSet == plan.RollbackSet:
		return AlreadyDecided
	}
	return CoordinatorDecides
}

// Undecided reports whether the incident is open and no plan of it is in force.
func (v *IncidentView) Undecided() bool { return v.State.Open() && v.Decision == nil }

// FenceObstacle says why other agents may build on the plan while it waits for a decision. It is
// empty if the fence of the plan holds. Before the first decision about the incident, the plan
// meets the obstacle that every decision will meet.
func (v *IncidentView) FenceObstacle(plan *api.Plan) string {
	if v.NotFenced != "" && v.State == Reported && plan.NotFenced != "" {
		return plan.NotFenced
	}
	return v.NotFenced
}
