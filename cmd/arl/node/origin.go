package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger"
	"recoveryledger/ledger/backup"
	"recoveryledger/ledger/disk"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// The names that arl ledger new-origin makes in a data directory.
const (
	predecessorFile = "predecessor.json" // beside the keys: the genesis' statement about the old ledger
	comingKeys      = "keys.coming"      // the new keys, until the old keys are moved away
	formerDir       = "former"           // the rest of old ledgers, by profile name
)

// OriginChange is the result of a change of the origin.
type OriginChange struct {
	Origin      string            `json:"origin"`
	Predecessor entry.Predecessor `json:"predecessor"`
	Former      string            `json:"former"`            // directory with the rest of the old ledger
	Profile     string            `json:"profile,omitempty"` // name of the old profile from now on
}

// ChangeOrigin gives new keys and a new origin to a data directory whose acknowledged entries are
// lost. The origin is o.Origin, or a generated origin if that is empty. With abandon it also gives
// up the entries in the database. A crash may follow each step. The next run sees from the files
// which steps are done:
//
//  1. DIR/keys.coming has the new keys and the link to the old ledger, durably
//  2. the database, the evidence, the anchor and, last, the old keys are in DIR/former/NAME
//  3. keys.coming becomes DIR/keys
//  4. the old profile becomes former/NAME
func ChangeOrigin(o Options, abandon bool) (*OriginChange, error) {
	if err := disk.CheckSystem(runtime.GOOS); err != nil {
		return nil, err
	}
	if o.Origin != "" {
		if err := keys.CheckOrigin(o.Origin); err != nil {
			return nil, exit.Usagef("--origin: %w", err)
		}
	}
	n := &Node{Dir: o.Dir, Anchor: o.Anchor, machine: o.Machine}
	if err := n.findAnchor(); err != nil {
		return nil, err
	}
	coming := filepath.Join(o.Dir, comingKeys)
	link, err := findPredecessor(n, coming)
	if errors.Is(err, fs.ErrNotExist) {
		link, err = n.prepareNewOrigin(&o, abandon)
	}
	if err != nil {
		return nil, err
	}
	former := filepath.Join(o.Dir, formerDir, trust.FileName(link.Origin))
	if err := n.moveFormer(coming, former); err != nil {
		return nil, exit.With(exit.IO, err)
	}
	origin, err := keys.UnusedOrigin(n.KeysDir())
	if err != nil {
		return nil, err
	}
	profile, err := n.machine.Retire(link.Origin, origin)
	return &OriginChange{Origin: origin, Predecessor: *link, Former: former, Profile: profile}, err
}

// findPredecessor returns the link of a change of origin that is under way, or of a finished change
// whose log has not begun. The error is fs.ErrNotExist if there is no such change.
func findPredecessor(n *Node, coming string) (*entry.Predecessor, error) {
	link, err := readPredecessor(coming)
	if !errors.Is(err, fs.ErrNotExist) {
		return link, err
	}
	if _, err := keys.UnusedOrigin(n.KeysDir()); err != nil {
		return nil, err // an earlier change, if there was one, ended long ago
	}
	return readPredecessor(n.KeysDir())
}

// prepareNewOrigin makes the new keys beside the old keys, and the link.
func (n *Node) prepareNewOrigin(o *Options, abandon bool) (*entry.Predecessor, error) {
	old, err := keys.LoadLedger(n.KeysDir(), o.Passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(exit.NotFound, fmt.Errorf("%s has no keys of a ledger: arl serve --data %s begins a new one", n.Dir, n.Dir))
	}
	if err != nil {
		return nil, exit.LedgerKeys(n.KeysDir(), err)
	}
	if old[0].Unused {
		return nil, exit.With(exit.Conflict, fmt.Errorf("the keys of %s have signed nothing, so nothing is lost: arl serve --data %s begins the log", n.Dir, n.Dir))
	}
	switch entries, err := os.ReadDir(n.Database()); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case len(entries) > 0 && !abandon:
		return nil, exit.With(exit.Conflict, fmt.Errorf("%s exists: arl serve continues it if it is whole; if it is damaged, and nothing newer can be "+
			"restored, pass --abandon, which keeps it in %s", n.Database(), filepath.Join(n.Dir, formerDir)))
	case len(entries) > 0:
		if err := ledger.NotInUse(n.Database()); err != nil {
			return nil, err
		}
	}
	if former := filepath.Join(n.Dir, formerDir, trust.FileName(old[0].Origin)); isThere(former) {
		return nil, exit.With(exit.Conflict, fmt.Errorf("%s exists: these keys were replaced before: move the directory away first", former))
	}
	origin := newOrigin(o.Origin)
	if origin == old[0].Origin {
		return nil, exit.Usagef("--origin %s is the ledger's origin: choose another", origin)
	}
	if err := o.refuseKnown(origin); err != nil {
		return nil, err
	}
	link, err := n.predecessor(old)
	if err != nil {
		return nil, err
	}
	return link, exit.With(exit.IO, writeComing(filepath.Join(n.Dir, comingKeys), origin, link, o.NewPassphrase))
}

// predecessor describes the old ledger from its keys, the anchor and the profile of this machine.
func (n *Node) predecessor(old []*keys.Ledger) (*entry.Predecessor, error) {
	link := &entry.Predecessor{Origin: old[0].Origin}
	for _, k := range old {
		link.LedgerKeys = append(link.LedgerKeys, k.VerifierKeys[:]...)
	}
	if head, err := ledger.Anchored(n.Anchor, link.Origin); err == nil {
		link.Head = &head
	}
	p, err := n.machine.Of(link.Origin)
	if errors.Is(err, fs.ErrNotExist) {
		return link, nil
	}
	if err != nil {
		return nil, err
	}
	link.Genesis = &p.Root.Genesis
	seen, err := n.machine.Head(p.Root)
	if err == nil && seen != nil && (link.Head == nil || seen.Size > link.Head.Size) {
		link.Head = &seen.Head
	}
	return link, err
}

// writeComing makes the directory of the new keys. After a crash the directory is complete, or
// missing.
func writeComing(coming, origin string, link *entry.Predecessor, passphrase keys.Passphrase) error {
	making := coming + ".new"
	if err := errors.Join(os.RemoveAll(making), os.Mkdir(making, 0o700)); err != nil {
		return err
	}
	content, err := json.Marshal(link, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if _, err := keys.GenerateLedger(making, origin, passphrase); err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(making, predecessorFile), append(content, '\n'), 0o600); err != nil {
		return err
	}
	return durable.Rename(making, coming) // its files are durable, so a renamed directory is whole
}

// moveFormer moves the rest of the old ledger out of the way, the keys last, and the new keys to
// their place.
func (n *Node) moveFormer(coming, former string) error {
	if !isThere(coming) {
		return nil // everything is moved
	}
	if err := os.MkdirAll(former, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"db", "db.import", backup.EvidenceName, checksName} {
		if err := moveIfThere(filepath.Join(n.Dir, name), filepath.Join(former, name)); err != nil {
			return err
		}
	}
	if err := moveAnchor(n.Anchor, filepath.Join(former, "anchor")); err != nil {
		return err
	}
	if !isThere(filepath.Join(former, "keys")) {
		if err := os.Rename(n.KeysDir(), filepath.Join(former, "keys")); err != nil {
			return err
		}
	}
	if err := errors.Join(durable.SyncDir(former), durable.SyncDir(filepath.Dir(former))); err != nil {
		return err // no new keys before the old keys are kept
	}
	return durable.Rename(coming, n.KeysDir())
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// moveIfThere renames a file that an interrupted run has not moved yet.
func moveIfThere(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// moveAnchor copies the anchor, which may lie on another file system, and removes it.
func moveAnchor(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.Write(to, content, 0o600)
	}
	if err != nil {
		return err
	}
	return durable.Remove(from)
}

// readPredecessor reads the link beside keys; fs.ErrNotExist if there is none.
func readPredecessor(dir string) (*entry.Predecessor, error) {
	path := filepath.Join(dir, predecessorFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	link := new(entry.Predecessor)
	if err := json.Unmarshal(content, link, json.RejectUnknownMembers(true)); err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("%s: %w", path, err))
	}
	return link, nil
}
