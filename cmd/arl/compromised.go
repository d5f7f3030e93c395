package main

import (
	"context"
	"fmt"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// compromise is why an entry may be somebody else's than its issuer's: its key was
// revoked, as compromised since before the entry (TRU-4).
type compromise struct {
	Since   uint64 `json:"since"`   // index from which on the key is not to be believed
	Revoked uint64 `json:"revoked"` // index of the entry that says so
}

// compromiseOf returns what the chain says of the key that signed an entry; nil if
// nothing is known against it.
func compromiseOf(chain *verify.Chain, keyID string, index uint64) *compromise {
	key, ok := chain.KeyInfo(keyID)
	if !ok || key.CompromisedSince == nil || index < *key.CompromisedSince {
		return nil
	}
	return &compromise{*key.CompromisedSince, key.Revoked}
}

// mark is the warning beside an entry.
func (c *compromise) mark() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(" [KEY COMPROMISED since %d, revoked at %d]", c.Since, c.Revoked)
}

// signedSince returns the entries that the server has of a principal by one of its
// keys, from an index on.
func (c *connection) signedSince(ctx context.Context, p entry.Principal, keyID string, since uint64) (signed []*client.Entry, err error) {
	for e, err := range c.client.Entries(ctx, client.Query{Agent: p, From: since, Page: api.MaxPage}) {
		if err != nil {
			return nil, err
		}
		if e.KeyID == keyID {
			signed = append(signed, e)
		}
	}
	return signed, nil
}

// suspectsMax is how many entries of a key are shown before it is revoked.
const suspectsMax = 100

// listSuspects shows, on stderr, what a key that is about to be revoked has signed
// since somebody else may have had it.
func (a *app) listSuspects(ctx context.Context, c *connection, p entry.Principal, keyID string, since *int64) error {
	if since == nil {
		_, err := fmt.Fprintln(a.err, "nothing that it signed will be marked: pass --compromised-since INDEX if somebody else may have had the key")
		return err
	}
	signed, err := c.signedSince(ctx, p, keyID, uint64(*since))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "signed by it since entry %d, and not to be relied on from now on: %d entries\n", *since, len(signed))
	if len(signed) == 0 {
		return nil
	}
	l := a.forPeople(a.err).newList("INDEX", "REGISTERED", "KIND", "WORKFLOW", "WHAT")
	for _, e := range signed[:min(len(signed), suspectsMax)] {
		if err := l.add(nil, decimal(e.Index), instant(e.RegisteredAt), string(e.Kind), string(e.Header.Wid), summary(e.Body)); err != nil {
			return err
		}
	}
	if err := l.close(); err != nil {
		return err
	}
	if more := len(signed) - suspectsMax; more > 0 {
		fmt.Fprintf(a.err, "and %d more: arl entry list --agent %s --from %d\n", more, p, signed[suspectsMax].Index)
	}
	return nil
}

// listedAgent is a principal with what its compromised keys have signed since.
type listedAgent struct {
	api.Agent
	SignedSince map[string]int `json:"signed_since,omitempty"` // entries, by the id of a compromised key
}

// listed counts what compromised keys of a principal have signed since.
func (c *connection) listed(ctx context.Context, info *verify.AgentInfo) (*listedAgent, error) {
	agent := &listedAgent{Agent: api.NewAgent(info)}
	for i := range agent.Keys {
		key := &agent.Keys[i]
		if key.CompromisedSince == nil {
			continue
		}
		signed, err := c.signedSince(ctx, info.Principal, key.KeyID, *key.CompromisedSince)
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

// state is whether a key counts, and else since when it does not.
func (l *listedAgent) state(key *api.Key) string {
	switch {
	case key.Revoked == nil:
		return "counts"
	case key.CompromisedSince == nil:
		return fmt.Sprintf("ended at %d", *key.Revoked)
	}
	return fmt.Sprintf("ended at %d, COMPROMISED since %d: %d entries since", *key.Revoked, *key.CompromisedSince, l.SignedSince[key.KeyID])
}

// rotateSlowly lets a new key in, and ends the old ones when the overlap is over.
// What the log records are an enrolment and revocations: it knows no date on which a
// key ends, so that somebody has to be there to end it.
func (a *app) rotateSlowly(ctx context.Context, c *connection, body *entry.Agent, o *agentOptions) error {
	before, err := c.agent(ctx, o.principal)
	if err != nil {
		return err
	}
	signer, err := a.agentSigner(ctx, c, body, o)
	if err != nil {
		return err
	}
	body.Op = entry.Enrol
	if err := a.submitAgentBy(ctx, c, signer, body, o.reason); err != nil {
		return err
	}
	until := time.NewTimer(o.overlap)
	defer until.Stop()
	fmt.Fprintf(a.err, "the old keys of %s count beside the new one until %s, when this command revokes them\n", body.Principal,
		instant(time.Now().Add(o.overlap).UnixMilli()))
	select {
	case <-until.C:
		err = a.revokeOld(ctx, c, signer, before)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		for i := range before.Keys {
			if key := &before.Keys[i]; key.Revoked == 0 {
				fmt.Fprintf(a.err, "it may count still: arl agent revoke --principal %s --keyid %s --reason rotated\n", body.Principal, key.Key.KeyID())
			}
		}
	}
	return err
}

// revokeOld ends those keys of a principal that counted before a new one came, and
// count still.
func (a *app) revokeOld(ctx context.Context, c *connection, signer *signer, before *verify.AgentInfo) error {
	now, err := c.chain(ctx)
	if err != nil {
		return err
	}
	for i := range before.Keys {
		key := &before.Keys[i]
		if known, ok := now.KeyInfo(key.Key.KeyID()); !ok || known.Revoked != 0 {
			continue
		}
		body := &entry.Agent{Principal: before.Principal, Op: entry.Revoke, Key: key.Key, Roles: key.Roles, Domain: before.Domain,
			Span: before.Span, Capabilities: before.Capabilities}
		if err := a.submitAgentBy(ctx, c, signer, body, "rotated: the overlap is over"); err != nil {
			return err
		}
	}
	return nil
}
