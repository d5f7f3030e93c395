package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// EvidenceKind says against whom the evidence is, and what it shows.
type EvidenceKind string

// The kinds of evidence.
const (
	// EvidenceFork is against the ledger: two signed tree heads that cannot both
	// be of one log.
	EvidenceFork EvidenceKind = "fork"
	// EvidenceEntry is against the ledger: an entry in the log that the rules of
	// registration forbid.
	EvidenceEntry EvidenceKind = "entry"
	// EvidenceEquivocation is against an agent: two objects that the agent signed
	// under one id, of which one is in the log (REG-2).
	EvidenceEquivocation EvidenceKind = "equivocation"
	// EvidenceIndex is against the ledger: an index entry (IDX-3) with a root that the
	// entries before it do not give.
	EvidenceIndex EvidenceKind = "index"
)

// Evidence is a document that shows by signatures that the ledger or an agent broke
// the protocol. Whoever has the pinned root can check it: [Material.Add] takes it.
type Evidence struct {
	Kind   EvidenceKind `json:"evidence" enum:"fork,entry,equivocation,index" doc:"what the document shows: two histories of a ledger, a wrong entry, two objects of an agent under one id, or a wrong index"`
	Detail string       `json:"detail" doc:"text of the maker of the evidence; nothing proves this text"`

	// Older and Newer are signed notes, of a fork. A document with one head, alone or twice, is
	// [Inconclusive]: what its head contradicts is not in it.
	Older string `json:"older,omitempty" doc:"with fork: the tree head of the smaller size, a signed note"`
	Newer string `json:"newer,omitempty" doc:"with fork: the tree head of the larger size, or the other tree head of the same size"`
	// Root and Path convict where the sizes differ: the newer tree itself says by
	// them that it began otherwise. Of an index, Root and Subjects are what the maker has
	// computed from the entries.
	Root *merkle.Hash  `json:"root,omitempty" doc:"with fork, if the sizes differ: root of the newer tree at the older size. With index: root that the entries give"`
	Path []merkle.Hash `json:"path,omitempty" doc:"with fork, if the sizes differ: RFC 6962 consistency proof from that root to the newer head"`

	// Subjects go with Root. History alone shows that an index is false: it has a list that
	// an entry in it, or that of a receipt, contradicts by its own content. Consistency
	// connects the heads of the two.
	Subjects    uint64         `json:"subjects,omitzero" doc:"with index: number of subjects that the entries give"`
	History     jsontext.Value `json:"history,omitempty" doc:"with index: a history under the index entry, which an entry contradicts"`
	Consistency []Consistency  `json:"consistency,omitempty" doc:"with index: proofs that connect the tree heads of history and receipts"`

	// Problem and Field say which rule the entry of the first receipt breaks.
	Problem entry.Problem `json:"problem,omitempty" doc:"with entry: problem type that the rules give for the entry"`
	Field   string        `json:"field,omitempty" doc:"with entry: member of the entry at fault"`

	// Receipts are the receipt of the entry, which of an index is the index entry unless
	// there is a history, and those of the policies and agent
	// entries that its signer counts by.
	Receipts []Receipt `json:"receipts,omitempty" doc:"receipt of the entry, then receipts of the policies and agent entries that verify its signer"`
	// Envelope is the other object of an equivocation.
	Envelope jsontext.Value `json:"envelope,omitempty" doc:"with equivocation: the envelope that is not in the log"`
}

// Evidence returns the document by which others can check the fork, or nil if the error lacks one
// of the two heads: one head contradicts nothing.
func (e *ForkError) Evidence() *Evidence {
	if e.First == "" || e.Second == "" || e.First == e.Second {
		return nil
	}
	return &Evidence{Kind: EvidenceFork, Detail: e.Detail, Older: e.First, Newer: e.Second, Root: e.Root, Path: e.Path}
}

// Shows reports whether e shows what other shows: the two tree heads of a fork, or the history of a
// false index.
func (e *Evidence) Shows(other *Evidence) bool {
	plain := func(v jsontext.Value) string {
		v = slices.Clone(v)
		_ = v.Compact() // of a malformed one nothing is shown
		return string(v)
	}
	switch {
	case e.Kind != other.Kind:
		return false
	case e.Kind == EvidenceFork:
		same := e.Older == other.Older && e.Newer == other.Newer || e.Older == other.Newer && e.Newer == other.Older
		return same && (e.Root != nil || other.Root == nil)
	}
	return e.Kind == EvidenceIndex && len(e.History) > 0 && plain(e.History) == plain(other.History)
}

// Equivocation is what [Root.Verify] found proven of a principal: the principal signed
// another object under the id of an entry in the log.
type Equivocation struct {
	Principal entry.Principal `json:"principal"`
	JTI       string          `json:"jti"`
	Index     uint64          `json:"index"` // of the entry
}

// String returns a line such as "agent-1 signed two objects under one id: …".
func (e Equivocation) String() string {
	return fmt.Sprintf("%s signed two objects under one id, %s: entry %d, and the one in the evidence", e.Principal, e.JTI, e.Index)
}

func (m *Material) addEvidence(value jsontext.Value) error {
	var e Evidence
	if err := json.Unmarshal(value, &e, json.RejectUnknownMembers(true), json.WithUnmarshalers(oneSpelling)); err != nil {
		return Malformed("evidence", "%v", err)
	}
	return m.AddEvidence(e)
}

// oneSpelling reads bytes in the one spelling of their base64. By itself the JSON package takes
// padding bits that are set.
var oneSpelling = json.UnmarshalFromFunc(func(d *jsontext.Decoder, data *[]byte) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported
	}
	var text string
	err := json.UnmarshalDecode(d, &text)
	if err == nil {
		*data, err = base64.StdEncoding.Strict().DecodeString(text)
	}
	if err == nil && strings.ContainsAny(text, "\r\n") {
		err = errors.New("base64 with line ends")
	}
	return err
})

// AddEvidence takes evidence apart. Its parts are material as any other, except for the statements
// of its maker. After an error, a [*FormatError], nothing is added.
func (m *Material) AddEvidence(e Evidence) error {
	if err := e.check(); err != nil {
		return err
	}
	for _, note := range []string{e.Older, e.Newer} {
		if note != "" {
			m.Heads = append(m.Heads, note)
		}
	}
	if h, _ := e.history(); h != nil { // check has read it
		m.Histories = append(m.Histories, h)
	}
	m.Receipts = append(m.Receipts, e.Receipts...)
	m.Consistency = append(m.Consistency, e.Consistency...)
	m.Evidence = append(m.Evidence, e)
	return nil
}

func (e *Evidence) check() error {
	refuse := func(format string, args ...any) error {
		return Malformed("evidence", format, args...).WithRemedy("give the document as it was written")
	}
	for i := range e.Receipts {
		if err := e.Receipts[i].check(); err != nil {
			return err
		}
	}
	paths := [][]merkle.Hash{e.Path}
	for _, p := range e.Consistency {
		paths = append(paths, p.Path)
	}
	for _, path := range paths {
		if err := CheckLimits("evidence", path); err != nil {
			return err
		}
	}
	switch e.Kind {
	case EvidenceFork:
		if e.Older == "" && e.Newer == "" || len(e.Older) > MaxNote || len(e.Newer) > MaxNote {
			return refuse("a fork without tree heads, or with one of more than %d bytes", MaxNote)
		}
		if (e.Root != nil || len(e.Path) > 0) && (e.Root == nil || e.Older == "" || e.Newer == "") {
			return refuse("root and path go with each other, and with both tree heads")
		}
	case EvidenceEntry:
		if len(e.Receipts) == 0 {
			return refuse("no receipt of the entry")
		}
	case EvidenceEquivocation:
		if len(e.Receipts) == 0 || len(e.Envelope) == 0 {
			return refuse("an equivocation needs the receipt of one object and the envelope of the other")
		}
	case EvidenceIndex:
		_, err := e.history()
		return err
	default:
		return refuse("kind %.80q is none of fork, entry, equivocation and index", e.Kind)
	}
	return nil
}

// forks holds two tree heads of different sizes to what the newer tree says of its
// beginning (step 2): another root there than the one that was signed is a fork.
// The same root is a proof of consistency. One head alone, or twice, contradicts nothing.
func (v *run) forks(m *Material) error {
	for i := range m.Evidence {
		e := &m.Evidence[i]
		if err := e.check(); err != nil {
			return err
		}
		if e.Kind != EvidenceFork {
			continue
		}
		older, newer := v.opened[e.Older], v.opened[e.Newer]
		if e.Older == "" || e.Newer == "" || older.Head == newer.Head {
			v.missing(StepConsistency, "the other tree head",
				"that the ledger signed a tree head that contradicts that of size %d: the evidence has no other one", max(older.Size, newer.Size))
			continue
		}
		if e.Root == nil {
			continue
		}
		if err := merkle.CheckConsistency(merkle.Head{Size: older.Size, Root: *e.Root}, newer.Head, e.Path); err != nil {
			return &StepError{Step: StepConsistency, What: fmt.Sprintf("evidence of heads of size %d and %d", older.Size, newer.Size), Cause: err}
		}
		if older.Root != *e.Root {
			return &ForkError{First: older.Note, Second: newer.Note, Root: e.Root, Path: e.Path,
				Detail: fmt.Sprintf("the tree of size %d began with root %s at size %d, where the ledger signed %s", newer.Size, *e.Root, older.Size, older.Root)}
		}
		m.Consistency = append(m.Consistency, Consistency{Old: older.Size, New: newer.Size, Path: e.Path})
	}
	return nil
}

// evidence judges what evidence says beyond its receipts and heads (steps 7 and 8
// for the object that is not in the log).
func (v *run) evidence(m Material) error {
	for i := range m.Evidence {
		switch e := &m.Evidence[i]; e.Kind {
		case EvidenceEntry:
			v.notChecked("that %s should not be in the log (%s): that follows from the whole log (arl log audit)", entryName(e.Receipts[0].Index), e.Problem)
		case EvidenceEquivocation:
			if err := v.equivocation(e); err != nil {
				return err
			}
		case EvidenceIndex:
			if err := v.falseIndex(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *run) equivocation(e *Evidence) error {
	registered := e.Receipts[0].Index
	refuse := func(step Step, format string, args ...any) error {
		return &StepError{Step: step, What: fmt.Sprintf("the envelope beside %s", entryName(registered)), Cause: fmt.Errorf(format, args...)}
	}
	object, err := entry.Decode(e.Envelope)
	if err != nil {
		return refuse(StepLeaf, "%w", err)
	}
	i := slices.IndexFunc(v.out.Entries, func(one Entry) bool { return one.Index == registered })
	if i < 0 {
		return Malformed("evidence", "the receipt of %s is not among the material", entryName(registered))
	}
	one := &v.out.Entries[i]
	switch {
	case object.Header.Iss != one.Header.Iss || object.Header.JTI != one.Header.JTI:
		return refuse(StepLeaf, "of %s by %s, and the entry is %s by %s: two ids are no equivocation", object.Header.JTI, object.Header.Iss, one.Header.JTI, one.Header.Iss)
	case string(object.PAE()) == string(one.PAE()):
		return refuse(StepLeaf, "it says what the entry says, byte for byte")
	}
	key, known := v.chain.Key(object.KeyID)
	owner, _ := v.chain.Owner(object.KeyID)
	switch {
	case !known || !one.Signed:
		v.missing(StepSigner, fmt.Sprintf("the receipt of the agent entry that enrols the key %s for %s", object.KeyID, object.Header.Iss),
			"who signed the envelope beside %s", entryName(registered))
		return nil
	case owner != object.Header.Iss:
		return refuse(StepSigner, "its key is enrolled for %s, not for %s", owner, object.Header.Iss)
	}
	if err := v.root.CheckSignature(key, object.PAE(), object.Sig); err != nil {
		return refuse(StepSignature, "%w", err)
	}
	v.out.Equivocations = append(v.out.Equivocations, Equivocation{object.Header.Iss, object.Header.JTI, registered})
	return nil
}
