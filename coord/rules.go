package coord

import (
	"slices"
	"sync"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Rules are the rules of recovery, compiled once for each policy. They are no part of the fold,
// because they follow from the policy alone. The zero value is ready, and may be used concurrently.
type Rules struct {
	mu       sync.Mutex
	of       entry.LogRef // policy that compiled is of
	compiled *recovery.Policy

	// decided holds the decisions of compiled, by the number of the task. A task that waits for a
	// person is looked at again and again.
	decided map[uint32]cachedDecision
}

// cachedDecision is a decision with the history and the rules that it follows from.
type cachedDecision struct {
	past  recovery.Task
	d     recovery.TaskDecision
	rules *recovery.Policy // of the arm that the task belongs to
}

// Of returns the rules of the policy in force, see [recovery.InForce].
func (r *Rules) Of(s *State) *recovery.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compile(s)
}

func (r *Rules) compile(s *State) *recovery.Policy {
	policy, at := s.chain.Policy()
	if r.compiled == nil || r.of != at {
		r.of, r.compiled, r.decided = at, recovery.InForce(policy), map[uint32]cachedDecision{}
	}
	return r.compiled
}

// PolicyWith returns the index of the newest policy whose rules of recovery have a digest.
func (s *State) PolicyWith(rules entry.Digest) (index uint64, ok bool) {
	if rules.Check("") != nil { // no rules have to be compiled to say so
		return 0, false
	}
	for _, p := range slices.Backward(s.policies) {
		if compiled, err := recovery.FromEntry(p.body); err == nil && compiled.Hash() == rules {
			return p.index, true
		}
	}
	return 0, false
}

// forTask returns the rules for a task: those of its arm, if a rollout is under way.
func (r *Rules) forTask(s *State, task entry.Ref) *recovery.Policy {
	_, id := task.Split()
	return s.rollouts.Of(r.compile(s), id).Rules
}

// decide returns the decision of the rules about the newest failure of a task. The caller must not
// change past after that.
func (r *Rules) decide(s *State, number uint32, past recovery.Task) recovery.TaskDecision {
	r.mu.Lock()
	defer r.mu.Unlock()
	rules := r.forTask(s, s.taskRef(number))
	known, ok := r.decided[number]
	if ok && known.rules == rules && known.past.Same(&past) {
		return known.d
	}
	if len(r.decided) >= decidedMax {
		clear(r.decided)
	}
	one := cachedDecision{past, past.Decide(rules), rules}
	r.decided[number] = one
	return one.d
}
