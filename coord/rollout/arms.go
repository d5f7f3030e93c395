package rollout

import (
	"sync/atomic"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// compiled is the newest candidate that was compiled: it follows from its digest alone.
var compiled atomic.Pointer[recovery.Policy]

// Compiled returns the rules of the candidate. It is nil if they do not compile: then the baseline
// decides every case.
func (r *Rollout) Compiled() *recovery.Policy {
	if known := compiled.Load(); known != nil && known.Hash() == r.Terms.CandidateDigest {
		return known
	}
	p, err := recovery.FromEntry(&entry.Policy{Recovery: r.Terms.Candidate})
	if err != nil {
		return nil
	}
	compiled.Store(p)
	return p
}

// Of returns the rules that decide a case, and the arm that the case belongs to. inForce are the
// rules of the policy in force, which decide without a rollout and in a shadow. The arm is empty
// without a rollout.
func (f *Fold) Of(inForce *recovery.Policy, id string) (rules *recovery.Policy, arm entry.Arm) {
	r := f.current
	if r == nil {
		return inForce, ""
	}
	if f.Decides(id) {
		if candidate := r.Compiled(); candidate != nil {
			return candidate, entry.ArmCanary
		}
	}
	return inForce, entry.ArmControl
}

// Beside returns the rules of a candidate that decides beside the policy in force; nil: none does.
func (f *Fold) Beside() *recovery.Policy {
	if f.current == nil || f.current.Stage != entry.StageShadow {
		return nil
	}
	return f.current.Compiled()
}
