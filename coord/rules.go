package coord

import (
	"sync"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Rules are the rules of recovery, compiled once for each policy. They are beside
// the fold, since what they are follows from the policy alone. The zero value is
// ready, and may be used concurrently.
type Rules struct {
	mu       sync.Mutex
	of       entry.LogRef // policy that compiled is of
	compiled *recovery.Policy
}

// Of returns the rules of the policy in force. A policy that says none has those
// that are built in, and so has one whose rules do not compile: a task that failed
// must not wait for ever because of a mistake elsewhere.
func (r *Rules) Of(s *State) *recovery.Policy {
	policy, at := s.chain.Policy()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compiled == nil || r.of != at {
		compiled, err := recovery.FromEntry(policy)
		if err != nil {
			compiled = recovery.Default()
		}
		r.of, r.compiled = at, compiled
	}
	return r.compiled
}
