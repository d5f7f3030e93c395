package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/keys"
)

// loadKeys loads the ledger's keys, or makes the keys of a new ledger.
func (n *Node) loadKeys(o Options) (err error) {
	notEmpty := n.checkEmpty() // checked first: a process that starts a ledger makes its keys first
	n.Keys, err = keys.LoadLedger(n.KeysDir(), o.Passphrase)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case notEmpty != nil:
		err = notEmpty
	case !o.Create:
		err = noLedger(n.Dir)
	default:
		err = n.makeKeys(o)
	}
	if err == nil && o.Create && n.Keys[0].Unused {
		err = n.refuseBegun(o)
	}
	if err != nil {
		return exit.LedgerKeys(n.KeysDir(), err)
	}
	n.Origin = n.Keys[0].Origin
	if o.Origin != "" && o.Origin != n.Origin {
		return exit.With(exit.Config, fmt.Errorf("%s is the ledger %s, not %s: an origin never changes", o.Dir, n.Origin, o.Origin))
	}
	return n.checkURI(o.URIs.Ledger)
}

// KeysDir returns the directory of the keys of the ledger and the coordinator.
func (n *Node) KeysDir() string { return filepath.Join(n.Dir, "keys") }

// checkEmpty returns an error if there was a ledger: new keys could not continue it.
func (n *Node) checkEmpty() error {
	if _, err := os.Stat(filepath.Join(n.Dir, comingKeys)); err == nil {
		return exit.With(exit.Conflict, fmt.Errorf("a change of the origin was interrupted: run arl ledger new-origin --data %s again", n.Dir))
	}
	for _, path := range []string{n.Database(), n.Anchor} {
		_, err := os.Stat(path)
		switch {
		case err == nil:
			return exit.With(exit.Config, fmt.Errorf("the keys of %s are missing, but there is %s: restore %s from a backup; "+
				"without the keys this ledger cannot continue", n.Dir, path, n.KeysDir()))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// refuseKnown returns an error if a ledger of that origin has begun elsewhere.
func (o *Options) refuseKnown(origin string) error {
	if o.Machine == nil || origin == "" {
		return nil
	}
	return o.Machine.RefuseKnown(origin)
}

// refuseBegun is refuseKnown for keys that this process found unused. A start beside this one may
// have begun their log since: it marks the keys as used before others learn of the log.
func (n *Node) refuseBegun(o Options) error {
	err := o.refuseKnown(n.Keys[0].Origin)
	if err == nil {
		return nil
	}
	now, failed := keys.LoadLedger(n.KeysDir(), o.Passphrase)
	if failed != nil || now[0].Unused {
		return err
	}
	n.Keys = now
	return nil
}
