package verify

import (
	"errors"
	"slices"

	"recoveryledger/ledger/entry"
)

// given records which entries the material has, and so which entries it lacks. An entry that the
// chain does not allow breaks the chain only if no missing entry could allow it. Otherwise the
// verifier cannot know, and reports that.
type given struct {
	indexes []uint64 // ascending, each once
	gaps    []uint64 // ascending: policies that others name as previous, not given
}

// newGiven looks through entries in the order of the log.
func newGiven(entries []proven) given {
	var g given
	for _, p := range entries {
		g.indexes = append(g.indexes, p.Index)
	}
	g.indexes = slices.Compact(g.indexes)
	for _, p := range entries {
		if policy, ok := p.Body.(*entry.Policy); ok && policy.Previous != nil && policy.Previous.Index < p.Index {
			if _, there := slices.BinarySearch(g.indexes, policy.Previous.Index); !there {
				g.gaps = append(g.gaps, policy.Previous.Index)
			}
		}
	}
	slices.Sort(g.gaps)
	return g
}

// missing reports whether any entry between the two indexes, both excluded, is
// not given.
func (g *given) missing(after, before uint64) bool {
	first, _ := slices.BinarySearch(g.indexes, after+1)
	end, _ := slices.BinarySearch(g.indexes, before)
	return uint64(end-first) < before-after-1
}

// gap returns a policy between the two indexes, both excluded, that was in
// force and is not given.
func (g *given) gap(after, before uint64) (index uint64, ok bool) {
	i, _ := slices.BinarySearch(g.gaps, after+1)
	if i == len(g.gaps) || g.gaps[i] >= before {
		return 0, false
	}
	return g.gaps[i], true
}

// mayLackReceipts reports whether a refusal may only mean that receipts of the chain
// are missing. The one entry that enrolled a key decides for ever what the key may do.
// A policy decides only which keys are its authority's and who may enrol plain agents.
func (j *judging) mayLackReceipts(p proven, err error) bool {
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok || j.chain.policy == nil { // nothing can be missing before the genesis
		return false
	}
	inForce := j.chain.inForce
	anything := j.given.missing(0, p.Index)
	aPolicy := j.given.missing(inForce.Index, p.Index)
	if policy, ok := p.Body.(*entry.Policy); ok && policy.Previous != nil && *policy.Previous == inForce {
		return false // and so its authority is known
	}
	switch refusal.Problem {
	case entry.UnknownIssuer:
		key, known := j.chain.keys[p.KeyID]
		if !known {
			return anything
		}
		return aPolicy && key.Principal == p.Header.Iss && len(key.Roles) == 0 // the authority's, once
	case entry.UnauthorizedRole:
		agent, ok := p.Body.(*entry.Agent)
		return ok && aPolicy && plain(agent.Roles) && !j.chain.holdsPrivilege(agent.Principal)
	case entry.UnknownSubject:
		return anything
	}
	return false
}
