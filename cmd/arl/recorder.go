package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// registry is where entries are registered: a server, or a stopped ledger that
// is opened in place.
type registry interface {
	// chain returns the verified chain of policies and keys as of now.
	chain(ctx context.Context) (*verify.Chain, error)
	record.Ledger
	// cosigned returns the newest tree head that the witnesses have cosigned whom
	// the root names; empty if there is none, or the root names none.
	cosigned() string
}

// openRegistry is a registry under what this machine knows of its ledger.
type openRegistry struct {
	registry
	root    verify.Root
	profile *profile // nil: there is none on this machine
}

// withRegistry opens the ledger that a run is recorded in, for as long as use
// takes.
func (a *app) withRegistry(ctx context.Context, o *recoverOptions, use func(*openRegistry) error) error {
	if strings.Contains(o.ledger, "://") {
		o.url = o.ledger
		return a.withConnection(ctx, &o.target, func(c *connection) error { return use(&openRegistry{c, c.root, c.profile}) })
	}
	n, err := openNode(a.inPlace(&logOptions{data: o.ledger}))
	if err != nil {
		return err
	}
	defer tuneRuntime()()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var order errgroup.Group
	order.Go(func() error { return n.log.Run(running) })
	err = a.useNode(n, use)
	stop()
	return errors.Join(err, order.Wait(), n.log.Close())
}

// useNode takes a ledger that is opened in place at its word.
func (a *app) useNode(n *node, use func(*openRegistry) error) error {
	root, err := n.root()
	if err != nil {
		return err
	}
	p, err := a.loadProfile(profileName(root.Origin))
	if errors.Is(err, fs.ErrNotExist) {
		p, err = nil, nil
	}
	if err != nil {
		return err
	}
	return use(&openRegistry{n, withCosigner(root), p})
}

func (c *connection) Register(ctx context.Context, entries []*entry.Entry) error {
	_, err := c.client.SubmitBatch(ctx, entries)
	return err
}

func (c *connection) Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
	q := client.Query{Page: api.MaxPage}
	switch index {
	case entry.ByKind:
		q.Kinds = []entry.Kind{entry.Kind(value)}
	case entry.ByWorkflow:
		q.Workflow = entry.WorkflowID(value)
	}
	return func(yield func(*verify.Receipt, error) bool) {
		for e, err := range c.client.Entries(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e.Receipt, nil) {
				return
			}
		}
	}
}

func (c *connection) Consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error) {
	return c.client.Consistency(ctx, older, newer)
}

func (n *node) chain(context.Context) (*verify.Chain, error) { return n.replica.View().Chain, nil }

func (n *node) Register(ctx context.Context, entries []*entry.Entry) error {
	answer, err := n.log.Submit(ctx, entries...)
	if err == nil && answer.Refused != nil {
		err = answer.Refused
	}
	return err
}

func (n *node) Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
	return func(yield func(*verify.Receipt, error) bool) {
		found, err := n.log.Find(ledger.Query{Index: index, Value: value})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, i := range found {
			receipt, err := n.log.Receipt(i)
			if err = errors.Join(err, ctx.Err()); !yield(receipt, err) || err != nil {
				return
			}
		}
	}
}

func (c *connection) cosigned() string { return c.client.Cosigned().Note }

func (n *node) Consistency(_ context.Context, older, newer string) (verify.ConsistencyProof, error) {
	p := verify.ConsistencyProof{Older: older, Newer: newer}
	root, err := n.root()
	if err != nil {
		return p, err
	}
	a, err := root.Head([]byte(older))
	if err != nil {
		return p, err
	}
	b, err := root.Head([]byte(newer))
	if err != nil {
		return p, err
	}
	if p.Path, err = n.log.Consistency(a.Size, b.Size); err == nil {
		_, _, err = root.Consistency(p)
	}
	return p, err
}

func (n *node) cosigned() string { return "" } // nobody cosigns in place

// principalEngine signs runs and attempts, if nobody else is named.
const principalEngine entry.Principal = "engine"

// newRecorder finds or makes the engine's key.
func (a *app) newRecorder(ctx context.Context, reg *openRegistry, o *recoverOptions, id string) (*record.Recorder, error) {
	signer, err := a.engineSigner(ctx, reg, o)
	if err != nil {
		return nil, err
	}
	r := &record.Recorder{Ledger: reg, Root: reg.root, Sign: signer.Sign, Issuer: signer.principal, Run: id}
	if o.resume {
		err = r.Resume(ctx)
	}
	return r, err
}

// engineSigner is the key in --key, or the engine's own, which is made and
// enrolled the first time.
func (a *app) engineSigner(ctx context.Context, reg *openRegistry, o *recoverOptions) (*signer, error) {
	chain, err := reg.chain(ctx)
	if err != nil {
		return nil, err
	}
	if o.key != "" {
		loaded, err := a.loadKey(o.key)
		if err != nil {
			return nil, err
		}
		owner, counts := chain.Owner(loaded.Public().KeyID())
		if !counts {
			return nil, withExit(exitDenied, fmt.Errorf("%s is enrolled for nobody: arl agent enrol --principal engine --key %s --roles engine", o.key, o.key))
		}
		return &signer{loaded, owner}, nil
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(home, "keys", profileName(reg.root.Origin), string(principalEngine)+".key")
	loaded, err := a.loadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if reg.profile == nil {
			return nil, withExit(exitDenied, fmt.Errorf("no authority of %s is on this machine to enrol an engine: let it run arl agent enrol --roles engine, and pass --key", reg.root.Origin))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		loaded, err = keys.Generate(path, keys.Ed25519, a.forNewKeys(passphraseGiven()))
	}
	if err != nil {
		return nil, err
	}
	switch owner, counts := chain.Owner(loaded.Public().KeyID()); {
	case owner == principalEngine && counts:
		return &signer{loaded, owner}, nil
	case owner != "" || reg.profile == nil:
		return nil, withExit(exitDenied, fmt.Errorf("the key %s no longer counts: move it away, and another one is made and enrolled", path))
	}
	return &signer{loaded, principalEngine}, a.enrolEngine(ctx, reg, loaded)
}

// enrolEngine grants the role engine in the name of the policy's authority.
func (a *app) enrolEngine(ctx context.Context, reg *openRegistry, key *keys.Signer) error {
	path, err := reg.profile.key(principalAuthority)
	if err != nil {
		return err
	}
	authority, err := a.loadKey(path)
	if err != nil {
		return err
	}
	e, err := entry.New(&entry.Agent{Header: newHeader(principalAuthority, reg.root.Origin), Principal: principalEngine, Op: entry.Enrol,
		Key: key.Public(), Roles: []entry.Role{entry.RoleEngine}, Domain: "engine", Span: entry.SpanWorkflow})
	if err != nil {
		return err
	}
	if err := authority.Sign(e); err != nil {
		return err
	}
	return reg.Register(ctx, []*entry.Entry{e})
}
