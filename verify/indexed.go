package verify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Leaf is an entry as it was received: nobody has read or proven it yet. What is
// read and proven is an [entry.Registered].
type Leaf struct {
	Index uint64         `json:"index"` // in the log, from 0
	Bytes jsontext.Value `json:"leaf"`  // exact
}

// Indexed is what an index entry (IDX-3) proves about some subjects: which entries
// stand under them, or that none does.
type Indexed struct {
	// Subjects strictly ascend by their keys, [merkle.SubjectKey].
	Subjects []SubjectProof `json:"subjects,omitempty"`
	// Prefix is the joint proof of the subjects in the tree of the index entry.
	Prefix []Sibling `json:"prefix,omitempty"`
}

// SubjectProof is the proof of the index about a subject.
type SubjectProof struct {
	entry.Subject
	// Rows have how many entries stand under the subject with each label, and their
	// list, labels ascending; none: no entry stands under the subject.
	Rows []merkle.Row `json:"rows,omitempty"`
	// Lists show parts of the lists, labels strictly ascending.
	Lists []ListRun `json:"lists,omitempty"`
	// Depth is where the way of the subject's key ends in the tree.
	Depth int `json:"depth"`
	// Other is the leaf in the place of the subject, if the subject has no rows; nil: the place is
	// empty.
	Other *merkle.PrefixLeaf `json:"other,omitempty"`
}

// ListRun shows neighbours in the list of a label.
type ListRun struct {
	Label   entry.Label   `json:"label"`
	From    uint64        `json:"from"`    // rank of the first of them, from 0
	Indexes []uint64      `json:"indexes"` // of entries, ascending; at least one
	Path    []merkle.Hash `json:"path"`    // their joint proof
}

// Sibling is a hash beside the way to a key of the index. Its text form is that of a
// hash, and empty for an empty subtree.
type Sibling merkle.Hash

// MarshalText implements [encoding.TextMarshaler].
func (s Sibling) MarshalText() ([]byte, error) {
	if s == (Sibling{}) {
		return nil, nil
	}
	return merkle.Hash(s).MarshalText()
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sibling) UnmarshalText(text []byte) error {
	*s = Sibling{}
	if len(text) == 0 {
		return nil
	}
	return (*merkle.Hash)(s).UnmarshalText(text)
}

// CheckForm holds the proofs to their limits and their one form: nothing is proven by
// that. The error is a [*FormatError] about what.
func (x *Indexed) CheckForm(what string) error {
	if len(x.Subjects) > MaxSubjects {
		return Malformed(what, "%d subjects, the limit is %d", len(x.Subjects), MaxSubjects)
	}
	if len(x.Prefix) > maxDepth*(len(x.Subjects)+1) {
		return Malformed(what, "prefix: %d hashes for %d subjects", len(x.Prefix), len(x.Subjects))
	}
	for i := range x.Subjects {
		s := &x.Subjects[i]
		if i > 0 && bytes.Compare(x.Subjects[i-1].key(), s.key()) >= 0 {
			return Malformed(what, "subjects[%d]: %s is out of order: subjects ascend by their keys", i, s.Name())
		}
		if err := s.checkForm(); err != nil {
			return Malformed(what, "subjects[%d], %s: %v", i, s.Name(), err)
		}
	}
	return nil
}

// maxDepth is the number of bits of a key.
const maxDepth = 8 * merkle.HashSize

func (s *SubjectProof) key() []byte {
	key := merkle.SubjectKey(string(s.Type), s.Value)
	return key[:]
}

// Name returns the subject as it is written on a command line, such as "agent:booker".
func (s *SubjectProof) Name() string { return subjectName(s.Subject) }

func subjectName(s entry.Subject) string {
	if s.Value == "" {
		return string(s.Type)
	}
	return string(s.Type) + ":" + s.Value
}

func (s *SubjectProof) checkForm() error {
	switch {
	case !s.Known():
		return errors.New("no subject that the protocol knows")
	case s.Depth < 0 || s.Depth > maxDepth:
		return fmt.Errorf("depth %d, want 0 to %d", s.Depth, maxDepth)
	case len(s.Rows) > 0 && s.Other != nil:
		return errors.New("it has rows, and another leaf in its place")
	case len(s.Rows) > len(entry.Labels(s.Type)):
		return fmt.Errorf("%d rows, and %d labels that such a subject may have", len(s.Rows), len(entry.Labels(s.Type)))
	}
	for i := range s.Lists {
		l := &s.Lists[i]
		row := s.row(l.Label)
		switch {
		case i > 0 && s.Lists[i-1].Label >= l.Label:
			return fmt.Errorf("lists[%d]: label %q does not ascend", i, l.Label)
		case row == nil:
			return fmt.Errorf("lists[%d]: label %q has no row", i, l.Label)
		case len(l.Indexes) == 0:
			return fmt.Errorf("lists[%d]: no index of label %q: a list that is not shown is left out", i, l.Label)
		case l.From >= row.Count || uint64(len(l.Indexes)) > row.Count-l.From:
			return fmt.Errorf("lists[%d]: %d of label %q from rank %d, but there are %d", i, len(l.Indexes), l.Label, l.From, row.Count)
		case len(l.Path) > 2*MaxPath:
			return fmt.Errorf("lists[%d]: a proof of %d hashes, the limit is %d", i, len(l.Path), 2*MaxPath)
		}
	}
	return nil
}

func (s *SubjectProof) row(label entry.Label) *merkle.Row {
	i, ok := slices.BinarySearchFunc(s.Rows, string(label), func(r merkle.Row, label string) int { return cmp.Compare(r.Label, label) })
	if !ok {
		return nil
	}
	return &s.Rows[i]
}

func (s *SubjectProof) list(label entry.Label) *ListRun {
	for i := range s.Lists {
		if s.Lists[i].Label == label {
			return &s.Lists[i]
		}
	}
	return nil
}

// Shown are the lists of subjects that are proven to be lists of an index entry.
type Shown struct {
	size     uint64 // entries that the index covers
	subjects map[entry.Subject]*SubjectProof
	lists    int
}

// Check proves the lists against an index entry, of whose place and signer the caller
// has made sure: steps record, prefix and list of the package comment. The error is a
// [*StepError], or a [*FormatError] if it is not in its one form.
func (x *Indexed) Check(index *entry.LogIndex) (*Shown, error) {
	if err := x.CheckForm("index"); err != nil {
		return nil, err
	}
	shown := &Shown{size: index.Size, subjects: make(map[entry.Subject]*SubjectProof, len(x.Subjects))}
	answers := make([]merkle.PrefixAnswer, len(x.Subjects))
	for i := range x.Subjects {
		s := &x.Subjects[i]
		a, err := s.answer()
		if err != nil {
			return nil, &StepError{Step: StepRecord, What: s.Name(), Cause: err}
		}
		answers[i], shown.subjects[s.Subject] = a, s
	}
	path := make([]merkle.Hash, len(x.Prefix))
	for i, h := range x.Prefix {
		path[i] = merkle.Hash(h)
	}
	if err := merkle.CheckPrefix(answers, index.Root, path); err != nil {
		return nil, &StepError{Step: StepPrefix, What: fmt.Sprintf("index of %d entries", index.Size), Cause: err}
	}
	for i := range x.Subjects {
		s := &x.Subjects[i]
		for j := range s.Lists {
			if err := s.checkList(&s.Lists[j], index.Size); err != nil {
				return nil, &StepError{Step: StepList, What: fmt.Sprintf("%s, label %s", s.Name(), s.Lists[j].Label), Cause: err}
			}
			shown.lists++
		}
	}
	return shown, nil
}

// answer is the answer that the tree must have about the subject.
func (s *SubjectProof) answer() (a merkle.PrefixAnswer, err error) {
	a.Key, a.Depth = merkle.Hash(s.key()), s.Depth
	switch {
	case len(s.Rows) > 0:
		a.Leaf.Key = a.Key
		a.Leaf.Record, err = merkle.HashRecord(s.Rows)
	case s.Other != nil && s.Other.Key == a.Key:
		return a, errors.New("its own leaf stands in its place, and it has no rows")
	case s.Other != nil:
		a.Leaf = *s.Other
	}
	return a, err
}

func (s *SubjectProof) checkList(l *ListRun, size uint64) error {
	if last := l.Indexes[len(l.Indexes)-1]; last >= size {
		return fmt.Errorf("it has entry %d, and the index covers %d entries", last, size)
	}
	return merkle.CheckRun(l.From, l.Indexes, s.row(l.Label).Head(), l.Path)
}

// Question asks which entries stand under a subject.
type Question struct {
	entry.Subject
	Label entry.Label `json:"label,omitempty"` // empty: any
	From  uint64      `json:"from"`            // index from which on entries are asked for
	Size  uint64      `json:"size"`            // size of the log that is asked about: entries below it count
}

// ParseQuestions reads what is asked for, as TYPE:VALUE:LABEL, such as
// "agent:booker:agent/revoke<". Several labels have commas between them, * is any label,
// as is none where the value has no colon. The log itself has no value: "log:policy".
// The error is a [*FormatError].
func ParseQuestions(text string) ([]Question, error) {
	kind, rest, _ := strings.Cut(text, ":")
	q := Question{Subject: entry.Subject{Type: entry.SubjectType(kind), Value: rest}}
	labels := "*"
	if at := strings.LastIndexByte(rest, ':'); at >= 0 {
		q.Value, labels = rest[:at], rest[at+1:]
	} else if q.Type == entry.SubjectLog && rest != "" {
		q.Value, labels = "", rest
	}
	var all []Question
	for label := range strings.SplitSeq(labels, ",") {
		if label == "" {
			return nil, Malformed("question", "%.140q has an empty label", text).WithRemedy("write * for any label")
		}
		q.Label = entry.Label(strings.TrimPrefix(label, "*"))
		if err := q.CheckForm(); err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

// String returns what is asked for, such as "agent/revoke of agent:booker".
func (q *Question) String() string {
	return fmt.Sprintf("%s of %s", cmp.Or(q.Label, "entries"), subjectName(q.Subject))
}

// CheckForm reports a question that no log answers. The error is a [*FormatError].
func (q *Question) CheckForm() error {
	switch labels := entry.Labels(q.Type); {
	case len(labels) == 0:
		return Malformed("question", "%.80q is no type of subject", q.Type).WithRemedy("use one of " + joined(entry.SubjectTypes()))
	case !q.Known():
		return Malformed("question", "%.140q is no value that a subject of type %s may have", q.Value, q.Type)
	case q.Label != "" && !slices.Contains(labels, q.Label):
		return Malformed("question", "%.80q is no label of a subject of type %s", q.Label, q.Type).WithRemedy("use one of " + joined(labels))
	case q.Size > 0 && q.From > q.Size:
		return Malformed("question", "from entry %d on, in a log of %d entries", q.From, q.Size)
	}
	return nil
}

func joined[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

// Answer says that these entries and no others of the log stand where a question
// asks.
type Answer struct {
	Question
	Entries []uint64 `json:"entries"` // indexes, ascending
	Tail    int      `json:"tail"`    // how many of them the index does not cover: they were counted one by one
}

// String returns a line such as "complete: 2 entries: agent/revoke of agent:booker, in
// the first 812 entries of the log".
func (a *Answer) String() string {
	within := fmt.Sprintf("%s, in the first %d entries of the log", a.Question.String(), a.Size)
	if a.From > 0 {
		within = fmt.Sprintf("%s, in entries %d to %d of the log", a.Question.String(), a.From, max(a.Size, 1)-1)
	}
	if len(a.Entries) == 0 {
		return "none: no " + within
	}
	return fmt.Sprintf("complete: %s: %s", entriesOf(len(a.Entries)), within)
}

// Answer answers a question from the lists and, behind what the index covers, from the
// entries themselves, which entry returns; nil: not given. It does steps reach, content
// and tail. The error is a [*StepError], or a [*FormatError] about the question.
func (s *Shown) Answer(q Question, entry func(index uint64) *entry.Entry) (Answer, error) {
	if err := q.CheckForm(); err != nil {
		return Answer{}, err
	}
	a := Answer{Question: q, Entries: []uint64{}}
	fail := func(step Step, format string, args ...any) (Answer, error) {
		return Answer{}, &StepError{Step: step, What: q.String(), Cause: fmt.Errorf(format, args...)}
	}
	run, err := s.reach(&q)
	if err != nil {
		return fail(StepReach, "%w", err)
	}
	for _, index := range run {
		if index < q.From || index >= q.Size {
			continue
		}
		e := entry(index)
		if e == nil {
			return fail(StepContent, "entry %d, which its list has, is left out", index)
		}
		if !stands(e, index, &q) {
			return fail(StepContent, "entry %d, which its list has, is not one by its own content: the index is false", index)
		}
		a.Entries = append(a.Entries, index)
	}
	for index := max(s.size, q.From); index < q.Size; index++ {
		e := entry(index)
		if e == nil {
			return fail(StepTail, "entry %d is left out: the index covers %d entries, and all from there to %d are needed", index, s.size, q.Size-1)
		}
		if stands(e, index, &q) {
			a.Entries = append(a.Entries, index)
			a.Tail++
		}
	}
	return a, nil
}

// stands reports whether an entry is one that a question asks for.
func stands(e *entry.Entry, index uint64, q *Question) bool {
	return slices.ContainsFunc(e.Subjects(index), func(l entry.Listing) bool {
		return l.Subject == q.Subject && (q.Label == "" || l.Label == q.Label)
	})
}

// reach returns what is shown of the lists, each of which must reach from the first
// entry asked for to the last that the index covers.
func (s *Shown) reach(q *Question) (all []uint64, err error) {
	subject, ok := s.subjects[q.Subject]
	if !ok {
		return nil, fmt.Errorf("nothing is shown about %s", subjectName(q.Subject))
	}
	for i := range subject.Rows {
		row := &subject.Rows[i]
		label := entry.Label(row.Label)
		if q.Label != "" && q.Label != label {
			continue
		}
		l := subject.list(label)
		if l == nil {
			return nil, fmt.Errorf("the index has %s with label %s, and shows none of them", entriesOf(row.Count), label)
		}
		if first := l.Indexes[0]; l.From > 0 && first > q.From {
			return nil, fmt.Errorf("the list of %s begins with rank %d, entry %d: what is before, from entry %d on, is not shown", label, l.From, first, q.From)
		}
		end, last := l.From+uint64(len(l.Indexes)), l.Indexes[len(l.Indexes)-1]
		if end < row.Count && last+1 < q.Size {
			return nil, fmt.Errorf("the list of %s ends with rank %d of %d, entry %d: what is behind, below entry %d, is not shown", label, end-1, row.Count, last, q.Size)
		}
		all = append(all, l.Indexes...)
	}
	slices.Sort(all)
	for i := range all {
		if i > 0 && all[i-1] == all[i] {
			return nil, fmt.Errorf("entry %d has two labels, and an entry has one under a subject: the index is false", all[i])
		}
	}
	return all, nil
}

// questions returns what can be answered for a log of a size: everything under a subject
// as far as all of its lists reach, where all are shown; else each list as far as it
// reaches; and whether anything stands under a subject that the index does not have.
func (s *Shown) questions(subject *SubjectProof, size uint64) (all []Question) {
	for i := range subject.Lists {
		l := &subject.Lists[i]
		q := Question{Subject: subject.Subject, Label: l.Label, Size: size}
		if l.From > 0 {
			q.From = l.Indexes[0]
		}
		if l.From+uint64(len(l.Indexes)) < subject.row(l.Label).Count {
			q.Size = min(size, l.Indexes[len(l.Indexes)-1]+1)
		}
		if q.From < q.Size {
			all = append(all, q)
		}
	}
	if len(subject.Lists) < len(subject.Rows) {
		return all
	}
	whole := Question{Subject: subject.Subject, Size: size}
	for i := range all {
		whole.From, whole.Size = max(whole.From, all[i].From), min(whole.Size, all[i].Size)
	}
	if len(all) < len(subject.Lists) || whole.From >= whole.Size {
		return all
	}
	return []Question{whole}
}
