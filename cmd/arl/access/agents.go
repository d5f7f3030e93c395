package access

import (
	"context"

	"recoveryledger/api"
	"recoveryledger/verify"
)

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
		signed, err := c.Client.SignedSince(ctx, info.Principal, key.KeyID, *key.CompromisedSince)
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
