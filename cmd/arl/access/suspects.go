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

// Compromise is the reason why an entry may not be by its issuer: the key was revoked, as
// compromised since before the entry (TRU-4).
type Compromise struct {
	Since   uint64 `json:"since"`   // index from which on the key is not to be believed
	Revoked uint64 `json:"revoked"` // index of the entry that says so
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

// Mark is the warning beside an entry.
func (c *Compromise) Mark() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" [KEY COMPROMISED since %d, revoked at %d]", c.Since, c.Revoked)
}

// SignedSince returns the entries that the server has of a principal by one of its
// keys, from an index on.
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

// ListedAgent is a principal with the entries that its compromised keys signed afterwards.
type ListedAgent struct {
	api.Agent
	SignedSince map[string]int `json:"signed_since,omitempty"` // entries, by the id of a compromised key
}

// Listed counts the entries that compromised keys of a principal signed afterwards.
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

// State is whether a key counts, and else since when it does not.
func (l *ListedAgent) State(key *api.Key) string {
	switch {
	case key.Revoked == nil:
		return "counts"
	case key.CompromisedSince == nil:
		return fmt.Sprintf("ended at %d", *key.Revoked)
	}
	return fmt.Sprintf("ended at %d, COMPROMISED since %d: %s since", *key.Revoked, *key.CompromisedSince, words.Counted(l.SignedSince[key.KeyID], "entry"))
}
