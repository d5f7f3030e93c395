package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// chain is the chain of policies and keys as far as the client has followed it. Each link is
// proven in the log, and signed by a signer that the earlier links let in.
type chain struct {
	mu   sync.Mutex
	size uint64 // of the log that it covers
	*verify.Chain
}

func newChain() chain { return chain{Chain: verify.NewChain()} }

// Chain returns the chain of policies and keys under the published or the accepted head,
// whichever is later. The client verifies the chain from the pinned genesis on (TRU-1, TRU-2).
// It does not prove that no link was left out, such as a revocation.
func (c *Client) Chain(ctx context.Context) (*verify.Chain, error) {
	if _, err := c.Head(ctx); err != nil {
		return nil, err
	}
	c.chain.mu.Lock()
	defer c.chain.mu.Unlock()
	if err := c.follow(ctx); err != nil {
		return nil, err
	}
	return c.chain.Clone(), nil
}

// follow brings the chain to the accepted head. The caller holds the chain's lock.
func (c *Client) follow(ctx context.Context) error {
	newest := c.Accepted()
	if newest.Size <= c.chain.size {
		return c.followKeys(c.chain.Chain)
	}
	var links []*Entry
	for _, kind := range []entry.Kind{entry.KindPolicy, entry.KindAgent} {
		for e, err := range c.items(ctx, api.ListQuery{Kinds: []entry.Kind{kind}, From: c.chain.size, Before: &newest.Size}) {
			if err != nil {
				return err
			}
			links = append(links, e)
		}
	}
	slices.SortFunc(links, func(a, b *Entry) int { return cmp.Compare(a.Index, b.Index) })
	next := c.chain.Clone()
	for _, link := range links {
		if err := c.link(next, link); err != nil {
			return fmt.Errorf("client: policies and keys: entry %d: %w", link.Index, err)
		}
	}
	c.chain.Chain, c.chain.size = next, newest.Size
	return c.followKeys(next)
}

// followKeys takes up ledger keys that the chain names (TRU-5). The accepted head covers the
// chain, so one of these keys must have signed it. If not, the error is final: the signer of
// the head holds a replaced key.
func (c *Client) followKeys(next *verify.Chain) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.Root().Follow(next)
	if root.Since == c.Root().Since {
		return nil
	}
	if _, err := root.Head([]byte(c.accepted.Note)); err != nil {
		c.fork = err
		return err
	}
	if c.cfg.Keep != nil {
		if err := c.cfg.Keep(root); err != nil {
			return fmt.Errorf("client: keep the ledger's keys: %w", err)
		}
	}
	c.root.Store(&root)
	clear(c.known)
	return nil
}

// settle follows the policies if keys that are not in the root have signed a head, unless
// another call does so now. If the policies cannot be read now, that is no error: the root
// stays as it is, and the next head tries again.
func (c *Client) settle(ctx context.Context, note string) error {
	if c.Root().Settled(note) || !c.chain.mu.TryLock() {
		return nil
	}
	defer c.chain.mu.Unlock()
	_ = c.follow(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fork
}

// link checks the next link of a chain and adds it to the chain.
func (c *Client) link(next *verify.Chain, e *Entry) error {
	if hash := merkle.HashLeaf(e.Receipt.Leaf); e.Index == 0 && hash != c.Root().Genesis {
		return fmt.Errorf("leaf hash %s is not the pinned genesis %s", hash, c.Root().Genesis)
	}
	signer, err := next.Signer(e.Entry.Entry)
	if err != nil {
		return err
	}
	if err := c.Root().CheckSignature(signer.Key, e.PAE(), e.Sig); err != nil {
		return err
	}
	if err := next.Admit(e.Entry.Entry, e.Index); err != nil {
		return err
	}
	next.Apply(e.Entry.Entry, e.Index, e.RegisteredAt)
	return nil
}

// checkSigner checks that a key that counted for the issuer at the entry's index has signed an
// entry of the log. The entry is under an accepted head. If the chain ends before the entry,
// checkSigner brings the chain to that head.
func (c *Client) checkSigner(ctx context.Context, e *verify.Entry) error {
	c.chain.mu.Lock()
	defer c.chain.mu.Unlock()
	err := c.signed(e)
	if err != nil && c.chain.size <= e.Index {
		if err := c.follow(ctx); err != nil {
			return err
		}
		err = c.signed(e)
	}
	if err != nil {
		return &verify.StepError{Step: verify.StepSigner, What: fmt.Sprintf("entry %d", e.Index), Cause: err}
	}
	return nil
}

func (c *Client) signed(e *verify.Entry) error {
	if e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent {
		links := c.chain.Links()
		i, ok := slices.BinarySearchFunc(links, e.Index, func(l entry.Registered, index uint64) int { return cmp.Compare(l.Index, index) })
		if !ok || links[i].LeafHash() != e.LeafHash() {
			return errors.New("it is not a link of the chain")
		}
		return nil
	}
	info, _ := c.chain.Agent(e.Header.Iss)
	for _, key := range info.Keys {
		if key.Key.KeyID() == e.KeyID && key.Enrolled < e.Index && (key.Revoked == 0 || e.Index < key.Revoked) {
			return c.Root().CheckSignature(key.Key, e.PAE(), e.Sig)
		}
	}
	return fmt.Errorf("%s was not enrolled for %s then", e.KeyID, e.Header.Iss)
}
