package main

import (
	"errors"
	"fmt"
	"io/fs"

	"recoveryledger/ledger"
	"recoveryledger/verify"
)

// What this machine remembers of a ledger outlives the disk that the ledger was on:
// a profile says that the origin has a log, a head how far the log had come.

// profileOf returns a profile of the ledger of an origin, whatever its name is; the
// error is fs.ErrNotExist if there is none.
func (a *app) profileOf(origin string) (*profile, error) {
	names, err := a.profileNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := a.loadProfile(name)
		if err != nil && name == profileName(origin) {
			return nil, err
		}
		if err == nil && p.Root.Origin == origin {
			return p, nil
		}
	}
	return nil, fs.ErrNotExist
}

// refuseKnown refuses to begin a log under an origin that has one: its data is
// elsewhere, or lost, and others take the second log for a fork of the first.
func (a *app) refuseKnown(origin string) error {
	p, err := a.profileOf(origin)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = a.loadProfile(formerDir + "/" + profileName(origin))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: a new log of %s was to begin, but the profile %s knows one with genesis %s: "+
		"pass the data directory of that one, or restore it (docs/disk-gone.md); for another ledger, choose another --origin",
		ledger.ErrLost, origin, p.Name, p.Root.Genesis)
}

// continuesKnown holds a log that is about to be served to the head that this
// machine has accepted. A copy of database and anchor that is older than that head
// would go on signing other heads.
func (a *app) continuesKnown(n *node) error {
	p, err := a.profileOf(n.origin)
	if errors.Is(err, fs.ErrNotExist) || n.log.Head().Size == 0 {
		return nil
	}
	var known *verify.SignedHead
	if err == nil {
		known, err = a.loadHead(p.Root)
	}
	if err != nil { // what only commands of this machine need keeps no ledger from its service
		n.logger.Warn("the log cannot be held to the head that this machine has accepted", "error", err.Error())
		return nil
	}
	if known == nil {
		return nil
	}
	if size := n.log.Head().Size; known.Size > size {
		return fmt.Errorf("%w: the database has %d entries, but this machine has accepted a signed tree head of %d: %s",
			ledger.ErrRolledBack, size, known.Size, ledger.LostRemedy)
	}
	err = n.continues(*known, n.log.Head().SignedHead)
	if fork, ok := errors.AsType[*verify.ForkError](err); ok {
		return fmt.Errorf("%w: %w", ledger.ErrRolledBack, fork)
	}
	return err
}
