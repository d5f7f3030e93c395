package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// node is an open data directory: the log, the fold and the ledger's own keys.
//
//	DIR/keys             the ledger's keys and the coordinator's
//	DIR/db               the database
//	DIR/evidence.ndjson  equivocation that the server was sent
//	DIR.anchor           the anchor, beside the directory
type node struct {
	dir         string
	keys        *keys.Ledger
	coordinator *coord.Coordinator
	signer      *keys.Signer // the coordinator's
	log         *ledger.Log
	logger      *slog.Logger

	passphrase, newPassphrase keys.Passphrase // as in nodeOptions
}

// nodeOptions say how a data directory is opened.
type nodeOptions struct {
	dir          string
	origin       string // of a new ledger; empty: made up
	create       bool   // whether a new ledger may be made
	anchor       string
	acceptAnchor bool
	acceptClock  bool
	reserve      uint64
	fatal        func(error)
	logger       *slog.Logger
	observe      func(ledger.Commit) // nil: nobody counts

	passphrase    keys.Passphrase // of key files that are encrypted
	newPassphrase keys.Passphrase // of key files that are made; nil: they are not encrypted
}

// openNode opens a data directory; with create, a missing one is made.
func openNode(o nodeOptions) (*node, error) {
	n, err := prepareNode(o)
	if err != nil {
		return nil, err
	}
	n.log, err = ledger.Open(n.database(), n.ledgerConfig(o))
	return n, err
}

// prepareNode is openNode without the log.
func prepareNode(o nodeOptions) (*node, error) {
	n := &node{dir: o.dir, logger: o.logger, passphrase: o.passphrase, newPassphrase: o.newPassphrase}
	if err := n.loadKeys(o); err != nil {
		return nil, err
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	n.coordinator = coord.New(n.keys.Origin, verifier.Check)
	return n, nil
}

// database is where the log lies.
func (n *node) database() string { return filepath.Join(n.dir, "db") }

func (n *node) ledgerConfig(o nodeOptions) *ledger.Config {
	c := &ledger.Config{
		Origin:       n.keys.Origin,
		Signer:       n.keys.Signer,
		Verifier:     n.keys.Verifier,
		Cosigner:     n.keys.Cosigner,
		NewFold:      func() ledger.Fold { return n.coordinator.NewFold() },
		Precheck:     n.coordinator.Precheck,
		Observe:      o.observe,
		Committed:    n.coordinator.Committed,
		MaxStep:      n.coordinator.MaxStep,
		Anchor:       o.anchor,
		AcceptAnchor: o.acceptAnchor,
		AcceptClock:  o.acceptClock,
		Reserve:      o.reserve,
		Fatal:        o.fatal,
		Logger:       o.logger,
	}
	if c.Anchor == "" {
		c.Anchor = filepath.Clean(o.dir) + ".anchor"
	}
	return c
}

// loadKeys loads the ledger's keys, or makes them for a new one.
func (n *node) loadKeys(o nodeOptions) error {
	dir := filepath.Join(o.dir, "keys")
	coordinatorKey := filepath.Join(dir, "coordinator.key")
	var err error
	n.keys, err = keys.LoadLedger(dir, o.passphrase)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.create:
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if n.keys, err = keys.GenerateLedger(dir, newOrigin(o.origin), o.newPassphrase); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		return withExit(exitNotFound, fmt.Errorf("%s holds no ledger: start one with arl serve --data %s", o.dir, o.dir))
	case err != nil:
		return unusableKey(err)
	case o.origin != "" && o.origin != n.keys.Origin:
		return withExit(exitConfig, fmt.Errorf("%s is the ledger %s, not %s: an origin never changes", o.dir, n.keys.Origin, o.origin))
	}
	n.signer, err = keys.Load(coordinatorKey, o.passphrase)
	if errors.Is(err, fs.ErrNotExist) && o.create {
		n.signer, err = keys.Generate(coordinatorKey, keys.Ed25519, o.newPassphrase)
	}
	return unusableKey(err)
}

// newOrigin makes up a name for a ledger that was given none: unique, so that
// two ledgers on one machine are never taken for one another.
func newOrigin(given string) string {
	if given != "" {
		return given
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return "local.arl/" + hex.EncodeToString(id[:])
}

// root returns what others pin of the ledger. It must have a genesis policy.
func (n *node) root() (verify.Root, error) {
	genesis, err := n.log.Entry(0)
	if err != nil {
		return verify.Root{}, err
	}
	return verify.Root{
		Origin:     n.keys.Origin,
		LedgerKeys: n.keys.VerifierKeys[:],
		Genesis:    merkle.HashLeaf(genesis.AppendLeaf(nil, genesis.At)),
	}, nil
}

// genesis writes the first entries of a new ledger as one batch: the policy,
// and the keys of the coordinator and of the operator.
func (n *node) genesis(ctx context.Context, policy *entry.Policy, authority, operator *keys.Signer) error {
	if policy.Authority != nil {
		return withExit(exitConfig, errors.New("a genesis policy is signed by the authority's key that is made here: leave authority out of the file, "+
			"and hand over later with arl policy apply"))
	}
	policy.Header = n.header(principalAuthority)
	policy.Authority = []entry.AuthorityKey{{Principal: principalAuthority, Key: authority.Public()}}
	enrol := func(principal entry.Principal, signer *keys.Signer, roles ...entry.Role) entry.Body {
		return &entry.Agent{Header: n.header(principalAuthority), Principal: principal, Op: entry.Enrol, Key: signer.Public(),
			Roles: roles, Domain: "ledger", Span: entry.SpanWorkflow}
	}
	var batch []*entry.Entry
	for _, body := range []entry.Body{
		policy,
		enrol(principalCoordinator, n.signer, entry.RoleCoordinator),
		enrol(principalOperator, operator, entry.RoleOperator, entry.RoleApprover, entry.RoleEnroller, entry.RoleMonitor),
	} {
		e, err := entry.New(body)
		if err != nil {
			return err
		}
		if err := authority.Sign(e); err != nil {
			return err
		}
		batch = append(batch, e)
	}
	answer, err := n.log.Submit(ctx, batch...)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		return fmt.Errorf("genesis: %w", answer.Refused)
	}
	return nil
}

func (n *node) header(issuer entry.Principal) entry.Header {
	return newHeader(issuer, n.keys.Origin)
}

// newHeader returns the header of a new entry issued now.
func newHeader(issuer entry.Principal, origin string) entry.Header {
	return entry.Header{V: 1, JTI: uuid.Must(uuid.NewV7()).String(), Iss: issuer, Aud: origin, Iat: time.Now().Unix()}
}
