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

	// decided is what compiled wants done about tasks, by number: whoever waits
	// for a person is looked at again and again.
	decided map[uint32]cachedDecision
}

// cachedDecision is a decision with the history of the task that it follows from.
type cachedDecision struct {
	past recovery.Task
	d    recovery.TaskDecision
}

// Of returns the rules of the policy in force. A policy that says none has those
// that are built in, and so has one whose rules do not compile: a task that failed
// must not wait for ever because of a mistake elsewhere.
func (r *Rules) Of(s *State) *recovery.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compile(s)
}

func (r *Rules) compile(s *State) *recovery.Policy {
	policy, at := s.chain.Policy()
	if r.compiled == nil || r.of != at {
		compiled, err := recovery.FromEntry(policy)
		if err != nil {
			compiled = recovery.Default()
		}
		r.of, r.compiled, r.decided = at, compiled, map[uint32]cachedDecision{}
	}
	return r.compiled
}

// decide returns what the rules want done about the newest failure of a task,
// whose past is not to be changed after that.
func (r *Rules) decide(s *State, number uint32, past recovery.Task) recovery.TaskDecision {
	r.mu.Lock()
	defer r.mu.Unlock()
	rules := r.compile(s)
	known, ok := r.decided[number]
	if ok && known.past.Same(&past) {
		return known.d
	}
	if len(r.decided) >= decidedMax {
		clear(r.decided)
	}
	one := cachedDecision{past, past.Decide(rules)}
	r.decided[number] = one
	return one.d
}
