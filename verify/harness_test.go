package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

const origin = "ledger.example/test"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// key is a signing key and the principal that holds it.
type key struct {
	principal entry.Principal
	public    entry.PublicKey
	private   crypto.Signer
}

// newKey returns the Ed25519 key of a principal that seed determines.
func newKey(tb testing.TB, principal entry.Principal, seed string) key {
	tb.Helper()
	sum := sha256.Sum256([]byte(seed))
	private := ed25519.NewKeyFromSeed(sum[:])
	public, err := entry.NewPublicKey(private.Public())
	must(tb, err)
	return key{principal, public, private}
}

// newP256 returns a random ECDSA key.
func newP256(tb testing.TB, principal entry.Principal) key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	public, err := entry.NewPublicKey(private.Public())
	must(tb, err)
	return key{principal, public, private}
}

// sign returns the entry with the content, by the key.
func (k key) sign(tb testing.TB, body entry.Body) *entry.Entry {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	var sig []byte
	if k.public.Crypto() != nil {
		digest, opts := e.PAE(), crypto.SignerOpts(crypto.Hash(0))
		if _, ok := k.private.(*ecdsa.PrivateKey); ok {
			sum := sha256.Sum256(digest)
			digest, opts = sum[:], crypto.SHA256
		}
		sig, err = k.private.Sign(rand.Reader, digest, opts)
		must(tb, err)
	}
	e.Seal(k.public.KeyID(), sig)
	return e
}

// ids numbers the entries of a test.
type ids struct{ next int }

func (i *ids) header(iss entry.Principal) entry.Header {
	i.next++
	return entry.Header{V: 1, JTI: fmt.Sprintf("00000000-0000-7000-8000-%012x", i.next), Iss: iss, Aud: origin, Iat: 1790000000}
}

func (i *ids) work(iss entry.Principal) entry.Header {
	h := i.header(iss)
	h.Wid = "workflow"
	return h
}

// policy returns a policy of k that names the authority.
func (i *ids) policy(k key, authority ...key) *entry.Policy {
	most := entry.Cap{Members: 100, Agents: 10, Domains: 3, FencedMS: 1000}
	p := &entry.Policy{
		Header: i.header(k.principal),
		Roles:  map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleEnroller}},
		Windows: entry.Windows{DecideMS: 1, AnswerMS: 1, MemberMS: 1, DeadlineMaxMS: 1, CooldownMS: 1, SinceMaxMS: 1,
			BundleMaxAgeMS: 1, IatMS: 1},
		Limits:    entry.Limits{Incident: most, Signaler: most, Victim: most, WindowMS: 1},
		Quotas:    entry.Quotas{SignalsPerHour: 1},
		Quorum:    entry.Quorum{Approve: 1, Override: 2, Signalers: 1},
		MaxStepMS: 1,
	}
	for _, a := range authority {
		p.Authority = append(p.Authority, entry.AuthorityKey{Principal: a.principal, Key: a.public})
	}
	return p
}

// agent returns an agent entry of k about the key of another.
func (i *ids) agent(k key, op entry.AgentOp, about key, roles ...entry.Role) *entry.Agent {
	return &entry.Agent{Header: i.header(k.principal), Principal: about.principal, Op: op, Key: about.public, Roles: roles,
		Domain: "domain", Span: entry.SpanWorkflow}
}

func (i *ids) execution(k key) *entry.Execution {
	h := i.work(k.principal)
	return &entry.Execution{Header: h, Exec: "exec-" + strconv.Itoa(i.next), Parents: []entry.Parent{}, Effect: entry.EffectNone,
		Progress: entry.Planned}
}

// log is a ledger that takes everything, a hostile one included, and signs it.
type log struct {
	t testing.TB
	ids
	at     int64
	leaves [][]byte
	signer note.Signer
	root   verify.Root
}

func newLog(tb testing.TB) *log {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte("ledger"), 10)), origin)
	must(tb, err)
	signer, err := note.NewSigner(skey)
	must(tb, err)
	return &log{t: tb, at: 1790000000000, signer: signer, root: verify.Root{Origin: origin, LedgerKeys: []string{vkey}}}
}

// add logs an entry and returns its index. The first is the genesis that the
// root pins.
func (l *log) add(e *entry.Entry) uint64 {
	l.t.Helper()
	l.at += 1000
	return l.addLeaf(e.AppendLeaf(nil, l.at))
}

func (l *log) addLeaf(leaf []byte) uint64 {
	l.leaves = append(l.leaves, leaf)
	if len(l.leaves) == 1 {
		l.root.Genesis = merkle.HashLeaf(leaf)
	}
	return uint64(len(l.leaves) - 1)
}

// node is the reference reader: it hashes the definition.
func (l *log) node(level uint, index uint64) (merkle.Hash, error) {
	if level == 0 {
		return merkle.HashLeaf(l.leaves[index]), nil
	}
	left, err := l.node(level-1, 2*index)
	if err != nil {
		return left, err
	}
	right, err := l.node(level-1, 2*index+1)
	return merkle.HashChildren(left, right), err
}

func (l *log) head(size int) merkle.Head {
	l.t.Helper()
	var hashes []merkle.Hash
	for _, leaf := range l.leaves[:size] {
		hashes = append(hashes, merkle.HashLeaf(leaf))
	}
	return merkle.HeadOf(hashes)
}

// signText returns a note of the text, signed by the ledger and the others.
func (l *log) signText(text string, others ...note.Signer) string {
	l.t.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, append([]note.Signer{l.signer}, others...)...)
	must(l.t, err)
	return string(signed)
}

func text(head merkle.Head) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, head.Size, head.Root)
}

// signed returns the signed head of the first size leaves.
func (l *log) signed(size int) string { return l.signText(text(l.head(size))) }

// receipt returns the receipt of an entry under the newest head.
func (l *log) receipt(index uint64) verify.Receipt { return l.receiptAt(index, len(l.leaves)) }

func (l *log) receiptAt(index uint64, size int) verify.Receipt {
	l.t.Helper()
	proof, err := merkle.ProveInclusion(index, uint64(size), l.node, nil)
	must(l.t, err)
	return verify.Receipt{Leaf: l.leaves[index], Index: index, Proof: proof, Head: l.signed(size)}
}

// all returns the receipts of all entries under the newest head.
func (l *log) all() (list []verify.Receipt) {
	for i := range l.leaves {
		list = append(list, l.receipt(uint64(i)))
	}
	return list
}

func (l *log) consistency(older, newer int) verify.ConsistencyProof {
	l.t.Helper()
	path, err := merkle.ProveConsistency(uint64(older), uint64(newer), l.node)
	must(l.t, err)
	return verify.ConsistencyProof{Older: l.signed(older), Newer: l.signed(newer), Path: path}
}

// joining returns consistency proofs between sizes, older and newer by turns, and
// the heads that they are about.
func (l *log) joining(sizes ...int) (m verify.Material) {
	for i := 0; i < len(sizes); i += 2 {
		p := l.consistency(sizes[i], sizes[i+1])
		m.Heads = append(m.Heads, p.Older, p.Newer)
		m.Consistency = append(m.Consistency, verify.Consistency{Old: uint64(sizes[i]), New: uint64(sizes[i+1]), Path: p.Path})
	}
	return m
}

// beside adds heads to a material.
func beside(m verify.Material, heads ...string) verify.Material {
	m.Heads = append(m.Heads, heads...)
	return m
}

// cast are the keys of a small company.
type cast struct {
	authority, enroller, coordinator, operator, approver, monitor, engine, agent key
}

func newCast(tb testing.TB) cast {
	tb.Helper()
	of := func(name entry.Principal) key { return newKey(tb, name, string(name)) }
	return cast{of("authority"), of("enroller"), of("coordinator"), of("operator"), of("approver"), of("monitor"), of("engine"), of("agent")}
}

// holders returns who was given which role by [newCompany].
func (c cast) holders() map[entry.Role]key {
	return map[entry.Role]key{
		entry.RoleEnroller: c.enroller, entry.RoleCoordinator: c.coordinator, entry.RoleOperator: c.operator,
		entry.RoleApprover: c.approver, entry.RoleMonitor: c.monitor, entry.RoleEngine: c.engine, entry.RoleAgent: c.agent,
	}
}

// newCompany returns a log with a genesis policy, at index 0, and one principal
// for each role, enrolled by the authority in the order of [entry.Roles] except
// for the agent, which the enroller enrols last.
func newCompany(tb testing.TB) (*log, cast) {
	tb.Helper()
	l, c := newLog(tb), newCast(tb)
	l.add(c.authority.sign(tb, l.policy(c.authority, c.authority)))
	for _, role := range entry.Roles() {
		if role != entry.RoleAgent {
			l.add(c.authority.sign(tb, l.agent(c.authority, entry.Enrol, c.holders()[role], role)))
		}
	}
	l.add(c.enroller.sign(tb, l.agent(c.enroller, entry.Enrol, c.agent, entry.RoleAgent)))
	return l, c
}

// chain returns the chain over the log, each link admitted.
func (l *log) chain() *verify.Chain {
	l.t.Helper()
	c := verify.NewChain()
	for i, leaf := range l.leaves {
		e, at, err := entry.DecodeLeaf(leaf)
		must(l.t, err)
		if e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent {
			must(l.t, c.Admit(e, uint64(i)))
			c.Apply(e, uint64(i), at)
		}
	}
	return c
}
