// Package bridge tells one ledger what another one rolls back. Each ledger decides alone: neither
// can bind the other, or wait for it.
//
// An execution of ledger B names its parents in ledger A in the member `foreign` of its payload,
// which B keeps and ignores:
//
//	{"exec": "book", …, "foreign": [{"origin": "a.example/log", "exec": "planner#plan", "index": 17, "leaf_hash": "…"}]}
//
// A [Bridge] is a principal of B with the role monitor. It follows both logs under their pinned
// roots. When A decides to undo a foreign parent, the bridge fetches the bundle that shows this to
// the agent of the parent, checks the bundle as that agent would, and signals the failure of the
// execution in B, with the digest of the bundle as evidence. B judges the signal by its own rules.
//
// What the bridge has to remember stands in the logs. It reads them from the start, and finds its
// own signals in B, so a bridge that was killed goes on where it was.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// Reader reads a ledger under its pinned root. It is a [client.Client].
type Reader interface {
	Root() verify.Root
	Entries(ctx context.Context, q api.ListQuery) iter.Seq2[*client.Entry, error]
}

// Source is the ledger whose decisions are told. It is a [client.Client].
type Source interface {
	Reader
	Entry(ctx context.Context, index uint64) (*client.Entry, error)
	Bundle(ctx context.Context, q api.BundleQuery) (*client.BundlePage, error)
}

// Target is the ledger that hears of them. It is a [client.Client].
type Target interface {
	Reader
	Submit(ctx context.Context, e *entry.Entry) (*client.Registration, error)
}

// Config says what a bridge connects. Every field but Tell is required.
type Config struct {
	From Source
	To   Target
	// Issuer is the principal of the bridge in To. It has the role monitor.
	Issuer entry.Principal
	Sign   func(*entry.Entry) error // with the key of Issuer
	// Keep stores the bundle whose digest a signal has as evidence, before the signal is sent. Who
	// doubts the signal asks for it.
	Keep func(digest entry.Digest, bundle []byte) error
	Now  func() time.Time
	Tell func(Event) // nil: events are dropped
}

// Event is what a bridge did, or why it did nothing.
type Event struct {
	Exec     entry.Ref    `json:"exec"`               // in the ledger that hears of it
	Foreign  Foreign      `json:"foreign,omitzero"`   // its parent
	Incident uint64       `json:"incident,omitempty"` // of the other ledger
	Evidence entry.Digest `json:"evidence,omitempty"` // digest of the bundle
	Signal   uint64       `json:"signal,omitempty"`   // index of the signal
	Problem  string       `json:"problem,omitempty"`  // why there is no signal
}

// Bridge tells To what From rolls back. One goroutine at a time uses it.
type Bridge struct {
	cfg      Config
	from, to uint64 // index of the next entry that is read

	children map[entry.Ref][]child // executions of To, by their parent in From
	told     map[string]bool       // what the bridge has signalled, by the URI of its evidence and the subject
	looked   map[look]bool         // what needs no second look
	open     []*entry.Decision     // decisions of From that are not told yet
}

// child is an execution of To with a parent in From.
type child struct {
	exec   entry.Ref
	wid    entry.WorkflowID
	parent Foreign
}

// look is a decision of From and an execution of To.
type look struct {
	incident uint64
	epoch    int64
	child    child
}

// New returns a bridge. It makes no request.
func New(c Config) (*Bridge, error) {
	if c.From == nil || c.To == nil || c.Issuer == "" || c.Sign == nil || c.Keep == nil || c.Now == nil {
		return nil, errors.New("bridge: new: From, To, Issuer, Sign, Keep and Now are required")
	}
	if c.From.Root().Origin == c.To.Root().Origin {
		return nil, fmt.Errorf("bridge: new: both ledgers are %s: within one ledger a parent is a dependency", c.To.Root().Origin)
	}
	if c.Tell == nil {
		c.Tell = func(Event) {}
	}
	return &Bridge{cfg: c, children: map[entry.Ref][]child{}, told: map[string]bool{}, looked: map[look]bool{}}, nil
}

// Step reads what both ledgers have registered since the last call, and tells To what it has to
// hear. After an error that call may be made again. The error is that of a ledger, or of Keep.
func (b *Bridge) Step(ctx context.Context) error {
	if err := b.readTo(ctx); err != nil {
		return err
	}
	late, err := b.readFrom(ctx)
	if err != nil {
		return err
	}
	if late { // a child that was registered while From was read may have an older decision
		if err := b.readTo(ctx); err != nil {
			return err
		}
	}
	for _, d := range b.open {
		if err := b.carry(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// readTo notes the executions of To with parents in From, and the signals of this bridge.
func (b *Bridge) readTo(ctx context.Context) error {
	for e, err := range b.cfg.To.Entries(ctx, api.ListQuery{From: b.to}) {
		if err != nil {
			return fmt.Errorf("bridge: read %s: %w", b.cfg.To.Root().Origin, err)
		}
		if e.Index != b.to {
			return fmt.Errorf("bridge: read %s: entry %d in the place of %d", b.cfg.To.Root().Origin, e.Index, b.to)
		}
		b.to++
		switch body := e.Body.(type) {
		case *entry.Execution:
			b.note(e, body)
		case *entry.Signal:
			if body.Iss == b.cfg.Issuer {
				for _, v := range body.Evidence {
					b.told[v.URI+" "+string(body.Subject)] = true
				}
			}
		}
	}
	return nil
}

func (b *Bridge) note(e *client.Entry, x *entry.Execution) {
	parents, err := foreignOf(e.Payload())
	if err != nil {
		b.cfg.Tell(Event{Exec: x.Ref(), Problem: err.Error()})
		return
	}
	for _, f := range parents {
		one := child{x.Ref(), x.Wid, f}
		if f.Origin == b.cfg.From.Root().Origin && !slices.Contains(b.children[f.Exec], one) {
			b.children[f.Exec] = append(b.children[f.Exec], one)
		}
	}
}

// readFrom notes the decisions of From that undo something: of an incident only the newest one.
func (b *Bridge) readFrom(ctx context.Context) (found bool, err error) {
	for e, err := range b.cfg.From.Entries(ctx, api.ListQuery{From: b.from}) {
		if err != nil {
			return found, fmt.Errorf("bridge: read %s: %w", b.cfg.From.Root().Origin, err)
		}
		if e.Index != b.from {
			return found, fmt.Errorf("bridge: read %s: entry %d in the place of %d", b.cfg.From.Root().Origin, e.Index, b.from)
		}
		b.from++
		if d, ok := e.Body.(*entry.Decision); ok && (d.Act == entry.ActAuthorize || d.Act == entry.ActAmend) {
			b.open = slices.DeleteFunc(b.open, func(old *entry.Decision) bool { return old.Incident == d.Incident })
			b.open, found = append(b.open, d), true
		}
	}
	return found, nil
}

// carry tells To of one decision of From, once for each execution that it concerns. It stays open:
// To may register a further child of what was undone.
func (b *Bridge) carry(ctx context.Context, d *entry.Decision) error {
	shown := map[entry.Principal]*proof{}
	for _, parent := range b.parents() {
		agent, _ := parent.Split()
		for _, c := range b.children[parent] {
			if b.told[b.uri(d.Incident)+" "+string(c.exec)] || b.looked[look{d.Incident, d.Epoch, c}] {
				continue
			}
			p := shown[agent]
			if p == nil {
				var err error
				if p, err = b.prove(ctx, d, agent); err != nil {
					return err
				}
				shown[agent] = p
			}
			if err := b.tell(ctx, d, c, p); err != nil {
				return err
			}
			b.looked[look{d.Incident, d.Epoch, c}] = true
		}
	}
	return nil
}

// parents returns the foreign parents in one order, so that two bridges do the same.
func (b *Bridge) parents() []entry.Ref {
	all := make([]entry.Ref, 0, len(b.children))
	for ref := range b.children {
		all = append(all, ref)
	}
	slices.Sort(all)
	return all
}

// proof is what the bundles of an agent show of a decision.
type proof struct {
	undone map[entry.Ref]entry.Digest // members, by the digest of the bundle that shows each
	pages  map[entry.Digest][]byte
	failed error // the bundles do not verify
}

// prove fetches the bundles that show an agent of From what it must undo, and checks them.
func (b *Bridge) prove(ctx context.Context, d *entry.Decision, agent entry.Principal) (*proof, error) {
	p := &proof{undone: map[entry.Ref]entry.Digest{}, pages: map[entry.Digest][]byte{}}
	for after := uint64(0); ; {
		page, err := b.cfg.From.Bundle(ctx, api.BundleQuery{Incident: d.Incident, Agent: agent, After: after, Whole: true})
		if problem, ok := errors.AsType[*api.Problem](err); ok && !problem.Temporary() {
			p.failed = err // for example: the agent is none of From
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("bridge: fetch the bundle of incident %d: %w", d.Incident, err)
		}
		if page.Decision == 0 {
			return p, nil // the decision has nothing of this agent
		}
		p.failed = errors.Join(p.failed, b.check(page, agent, d, p))
		if after = page.Next; after == 0 {
			return p, nil
		}
	}
}

// check checks a page as the agent would. A bridge that was away judges a decision that is over as
// of its last moment.
func (b *Bridge) check(page *client.BundlePage, agent entry.Principal, d *entry.Decision, p *proof) error {
	now := min(b.cfg.Now().UnixMilli(), d.Exp*1000-1, d.DeadlineAt-1)
	verdict, err := page.Check(bundle.Accepted{Root: b.cfg.From.Root(), Agent: agent}, now)
	if err != nil {
		return err
	}
	if verdict.Incident != d.Incident {
		return fmt.Errorf("bridge: the bundle is of incident %d, want %d", verdict.Incident, d.Incident)
	}
	text, err := page.Encode()
	if err != nil {
		return err
	}
	digest := entry.DigestOf(text)
	p.pages[digest] = text
	for i := range verdict.Commands {
		if c := &verdict.Commands[i]; c.Refused == nil {
			p.undone[c.Exec] = digest
		}
	}
	return nil
}

// tell signals in To that a parent of an execution is undone in From, if that is proven.
func (b *Bridge) tell(ctx context.Context, d *entry.Decision, c child, p *proof) error {
	event := Event{Exec: c.exec, Foreign: c.parent, Incident: d.Incident}
	digest, undone := p.undone[c.parent.Exec]
	if !undone && p.failed == nil {
		return nil // the parent is none of the rollback set
	}
	if !undone {
		event.Problem = p.failed.Error()
		b.cfg.Tell(event)
		return nil
	}
	named, err := b.names(ctx, c)
	if err != nil {
		return err
	}
	if !named {
		event.Problem = fmt.Sprintf("entry %d of %s is not the entry of %s that the execution names", c.parent.Index, c.parent.Origin, c.parent.Exec)
		b.cfg.Tell(event)
		return nil
	}
	event.Evidence = digest
	err = b.cfg.Keep(digest, p.pages[digest])
	if err == nil {
		event.Signal, err = b.signal(ctx, d, c, digest)
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok && !problem.Temporary() {
		event.Problem, err = problem.Error(), nil // To has undone it already, or does not let the bridge speak
	}
	if err != nil {
		return fmt.Errorf("bridge: signal %s: %w", c.exec, err)
	}
	b.cfg.Tell(event)
	return nil
}

// names reports whether the entry that a child names is one of its parent.
func (b *Bridge) names(ctx context.Context, c child) (bool, error) {
	e, err := b.cfg.From.Entry(ctx, c.parent.Index)
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Name() == entry.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bridge: read entry %d of %s: %w", c.parent.Index, c.parent.Origin, err)
	}
	x, is := e.Body.(*entry.Execution)
	return is && x.Ref() == c.parent.Exec && e.LeafHash() == c.parent.LeafHash, nil
}

func (b *Bridge) signal(ctx context.Context, d *entry.Decision, c child, digest entry.Digest) (uint64, error) {
	now := b.cfg.Now()
	e, err := entry.New(&entry.Signal{
		Header:  entry.Header{V: 1, JTI: uuid.NewString(), Iss: b.cfg.Issuer, Aud: b.cfg.To.Root().Origin, Iat: now.Unix(), Wid: c.wid},
		Subject: c.exec, Class: "coord", Code: "dependency_failed", Standing: entry.StandingMonitor,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: now.UnixMilli(),
		Evidence: []entry.Evidence{{Digest: digest, URI: b.uri(d.Incident)}},
	})
	if err != nil {
		return 0, err
	}
	if err := b.cfg.Sign(e); err != nil {
		return 0, err
	}
	registered, err := b.cfg.To.Submit(ctx, e)
	if err != nil {
		return 0, err
	}
	return registered.Index, nil
}

// uri names an incident of From, for the evidence of a signal.
func (b *Bridge) uri(incident uint64) string {
	return fmt.Sprintf("urn:agent-recovery:incident:%s:%d", strings.ReplaceAll(b.cfg.From.Root().Origin, ":", "%3A"), incident)
}
