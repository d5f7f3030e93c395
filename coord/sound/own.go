package sound

import (
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Own is what a ledger has beside its log, and without which it could not obey what some entries
// say.
type Own struct {
	// Keys are the keys that the ledger can sign with, the oldest first: each as its two verifier
	// keys, the Ed25519 key and the ML-DSA-44 key. Verifiers have pinned the first.
	Keys  [][2]string
	Index Index // nil: the ledger keeps none
}

// Index is the index that a ledger keeps.
type Index interface {
	// Admit refuses an index entry that says anything but what the index has. The error is a
	// [*entry.Refusal].
	Admit(x *entry.LogIndex) error
}

// Admit refuses index entries that are not the ledger's own, and policies that the ledger could
// not obey. The ledger cannot obey a policy that requires an index which the ledger does not keep,
// or that names a key which the ledger does not have. The first policy with ledger_keys must also
// name the key that verifiers have pinned. chain is that of the committed log. The error is a
// [*entry.Refusal].
func (o *Own) Admit(chain *verify.Chain, e *entry.Entry) error {
	switch body := e.Body.(type) {
	case *entry.LogIndex:
		return o.admitIndex(body)
	case *entry.Policy:
		if o.Index == nil && body.IndexRequired() {
			return entry.Refuse(entry.StateConflict, "index.required", "true, and this ledger keeps no index: agents would refuse every bundle").
				WithRemedy("start the ledger with arl serve --index and apply the policy then, or write false")
		}
		return o.admitKeys(chain, body)
	}
	return nil
}

func (o *Own) admitIndex(x *entry.LogIndex) error {
	if o.Index == nil {
		return entry.Refuse(entry.StateConflict, "root", "the ledger keeps no index, and has not computed root %s", x.Root).
			WithRemedy("start the ledger with arl serve --index")
	}
	return o.Index.Admit(x)
}

func (o *Own) admitKeys(chain *verify.Chain, p *entry.Policy) error {
	if len(p.LedgerKeys) == 0 {
		return nil
	}
	for i, key := range p.LedgerKeys {
		if !slices.ContainsFunc(o.Keys, func(own [2]string) bool { return slices.Contains(own[:], key) }) {
			return entry.Refuse(entry.StateConflict, fmt.Sprintf("ledger_keys[%d]", i), "%.140q is not a key that this ledger signs with", key).
				WithRemedy("make the key with arl key next, start arl serve again, and write the line that arl key next printed")
		}
	}
	pinned := o.Keys[0][0]
	if len(chain.LedgerKeys()) == 0 && !slices.Contains(p.LedgerKeys, pinned) {
		return entry.Refuse(entry.StateConflict, "ledger_keys", "%s is not in the list, and verifiers have pinned it", pinned).
			WithRemedy("first name the old and the new key, and later the new key alone")
	}
	return nil
}

// InForce returns the position of the oldest key that the policy in force names; -1: the ledger
// has no such key. That key and all later keys sign.
func (o *Own) InForce(chain *verify.Chain) int {
	named := chain.LedgerKeys()
	if len(named) == 0 {
		return 0
	}
	return slices.IndexFunc(o.Keys, func(own [2]string) bool { return slices.Contains(named, own[0]) })
}

// NewKeys returns the keys in a policy entry that are new to the ledger: neither in force, nor
// pinned. Every voter of a cluster must sign with them ([Signed]).
func (o *Own) NewKeys(chain *verify.Chain, e *entry.Entry) []string {
	policy, ok := e.Body.(*entry.Policy)
	if !ok {
		return nil
	}
	known := slices.Concat(chain.LedgerKeys(), o.Keys[0][:])
	return slices.DeleteFunc(slices.Clone(policy.LedgerKeys), func(key string) bool { return slices.Contains(known, key) })
}

// Peer is another node of the ledger's cluster.
type Peer struct {
	Name  string
	Voter bool // whether it counts for a majority
	// Keys asks the node for the verifier keys that it signs with.
	Keys func() ([]string, error)
}

// Signed refuses a policy that names new keys which some voter does not sign with: that voter
// could not go on under the policy. The error is a [*entry.Refusal].
func Signed(fresh []string, peers []Peer) error {
	for _, peer := range peers {
		if !peer.Voter {
			continue
		}
		signs, err := peer.Keys()
		if err != nil {
			return entry.Refuse(entry.StateConflict, "ledger_keys", "node %s does not say which keys it has: %v", peer.Name, err).
				WithRemedy("start the node, or remove it from the cluster")
		}
		for _, key := range fresh {
			if !slices.Contains(signs, key) {
				return entry.Refuse(entry.StateConflict, "ledger_keys", "node %s does not sign with %.140q", peer.Name, key).
					WithRemedy("run arl cluster keys push, and start the node again")
			}
		}
	}
	return nil
}
