package rollout

import (
	"fmt"
	"sync/atomic"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// compiled is the newest candidate that was compiled: it follows from its digest alone.
var compiled atomic.Pointer[recovery.Policy]

// compiled returns the rules of the candidate. It is nil if they do not compile: then the baseline
// decides every case.
func (r *Rollout) compiled() *recovery.Policy {
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

// Of returns the rules that decide a case. inForce are the rules of the policy in force. If they
// are not the baseline of the rollout, as the built-in rules in place of rules that do not compile,
// the case belongs to no arm: the evidence compares candidate and baseline alone.
func (f *Fold) Of(inForce *recovery.Policy, id string) recovery.Arms {
	r := f.current
	if r == nil || r.Terms.BaselineDigest != inForce.Hash() {
		return recovery.Arms{Rules: inForce}
	}
	a := recovery.Arms{Rules: inForce, Arm: entry.ArmControl}
	switch candidate := r.compiled(); {
	case candidate == nil:
	case r.Stage == entry.StageShadow:
		a.Beside = candidate
	case f.Decides(id):
		a.Rules, a.Arm, a.Other = candidate, entry.ArmCanary, inForce
	default:
		a.Other = candidate
	}
	return a
}

// Rules returns the rules with a digest: those in force, or the candidate; nil: neither.
func (f *Fold) Rules(inForce *recovery.Policy, digest entry.Digest) *recovery.Policy {
	switch {
	case inForce.Hash() == digest:
		return inForce
	case f.current != nil && f.current.Terms.CandidateDigest == digest:
		return f.current.compiled()
	}
	return nil
}

// follow takes up a policy or rollout entry of a list that somebody else made of a log. Entries of
// other kinds change nothing. The error says that the list lacks entries; the state is as before.
func (f *Fold) follow(e *entry.Registered) error {
	switch body := e.Body.(type) {
	case *entry.Policy:
		if body.Rollout != nil && !f.underWay(body.Rollout.Rollout) {
			return fmt.Errorf("rollout: entry %d promotes rollout %s, and the list lacks its entries", e.Index, body.Rollout.Rollout)
		}
		f.ApplyPolicy(body, e.Index, e.RegisteredAt)
	case *entry.Rollout:
		if starts := body.Op == entry.RolloutStart; starts != (f.current == nil) || !starts && !f.underWay(body.Rollout) {
			return fmt.Errorf("rollout: entry %d is to %s rollout %s, and the list lacks entries before it", e.Index, body.Op, body.Rollout)
		}
		f.Apply(body, e.Index, e.RegisteredAt)
	}
	return nil
}

func (f *Fold) underWay(name string) bool { return f.current != nil && f.current.Name == name }
