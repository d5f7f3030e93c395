package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api"
	"recoveryledger/api/client/agent"
	"recoveryledger/coord"
	assemble "recoveryledger/coord/bundle"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

const origin = "ledger.example/test"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// book is a ledger in memory: the real rules over a real tree, with signed
// heads, and the bundles that a server makes of them.
type book struct {
	tb      testing.TB
	state   *coord.State
	leaves  [][]byte
	tree    merkle.Tree
	signers []note.Signer
	root    verify.Root
	now     int64 // Unix milliseconds
	ids     int
	private map[entry.Principal]ed25519.PrivateKey
	refused []string          // what was not admitted
	known   map[string]uint64 // index by issuer and jti
	page    int               // members in a page of a bundle; 0: all
}

// clone returns a book that goes on by itself.
func (b *book) clone() *book {
	c := *b
	c.state = coord.NewState(origin)
	var snapshot bytes.Buffer
	must(b.tb, b.state.Snapshot(&snapshot))
	must(b.tb, c.state.Restore(&snapshot))
	c.leaves, c.known = slices.Clone(b.leaves), maps.Clone(b.known)
	c.tree = merkle.Tree{}
	for _, leaf := range b.leaves {
		c.tree.Append(merkle.HashLeaf(leaf))
	}
	return &c
}

func newBook(tb testing.TB) *book {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte("ledger"), 10)), origin)
	must(tb, err)
	b := &book{tb: tb, state: coord.NewState(origin), now: 1_790_000_000_000, private: map[entry.Principal]ed25519.PrivateKey{},
		known: map[string]uint64{}}
	signer, err := note.NewSigner(skey)
	must(tb, err)
	b.signers = []note.Signer{signer}
	b.root = verify.Root{Origin: origin, LedgerKeys: []string{vkey}}
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "root", Key: b.public("root")})
	policy.Windows.BundleMaxAgeMS = 600_000
	b.write("root", policy)
	for _, p := range []struct {
		name entry.Principal
		role entry.Role
	}{{"source", entry.RoleAgent}, {"worker", entry.RoleAgent}, {"writer", entry.RoleAgent}, {"coordinator", entry.RoleCoordinator},
		{"ann", entry.RoleApprover}, {"olga", entry.RoleOperator}} {
		b.write("root", &entry.Agent{Principal: p.name, Op: entry.Enrol, Key: b.public(p.name), Roles: []entry.Role{p.role}, Domain: "d", Span: entry.SpanWorkflow})
	}
	return b
}

func (b *book) public(name entry.Principal) entry.PublicKey {
	if b.private[name] == nil {
		b.private[name] = ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%32s", name)))
	}
	public, err := entry.NewPublicKey(b.private[name].Public())
	must(b.tb, err)
	return public
}

func (b *book) sign(name entry.Principal) func(e *entry.Entry) error {
	public := b.public(name)
	return func(e *entry.Entry) error {
		e.Seal(public.KeyID(), ed25519.Sign(b.private[name], e.PAE()))
		return nil
	}
}

func (b *book) id() string {
	b.ids++
	return fmt.Sprintf("00000000-0000-7000-8000-%012x", b.ids)
}

// write registers an entry that must be admitted.
func (b *book) write(iss entry.Principal, body entry.Body) entry.LogRef {
	b.tb.Helper()
	ref, err := b.try(iss, body)
	must(b.tb, err)
	return ref
}

func (b *book) try(iss entry.Principal, body entry.Body) (entry.LogRef, error) {
	h := entry.HeaderOf(body)
	wid := h.Wid
	*h = entry.Header{V: 1, JTI: b.id(), Iss: iss, Aud: origin, Iat: b.now / 1000, Wid: wid}
	if wid == "" && body.Kind() != entry.KindPolicy && body.Kind() != entry.KindAgent {
		h.Wid = "flow"
	}
	e, err := entry.New(body)
	must(b.tb, err)
	must(b.tb, b.sign(iss)(e))
	return b.submit(e)
}

// submit registers an entry, once (REG-2).
func (b *book) submit(e *entry.Entry) (entry.LogRef, error) {
	id := string(e.Header.Iss) + " " + e.Header.JTI
	if i, registered := b.known[id]; registered {
		known, _, err := entry.DecodeLeaf(b.leaves[i])
		must(b.tb, err)
		if !bytes.Equal(known.PAE(), e.PAE()) {
			b.tb.Fatalf("%s was signed twice, as something else", id)
		}
		return entry.LogRef{Index: i, LeafHash: merkle.HashLeaf(b.leaves[i])}, nil
	}
	index := uint64(len(b.leaves))
	e.SignatureChecked = true
	if err := b.state.Admit(e, index, b.now); err != nil {
		b.refused = append(b.refused, fmt.Sprintf("%s: %v", e.Header.Iss, err))
		return entry.LogRef{}, err
	}
	leaf := e.AppendLeaf(nil, b.now)
	b.state.Apply(e, index, b.now)
	b.leaves = append(b.leaves, leaf)
	b.known[id] = index
	if index == 0 {
		b.root.Genesis = merkle.HashLeaf(leaf)
	}
	b.tree.Append(merkle.HashLeaf(leaf))
	return entry.LogRef{Index: index, LeafHash: merkle.HashLeaf(leaf)}, nil
}

func (b *book) size() uint64 { return uint64(len(b.leaves)) }

// head returns the signed head of so many entries.
func (b *book) head(size uint64) string {
	b.tb.Helper()
	head := b.tree.Head(size)
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", origin, head.Size, head.Root)}, b.signers...)
	must(b.tb, err)
	return string(signed)
}

func (b *book) consistency(older, newer uint64) []merkle.Hash {
	b.tb.Helper()
	if older == 0 || older == newer {
		return nil
	}
	path, err := merkle.ProveConsistency(older, newer, b.tree.Node)
	must(b.tb, err)
	return path
}

// bundle makes a bundle as the server does.
func (b *book) bundle(agent entry.Principal, q agent.Query) (*bundle.Bundle, uint64, error) {
	limit := bundle.MaxEntries
	if q.Incident != 0 {
		limit = cmp.Or(b.page, bundle.MaxMembers)
	}
	made, err := new(assemble.Maker).Make(served{b}, nil, api.BundleQuery{Agent: agent, Incident: q.Incident, From: q.From, After: q.After, Whole: q.Whole, Limit: limit})
	if err != nil {
		return nil, 0, err
	}
	decoded, err := bundle.Decode(made.Data)
	return decoded, made.Next, err
}

// served is a book as bundles are made from it.
type served struct{ *book }

// View implements [assemble.Log].
func (b served) View(f func(*coord.State, verify.SignedHead, *verify.Chain)) {
	f(b.state, verify.SignedHead{Head: b.tree.Head(b.size()), Note: b.head(b.size())}, b.state.Chain())
}

// Entry implements [assemble.Log].
func (b served) Entry(index uint64) (*entry.Registered, error) {
	e, at, err := entry.DecodeLeaf(b.leaves[index])
	return &entry.Registered{Entry: e, Index: index, RegisteredAt: at}, err
}

// Inclusions implements [assemble.Log].
func (b served) Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error) {
	return merkle.ProveInclusions(indexes, size, b.tree.Node)
}

// Consistency implements [assemble.Log].
func (b served) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	return merkle.ProveConsistency(older, newer, b.tree.Node)
}

// desk is the book as one agent reaches it.
type desk struct {
	*book
	agent entry.Principal
	fault func(call string) error // before (name) and after (name with "!") each call; nil: none
	hide  bool                    // the server keeps commands and bundles from the agent
	forge func(*bundle.Bundle)    // changes bundles on their way
	anew  int                     // how often a bundle was asked for anew
}

var errLost = errors.New("no answer")

func (d *desk) at(call string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(call)
}

func (d *desk) Commands(context.Context) (*agent.Hints, error) {
	if err := d.at("commands"); err != nil {
		return nil, err
	}
	h := &agent.Hints{Size: d.size()}
	if news := append(d.state.News(d.agent, 0), d.state.Overrides(d.agent, 0)...); len(news) > 0 {
		h.News = slices.Max(news)
	}
	for _, c := range d.state.Commands(d.agent) {
		if !d.hide {
			h.Commands = append(h.Commands, agent.Hint{Incident: c.Incident, Decision: c.Decision, Changed: c.Changed})
		}
	}
	return h, nil
}

func (d *desk) Bundle(_ context.Context, q agent.Query) (*bundle.Bundle, uint64, error) {
	if err := d.at("bundle"); err != nil {
		return nil, 0, err
	}
	if q.Anew {
		d.anew++
	}
	if d.hide {
		q.Incident = 0
	}
	b, next, err := d.bundle(d.agent, q)
	if err == nil && d.forge != nil {
		d.forge(b)
	}
	return b, next, err
}

func (d *desk) Submit(_ context.Context, e *entry.Entry) (entry.LogRef, error) {
	if err := d.at("submit"); err != nil {
		return entry.LogRef{}, err
	}
	ref, err := d.submit(e)
	if fault := d.at("submit!"); fault != nil {
		return entry.LogRef{}, fault
	}
	return ref, err
}

func (d *desk) Follow(_ context.Context, from uint64, accepted string) (*agent.Page, error) {
	if err := d.at("follow"); err != nil {
		return nil, err
	}
	p := &agent.Page{}
	if size := sizeOf(d.tb, accepted); size > 0 && size != d.size() {
		p.Proof = verify.ConsistencyProof{Older: accepted, Newer: d.head(d.size()), Path: d.consistency(size, d.size())}
	}
	for i := from; i < d.size(); i++ {
		e, at, err := entry.DecodeLeaf(d.leaves[i])
		must(d.tb, err)
		p.Entries = append(p.Entries, verify.Entry{Registered: entry.Registered{Entry: e, Index: i, RegisteredAt: at}})
	}
	return p, nil
}

func (d *desk) Plan(_ context.Context, incident uint64) ([]entry.Member, error) {
	view, ok := d.state.PlanInForce(incident, d.now)
	if !ok {
		return nil, errLost
	}
	return view.Set(), nil
}

// Confirm is a second source that has seen the beginning of the log.
func (d *desk) Confirm(_ context.Context, head string) (verify.ConsistencyProof, error) {
	if err := d.at("confirm"); err != nil {
		return verify.ConsistencyProof{}, err
	}
	size, older := sizeOf(d.tb, head), uint64(5)
	return verify.ConsistencyProof{Older: d.head(older), Newer: head, Path: d.consistency(older, size)}, nil
}

// sizeOf reads the size off a signed head; 0 if there is none.
func sizeOf(tb testing.TB, head string) (size uint64) {
	tb.Helper()
	if lines := strings.Split(head, "\n"); len(lines) > 1 {
		_, err := fmt.Sscan(lines[1], &size)
		must(tb, err)
	}
	return size
}

// memory is a store whose documents a test can lose and damage.
type memory struct {
	docs  map[string][]byte
	fault func(call string) error
}

func newMemory() *memory { return &memory{docs: map[string][]byte{}} }

func (m *memory) Names() (names []string, err error) {
	for name := range m.docs {
		names = append(names, name)
	}
	return names, nil
}

func (m *memory) Load(name string) ([]byte, error) { return m.docs[name], nil }

func (m *memory) Save(name string, data []byte) error {
	if m.fault != nil {
		if err := m.fault("save"); err != nil {
			return err
		}
	}
	m.docs[name] = bytes.Clone(data)
	if m.fault != nil {
		return m.fault("save!")
	}
	return nil
}
