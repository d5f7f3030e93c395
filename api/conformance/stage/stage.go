// Package stage is the ledger on which a case of the conformance kit for agents is played: a real
// ledger on a disk in memory, behind the real HTTP server, with every key in the hands of the kit.
//
// A Stage can lie in two ways. [Stage.Script] stands before the server, and answers a request in
// its place. A twist of [Stage.Coordinate] has the log hold another entry than the one that the
// rules admit, while the server goes on as if the right one stood there. So receipts, proofs and
// heads of a forged log hold, and what refuses the entry is the check of the entry itself.
package stage

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Origin is the name of every ledger on a stage.
const Origin = "conformance.example/ledger"

// The principals of a stage. Agent is the one under test; the kit plays all others.
const (
	Agent       entry.Principal = "worker"
	Source      entry.Principal = "source"
	Writer      entry.Principal = "writer"
	Coordinator entry.Principal = "coordinator"
	Monitor     entry.Principal = "monitor"
	Operator    entry.Principal = "operator"
	Ann         entry.Principal = "ann"
	Bob         entry.Principal = "bob"
	Enroller    entry.Principal = "enroller"
	Authority   entry.Principal = "authority"
)

// Workflow is the workflow of every execution on a stage.
const Workflow entry.WorkflowID = "conformance"

// Stage is a ledger with its principals. [New] makes one, Close ends it.
type Stage struct {
	URL  string      // of the server
	Root verify.Root // what the agent pins, with the head of the beginning

	log     *ledger.Log
	replica *coordinator.Replica
	web     *http.Server
	honest  http.Handler
	head    note.Signer
	signers map[entry.Principal]*keys.Signer
	private map[entry.Principal]ed25519.PrivateKey
	stop    func()
	ended   chan error

	mu      sync.Mutex
	changed chan struct{}           // closed at the next change
	script  Script                  // nil: the server answers all
	judge   Judge                   // nil: the rules stand
	twins   map[string]*entry.Entry // the right entry, by the jti of the forged one
	seen    []Seen
}

// A Script answers a request in the place of the server, or reports that it does not.
type Script func(w http.ResponseWriter, r *http.Request, honest http.Handler) (answered bool)

// New makes a ledger with the principals of a stage. change changes the genesis policy; nil leaves
// the policy as it is.
func New(change func(*entry.Policy)) (*Stage, error) {
	s := &Stage{signers: map[entry.Principal]*keys.Signer{}, private: map[entry.Principal]ed25519.PrivateKey{}, changed: make(chan struct{}), twins: map[string]*entry.Entry{}, ended: make(chan error, 1)}
	private, public, err := note.GenerateKey(rand.Reader, Origin)
	if err != nil {
		return nil, err
	}
	if s.head, err = note.NewSigner(private); err != nil {
		return nil, err
	}
	if err := s.open(public); err != nil {
		return nil, err
	}
	if err := s.enrol(change); err != nil {
		s.Close()
		return nil, err
	}
	first, err := s.log.Receipt(0)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Root = verify.Root{Origin: Origin, LedgerKeys: []string{public}, Genesis: merkle.HashLeaf(first.Leaf), Seen: s.log.Head().Note}
	return s, nil
}

// open opens the log, and the server before it.
func (s *Stage) open(public string) error {
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return err
	}
	s.replica = coordinator.New(Origin, nil)
	s.log, err = ledger.Open("db", &ledger.Config{Origin: Origin, Keys: []ledger.Key{{Signer: s.head, Verifier: verifier}}, FS: disk.Memory(),
		Fatal:   func(err error) { panic(err) }, // a disk in memory does not fail
		NewFold: func() ledger.Fold { return &fold{s.replica.NewFold(), s} }, Committed: s.committed,
		Precheck: func(e *entry.Entry) error { return s.judged(e, s.replica.Precheck(s.right(e))) }})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.ended <- s.log.Run(ctx) }()
	s.stop = cancel
	web, err := server.New(&server.Config{Origin: Origin, VerifierKeys: []string{public}, Log: s.log, Replica: s.replica, Rate: -1})
	if err != nil {
		return errors.Join(err, s.end())
	}
	s.honest = web.Handler()
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, s.end())
	}
	s.web = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.web.Serve(listener) }() // until Close
	s.URL = "http://" + listener.Addr().String()
	return nil
}

func (s *Stage) end() error {
	s.stop()
	return errors.Join(<-s.ended, s.log.Close())
}

// Close ends the server and the log. What they hold is in memory alone.
func (s *Stage) Close() {
	s.Script(nil)
	_ = s.web.Close()
	_ = s.end() // nothing of the log is kept
}

// enrol logs the policy and the principals.
func (s *Stage) enrol(change func(*entry.Policy)) error {
	policy := entry.Genesis(Origin, entry.AuthorityKey{Principal: Authority, Key: s.Signer(Authority).Public()})
	for _, limits := range []*entry.Cap{&policy.Limits.Incident, &policy.Limits.Signaler, &policy.Limits.Victim} {
		limits.Domains = 2
	}
	policy.Quorum.Approve = 2
	if change != nil {
		change(policy)
	}
	if _, err := s.Write(Authority, policy); err != nil {
		return err
	}
	for _, p := range []struct {
		name entry.Principal
		role entry.Role
	}{{Enroller, entry.RoleEnroller}, {Coordinator, entry.RoleCoordinator}, {Monitor, entry.RoleMonitor}, {Operator, entry.RoleOperator},
		{Ann, entry.RoleApprover}, {Bob, entry.RoleApprover}, {Source, entry.RoleAgent}, {Writer, entry.RoleAgent}, {Agent, entry.RoleAgent}} {
		by := Authority
		if p.role == entry.RoleAgent {
			by = Enroller
		}
		if _, err := s.Write(by, Enrolment(p.name, s.Signer(p.name).Public(), p.role)); err != nil {
			return err
		}
	}
	return nil
}

// Enrolment enrols a key of a principal with a role.
func Enrolment(name entry.Principal, key entry.PublicKey, role entry.Role) *entry.Agent {
	return &entry.Agent{Principal: name, Op: entry.Enrol, Key: key, Roles: []entry.Role{role}, Domain: "domain", Span: entry.SpanWorkflow}
}

// Signer returns the key of a principal.
func (s *Stage) Signer(name entry.Principal) *keys.Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signers[name] == nil {
		s.private[name], s.signers[name] = NewKey()
	}
	return s.signers[name]
}

// Private returns the key of a principal as PKCS#8 in DER.
func (s *Stage) Private(name entry.Principal) ([]byte, error) {
	s.Signer(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return x509.MarshalPKCS8PrivateKey(s.private[name])
}

// NewKey makes a key, and the signer of it.
func NewKey() (ed25519.PrivateKey, *keys.Signer) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		var signer *keys.Signer
		if signer, err = keys.NewSigner(private); err == nil {
			return private, signer
		}
	}
	panic(err) // keys.NewSigner takes every Ed25519 key, and rand.Reader never fails
}

// Seal makes an entry of a body, issued and signed by a principal. Members of the header that are
// set stay.
func (s *Stage) Seal(by entry.Principal, body entry.Body) (*entry.Entry, error) {
	h := entry.HeaderOf(body)
	made := entry.Header{V: 1, JTI: uuid.NewString(), Iss: by, Aud: Origin, Iat: time.Now().Unix(), Wid: h.Wid}
	if kind := body.Kind(); h.Wid == "" && kind != entry.KindPolicy && kind != entry.KindAgent {
		made.Wid = Workflow
	}
	*h = made
	e, err := entry.New(body)
	if err != nil {
		return nil, err
	}
	return e, s.Signer(by).Sign(e)
}

// Write registers an entry of a principal, and returns where it stands.
func (s *Stage) Write(by entry.Principal, body entry.Body) (entry.LogRef, error) {
	e, err := s.Seal(by, body)
	if err != nil {
		return entry.LogRef{}, err
	}
	return s.submit(context.Background(), e)
}

func (s *Stage) submit(ctx context.Context, e *entry.Entry) (entry.LogRef, error) {
	answer, err := s.log.Submit(ctx, e)
	if err != nil {
		return entry.LogRef{}, err
	}
	if answer.Refused != nil {
		return entry.LogRef{}, fmt.Errorf("%s of %s: %w", e.Kind, e.Header.Iss, answer.Refused)
	}
	return s.Ref(answer.Registered[0].Index)
}

// Ref is where an entry stands.
func (s *Stage) Ref(index uint64) (entry.LogRef, error) {
	e, err := s.log.Entry(index)
	if err != nil {
		return entry.LogRef{}, err
	}
	return entry.LogRef{Index: index, LeafHash: merkle.HashLeaf(e.AppendLeaf(nil))}, nil
}

// Size is the number of entries.
func (s *Stage) Size() uint64 { return s.log.Size() }

// Entries returns the entries from an index on.
func (s *Stage) Entries(from uint64) (list []*entry.Registered, err error) {
	for index := from; index < s.log.Size(); index++ {
		e, err := s.log.Entry(index)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// State calls f with the committed state.
func (s *Stage) State(f func(*coord.State)) { s.replica.Read(f) }

// Now is the ledger's clock, in Unix milliseconds.
func (s *Stage) Now() int64 { return s.log.Now() }

// Head signs a head over a tree with any key. With a nil signer it is the ledger's own.
func (s *Stage) Head(origin string, head merkle.Head, signer note.Signer) (string, error) {
	if signer == nil {
		signer = s.head
	}
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", origin, head.Size, head.Root)}, signer)
	return string(signed), err
}

// Tree is the tree over the leaf hashes of the log.
func (s *Stage) Tree() (*merkle.Tree, error) {
	entries, err := s.Entries(0)
	if err != nil {
		return nil, err
	}
	tree := new(merkle.Tree)
	for _, e := range entries {
		tree.Append(merkle.HashLeaf(e.AppendLeaf(nil)))
	}
	return tree, nil
}

// committed shows readers the new state.
func (s *Stage) committed(head verify.SignedHead) {
	s.replica.Committed(head)
	s.announce()
}

// announce wakes who waits for a change.
func (s *Stage) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Announce says that something outside the ledger has changed.
func (s *Stage) Announce() { s.announce() }

// Until waits until a condition holds, and asks again after each change. It reports whether the
// condition holds, once the time is over or over is closed.
func (s *Stage) Until(over <-chan struct{}, limit time.Duration, holds func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return holds()
		case <-over:
			return false
		}
	}
}

// Owner returns the agent of an execution, and the id of the execution there.
func Owner(ref entry.Ref) (agent entry.Principal, id string) {
	name, id, _ := strings.Cut(string(ref), "#")
	return entry.Principal(name), id
}
