package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
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
//	DIR/keys             the ledger's keys and the coordinator's, with the mark of unused ones
//	DIR/db               the database
//	DIR/evidence.ndjson  equivocation that the server was sent
//	DIR.anchor           the anchor, beside the directory
type node struct {
	dir, anchor string
	origin      string
	keys        []*keys.Ledger // the oldest first
	replica     *coord.Replica
	signer      *keys.Signer // the coordinator's; nil where nothing decides
	log         *ledger.Log
	logger      *slog.Logger

	passphrase, newPassphrase keys.Passphrase // as in nodeOptions
}

// nodeOptions say how a data directory is opened.
type nodeOptions struct {
	dir          string
	origin       string // of a new ledger; empty: made up
	create       bool   // whether a new ledger may be made
	anchor       string // file; empty: beside the directory
	acceptAnchor bool
	acceptClock  bool
	decides      bool // whether the coordinator's key is needed
	serves       bool // whether somebody reads the state
	looks        bool // whether it is only read, whatever somebody may have written there
	reserve      uint64
	fatal        func(error)
	logger       *slog.Logger
	observe      func(ledger.Commit) // nil: nobody counts
	// known is an error if this machine knows a ledger of an origin under which a
	// new one is to begin. Nil: nobody asks.
	known func(origin string) error

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
	switch {
	case errors.Is(err, ledger.ErrLost):
		return nil, n.without(err)
	case errors.Is(err, ledger.ErrKeys):
		return nil, n.withoutKey(err)
	case errors.Is(err, ledger.ErrFormat), errors.Is(err, ledger.ErrOrigin):
		return nil, withExit(exitConfig, err)
	case err != nil:
		return nil, n.damaged(err)
	case o.create && n.log.Head().Size == 0:
		err = n.newCoordinatorKey()
	case o.decides:
		err = n.checkCoordinatorKey()
	}
	if err != nil {
		return nil, errors.Join(err, n.log.Close())
	}
	return n, nil
}

// prepareNode is openNode without the log.
func prepareNode(o nodeOptions) (*node, error) {
	n := &node{dir: o.dir, anchor: o.anchor, logger: o.logger, passphrase: o.passphrase, newPassphrase: o.newPassphrase}
	if err := n.findAnchor(); err != nil {
		return nil, err
	}
	if err := n.loadKeys(o); err != nil {
		return nil, err
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	n.replica = coord.New(n.origin, verifier.Check)
	return n, nil
}

// damaged gives an error that means a damaged log what to do about it; others
// stay as they are.
func (n *node) damaged(err error) error {
	if !errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	return &remedyError{damageRemedy(n.dir, n.anchor), err}
}

// damageRemedy is what to do about a damaged log in a data directory.
func damageRemedy(dir, anchor string) string {
	return fmt.Sprintf("keep %[1]s as it is; arl log fsck --data %[1]s names the damage; restore %[1]s and %[2]s "+
		"from the newest copy, or rebuild them from an export (arl log import)", dir, anchor)
}

// tuneRuntime sets the Go runtime up for a ledger, unless GOGC and GOMAXPROCS say
// otherwise, until restore is called.
//
// What a ledger keeps of its entries is much, lives long and holds no pointers:
// to look it through often costs little, and less memory waits to be freed.
//
// Two threads wait for the disk nearly always, in the sync of a commit and in that
// of the anchor. To the runtime they run, until it finds out, which takes as long
// as a sync does: each has a processor of its own, so that nobody else goes
// without.
func tuneRuntime() (restore func()) {
	restore = func() {}
	if os.Getenv("GOGC") == "" {
		before := debug.SetGCPercent(25)
		restore = func() { debug.SetGCPercent(before) }
	}
	if os.Getenv("GOMAXPROCS") == "" {
		const syncing = 2
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + syncing)
		collect := restore
		restore = func() { collect(); runtime.SetDefaultGOMAXPROCS() }
	}
	return restore
}

// database is where the log lies.
func (n *node) database() string { return filepath.Join(n.dir, "db") }

func (n *node) ledgerConfig(o nodeOptions) *ledger.Config {
	config := &ledger.Config{
		Origin:       n.origin,
		Keys:         n.logKeys(),
		Used:         !o.create || !n.keys[0].Unused,
		Begun:        n.begun,
		Signs:        n.signs,
		NewFold:      func() ledger.Fold { return n.replica.NewFold() },
		Precheck:     n.precheck,
		Observe:      o.observe,
		Committed:    n.replica.Committed,
		MaxStep:      n.replica.MaxStep,
		Anchor:       n.anchor,
		AcceptAnchor: o.acceptAnchor,
		AcceptClock:  o.acceptClock,
		Reserve:      o.reserve,
		Fatal:        o.fatal,
		Logger:       o.logger,
	}
	if o.looks {
		config.NewFold = func() ledger.Fold { return &wary{State: n.replica.NewFold()} }
	}
	if o.serves {
		config.Frozen = func() (ledger.Fold, uint64) { return n.replica.Frozen() }
	} else {
		n.replica.NoReaders() // and the snapshot is taken at the end
	}
	return config
}

// wary is a fold of a log that is not believed: it ends before the first entry
// that should not be there, since no state follows from that, and applying it may
// panic. What stands there is for arl log audit to say.
type wary struct {
	*coord.State
	refused error
}

func (w *wary) Apply(e *entry.Entry, index uint64, at int64) {
	if w.refused == nil {
		w.refused = w.Admit(e, index, at)
	}
	if w.refused == nil {
		w.State.Apply(e, index, at)
	}
}

func (w *wary) Snapshot(to io.Writer) error {
	if w.refused != nil {
		return fmt.Errorf("entry %d should not be in the log (arl log audit): %w", w.Size(), w.refused)
	}
	return w.State.Snapshot(to)
}

// findAnchor says where the anchor lies: not in the data directory, with which it
// would be lost or restored.
func (n *node) findAnchor() (err error) {
	if n.anchor == "" {
		n.anchor, err = anchorOf(n.dir)
		return err
	}
	dir, err := filepath.Abs(n.dir)
	path, pathErr := filepath.Abs(n.anchor)
	if err := errors.Join(err, pathErr); err != nil {
		return err
	}
	if inside, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(inside) {
		return usage("--anchor %s lies in the data directory: keep it elsewhere, so that it is not restored with the data", n.anchor)
	}
	return nil
}

// anchorOf is where the anchor of a data directory lies by default: beside it,
// so that who restores or loses the one does not have to do it to the other.
func anchorOf(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if path == filepath.Dir(path) {
		return "", usage("%s is the root of the file system, nothing lies beside it: name a directory in it", path)
	}
	return path + ".anchor", nil
}

// loadKeys loads the ledger's keys, or makes them for a new one.
func (n *node) loadKeys(o nodeOptions) (err error) {
	isOld := n.isNew() // asked first: another process may just be starting a ledger, its keys come first
	n.keys, err = keys.LoadLedger(n.keysDir(), o.passphrase)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case isOld != nil:
		err = isOld
	case !o.create:
		err = noLedger(n.dir)
	default:
		err = n.makeKeys(o)
	}
	if err == nil && n.keys[0].Unused {
		err = o.refuseKnown(n.keys[0].Origin)
	}
	if err != nil {
		return unusableLedgerKeys(n.keysDir(), err)
	}
	n.origin = n.keys[0].Origin
	if o.origin != "" && o.origin != n.origin {
		return withExit(exitConfig, fmt.Errorf("%s is the ledger %s, not %s: an origin never changes", o.dir, n.origin, o.origin))
	}
	return nil
}

func (n *node) keysDir() string { return filepath.Join(n.dir, "keys") }

// isNew is an error if there was a ledger, which new keys could not go on with.
func (n *node) isNew() error {
	if _, err := os.Stat(filepath.Join(n.dir, comingKeys)); err == nil {
		return withExit(exitConflict, fmt.Errorf("a change of the origin was interrupted: run arl ledger new-origin --data %s again", n.dir))
	}
	for _, path := range []string{n.database(), n.anchor} {
		_, err := os.Stat(path)
		switch {
		case err == nil:
			return withExit(exitConfig, fmt.Errorf("the keys of %s are missing, but there is %s: restore %s from a backup; "+
				"without them nobody continues this ledger", n.dir, path, n.keysDir()))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// refuseKnown is an error if a ledger of that origin has begun elsewhere.
func (o *nodeOptions) refuseKnown(origin string) error {
	if o.known == nil || origin == "" {
		return nil
	}
	return o.known(origin)
}

// begun makes the mark beside the keys say that they have signed, before any head
// leaves the process.
func (n *node) begun() error {
	if err := keys.MarkLedgerUsed(n.keysDir()); err != nil {
		return withExit(exitIO, err)
	}
	n.keys[0].Unused = false
	return nil
}

// without is the error of keys without their log.
func (n *node) without(err error) error {
	if n.keys[0].Unused {
		return noLedger(n.dir)
	}
	return err
}

func noLedger(dir string) error {
	return withExit(exitNotFound, fmt.Errorf("%s holds no ledger: start one with arl serve --data %s", dir, dir))
}

// makeKeys makes the keys of a new ledger. Of several starts at once one does.
func (n *node) makeKeys(o nodeOptions) (err error) {
	if err := o.refuseKnown(o.origin); err != nil {
		return err
	}
	if err := os.MkdirAll(n.keysDir(), 0o700); err != nil {
		return err
	}
	dir, err := os.Open(n.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }() // and gives up the lock
	if held, err := lockFile(dir); err != nil {
		return err
	} else if !held {
		return fmt.Errorf("%w: %s: another process starts a ledger there", ledger.ErrInUse, n.dir)
	}
	made, err := keys.GenerateLedger(n.keysDir(), newOrigin(o.origin), o.newPassphrase)
	n.keys = []*keys.Ledger{made}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s: another process has just started a ledger there", ledger.ErrInUse, n.dir)
	}
	return err
}

// newCoordinatorKey loads or makes the coordinator's key for a log that has
// nothing yet.
func (n *node) newCoordinatorKey() (err error) {
	n.signer, err = keys.Load(n.coordinatorKey(), n.passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		n.signer, err = keys.Generate(n.coordinatorKey(), keys.Ed25519, n.newPassphrase)
	}
	return unusableKey(err)
}

func (n *node) coordinatorKey() string { return filepath.Join(n.keysDir(), "coordinator.key") }

// checkCoordinatorKey loads the coordinator's key and sees to it that the log,
// whose entries the coordinator has seen, lets it decide.
func (n *node) checkCoordinatorKey() (err error) {
	n.signer, err = keys.Load(n.coordinatorKey(), n.passphrase)
	if err == nil {
		err = coordinatorCounts(n.replica.View().Chain, n.signer.Public().KeyID())
	}
	if err == nil || errors.Is(err, keys.ErrPassphrase) {
		return unusableKey(err)
	}
	if _, own := errors.AsType[*exitError](err); own {
		return err // of who was asked for the passphrase
	}
	return withExit(exitConfig, fmt.Errorf("%s cannot decide: %w: %s", n.coordinatorKey(), err, n.coordinatorRemedy()))
}

// coordinatorCounts is an error unless the key may sign what the coordinator
// decides.
func coordinatorCounts(chain *verify.Chain, keyID string) error {
	key, known := chain.KeyInfo(keyID)
	switch {
	case !known || key.Principal != principalCoordinator || !slices.Contains(key.Roles, entry.RoleCoordinator):
		return fmt.Errorf("%s is not enrolled for the coordinator", keyID)
	case key.Revoked != 0:
		return fmt.Errorf("%s does not count since index %d", keyID, key.Revoked)
	}
	return nil
}

// coordinatorRemedy is what to do where the coordinator's key does not count.
func (n *node) coordinatorRemedy() string {
	return fmt.Sprintf("restore it from a backup; if it is lost or revoked, move it away, start with --accept-no-coordinator, "+
		"enrol another (arl key generate --out %[1]s; arl agent enrol --principal %[2]s --roles %[2]s --domain ledger --key %[1]s) and start again",
		n.coordinatorKey(), principalCoordinator)
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

// root returns what others pin of the ledger, as policies left it. It must have a genesis policy.
func (n *node) root() (verify.Root, error) {
	genesis, err := n.log.Entry(0)
	if err != nil {
		return verify.Root{}, err
	}
	root := verify.Root{Origin: n.origin, LedgerKeys: n.keys[0].VerifierKeys[:], Genesis: merkle.HashLeaf(genesis.AppendLeaf(nil))}
	return root.Follow(n.replica.View().Chain), nil
}

// genesis writes the first entries of a new ledger as one batch: the policy,
// and the keys of the coordinator and of the operator.
func (n *node) genesis(ctx context.Context, policy *entry.Policy, authority, operator *keys.Signer) error {
	policy.Header = n.header(principalAuthority)
	policy.Authority = []entry.AuthorityKey{{Principal: principalAuthority, Key: authority.Public()}}
	if link, err := readPredecessor(n.keysDir()); err == nil {
		policy.Predecessor = link
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
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
	return newHeader(issuer, n.origin)
}

// newHeader returns the header of a new entry issued now.
func newHeader(issuer entry.Principal, origin string) entry.Header {
	return entry.Header{V: 1, JTI: uuid.Must(uuid.NewV7()).String(), Iss: issuer, Aud: origin, Iat: time.Now().Unix()}
}
