package adversary

import (
	"context"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
)

// Verdict is what came of the cases of a mutation under a policy.
type Verdict struct {
	Mutation string   `json:"mutation"`
	Must     string   `json:"must"`
	Cases    int64    `json:"cases"`
	Broken   int64    `json:"broken"`
	First    []string `json:"first,omitzero"` // ids of the first cases that break the invariant
}

const firstMax = 5 // ids that name the cases of a verdict

// Trial takes mutated cases through a policy. It is not safe for concurrent use.
type Trial struct {
	policy    *recovery.Policy
	mutations []Mutation
	verdicts  []Verdict
}

// NewTrial returns the trial of a policy by mutations, without a case.
func NewTrial(policy *recovery.Policy, mutations []Mutation) *Trial {
	t := &Trial{policy: policy, mutations: mutations}
	for i := range mutations {
		t.verdicts = append(t.verdicts, Verdict{Mutation: mutations[i].Name, Must: mutations[i].Must})
	}
	return t
}

// Take takes a case through the policy, mutated in each way.
func (t *Trial) Take(ctx context.Context, c *scenario.Case) error {
	config := engine.Config{Policy: t.policy}
	for i := range t.mutations {
		made := t.mutations[i].Apply(c)
		r, err := config.Recover(ctx, &made)
		if err != nil {
			return err
		}
		v := &t.verdicts[i]
		if v.Cases++; t.mutations[i].Broken(&r.Trace) {
			if v.Broken++; len(v.First) < firstMax {
				v.First = append(v.First, made.ID)
			}
		}
	}
	return nil
}

// Verdicts returns what came of the cases so far, in the order of the mutations. broken is the
// number of mutations whose invariant the policy breaks.
func (t *Trial) Verdicts() (all []Verdict, broken int) {
	for i := range t.verdicts {
		if t.verdicts[i].Broken > 0 {
			broken++
		}
	}
	return t.verdicts, broken
}
