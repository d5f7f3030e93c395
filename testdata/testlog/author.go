package testlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

// Author makes and signs the entries of several principals, for tests of the fold. All
// that the author makes follows from the calls.
type Author struct {
	TB  testing.TB
	Now func() int64 // Unix milliseconds by the ledger's clock
	// Seeds names what the key of a principal that rotated is made of. The seed of
	// others is their own name.
	Seeds map[entry.Principal]string
	jti   uint64
}

// privates and publics are the keys of the seeds so far: a test signs thousands of entries
// with a few of them.
var privates, publics sync.Map

// Private returns the key that a seed gives.
func Private(seed string) ed25519.PrivateKey {
	if key, made := privates.Load(seed); made {
		return key.(ed25519.PrivateKey)
	}
	sum := sha256.Sum256([]byte(seed))
	key := ed25519.NewKeyFromSeed(sum[:])
	privates.Store(seed, key)
	return key
}

// Public returns the public key that a seed gives.
func Public(tb testing.TB, seed string) entry.PublicKey {
	tb.Helper()
	if key, made := publics.Load(seed); made {
		return key.(entry.PublicKey)
	}
	key, err := entry.NewPublicKey(Private(seed).Public())
	must(tb, err)
	publics.Store(seed, key)
	return key
}

// Seed returns what a principal signs with.
func (a *Author) Seed(p entry.Principal) string {
	if seed, ok := a.Seeds[p]; ok {
		return seed
	}
	return string(p)
}

// Header returns the next header of an issuer, in workflow w.
func (a *Author) Header(iss entry.Principal) entry.Header {
	a.jti++
	id := uuid.UUID(binary.BigEndian.AppendUint64(make([]byte, 8), a.jti))
	return entry.Header{V: 1, JTI: id.String(), Iss: iss, Aud: Origin, Iat: a.Now() / 1000, Wid: "w"}
}

// Complete fills in the header of a draft.
func (a *Author) Complete(iss entry.Principal, body entry.Body) {
	h, next := entry.HeaderOf(body), a.Header(iss)
	h.JTI, h.Iss, h.Iat = next.JTI, iss, next.Iat
}

// Enrol returns the entry that enrols a principal in domain d.
func (a *Author) Enrol(iss, p entry.Principal, roles ...entry.Role) *entry.Agent {
	e := &entry.Agent{
		Header: a.Header(iss), Principal: p, Op: entry.Enrol, Key: Public(a.TB, a.Seed(p)),
		Roles: roles, Domain: "d", Span: entry.SpanWorkflow,
	}
	e.Wid = ""
	return e
}

// Exec returns a planned execution without effect, with hard dependencies on its parents.
func (a *Author) Exec(iss entry.Principal, id string, parents ...entry.Ref) *entry.Execution {
	x := &entry.Execution{
		Header: a.Header(iss), Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	}
	for _, p := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: p, Dep: entry.Hard})
	}
	return x
}

// Step returns a later entry of an execution.
func (a *Author) Step(x *entry.Execution, progress entry.Progress) *entry.Execution {
	next := *x
	next.Header = a.Header(x.Iss)
	next.Wid, next.Progress = x.Wid, progress
	return &next
}

// Checkpoint returns a checkpoint after an execution; after "" it is before all.
func (a *Author) Checkpoint(iss entry.Principal, id string, after entry.Ref) *entry.Checkpoint {
	c := &entry.Checkpoint{Header: a.Header(iss), Checkpoint: id, Digest: entry.DigestOf("state")}
	if after != "" {
		c.After = &after
	}
	return c
}

// Signal returns a failure signal about a subject.
func (a *Author) Signal(iss entry.Principal, standing entry.Standing, subject entry.Ref) *entry.Signal {
	return &entry.Signal{
		Header: a.Header(iss), Subject: subject, Class: "tool", Code: "error", Standing: standing,
		Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: a.Now(),
	}
}

// Sign returns the entry with that content, signed by its issuer.
func (a *Author) Sign(body entry.Body) *entry.Entry {
	a.TB.Helper()
	e, err := entry.New(body)
	must(a.TB, err)
	seed := a.Seed(e.Header.Iss)
	e.Seal(Public(a.TB, seed).KeyID(), ed25519.Sign(Private(seed), e.PAE()))
	return e
}
