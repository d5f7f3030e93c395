package testlog

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
)

// Key is a signing key and the principal that holds it.
type Key struct {
	Principal entry.Principal
	Public    entry.PublicKey
	Private   crypto.Signer
}

// NewKey returns the Ed25519 key of a principal that seed determines.
func NewKey(tb testing.TB, principal entry.Principal, seed string) Key {
	tb.Helper()
	sum := sha256.Sum256([]byte(seed))
	private := ed25519.NewKeyFromSeed(sum[:])
	public, err := entry.NewPublicKey(private.Public())
	must(tb, err)
	return Key{principal, public, private}
}

// NewP256 returns a random ECDSA key.
func NewP256(tb testing.TB, principal entry.Principal) Key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	public, err := entry.NewPublicKey(private.Public())
	must(tb, err)
	return Key{principal, public, private}
}

// Sign returns the entry with the content, by the key.
func (k Key) Sign(tb testing.TB, body entry.Body) *entry.Entry {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	var sig []byte
	if k.Public.Crypto() != nil {
		digest, opts := e.PAE(), crypto.SignerOpts(crypto.Hash(0))
		if _, ok := k.Private.(*ecdsa.PrivateKey); ok {
			sum := sha256.Sum256(digest)
			digest, opts = sum[:], crypto.SHA256
		}
		sig, err = k.Private.Sign(rand.Reader, digest, opts)
		must(tb, err)
	}
	e.Seal(k.Public.KeyID(), sig)
	return e
}

// IDs makes the contents of entries, and numbers them.
type IDs struct{ next int }

// Header returns the header of an entry, with a number of its own.
func (i *IDs) Header(iss entry.Principal) entry.Header {
	i.next++
	return entry.Header{V: 1, JTI: fmt.Sprintf("00000000-0000-7000-8000-%012x", i.next), Iss: iss, Aud: Origin, Iat: 1790000000}
}

// Work returns the header of an entry that belongs to a workflow.
func (i *IDs) Work(iss entry.Principal) entry.Header {
	h := i.Header(iss)
	h.Wid = "workflow"
	return h
}

// Policy returns a policy of k that names the authority.
func (i *IDs) Policy(k Key, authority ...Key) *entry.Policy {
	most := entry.Cap{Members: 100, Agents: 10, Domains: 3, FencedMS: 1000}
	p := &entry.Policy{
		Header: i.Header(k.Principal),
		Roles:  map[entry.Role][]entry.Role{entry.RoleAgent: {entry.RoleEnroller}},
		Windows: entry.Windows{DecideMS: 1, AnswerMS: 1, MemberMS: 1, DeadlineMaxMS: 1, CooldownMS: 1, SinceMaxMS: 1,
			BundleMaxAgeMS: 1, IatMS: 1},
		Limits:    entry.Limits{Incident: most, Signaler: most, Victim: most, WindowMS: 1},
		Quotas:    entry.Quotas{SignalsPerHour: 1},
		Quorum:    entry.Quorum{Approve: 1, Override: 2, Signalers: 1},
		MaxStepMS: 1,
	}
	for _, a := range authority {
		p.Authority = append(p.Authority, entry.AuthorityKey{Principal: a.Principal, Key: a.Public})
	}
	return p
}

// Agent returns an agent entry of k about the key of another.
func (i *IDs) Agent(k Key, op entry.AgentOp, about Key, roles ...entry.Role) *entry.Agent {
	return &entry.Agent{Header: i.Header(k.Principal), Principal: about.Principal, Op: op, Key: about.Public, Roles: roles,
		Domain: "domain", Span: entry.SpanWorkflow}
}

// Execution returns the first entry of an execution of k, without effects.
func (i *IDs) Execution(k Key) *entry.Execution {
	h := i.Work(k.Principal)
	return &entry.Execution{Header: h, Exec: "exec-" + strconv.Itoa(i.next), Parents: []entry.Parent{}, Effect: entry.EffectNone,
		Progress: entry.Planned}
}

// LedgerKey returns a key of the ledger of that origin, which the name determines, and its
// verifier key.
func LedgerKey(tb testing.TB, origin, name string) (note.Signer, string) {
	tb.Helper()
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte(name), 32)), origin)
	must(tb, err)
	signer, err := note.NewSigner(skey)
	must(tb, err)
	return signer, vkey
}

// OtherSigner is a key of the ledger's name that is none of its keys.
func OtherSigner(tb testing.TB) note.Signer {
	tb.Helper()
	signer, _ := LedgerKey(tb, Origin, "another ")
	return signer
}
