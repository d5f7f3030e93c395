// Package bundle is what an agent must see before it undoes anything (protocol.md,
// section 7), and the check of it.
//
// A [Bundle] is what a ledger shows an agent. [Bundle.Check] judges it, offline,
// against what the agent has [Accepted] before, in the order of the protocol:
//
//	AGT-1  head       signed, consistent with the accepted one, witnessed; the entries are in its log
//	AGT-2  decision   chain of policies and keys, signatures, audience, act, expiry, signals, authority, epoch
//	AGT-3  members    of the decision's rollback set, the agent's own, each with a chain from a seed
//
// The [Verdict] has a [Command] for each of the agent's members, and the state to
// store next. The first rule that fails is a [*RuleError]. Heads, receipts and the
// chain of policies and keys are checked by recoveryledger/verify.
package bundle

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
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
	Entries   []Leaf        `json:"entries"`
	Inclusion []merkle.Hash `json:"inclusion"`
	// Members, strictly ascending by place, are proven together to be of the
	// decision's rollback set. They are the agent's own, and others' compensations that
	// come before its own.
	Members    []PlanMember  `json:"members"`
	Membership []merkle.Hash `json:"membership"`
	// Steps are the chains from seeds to the agent's members, strictly ascending by Exec. So each
	// step is there once, and chains share their common steps.
	Steps []ChainStep `json:"steps"`
	// Index is that of the index entry by which the bundle proves that it leaves
	// nothing out (ABS-1 to ABS-4); 0: it does not.
	Index uint64 `json:"index,omitzero"`
	verify.Indexed
}

// Leaf is an entry as it was received: see [verify.Leaf].
type Leaf = verify.Leaf

// PlanMember is a member of a decision's rollback set.
type PlanMember struct {
	Place  uint64       `json:"place"` // in the tree over the rollback set, from 0
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

// String returns a text such as "SCO-1: entry 13 from 12".
func (s ChainStep) String() string {
	return fmt.Sprintf("%s: entry %d from %d", s.Rule, s.Exec, s.From)
}

// The rules of a [ChainStep].
const (
	RuleSeed      = "SCO-3"
	RuleDependent = "SCO-1"
	RuleLine      = "SCO-2"
)

// Encode returns the bundle as JSON, in its one form. The error is a
// [*verify.FormatError].
func (b *Bundle) Encode() ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(b)
	switch {
	case err != nil:
		return nil, verify.Malformed(bundleName, "%v", err)
	case len(data) > MaxSize:
		return nil, tooLargeBundle(len(data))
	}
	return data, nil
}

// Recognize reports whether a text is an authorization bundle, by its members, and returns
// it without the white space between the members: the form that [Decode] reads.
func Recognize(text []byte) (bundle []byte, ok bool) {
	var members map[string]jsontext.Value
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) || json.Unmarshal(text, &members) != nil {
		return nil, false
	}
	_, inclusion := members["inclusion"]
	_, steps := members["steps"]
	value := jsontext.Value(bytes.TrimSpace(text))
	return value, inclusion && steps && value.Compact() == nil
}

// Decode reads a bundle. It accepts exactly the output of [Bundle.Encode]. The error is a
// [*verify.FormatError].
func Decode(data []byte) (*Bundle, error) {
	if len(data) > MaxSize {
		return nil, tooLargeBundle(len(data))
	}
	b := new(Bundle)
	if err := json.Unmarshal(data, b, json.RejectUnknownMembers(true)); err != nil {
		return nil, verify.Malformed(bundleName, "%v", err)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := verify.CheckForm(bundleName, data, b); err != nil {
		return nil, err
	}
	return b, nil
}

const bundleName = "bundle"

func tooLargeBundle(size int) *verify.FormatError {
	return verify.Malformed(bundleName, "%d bytes, the limit is %d", size, MaxSize).WithRemedy("ask for fewer members at a time")
}

// check checks the form, before anything is verified.
func (b *Bundle) check() error {
	if err := verify.CheckLimits(bundleName, b.Consistency, b.Head); err != nil {
		return err
	}
	switch {
	case !plainText(string(b.Agent)) || b.Agent == "":
		return verify.Malformed(bundleName, "agent %.140q is not a principal", b.Agent)
	case len(b.Entries) > MaxEntries:
		return verify.Malformed(bundleName, "%d entries, the limit is %d", len(b.Entries), MaxEntries)
	case len(b.Members) > MaxMembers:
		return verify.Malformed(bundleName, "%d members, the limit is %d", len(b.Members), MaxMembers)
	case len(b.Steps) > MaxEntries:
		return verify.Malformed(bundleName, "%d steps, the limit is %d", len(b.Steps), MaxEntries)
	case len(b.Membership) > verify.MaxPath*len(b.Members):
		return verify.Malformed(bundleName, "membership: hashes %d, members %d", len(b.Membership), len(b.Members))
	case b.Decision == 0 && len(b.Members)+len(b.Steps) > 0:
		return verify.Malformed(bundleName, "members or steps without a decision")
	case (b.Index == 0) != (len(b.Subjects) == 0) || b.Index == 0 && len(b.Prefix) > 0:
		return verify.Malformed(bundleName, "an index without subjects, or subjects without an index")
	case b.Decision == 0 && b.Index != 0:
		return verify.Malformed(bundleName, "an index without a decision").WithRemedy("leave the index out of what is only news")
	case b.Decision != 0 && len(b.Members) == 0:
		return verify.Malformed(bundleName, "a decision without members").WithRemedy("leave the decision out of what is only news")
	}
	if err := verify.CheckLeaves(bundleName, b.Entries, b.Inclusion); err != nil {
		return err
	}
	if err := b.CheckForm(bundleName); err != nil {
		return err
	}
	return b.checkMembers()
}

func (b *Bundle) checkMembers() error {
	for i := range b.Members {
		m := &b.Members[i]
		switch {
		case i > 0 && b.Members[i-1].Place >= m.Place:
			return verify.Malformed(bundleName, "members[%d]: place %d does not ascend", i, m.Place)
		case len(m.After) > MaxAfter:
			return verify.Malformed(bundleName, "members[%d]: after %d others, the limit is %d", i, len(m.After), MaxAfter)
		}
		// The leaf of a member is written without escapes, so that a text with a
		// quote could pass for another member.
		for _, text := range []string{string(m.Member.Agent), string(m.Member.Exec), string(m.Member.Checkpoint), string(m.Member.Method)} {
			if !plainText(text) {
				return verify.Malformed(bundleName, "members[%d]: %.140q is no name", i, text)
			}
		}
		for j, place := range m.After {
			if place >= m.Place || j > 0 && m.After[j-1] >= place {
				return verify.Malformed(bundleName, "members[%d]: after place %d, want ascending places below its own", i, place)
			}
		}
	}
	for i := range b.Steps {
		s := &b.Steps[i]
		if i > 0 && b.Steps[i-1].Exec >= s.Exec {
			return verify.Malformed(bundleName, "steps[%d]: to %d, which does not ascend", i, s.Exec)
		}
		line := s.Rule == RuleLine
		if !line && s.Rule != RuleSeed && s.Rule != RuleDependent || !line && (s.By != 0 || s.Checkpoint != 0) {
			return verify.Malformed(bundleName, "steps[%d]: rule %.20q, by %d, checkpoint %d", i, s.Rule, s.By, s.Checkpoint)
		}
	}
	return nil
}

// plainText reports whether a text is printable ASCII that JSON writes unchanged.
func plainText(text string) bool {
	return len(text) <= 2*entry.MaxName+1 && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}
