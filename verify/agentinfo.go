package verify

import (
	"fmt"

	"recoveryledger/ledger/entry"
)

// AgentInfo is an enrolled principal with all its keys.
type AgentInfo struct {
	Principal    entry.Principal
	Domain       string
	Span         entry.Span
	Capabilities []string
	Roles        []entry.Role // of its keys that count; empty if none does
	Enrolled     uint64       // index of its first entry
	Keys         []KeyInfo    // in the order of their enrolment
}

// Entries returns the indexes of the entries that enrolled or revoked keys of the principal.
func (a *AgentInfo) Entries() (indexes []uint64) {
	for i := range a.Keys {
		if indexes = append(indexes, a.Keys[i].Enrolled); a.Keys[i].Revoked != 0 {
			indexes = append(indexes, a.Keys[i].Revoked)
		}
	}
	return indexes
}

// Valid returns the keys of the principal that are not revoked.
func (a *AgentInfo) Valid() (keys []*KeyInfo) {
	for i := range a.Keys {
		if a.Keys[i].Revoked == 0 {
			keys = append(keys, &a.Keys[i])
		}
	}
	return keys
}

// KeyError reports that a principal has no valid key of an id, or several valid keys
// where no id tells which key is meant.
type KeyError struct {
	Principal entry.Principal
	KeyID     string // the id asked for; empty: the only valid key
	Valid     int    // how many valid keys there are to choose from
}

// Error implements error.
func (e *KeyError) Error() string {
	switch {
	case e.Valid > 0:
		return fmt.Sprintf("%s has %d valid keys", e.Principal, e.Valid)
	case e.KeyID != "":
		return fmt.Sprintf("%s has no valid key %s", e.Principal, e.KeyID)
	}
	return fmt.Sprintf("%s has no valid key", e.Principal)
}

// ValidKey returns the valid key with an id or, if the id is empty, the only valid key.
// The error is a [*KeyError].
func (a *AgentInfo) ValidKey(keyID string) (*KeyInfo, error) {
	valid := a.Valid()
	if keyID == "" && len(valid) > 1 {
		return nil, &KeyError{Principal: a.Principal, Valid: len(valid)}
	}
	for _, key := range valid {
		if keyID == "" || key.Key.KeyID() == keyID {
			return key, nil
		}
	}
	return nil, &KeyError{Principal: a.Principal, KeyID: keyID}
}

// Rotation returns the content of the entry that replaces all keys of the principal with
// a new key, without a header. Roles, domain, span and capabilities stay the same. The
// error is a [*KeyError]: the principal has no valid key to replace.
func (a *AgentInfo) Rotation(key entry.PublicKey) (*entry.Agent, error) {
	if len(a.Roles) == 0 {
		return nil, &KeyError{Principal: a.Principal}
	}
	return &entry.Agent{Principal: a.Principal, Op: entry.Rotate, Key: key, Roles: a.Roles, Domain: a.Domain,
		Span: a.Span, Capabilities: a.Capabilities}, nil
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

// Compromised reports whether a key was revoked as compromised since an index, or an earlier one
// (TRU-4).
func (c *Chain) Compromised(keyID string, index uint64) bool {
	if !c.compromised {
		return false
	}
	since := c.keys[keyID].CompromisedSince
	return since != nil && *since <= index
}

// Compromise is the reason why an entry may not be from its issuer: its key was revoked as
// compromised since the entry, or an earlier one (TRU-4).
type Compromise struct {
	Since   uint64 `json:"since"`   // index of the first entry for which the key is not believed
	Revoked uint64 `json:"revoked"` // index of the revocation
}

// Compromise returns why the entry at an index may not be from its issuer, although the key with
// the id signed the entry; nil if nothing says so.
func (c *Chain) Compromise(keyID string, index uint64) *Compromise {
	if !c.Compromised(keyID, index) {
		return nil
	}
	key := c.keys[keyID]
	return &Compromise{*key.CompromisedSince, key.Revoked}
}
