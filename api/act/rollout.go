package act

import (
	"strings"

	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// StartRollout completes the entry that begins a rollout. The entry has its name, its stage and its
// terms; StartRollout adds the candidate and the baseline, which are the rules in force. The error
// is an [*Obstacle] if the policy in force has no rules.
func StartRollout(r *entry.Rollout, candidate *recovery.Policy, inForce *entry.Policy) error {
	baseline, ok := rollout.BaselineOf(inForce.Recovery)
	if !ok {
		return obstacle("the policy in force has no rules of recovery, so that each program's built-in rules decide: " +
			"put the rules into the policy first (arl policy show --default > policy.yaml; arl policy apply policy.yaml)")
	}
	r.Op = entry.RolloutStart
	r.Start.Candidate, r.Start.CandidateDigest, r.Start.BaselineDigest = candidate.JSON(), candidate.Hash(), baseline
	return nil
}

// PromoteRollout returns the policy that ends a rollout by a promotion: the policy in force, with
// the rules of the candidate. The error says everything that the ledger has against the promotion
// (ROL-4).
func PromoteRollout(s *coord.State, name string) (*entry.Policy, error) {
	promotion, lacks := s.Rollouts().Promotion(name, s.Law())
	if promotion == nil {
		return nil, notPromoted(name, lacks)
	}
	inForce, previous := s.Chain().Policy()
	next := *inForce
	next.Recovery, next.Rollout, next.Previous = s.Rollouts().Current().Terms.Candidate, promotion, &previous
	return &next, nil
}

// notPromoted is the error of a promotion that the ledger does not take, with all that is against
// it.
func notPromoted(name string, lacks []*entry.Refusal) error {
	if len(lacks) == 1 {
		return lacks[0]
	}
	all := make([]string, len(lacks))
	for i, why := range lacks {
		all[i] = why.Detail
		if why.Remedy != "" {
			all[i] += " (" + why.Remedy + ")"
		}
	}
	return obstacle("the ledger takes no promotion of %s: %s", name, strings.Join(all, "; "))
}
