package coord

import (
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// Rooms above the fold import it, so tests of the fold reach the rooms by these
// functions, which package coord_test sets.

// AuditFound is the entry that an audit says should not be in the log.
type AuditFound struct {
	Index   uint64
	Refusal *entry.Refusal
}

// AuditLog audits a log at one go, and with a stop after so many entries, behind which a
// restored follower goes on: all is alike. It returns how many entries are right, and
// what is found; nil: nothing.
var AuditLog func(tb testing.TB, origin string, log []entry.Registered, stop int) (size uint64, found *AuditFound)

// BundleLog is a log as a bundle is made from it.
type BundleLog interface {
	View(f func(s *State, head verify.SignedHead, chain *verify.Chain))
	Entry(index uint64) (*entry.Registered, error)
	Inclusions(indexes []uint64, size uint64) ([]merkle.Hash, error)
	Consistency(older, newer uint64) ([]merkle.Hash, error)
}

// MakeBundle makes a bundle as a server does. It returns After of the bundle that
// follows; 0: none does.
var MakeBundle func(log BundleLog, q api.BundleQuery) (made *bundle.Bundle, next uint64, err error)
