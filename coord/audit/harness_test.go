package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/api/server"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

const origin = "ledger.example/audit"

// site is a ledger on a memory disk, behind a server and as an export.
type site struct {
	url    string
	export string // directory
	root   verify.Root
	log    *ledger.Log
	stop   func() error
}

// credulous is a fold that takes every entry.
type credulous struct{}

func (credulous) Admit(*entry.Entry, uint64, int64) error { return nil }
func (credulous) Apply(*entry.Entry, uint64, int64)       {}
func (credulous) Snapshot(io.Writer) error                { return nil }
func (credulous) Restore(io.Reader) error                 { return nil }

// open starts a ledger with some entries: the genesis, an agent, and steps of the
// agent. A lying ledger takes a step of somebody unknown, too.
func open(steps int, lying bool) (*site, error) { return openWith(steps, lying, time.Second) }

// openWith is open with a clock that goes on by tick whenever somebody looks at it: a
// second has every head published anew.
func openWith(steps int, lying bool, tick time.Duration) (*site, error) {
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)), origin)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return nil, err
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	var ticks atomic.Int64
	c := coordinator.New(origin, nil)
	cfg := &ledger.Config{Origin: origin, Keys: []ledger.Key{{Signer: signer, Verifier: verifier}}, FS: vfs.NewMem(),
		NewFold: func() ledger.Fold { return c.NewFold() }, Precheck: c.Precheck, Committed: c.Committed,
		Uptime: func() time.Duration { return time.Duration(ticks.Add(1)) * tick },
		Fatal:  func(err error) { panic(err) }}
	if lying {
		cfg.NewFold, cfg.Precheck, cfg.Committed = func() ledger.Fold { return credulous{} }, nil, nil
	}
	log, err := ledger.Open("db", cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	s, err := server.New(&server.Config{Origin: origin, VerifierKeys: []string{vkey}, Log: log, Replica: c, Rate: -1})
	if err != nil {
		cancel()
		return nil, err
	}
	web := httptest.NewServer(s.Handler())
	made := &site{url: web.URL, log: log, root: verify.Root{Origin: origin, LedgerKeys: []string{vkey}}}
	made.stop = func() error {
		web.Close()
		cancel()
		return errors.Join(<-done, log.Close(), os.RemoveAll(made.export))
	}
	if err := errors.Join(made.fill(steps, lying), made.publish()); err != nil {
		return nil, errors.Join(err, made.stop())
	}
	return made, nil
}

// fill registers the entries.
func (s *site) fill(steps int, lying bool) error {
	authority, agent, stranger := newSigner("authority"), newSigner("agent"), newSigner("stranger")
	policy := entry.Genesis(origin, entry.AuthorityKey{Principal: "authority", Key: authority.Public()})
	policy.Header = header("authority", "")
	entries := []*entry.Entry{signed(authority, policy), signed(authority, &entry.Agent{Header: header("authority", ""),
		Principal: "agent-1", Op: entry.Enrol, Key: agent.Public(), Roles: []entry.Role{entry.RoleAgent}, Domain: "test", Span: entry.SpanWorkflow})}
	for range steps {
		entries = append(entries, signed(agent, step("agent-1")))
	}
	if lying {
		entries = append(entries, signed(stranger, step("nobody")))
	}
	for _, e := range entries {
		answer, err := s.log.Submit(context.Background(), e)
		if err == nil && answer.Refused != nil {
			err = answer.Refused
		}
		if err != nil {
			return err
		}
	}
	first, err := s.log.Entry(0)
	if err != nil {
		return err
	}
	s.root.Genesis = first.LeafHash()
	return nil
}

// newest publishes every head at once.
type newest struct{ *ledger.Log }

// Published implements [export.Source].
func (n newest) Published() (verify.SignedHead, error) { return n.Head().SignedHead, nil }

// publish exports the log.
func (s *site) publish() (err error) {
	if s.export, err = os.MkdirTemp("", "arl-audit-"); err != nil {
		return err
	}
	_, err = export.Write(context.Background(), s.export, &export.Config{Source: newest{s.log}, Open: s.root.Head})
	return err
}

func newSigner(name string) *keys.Signer {
	seed := sha256.Sum256([]byte(name))
	signer, err := keys.NewSigner(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		panic(err)
	}
	return signer
}

func signed(by *keys.Signer, body entry.Body) *entry.Entry {
	e, err := entry.New(body)
	if err == nil {
		err = by.Sign(e)
	}
	if err != nil {
		panic(err)
	}
	return e
}

func header(issuer entry.Principal, wid entry.WorkflowID) entry.Header {
	return entry.Header{V: 1, JTI: uuid.NewString(), Iss: issuer, Aud: origin, Iat: time.Now().Unix(), Wid: wid}
}

func step(issuer entry.Principal) *entry.Execution {
	return &entry.Execution{Header: header(issuer, "flow-1"), Exec: uuid.NewString(), Parents: []entry.Parent{},
		Effect: entry.EffectNone, Progress: entry.Planned}
}
