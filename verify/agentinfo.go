package verify

import (
	"fmt"

	"recoveryledger/ledger/entry"
)

// AgentInfo is a principal that was enrolled, with all its keys.
type AgentInfo struct {
	Principal    entry.Principal
	Domain       string
	Span         entry.Span
	Capabilities []string
	Roles        []entry.Role // of its keys that count; empty if none does
	Enrolled     uint64       // index of its first entry
	Keys         []KeyInfo    // in the order of their enrolment
}

// Entries returns the indexes of the entries that enrolled its keys and revoked them.
func (a *AgentInfo) Entries() (indexes []uint64) {
	for i := range a.Keys {
		if indexes = append(indexes, a.Keys[i].Enrolled); a.Keys[i].Revoked != 0 {
			indexes = append(indexes, a.Keys[i].Revoked)
		}
	}
	return indexes
}

// Valid returns its keys that are not revoked.
func (a *AgentInfo) Valid() (keys []*KeyInfo) {
	for i := range a.Keys {
		if a.Keys[i].Revoked == 0 {
			keys = append(keys, &a.Keys[i])
		}
	}
	return keys
}

// Revocation returns the content of the entry that revokes one of its keys, without a
// header. since is the index from which on the key is not to be believed (TRU-4), or
// nil. The error says that the key signed nothing before it was enrolled.
func (a *AgentInfo) Revocation(key *KeyInfo, since *uint64) (*entry.Agent, error) {
	body := &entry.Agent{Principal: a.Principal, Op: entry.Revoke, Key: key.Key, Roles: key.Roles, Domain: a.Domain,
		Span: a.Span, Capabilities: a.Capabilities}
	if since == nil {
		return body, nil
	}
	if *since < key.Enrolled {
		return nil, fmt.Errorf("the key was enrolled at entry %d and signed nothing before: pass that index or a later one", key.Enrolled)
	}
	body.CompromisedSince = &entry.Compromised{Index: *since}
	return body, nil
}
