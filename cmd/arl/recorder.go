package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/coord/recovery/engine"
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
	// register registers entries in order, or none behind the first refusal.
	register(ctx context.Context, entries []*entry.Entry) error
	// receipts yields the receipts of the entries under a value of an index, in
	// the order of the log.
	receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error]
	headProver
}

// headProver shows that tree heads are of one log.
type headProver interface {
	// consistency proves that the head of one receipt continues that of another.
	consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error)
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

func (c *connection) register(ctx context.Context, entries []*entry.Entry) error {
	_, err := c.client.SubmitBatch(ctx, entries)
	return err
}

func (c *connection) receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
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

func (c *connection) consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error) {
	return c.client.Consistency(ctx, older, newer)
}

func (n *node) chain(context.Context) (*verify.Chain, error) { return n.coordinator.View().Chain, nil }

func (n *node) register(ctx context.Context, entries []*entry.Entry) error {
	answer, err := n.log.Submit(ctx, entries...)
	if err == nil && answer.Refused != nil {
		err = answer.Refused
	}
	return err
}

func (n *node) receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
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

func (n *node) consistency(_ context.Context, older, newer string) (verify.ConsistencyProof, error) {
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

// recorder implements [engine.Recorder].
type recorder struct {
	*openRegistry
	signer  *signer
	wid     entry.WorkflowID
	known   map[string]string // of a resumed run: what the log has, by id
	pending []*entry.Entry
	open    bool // whether the run is not closed
}

// newRecorder finds or makes the engine's key. Of a run that is resumed it finds
// out what was registered before.
func (a *app) newRecorder(ctx context.Context, reg *openRegistry, o *recoverOptions, id string) (*recorder, error) {
	signer, err := a.engineSigner(ctx, reg, o)
	if err != nil {
		return nil, err
	}
	r := &recorder{openRegistry: reg, signer: signer, wid: entry.WorkflowID("run/" + id), known: map[string]string{}, open: true}
	if !o.resume {
		return r, nil
	}
	for receipt, err := range reg.receipts(ctx, entry.ByWorkflow, string(r.wid)) {
		if err != nil {
			return nil, err
		}
		e, _, err := entry.DecodeLeaf(receipt.Leaf)
		if err != nil {
			return nil, err
		}
		r.known[e.Header.JTI] = contentOf(e.Body)
	}
	return r, nil
}

// contentOf is what must be the same when an entry is made again.
func contentOf(body entry.Body) string {
	switch b := body.(type) {
	case *entry.Attempt:
		return b.TraceDigest
	case *entry.Run:
		return b.ConfigDigest + b.ScenarioDigest + b.RunRoot + b.ReportDigest
	}
	return ""
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
	return reg.register(ctx, []*entry.Entry{e})
}

// Begin implements [engine.Recorder].
func (r *recorder) Begin(ctx context.Context, open *entry.Run) error {
	open.Header = r.header(r.idOf("open"))
	return errors.Join(r.add(ctx, open), r.Flush(ctx))
}

// Attempt implements [engine.Recorder].
func (r *recorder) Attempt(ctx context.Context, a *entry.Attempt) error {
	a.Header = r.header(entry.AttemptJTI(a.Run, a.Case))
	return r.add(ctx, a)
}

// End implements [engine.Recorder].
func (r *recorder) End(ctx context.Context, closed *entry.Run) error {
	closed.Header = r.header(r.idOf("close"))
	err := errors.Join(r.add(ctx, closed), r.Flush(ctx))
	r.open = err != nil
	return err
}

func (r *recorder) header(jti string) entry.Header {
	return entry.Header{V: 1, JTI: jti, Iss: r.signer.principal, Aud: r.root.Origin, Iat: time.Now().Unix(), Wid: r.wid}
}

// idOf derives the jti of an act on the run from the run, so that the same again
// is the same entry.
func (r *recorder) idOf(act string) string {
	const version = 8 // RFC 9562: made as its maker likes
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(string(r.wid)+"|"+act), version).String()
}

// recordBatch is how many entries are registered at a time.
const recordBatch = 512

// add signs an entry that the log does not have, and registers it with others.
func (r *recorder) add(ctx context.Context, body entry.Body) error {
	e, err := entry.New(body)
	if err != nil {
		return err
	}
	if content, there := r.known[e.Header.JTI]; there {
		if content != contentOf(e.Body) {
			return withExit(exitConflict, fmt.Errorf("the ledger has %s of %s with another result: the run cannot go on as it was begun", e.Kind, r.wid))
		}
		return nil
	}
	if err := r.signer.Sign(e); err != nil {
		return err
	}
	if r.pending = append(r.pending, e); len(r.pending) < recordBatch {
		return nil
	}
	return r.Flush(ctx)
}

// Flush implements [engine.Recorder].
func (r *recorder) Flush(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	err := r.register(ctx, r.pending)
	r.pending = r.pending[:0]
	return err
}

// linksOf returns the receipts of all policies, and of the agent entries about
// the given issuers, about the issuers of those, and so on.
func linksOf(ctx context.Context, reg registry, issuers ...entry.Principal) ([]verify.Receipt, error) {
	type link struct {
		receipt *verify.Receipt
		entry   *entry.Entry
	}
	var all []link
	for _, kind := range []entry.Kind{entry.KindPolicy, entry.KindAgent} {
		for receipt, err := range reg.receipts(ctx, entry.ByKind, string(kind)) {
			if err != nil {
				return nil, err
			}
			e, _, err := entry.DecodeLeaf(receipt.Leaf)
			if err != nil {
				return nil, err
			}
			all = append(all, link{receipt, e})
		}
	}
	needed := map[entry.Principal]bool{}
	for _, p := range issuers {
		needed[p] = true
	}
	// Backwards: who enrols somebody was enrolled before.
	slices.SortFunc(all, func(x, y link) int { return cmp.Compare(y.receipt.Index, x.receipt.Index) })
	var links []verify.Receipt
	for _, l := range all {
		if agent, ok := l.entry.Body.(*entry.Agent); ok && !needed[agent.Principal] {
			continue
		}
		needed[l.entry.Header.Iss] = true
		links = append(links, *l.receipt)
	}
	slices.Reverse(links)
	return links, nil
}

var _ engine.Recorder = (*recorder)(nil)
