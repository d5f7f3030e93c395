// Package node opens the data directory of a ledger: its keys, its log and the coordinator's state.
// It begins and runs a ledger, checks a stopped ledger, rebuilds a ledger from an export, and gives
// a new origin to a ledger that lost entries.
//
// Errors have the exit code of a command, and a remedy if there is one (package exit).
package node

import (
	"cmp"
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
	"sync/atomic"
	"time"

	"recoveryledger/api/metrics"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/complete"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// The principals that the first start of a ledger makes on its machine.
const (
	Authority   entry.Principal = "authority"
	Operator    entry.Principal = "operator"
	Coordinator entry.Principal = "coordinator"
)

// WallClock reads the clock of the machine. Tests replace it before a ledger is opened.
var WallClock = time.Now

// Node is an open data directory: the log, the fold and the ledger's own keys.
//
//	DIR/keys             keys of the ledger and of the coordinator, with the mark of unused keys
//	DIR/db               the database
//	DIR/index            the index over the log, which may be deleted
//	DIR/checks           results of the last fsck, audit and backup, which may be deleted
//	DIR/evidence.ndjson  evidence of equivocation that the server received
//	DIR.anchor           the anchor, beside the directory
type Node struct {
	Dir, Anchor string               // paths
	Origin      string               // name of the ledger
	Keys        []*keys.Ledger       // the oldest first
	Replica     *coordinator.Replica // state of the log
	Log         *ledger.Log          // nil: not opened
	Index       *complete.Index      // of the log; nil: none is kept
	Logger      *slog.Logger
	// Term returns the term of this node of a cluster, and 0 while another node orders the log.
	// Nil: a single ledger.
	Term func() int64
	// Reach returns nil when the log has what the other nodes of a cluster had registered when the
	// call began. Nil: a single ledger.
	Reach func(ctx context.Context) error

	began atomic.Int64 // the term whose leases have begun

	reserve                   uint64          // as in Options
	serves                    bool            // others submit entries, too; else one program does, which opened the ledger in place
	signer                    *keys.Signer    // the coordinator's; nil if no coordinator decides
	machine                   *trust.Store    // as in Options
	passphrase, newPassphrase keys.Passphrase // as in Options
	metrics                   *metrics.Metrics
	failed                    func(error) // as in Options, not nil
	watched                   []*watched  // keys in a KMS
}

// Options say how a data directory is opened.
type Options struct {
	Dir          string           // data directory
	Origin       string           // of a new ledger; empty: generated
	Create       bool             // whether a new ledger may be made
	Anchor       string           // file; empty: beside the directory
	AcceptAnchor bool             // whether the database is trusted without its anchor
	AcceptClock  bool             // whether a wall clock behind the last entry is trusted
	Decides      bool             // whether the coordinator's key is needed
	Index        bool             // whether an index of the log is kept
	Serves       bool             // whether anything reads the state
	Looks        bool             // whether the directory is only read
	Reserve      uint64           // free disk space in bytes below which entries are refused; 0: the default
	Fatal        func(error)      // told when the log breaks; does not return
	Failed       func(error)      // told why Run ends the ledger, before the log is closed; nil: nobody is
	Metrics      *metrics.Metrics // counts commits, damage and signatures; nil: nothing is counted
	Logger       *slog.Logger     // nil: nothing is logged
	// Progress shows how far the state is built again while the log is opened; nil: nobody sees it.
	Progress func(name string) (tell func(done, total uint64), end func())
	// Cluster makes the log that of a node of a cluster: it completes config, and sets Term.
	// Nil: a single ledger.
	Cluster func(n *Node, config *ledger.Config) error
	URIs    KeyURIs // keys in a KMS
	// Machine has the profiles of this machine; nil: a new ledger begins without a check against
	// them.
	Machine *trust.Store

	Passphrase    keys.Passphrase // of encrypted key files
	NewPassphrase keys.Passphrase // of new key files; nil: they are not encrypted
}

// Open opens a data directory. With Create, it makes a missing data directory.
func Open(ctx context.Context, o Options) (*Node, error) {
	n, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	config := n.LedgerConfig(o)
	tell, end := o.rebuilding(ctx, time.Now())
	config.Rebuild = tell
	if err := o.standing(); err != nil {
		return nil, err
	}
	if o.Cluster != nil {
		if err := o.Cluster(n, config); err != nil {
			return nil, err
		}
	}
	n.Log, err = ledger.Open(n.Database(), config)
	end()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case errors.Is(err, ledger.ErrLost):
		return nil, n.without(err)
	case errors.Is(err, ledger.ErrKeys):
		return nil, n.withoutKey(err)
	case errors.Is(err, ledger.ErrFormat), errors.Is(err, ledger.ErrOrigin):
		return nil, exit.With(exit.Config, err)
	case err != nil:
		return nil, n.damaged(err)
	case o.Create && n.Log.Head().Size == 0:
		err = n.newCoordinatorKey(o.URIs.Coordinator)
	case o.Decides:
		err = n.checkCoordinatorKey(o.URIs.Coordinator)
	}
	if policy, _ := n.Replica.View().Chain.Policy(); err == nil && o.Serves && !o.Index {
		err = withoutIndex(policy)
	}
	if err != nil {
		return nil, errors.Join(err, n.Log.Close())
	}
	if n.signer != nil {
		n.watch(keyCoordinator, n.signer.URI(), n.signer.Try, n.signer.Watch)
	}
	if o.Index {
		n.Index = n.newIndex(o.Decides)
	}
	return n, nil
}

// rebuilding returns what shows how far the state is built again, and what ends the display. A
// start of less than a second, as after an orderly end, shows nothing. When ctx ends, the building
// ends: the next start begins it again.
func (o *Options) rebuilding(ctx context.Context, began time.Time) (tell func(done, total uint64) error, end func()) {
	show, end := func(_, _ uint64) {}, func() {}
	if o.Progress != nil {
		show, end = o.Progress("rebuild")
	}
	return func(done, total uint64) error {
		if time.Since(began) >= time.Second {
			show(done, total)
		}
		return ctx.Err()
	}, end
}

// Prepare opens a data directory without its log.
func Prepare(o Options) (*Node, error) {
	n := &Node{Dir: o.Dir, Anchor: o.Anchor, Logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), machine: o.Machine, reserve: o.Reserve,
		serves: o.Serves, passphrase: o.Passphrase, newPassphrase: o.NewPassphrase, metrics: o.Metrics, failed: o.Failed}
	if n.failed == nil {
		n.failed = func(error) {}
	}
	if n.metrics == nil {
		n.metrics = metrics.New()
	}
	if err := n.findAnchor(); err != nil {
		return nil, err
	}
	if err := n.loadKeys(o); err != nil {
		return nil, err
	}
	for _, k := range n.Keys {
		n.watch(keyLedger, k.URI, k.Try, k.Watch)
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	n.Replica = coordinator.New(n.Origin, verifier.Check)
	return n, nil
}

// Look returns a data directory without opening its log. If the keys cannot be read, Look returns
// the data directory and the error. If the anchor has no place, Look returns only the error.
func Look(dir, anchor string) (*Node, error) {
	n := &Node{Dir: dir, Anchor: anchor}
	if err := n.findAnchor(); err != nil {
		return nil, err
	}
	return n, n.loadKeys(Options{})
}

// damaged adds the remedy to an error that means a damaged log. Other errors do not change.
func (n *Node) damaged(err error) error { return n.repaired(err, damageRemedy(n.Dir, n.Anchor)) }

// repaired adds a remedy to an error that means a damaged log, unless the ledger itself can repair
// the damage.
func (n *Node) repaired(err error, remedy string) error {
	if !errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	if found, ok := errors.AsType[*ledger.DamageError](err); ok && found.Spare {
		return exit.Remedied(fmt.Sprintf("restore nothing: no entry depends on %s, and arl serve --data %s replaces the file", found.Name, n.Dir), err)
	}
	return exit.Remedied(remedy, err)
}

// damageRemedy is the remedy for a damaged log in a data directory.
func damageRemedy(dir, anchor string) string {
	return fmt.Sprintf("keep %[1]s as it is; arl log fsck --data %[1]s names the damage; %[2]s", dir, restoreRemedy(dir, anchor))
}

// restoreRemedy is the part of damageRemedy that follows when the damage is known.
func restoreRemedy(dir, anchor string) string {
	return fmt.Sprintf("restore %s and %s from the newest copy, or rebuild them from an export (arl log import)", dir, anchor)
}

// Database returns the directory of the log.
func (n *Node) Database() string { return filepath.Join(n.Dir, "db") }

// LedgerConfig returns the configuration that opens the log.
func (n *Node) LedgerConfig(o Options) *ledger.Config {
	config := &ledger.Config{
		Origin:       n.Origin,
		Keys:         n.logKeys(),
		Used:         !o.Create || !n.Keys[0].Unused,
		Begun:        n.begun,
		Signs:        n.signs,
		NewFold:      func() ledger.Fold { return n.Replica.NewFold() },
		Precheck:     n.precheck,
		Observe:      n.committed,
		Committed:    n.Replica.Committed,
		MaxStep:      n.Replica.MaxStep,
		Anchor:       n.Anchor,
		AcceptAnchor: o.AcceptAnchor,
		AcceptClock:  o.AcceptClock,
		Reserve:      o.Reserve,
		Fatal:        o.Fatal,
		Now:          WallClock,
		Logger:       o.Logger,
	}
	if o.Looks {
		config.NewFold = func() ledger.Fold { return &wary{Fold: n.Replica.NewFold()} }
	}
	if o.Serves || o.Decides {
		config.Frozen = func() (ledger.Fold, uint64) { return n.Replica.Frozen() }
	} else {
		n.Replica.NoReaders() // the snapshot is taken at the end
	}
	return config
}

// wary is a fold of a log that is not trusted. It stops before the first entry that the
// rules do not allow: no state follows from such an entry, and applying it may panic.
// arl log audit names the entry.
type wary struct {
	*coordinator.Fold
	refused error
}

// Apply implements [ledger.Fold]. It applies nothing after an entry that is refused.
func (w *wary) Apply(e *entry.Entry, index uint64, at int64) {
	if w.refused == nil {
		w.refused = w.Admit(e, index, at)
	}
	if w.refused == nil {
		w.Fold.Apply(e, index, at)
	}
}

// Snapshot implements [ledger.Fold]. The error says which entry was refused.
func (w *wary) Snapshot(to io.Writer) error {
	if w.refused != nil {
		return fmt.Errorf("entry %d should not be in the log (arl log audit): %w", w.Size(), w.refused)
	}
	return w.State.Snapshot(to)
}

// Check computes the data of a stopped ledger again, and compares it with the stored data. A
// difference is a [*ledger.DamageError]. Check changes nothing but the note of its result
// ([Node.lastCheck]).
func Check(ctx context.Context, o Options, tell func(done, total uint64)) (*ledger.CheckReport, error) {
	found, err := check(ctx, o, tell)
	switch _, damage := errors.AsType[*ledger.DamageError](err); {
	case err == nil:
		_ = NoteCheck(o.Dir, "fsck", found.Entries, true) // the command tells the result
	case damage:
		_ = NoteCheck(o.Dir, "fsck", 0, false)
	}
	return found, err
}

func check(ctx context.Context, o Options, tell func(done, total uint64)) (*ledger.CheckReport, error) {
	o.Looks = true
	n, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	found, err := ledger.Check(ctx, n.Database(), n.LedgerConfig(o), tell)
	switch {
	case errors.Is(err, ledger.ErrLost):
		return nil, n.without(err)
	case err != nil:
		return nil, n.repaired(err, fmt.Sprintf("keep %s as it is; %s", n.Dir, restoreRemedy(n.Dir, n.Anchor)))
	}
	n.Replica.Committed(verify.SignedHead{Head: found.Head})
	if err := n.CheckLedgerKeys(n.Replica.View().Chain); err != nil {
		return nil, err
	}
	if err := n.checkCoordinatorKey(""); found.Head.Size > 0 && err != nil {
		return nil, err
	}
	return found, nil
}

// findAnchor finds the path of the anchor. The anchor must not lie in the data directory, because
// the anchor would be lost or restored together with the data.
func (n *Node) findAnchor() (err error) {
	if n.Anchor == "" {
		n.Anchor, err = anchorOf(n.Dir)
		return err
	}
	dir, err := filepath.Abs(n.Dir)
	path, pathErr := filepath.Abs(n.Anchor)
	if err := errors.Join(err, pathErr); err != nil {
		return err
	}
	if inside, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(inside) {
		return exit.Usagef("--anchor %s lies in the data directory: keep the anchor elsewhere, so that a restore of the data does not restore the anchor", n.Anchor)
	}
	return nil
}

// anchorOf returns the default path of the anchor: beside the data directory, so that a restore or
// a loss of the directory does not affect the anchor.
func anchorOf(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if path == filepath.Dir(path) {
		return "", exit.Usagef("%s is the root of the file system, so the anchor has no place beside it: name another directory", path)
	}
	return path + ".anchor", nil
}

// begun marks the keys as used before the first head leaves the process.
func (n *Node) begun() error {
	if err := keys.MarkLedgerUsed(n.KeysDir()); err != nil {
		return exit.With(exit.IO, err)
	}
	n.Keys[0].Unused = false
	return nil
}

// without returns the error of keys without their log.
func (n *Node) without(err error) error {
	if n.Keys[0].Unused {
		return noLedger(n.Dir)
	}
	return err
}

func noLedger(dir string) error {
	return exit.With(exit.NotFound, fmt.Errorf("%s holds no ledger: start one with arl serve --data %s", dir, dir))
}

// makeKeys makes the keys of a new ledger. If several processes start at once, one of them makes
// the keys.
func (n *Node) makeKeys(o Options) (err error) {
	if err := o.refuseKnown(o.Origin); err != nil {
		return err
	}
	if err := os.MkdirAll(n.KeysDir(), 0o700); err != nil {
		return err
	}
	dir, err := os.Open(n.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }() // Close releases the lock
	if held, err := durable.Lock(dir); err != nil {
		return err
	} else if !held {
		return fmt.Errorf("%w: %s: another process starts a ledger there", ledger.ErrInUse, n.Dir)
	}
	made, err := keys.ReferLedger(n.KeysDir(), newOrigin(o.Origin), o.URIs.Ledger, o.NewPassphrase)
	n.Keys = []*keys.Ledger{made}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s: another process has just started a ledger there", ledger.ErrInUse, n.Dir)
	}
	return err
}

// newCoordinatorKey loads or makes the coordinator's key for an empty log.
func (n *Node) newCoordinatorKey(uri string) (err error) {
	n.signer, err = n.loadCoordinatorKey(uri)
	if errors.Is(err, fs.ErrNotExist) {
		n.signer, err = keys.Generate(n.CoordinatorKey(), keys.Ed25519, n.newPassphrase)
	}
	if err == nil {
		err = n.keepCoordinatorKey()
	}
	return exit.KeyFile(err)
}

// CoordinatorKey returns the path of the coordinator's key.
func (n *Node) CoordinatorKey() string { return filepath.Join(n.KeysDir(), "coordinator.key") }

// checkCoordinatorKey loads the coordinator's key, and checks that the log lets the coordinator
// decide with it. uri is as in [Node.loadCoordinatorKey].
func (n *Node) checkCoordinatorKey(uri string) (err error) {
	n.signer, err = n.loadCoordinatorKey(uri)
	if err == nil {
		err = CoordinatorCounts(n.Replica.View().Chain, n.signer.Public().KeyID())
	}
	if err == nil {
		err = n.keepCoordinatorKey()
	}
	if _, away := errors.AsType[*keys.KMSError](err); away {
		return err
	}
	if err == nil || errors.Is(err, keys.ErrPassphrase) {
		return exit.KeyFile(err)
	}
	if _, own := errors.AsType[*exit.Error](err); own {
		return err // an error of the source of the passphrase
	}
	return exit.With(exit.Config, fmt.Errorf("%s cannot decide: %w: %s", n.CoordinatorKey(), err, n.CoordinatorRemedy()))
}

// CoordinatorCounts returns an error unless the key may sign decisions of the coordinator.
func CoordinatorCounts(chain *verify.Chain, keyID string) error {
	if _, refusal := chain.Speaks(keyID, Coordinator, entry.RoleCoordinator); refusal != nil {
		return errors.New(refusal.Detail)
	}
	return nil
}

// CoordinatorRemedy returns the remedy for a coordinator's key that does not count.
func (n *Node) CoordinatorRemedy() string {
	return fmt.Sprintf("restore the key from a backup; if the key is lost or revoked, move the file away, start with --accept-no-coordinator, enrol "+
		"another key (arl key generate --out %[1]s; arl agent enrol --principal %[2]s --roles %[2]s --domain ledger --key %[1]s) and start again",
		n.CoordinatorKey(), Coordinator)
}

// newOrigin returns the given origin, or generates an origin if none is given. A generated origin
// is unique, so that two ledgers on one machine are never confused.
func newOrigin(given string) string {
	if given != "" {
		return given
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return "local.arl/" + hex.EncodeToString(id[:])
}

// Header returns the header of a new entry for this ledger.
func (n *Node) Header(issuer entry.Principal) entry.Header {
	return keys.NewHeader(issuer, n.Origin)
}
