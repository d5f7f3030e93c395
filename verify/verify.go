// Package verify checks what a ledger hands out, offline: receipts, tree heads,
// consistency proofs and the chain of policies and keys. It needs a pinned
// [Root], obtained out of band, and no server, storage or clock.
//
// [Root.Verify] takes a [Material], whatever its parts came from, and does:
//
//	1 head         signed by the pinned Ed25519 key; origin, size and root well-formed
//	2 consistency  heads of one size are equal; smaller ones are prefixes, where a proof is given
//	3 leaf         canonical bytes of one well-formed entry
//	4 inclusion    the leaf stands at the index in the tree of the head
//	5 order        one leaf for an index; registered_at never falls
//	6 audience     the entry was made for this ledger
//	7 signer       the key counts at that index, by a chain from the pinned genesis (TRU-1, TRU-2), and may sign this
//	8 signature    of that key over the entry's PAE
//
// Inclusion is never authority: steps 7 and 8 need the receipts of the policy
// and agent entries that let the key in. A step counts only what a proof, a
// signature or an equality has shown: an entry under a head that nothing connects
// with the newest lets no key in, since it may be of another history. What could
// not be checked stands in [Report.Missing] with what to give, and what no
// material can show in [Report.NotChecked]; nothing is passed over. The first step that
// fails is a [*StepError]; two signed heads that cannot both be true are a
// [*ForkError], and evidence.
//
// What an agent must see before it undoes anything is a [Bundle], checked by
// [Bundle.Check] against what it has [Accepted]: AGT-1 to AGT-3 of the protocol.
//
// Sources: c2sp.org/signed-note, c2sp.org/tlog-checkpoint, c2sp.org/tlog-proof,
// RFC 6962.
package verify

import (
	"fmt"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Step numbers a check of [Root.Verify], in the order of the package comment.
type Step int

// The steps.
const (
	StepHead Step = 1 + iota
	StepConsistency
	StepLeaf
	StepInclusion
	StepOrder
	StepAudience
	StepSigner
	StepSignature
)

// steps are all of them in order, with what each has shown when it is through.
func steps() []Checked {
	return []Checked{
		{Step: StepHead, Detail: "signed by the pinned Ed25519 key, for the pinned origin"},
		{Step: StepConsistency, Detail: "equal where the size is, prefix of the newest by a proof"},
		{Step: StepLeaf, Detail: "canonical bytes of one well-formed entry"},
		{Step: StepInclusion, Detail: "at its index in the tree of its head"},
		{Step: StepOrder, Detail: "one leaf for an index, registered_at never falls"},
		{Step: StepAudience, Detail: "made for the pinned origin"},
		{Step: StepSigner, Detail: "key let in by a chain from the pinned genesis, role allows the entry"},
		{Step: StepSignature, Detail: "of that key over the entry's PAE"},
	}
}

// String returns the step's name.
func (s Step) String() string {
	return [...]string{"head", "consistency", "leaf", "inclusion", "order", "audience", "signer", "signature"}[s-1]
}

// Checked is a step that passed.
type Checked struct {
	Step   Step
	Count  int // of heads in steps 1 and 2, of entries in the others
	Detail string
}

// String returns a line such as "4 inclusion (3): at its index …".
func (c Checked) String() string {
	return fmt.Sprintf("%d %s (%d): %s", int(c.Step), c.Step, c.Count, c.Detail)
}

// Report says what was checked, and what was not.
type Report struct {
	Entries []Entry       // those proven to be in the log, by index
	Heads   []merkle.Head // by size, each once

	Checked []Checked // the steps that had something to check
	// Missing are claims of the material that nothing given proves. With any of
	// them the verification is inconclusive: nothing false was found, and not
	// everything that was given is known to be true.
	Missing []Gap
	// NotChecked is what no material of this kind can show.
	NotChecked []string
	// Warnings are facts in the material that shake what was checked: a
	// compromised key (TRU-4), a ledger key that is not pinned (TRU-5).
	Warnings []string
}

// Gap is something that had to be checked and could not be.
type Gap struct {
	Step Step
	What string // such as "that the log of size 7 is the beginning of that of size 15"
	Give string // what checks it
}

// String returns a line such as "2 consistency: that the log …: give …".
func (g Gap) String() string {
	return fmt.Sprintf("%d %s: %s: give %s", int(g.Step), g.Step, g.What, g.Give)
}

// Entry is an entry that was proven to be in the log.
type Entry struct {
	entry.Registered
	Signed bool // whether steps 7 and 8 were done: key, right and signature
}

// StepError reports the step at which a verification failed.
type StepError struct {
	Step  Step
	What  string // such as "entry 17" or "head 1"
	Cause error
}

// Error implements error.
func (e *StepError) Error() string {
	return fmt.Sprintf("verify: step %d %s: %s: %v", int(e.Step), e.Step, e.What, e.Cause)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Cause }

// ForkError reports two tree heads, both signed by the pinned key, that cannot
// both be of one log. Keep them: they convict the ledger's key.
type ForkError struct {
	First, Second string // signed notes
	Detail        string
}

// Error implements error.
func (e *ForkError) Error() string { return "verify: the ledger forked: " + e.Detail }

// FormatError reports bytes that are not in the one form they should have.
type FormatError struct {
	What   string // such as "receipt", or the name of a file
	Detail string
	Remedy string
}

// Error implements error.
func (e *FormatError) Error() string {
	text := "verify: " + e.What + ": " + e.Detail
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}

func malformed(what, format string, args ...any) *FormatError {
	return &FormatError{What: what, Detail: fmt.Sprintf(format, args...)}
}

func (e *FormatError) remedy(text string) *FormatError {
	e.Remedy = text
	return e
}
