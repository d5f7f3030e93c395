package audit

import (
	"maps"
	"math"
	"slices"

	"recoveryledger/coord/codec"
	"recoveryledger/ledger/entry"
)

// Attempts counts the recovered cases of an agent's work. What the candidate of a shadow decided
// counts for none.
type Attempts struct {
	Cases        int64  `json:"cases"`
	Recovered    int64  `json:"recovered"`
	Escalated    int64  `json:"escalated"`
	CostMicroUSD int64  `json:"cost_micro_usd"` // of the cases whose cost is known
	Entries      int64  `json:"entries"`
	Newest       uint64 `json:"newest"` // index of the newest entry
}

// AttemptsOf returns the counts of an agent's attempts; zero if there are none.
func (f *Follower) AttemptsOf(p entry.Principal) Attempts {
	if known := f.attempts[p]; known != nil {
		return *known
	}
	return Attempts{}
}

func (f *Follower) attempted(a *entry.Attempt, index uint64) {
	if a.Arm == entry.ArmShadow {
		return
	}
	n := f.attempts[a.Of()]
	if n == nil {
		n = &Attempts{}
		f.attempts[a.Of()] = n
	}
	n.Entries, n.Newest = n.Entries+1, index
	for c := range a.Cases() {
		n.Cases++
		switch c.Status {
		case entry.StatusRecovered:
			n.Recovered++
		case entry.StatusEscalated:
			n.Escalated++
		}
		if c.CostMicroUSD != nil && n.CostMicroUSD <= entry.MaxInteger-*c.CostMicroUSD {
			n.CostMicroUSD += *c.CostMicroUSD
		}
	}
}

// snapshotAttempts passes the counts of attempts, by agent.
func (f *Follower) snapshotAttempts(c *codec.Codec) {
	type counted struct {
		agent string
		Attempts
	}
	var all []counted
	for _, p := range slices.Sorted(maps.Keys(f.attempts)) {
		all = append(all, counted{string(p), *f.attempts[p]})
	}
	codec.List(c, &all, math.MaxUint32, func(n *counted) {
		c.Text(&n.agent, entry.MaxName)
		for _, of := range []*int64{&n.Cases, &n.Recovered, &n.Escalated, &n.CostMicroUSD, &n.Entries} {
			c.Instant(of)
		}
		codec.Number(c, &n.Newest, math.MaxInt64)
	})
	if !c.Reading() {
		return
	}
	for i := range all {
		f.attempts[entry.Principal(all[i].agent)] = &all[i].Attempts
	}
}
