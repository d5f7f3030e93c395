package access

import (
	"context"
	"fmt"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Compromise is the reason why an entry may not be from its issuer: a revocation says that the key
// was compromised before the entry (TRU-4).
type Compromise struct {
	Since   uint64 `json:"since"`   // index of the first entry for which the key is not believed
	Revoked uint64 `json:"revoked"` // index of the revocation
}

// CompromiseOf returns the compromise of the key that signed an entry, by the chain; nil if the
// chain has none.
func CompromiseOf(chain *verify.Chain, keyID string, index uint64) *Compromise {
	key, ok := chain.KeyInfo(keyID)
	if !ok || key.CompromisedSince == nil || index < *key.CompromisedSince {
		return nil
	}
	return &Compromise{*key.CompromisedSince, key.Revoked}
}

// Mark returns the warning that stands beside an entry; empty: no compromise.
func (c *Compromise) Mark() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" [KEY COMPROMISED since %d, revoked at %d]", c.Since, c.Revoked)
}

// SignedSince returns the entries of a principal, from an index on, that a key has signed. It asks
// the server for the entries.
func (c *Connection) SignedSince(ctx context.Context, p entry.Principal, keyID string, since uint64) (signed []*client.Entry, err error) {
	for e, err := range c.Client.Entries(ctx, api.ListQuery{Agent: p, From: since, Limit: api.MaxPage}) {
		if err != nil {
			return nil, err
		}
		if e.KeyID == keyID {
			signed = append(signed, e)
		}
	}
	return signed, nil
}

// ListedAgent is a principal with the number of entries that its compromised keys signed since
// their compromise.
type ListedAgent struct {
	api.Agent
	SignedSince map[string]int `json:"signed_since,omitempty"` // entries, by the id of a compromised key
}

// Listed counts the entries that the compromised keys of a principal signed since their compromise.
func (c *Connection) Listed(ctx context.Context, info *verify.AgentInfo) (*ListedAgent, error) {
	agent := &ListedAgent{Agent: api.NewAgent(info)}
	for i := range agent.Keys {
		key := &agent.Keys[i]
		if key.CompromisedSince == nil {
			continue
		}
		signed, err := c.SignedSince(ctx, info.Principal, key.KeyID, *key.CompromisedSince)
		if err != nil {
			return nil, err
		}
		if agent.SignedSince == nil {
			agent.SignedSince = map[string]int{}
		}
		agent.SignedSince[key.KeyID] = len(signed)
	}
	return agent, nil
}

// State says whether a key counts. For a key that does not count, it gives the index of the
// revocation.
func (l *ListedAgent) State(key *api.Key) string {
	switch {
	case key.Revoked == nil:
		return "counts"
	case key.CompromisedSince == nil:
		return fmt.Sprintf("ended at %d", *key.Revoked)
	}
	return fmt.Sprintf("ended at %d, COMPROMISED since %d: %s since", *key.Revoked, *key.CompromisedSince, words.Counted(l.SignedSince[key.KeyID], "entry"))
}
