package main

import (
	"context"
	"fmt"
	"time"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// suspectsMax is the greatest number of entries of a key that are shown before the key is revoked.
const suspectsMax = 100

// listSuspects shows the entries that a key signed since its possible compromise. It writes them to
// stderr before the key is revoked.
func (a *app) listSuspects(ctx context.Context, c *access.Connection, p entry.Principal, keyID string, since *int64) error {
	if since == nil {
		_, err := fmt.Fprintln(a.Err, "no entry of this key will be marked: pass --compromised-since INDEX if another party may have had the key")
		return err
	}
	signed, err := c.Client.SignedSince(ctx, p, keyID, uint64(*since))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "entries that the key signed since entry %d, not trusted from now on: %d\n", *since, len(signed))
	if len(signed) == 0 {
		return nil
	}
	l := a.forPeople(a.Err).NewList("INDEX", "REGISTERED", "KIND", "WORKFLOW", "WHAT")
	for _, e := range signed[:min(len(signed), suspectsMax)] {
		if err := l.Add(nil, decimal(e.Index), instant(e.RegisteredAt), string(e.Kind), string(e.Header.Wid), words.Summary(e.Body)); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	if more := len(signed) - suspectsMax; more > 0 {
		fmt.Fprintf(a.Err, "and %d more: arl entry list --agent %s --from %d\n", more, p, signed[suspectsMax].Index)
	}
	return nil
}

// rotateSlowly enrols a new key, and revokes the keys that the principal had before once the
// overlap is over. The log has no expiry dates for keys, so this command must run until then.
func (a *app) rotateSlowly(ctx context.Context, c *access.Connection, before *verify.AgentInfo, body *entry.Agent, o *agentOptions) error {
	signer, err := a.agentSigner(ctx, c, body, o)
	if err != nil {
		return err
	}
	body.Op = entry.Enrol
	if err := a.submitWithReason(ctx, c, signer, body, o.reason); err != nil {
		return err
	}
	until := time.NewTimer(o.overlap)
	defer until.Stop()
	fmt.Fprintf(a.Err, "the old keys of %s stay valid until %s; then this command revokes them\n", body.Principal,
		instant(time.Now().Add(o.overlap).UnixMilli()))
	select {
	case <-until.C:
		err = a.revokeOld(ctx, c, signer, before)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		for _, key := range before.Valid() {
			fmt.Fprintf(a.Err, "the key may still be valid: arl agent revoke --principal %s --keyid %s --reason rotated\n", body.Principal, key.Key.KeyID())
		}
	}
	return err
}

// revokeOld revokes the keys of a principal that were valid before the new key, and still are.
func (a *app) revokeOld(ctx context.Context, c *access.Connection, signer *access.Signer, before *verify.AgentInfo) error {
	now, err := c.Chain(ctx)
	if err != nil {
		return err
	}
	for _, key := range before.Valid() {
		if _, counts := now.Owner(key.Key.KeyID()); !counts {
			continue
		}
		body, err := before.Revocation(key, nil)
		if err != nil {
			return err
		}
		if err := a.submitWithReason(ctx, c, signer, body, "rotated: the overlap is over"); err != nil {
			return err
		}
	}
	return nil
}
