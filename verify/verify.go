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
// and of each [History]:
//
//	 9 index       an entry of kind index, by a coordinator, over no more entries than stand before it
//	10 record      the key of each subject, and the hash of its rows
//	11 prefix      the records, or that there is none, in the tree of the index
//	12 list        indexes ascend below the size of the index, and are those of the record
//	13 reach       the lists go from the first entry asked for to the last
//	14 content     each entry listed is given, and is what it is listed as
//	15 tail        each entry behind the index is given
//
// Then [Report.Answers] says: these entries and no others, or none.
//
// A head that the root carries ([Root.Seen]) is one more head of step 2. It counts for
// no claim: without a proof between it and the newest head, [Report.NotChecked] says so.
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
// What an agent must see before it undoes anything is checked by
// recoveryledger/verify/bundle.
//
// Sources: c2sp.org/signed-note, c2sp.org/tlog-checkpoint, c2sp.org/tlog-proof,
// RFC 6962.
package verify

import (
	"fmt"

	"github.com/go-json-experiment/json"

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
	StepIndex
	StepRecord
	StepPrefix
	StepList
	StepReach
	StepContent
	StepTail
)

// steps are all steps in order, with the property that each has shown.
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
		{Step: StepIndex, Detail: "by a key of a coordinator, over no more entries than stand before it"},
		{Step: StepRecord, Detail: "of the subject asked for, by its key"},
		{Step: StepPrefix, Detail: "in the tree of the index, or proven not to be there"},
		{Step: StepList, Detail: "of the record, indexes ascend below the size of the index"},
		{Step: StepReach, Detail: "from the first entry asked for to the last that the index covers"},
		{Step: StepContent, Detail: "given, and under subject and label by its own content"},
		{Step: StepTail, Detail: "given, and counted by its content: the index does not cover it"},
	}
}

// String returns the step's name.
func (s Step) String() string {
	return [...]string{"head", "consistency", "leaf", "inclusion", "order", "audience", "signer", "signature",
		"index", "record", "prefix", "list", "reach", "content", "tail"}[s-1]
}

// Checked is a step that passed.
type Checked struct {
	Step   Step
	Count  int // of heads in steps 1 and 2, of entries in the others
	Detail string
}

// MarshalJSON writes the step as its number and its name.
func (c Checked) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Step   int    `json:"step"`
		Name   string `json:"name"`
		Count  int    `json:"count"`
		Detail string `json:"detail"`
	}{int(c.Step), c.Step.String(), c.Count, c.Detail})
}

// String returns a line such as "4 inclusion (3): at its index …".
func (c Checked) String() string {
	return fmt.Sprintf("%d %s (%d): %s", int(c.Step), c.Step, c.Count, c.Detail)
}

// Report lists the properties that were checked, and those that were not.
type Report struct {
	// Subject is the entry that the material is about: the entry of its first receipt or
	// .tlog-proof. Receipts that are written together begin with the entry that was asked
	// for; the receipts of policies and keys follow. Subject is nil if the material has no
	// receipt, or if its entry is not proven to be in the log.
	Subject *Entry `json:"-"`

	// Entries are proven to be in the log, by index.
	Entries []Entry `json:"entries"`
	// Answers are the answers to [Material.Questions] or, without a question, everything that the
	// histories can answer.
	Answers []Answer `json:"answers,omitempty"`
	// Equivocations are proven of principals, by evidence.
	Equivocations []Equivocation `json:"equivocations,omitempty"`
	// Heads are the verified tree heads by size, each once.
	Heads []merkle.Head `json:"heads"`

	// Checked are the steps that had something to check.
	Checked []Checked `json:"checked"`
	// Missing are claims of the material that nothing given proves. With any of
	// them the verification is inconclusive: nothing false was found, and not
	// everything that was given is known to be true.
	Missing []Gap `json:"missing"`
	// NotChecked lists the properties that no material of this kind can show.
	NotChecked []string `json:"not_checked"`
	// Warnings are facts in the material that weaken the checks: a compromised key (TRU-4), a
	// ledger key that is not pinned (TRU-5).
	Warnings []string `json:"warnings"`
}

// Gap is something that had to be checked and could not be.
type Gap struct {
	Step Step
	What string // such as "that the log of size 7 is the beginning of that of size 15"
	Give string // what checks it
}

// MarshalJSON writes the step as its number and its name.
func (g Gap) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Step int    `json:"step"`
		Name string `json:"name"`
		What string `json:"what"`
		Give string `json:"give"`
	}{int(g.Step), g.Step.String(), g.What, g.Give})
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

// MarshalJSON writes the report's facts about the entry, without its payload.
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Index        uint64          `json:"index"`
		Kind         entry.Kind      `json:"kind"`
		Issuer       entry.Principal `json:"iss"`
		RegisteredAt int64           `json:"registered_at"`
		Signed       bool            `json:"signed"`
	}{e.Index, e.Kind, e.Header.Iss, e.RegisteredAt, e.Signed})
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
	// Root and Path convict where the second head is the larger one: by them the
	// tree of the second says with which root it began, at the size of the first.
	// They are absent where nobody asked for its tiles, or did not get them.
	Root *merkle.Hash
	Path []merkle.Hash
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

// Malformed returns a format error about what.
func Malformed(what, format string, args ...any) *FormatError {
	return &FormatError{What: what, Detail: fmt.Sprintf(format, args...)}
}

// WithRemedy sets the remedy, and returns the error.
func (e *FormatError) WithRemedy(text string) *FormatError {
	e.Remedy = text
	return e
}
