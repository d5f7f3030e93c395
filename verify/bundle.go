package verify

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Bundle is the authorization bundle (protocol.md, section 7): all that an agent
// needs to check, alone and offline, what a decision tells it to undo. It is a
// claim until [Bundle.Check] has seen it.
//
// Without a decision it is news: policies, keys, decisions and outcomes that the
// agent is to know of, and nothing to do.
type Bundle struct {
	Agent    entry.Principal `json:"agent"`             // whom it is for
	Decision uint64          `json:"decision,omitzero"` // index of the authorize or amend; 0: none
	Head     string          `json:"head"`              // signed note
	From     uint64          `json:"from"`              // size of the head that the agent accepted last; 0: none
	// Consistency leads from the tree of From entries to that of Head.
	Consistency []merkle.Hash `json:"consistency"`
	// Entries, strictly ascending, are proven together: [merkle.CheckInclusions].
	Entries   []Logged      `json:"entries"`
	Inclusion []merkle.Hash `json:"inclusion"`
	// Members, strictly ascending by place, are proven together to be of the
	// decision's scope. They are the agent's own, and others' compensations that
	// come before its own.
	Members []PlanMember  `json:"members"`
	Scope   []merkle.Hash `json:"scope"`
	// Steps are the chains from seeds to the agent's members: strictly ascending
	// by Exec, so that each is there once and chains share what they have in
	// common.
	Steps []ChainStep `json:"steps"`
}

// Logged is an entry as it stands in the log.
type Logged struct {
	Index uint64         `json:"index"`
	Leaf  jsontext.Value `json:"leaf"` // exact bytes
}

// PlanMember is a member of a decision's scope.
type PlanMember struct {
	Place  uint64       `json:"place"` // in the scope's tree, from 0
	Member entry.Member `json:"member"`
	// After has the places of the compensations that come before this one
	// (INC-7), of those that the coordinator waits or has waited for.
	After []uint64 `json:"after,omitempty"`
	// By is, of the agent's members without an outcome in a bundle that shows an
	// override before the decision, the index of the override that withheld this
	// one (INC-6), or of the decision that opened it since; else 0.
	By uint64 `json:"by,omitzero"`
}

// ChainStep is why an execution must be undone (SCO-1 to SCO-3). It is named by
// the index of its first entry.
type ChainStep struct {
	Exec uint64 `json:"exec"`
	Rule string `json:"rule"` // SCO-3: seed, SCO-1: dependent, SCO-2: its line goes back
	// From is the index of the signal that makes it a seed, else of the first
	// entry of the execution that it comes from.
	From uint64 `json:"from"`
	// By is, with SCO-2, the index of the first entry of a reversible execution
	// on the line that must be undone, unless From is one.
	By uint64 `json:"by,omitzero"`
	// Checkpoint is, with SCO-2, the index of the checkpoint that the line goes
	// back to; 0 if it has none to go back to.
	Checkpoint uint64 `json:"checkpoint,omitzero"`
}

// The rules of a [ChainStep].
const (
	RuleSeed      = "SCO-3"
	RuleDependent = "SCO-1"
	RuleLine      = "SCO-2"
)

// Encode returns the bundle as JSON, in its one form. The error is a
// [*FormatError].
func (b *Bundle) Encode() ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	data, err := encode(bundleName, b)
	if err == nil && len(data) > MaxBundle {
		err = tooLargeBundle(len(data))
	}
	return data, err
}

// DecodeBundle reads a bundle. It accepts exactly what [Bundle.Encode] makes.
// The error is a [*FormatError].
func DecodeBundle(data []byte) (*Bundle, error) {
	if len(data) > MaxBundle {
		return nil, tooLargeBundle(len(data))
	}
	b := new(Bundle)
	if err := json.Unmarshal(data, b, json.RejectUnknownMembers(true)); err != nil {
		return nil, malformed(bundleName, "%v", err)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	again, err := encode(bundleName, b)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, malformed(bundleName, "not in the one form it is written in, from byte %d", commonPrefix(again, data)).
			remedy("pass it on as it was received")
	}
	return b, nil
}

const bundleName = "bundle"

func tooLargeBundle(size int) *FormatError {
	return malformed(bundleName, "%d bytes, the limit is %d", size, MaxBundle).remedy("ask for fewer members at a time")
}

// check is what holds before anything is verified.
func (b *Bundle) check() error {
	if err := checkProof(bundleName, b.Consistency, b.Head); err != nil {
		return err
	}
	switch {
	case !plainText(string(b.Agent)) || b.Agent == "":
		return malformed(bundleName, "agent %.140q is no principal", b.Agent)
	case len(b.Entries) > MaxBundleEntries:
		return malformed(bundleName, "%d entries, the limit is %d", len(b.Entries), MaxBundleEntries)
	case len(b.Members) > MaxBundleMembers:
		return malformed(bundleName, "%d members, the limit is %d", len(b.Members), MaxBundleMembers)
	case len(b.Steps) > MaxBundleEntries:
		return malformed(bundleName, "%d steps, the limit is %d", len(b.Steps), MaxBundleEntries)
	case len(b.Inclusion) > MaxPath*(len(b.Entries)+1):
		return malformed(bundleName, "inclusion: %d hashes for %d entries", len(b.Inclusion), len(b.Entries))
	case len(b.Scope) > MaxPath*len(b.Members):
		return malformed(bundleName, "scope: %d hashes for %d members", len(b.Scope), len(b.Members))
	case b.Decision == 0 && len(b.Members)+len(b.Steps) > 0:
		return malformed(bundleName, "members or steps without a decision")
	case b.Decision != 0 && len(b.Members) == 0:
		return malformed(bundleName, "a decision without members").remedy("leave the decision out of what is only news")
	}
	for i, logged := range b.Entries {
		if i > 0 && b.Entries[i-1].Index >= logged.Index {
			return malformed(bundleName, "entries[%d]: index %d does not ascend", i, logged.Index)
		}
		if len(logged.Leaf) == 0 || len(logged.Leaf) > MaxLeaf {
			return malformed(bundleName, "entries[%d]: leaf of %d bytes, want 1 to %d", i, len(logged.Leaf), MaxLeaf)
		}
	}
	return b.checkMembers()
}

func (b *Bundle) checkMembers() error {
	for i := range b.Members {
		m := &b.Members[i]
		switch {
		case i > 0 && b.Members[i-1].Place >= m.Place:
			return malformed(bundleName, "members[%d]: place %d does not ascend", i, m.Place)
		case len(m.After) > MaxBundleAfter:
			return malformed(bundleName, "members[%d]: after %d others, the limit is %d", i, len(m.After), MaxBundleAfter)
		}
		// The leaf of a member is written without escapes, so that a text with a
		// quote could pass for another member.
		for _, text := range []string{string(m.Member.Agent), string(m.Member.Exec), string(m.Member.Checkpoint), string(m.Member.Method)} {
			if !plainText(text) {
				return malformed(bundleName, "members[%d]: %.140q is no name", i, text)
			}
		}
		for j, place := range m.After {
			if place >= m.Place || j > 0 && m.After[j-1] >= place {
				return malformed(bundleName, "members[%d]: after place %d, want ascending places below its own", i, place)
			}
		}
	}
	for i := range b.Steps {
		s := &b.Steps[i]
		if i > 0 && b.Steps[i-1].Exec >= s.Exec {
			return malformed(bundleName, "steps[%d]: to %d, which does not ascend", i, s.Exec)
		}
		line := s.Rule == RuleLine
		if !line && s.Rule != RuleSeed && s.Rule != RuleDependent || !line && (s.By != 0 || s.Checkpoint != 0) {
			return malformed(bundleName, "steps[%d]: rule %.20q, by %d, checkpoint %d", i, s.Rule, s.By, s.Checkpoint)
		}
	}
	return nil
}

// plainText reports whether a text is printable ASCII that JSON writes as it is.
func plainText(text string) bool {
	return len(text) <= 2*entry.MaxName+1 && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}
