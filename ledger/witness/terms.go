package witness

import (
	"slices"
	"sync"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

const (
	// formerTime is how long the witnesses of a policy are asked after another one took
	// its place: so long an agent may be away that takes up the new policy.
	formerTime = 30 * 24 * time.Hour
	// formerMost is the most policies before the one in force whose witnesses are asked,
	// beside the genesis.
	formerMost = 4
	// termsAge is how old terms may be: the time that formerTime counts goes on without
	// another policy.
	termsAge = time.Minute
)

// Terms are the rules of the policies about witnesses.
type Terms struct {
	Policy string        // witness policy in force (c2sp.org/tlog-policy); empty: no witnesses
	MaxAge time.Duration // for how long the cosignatures on a head are fresh
	// Former are the witness policies before, the newest first. An agent that has not
	// taken up the one in force wants the quorum of its own too, or the emergency group
	// that stands in for it (AGT-1, WIT-6).
	Former []Former
}

// Former is a witness policy that another one has replaced.
type Former struct {
	Policy string
	MaxAge time.Duration
	Until  uint64 // index of the policy that replaced it
}

// TermsOf returns what reads the terms of a chain of policies, again and again. chain
// returns the chain as it is now, and now the time of the ledger.
//
// The witnesses of a policy count for 30 days after its end, of the newest four such
// policies; those of the genesis count always, since an agent at first contact has
// accepted no other.
func TermsOf(chain func() *verify.Chain, now func() time.Time) func() Terms {
	var mu sync.Mutex
	var terms Terms
	var of entry.LogRef
	var read time.Time
	return func() Terms {
		mu.Lock()
		defer mu.Unlock()
		c, at := chain(), now()
		policy, ref := c.Policy()
		if policy == nil {
			return Terms{}
		}
		if ref != of || at.Sub(read) > termsAge || at.Before(read) {
			terms, of, read = termsOf(c, policy, at), ref, at
		}
		return terms
	}
}

func termsOf(c *verify.Chain, inForce *entry.Policy, now time.Time) Terms {
	terms := Terms{Policy: inForce.Witnesses, MaxAge: maxAge(inForce)}
	after, next := inForce.Witnesses, entry.Registered{}
	var all []Former
	var ended []int64 // Unix milliseconds
	for _, link := range slices.Backward(c.Links()) {
		policy, ok := link.Body.(*entry.Policy)
		if !ok {
			continue
		}
		if policy.Witnesses != after {
			all, ended = append(all, Former{policy.Witnesses, maxAge(policy), next.Index}), append(ended, next.RegisteredAt)
		} else if last := len(all) - 1; last >= 0 { // an agent has one or the other
			all[last].MaxAge = min(all[last].MaxAge, maxAge(policy))
		}
		after, next = policy.Witnesses, link
	}
	for i, former := range all {
		if genesis := i == len(all)-1; genesis || i < formerMost && now.Sub(time.UnixMilli(ended[i])) <= formerTime {
			terms.Former = append(terms.Former, former)
		}
	}
	return terms
}

func maxAge(p *entry.Policy) time.Duration {
	return time.Duration(p.Windows.BundleMaxAgeMS) * time.Millisecond
}
