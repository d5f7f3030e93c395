package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// History proves, of some subjects, which entries of a log there are: these and no
// others, or none. It is a claim until [Root.Verify] has seen it; what it is a claim
// about is for whoever asks ([Material.Questions]), and not for the file.
type History struct {
	Head  string `json:"head"`  // signed note
	Index uint64 `json:"index"` // of the index entry that the proofs lead to
	// Entries, strictly ascending, are proven together: [merkle.CheckInclusions]. They
	// are the index entry, those that the lists name, those behind what the index
	// covers, and the policies and keys that all of their signatures need.
	Entries   []Leaf        `json:"entries"`
	Inclusion []merkle.Hash `json:"inclusion"`
	Indexed
	Size uint64 `json:"size"` // of the log that the claim is about: it ends there
}

const historyName = "history"

// Encode returns the history as JSON, in its one form. The error is a [*FormatError].
func (h *History) Encode() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return encode(historyName, h)
}

// DecodeHistory reads a history. It accepts exactly the output of [History.Encode]. The
// error is a [*FormatError].
func DecodeHistory(data []byte) (*History, error) {
	if len(data) > MaxFile {
		return nil, Malformed(historyName, "%d bytes, the limit is %d", len(data), MaxFile)
	}
	h := new(History)
	if err := json.Unmarshal(data, h, json.RejectUnknownMembers(true)); err != nil {
		return nil, Malformed(historyName, "%v", err)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	if err := CheckForm(historyName, data, h); err != nil {
		return nil, err
	}
	return h, nil
}

// check checks the form, before anything is verified.
func (h *History) check() error {
	if err := CheckLimits(historyName, nil, h.Head); err != nil {
		return err
	}
	if err := h.CheckForm(historyName); err != nil {
		return err
	}
	switch {
	case len(h.Subjects) == 0:
		return Malformed(historyName, "no subject")
	case h.Size == 0 || h.Size > entry.MaxInteger:
		return Malformed(historyName, "size %d, want a positive number", h.Size)
	case len(h.Entries) > MaxItems:
		return Malformed(historyName, "%d entries, the limit is %d", len(h.Entries), MaxItems).WithRemedy("ask for a part of the lists, in several files")
	}
	return CheckLeaves(historyName, h.Entries, h.Inclusion)
}

// CheckLeaves holds leaves, which strictly ascend, and their joint proof to
// [MaxLeaf] and [MaxPath]. The error is a [*FormatError] about what.
func CheckLeaves(what string, leaves []Leaf, inclusion []merkle.Hash) error {
	if len(inclusion) > MaxPath*(len(leaves)+1) {
		return Malformed(what, "inclusion: hashes %d, entries %d", len(inclusion), len(leaves))
	}
	for i, leaf := range leaves {
		if i > 0 && leaves[i-1].Index >= leaf.Index {
			return Malformed(what, "entries[%d]: index %d does not ascend", i, leaf.Index)
		}
		if len(leaf.Bytes) == 0 || len(leaf.Bytes) > MaxLeaf {
			return Malformed(what, "entries[%d]: leaf of %d bytes, want 1 to %d", i, len(leaf.Bytes), MaxLeaf)
		}
	}
	return nil
}

// historyEntries proves the entries of a history (steps 3 and 4).
func (v *run) historyEntries(h *History) error {
	places, read, failed := make([]merkle.Place, len(h.Entries)), make([]proven, len(h.Entries)), make([]error, len(h.Entries))
	at := v.opened[h.Head]
	InParallel(len(h.Entries), func(i int) {
		leaf := h.Entries[i]
		e, registered, err := entry.DecodeLeaf(leaf.Bytes)
		if err != nil {
			failed[i] = &StepError{Step: StepLeaf, What: entryName(leaf.Index), Cause: err}
			return
		}
		r := entry.Registered{Entry: e, Index: leaf.Index, RegisteredAt: registered}
		places[i] = merkle.Place{Index: leaf.Index, Leaf: r.LeafHash()}
		read[i] = proven{Entry: Entry{Registered: r}, hash: places[i].Leaf, head: at}
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	v.proven = append(v.proven, read...)
	if err := merkle.CheckInclusions(places, at.Head, h.Inclusion); err != nil {
		return &StepError{Step: StepInclusion, What: "entries of a history", Cause: err}
	}
	return nil
}

// histories answers the questions (steps 9 to 15), once all entries are proven and
// judged.
func (v *run) histories(m Material) error {
	answered := make([]bool, len(m.Questions))
	for _, h := range m.Histories {
		if err := v.history(&m, h, answered); err != nil {
			return err
		}
	}
	for i, done := range answered {
		if !done {
			q := &m.Questions[i]
			return &StepError{Step: StepReach, What: q.String(), Cause: errors.New("no history is given that is about it")}
		}
	}
	if len(m.Histories) > 0 {
		v.notChecked("that the root of the index follows from the log: an audit of the log shows it, or the quorum of witnesses if auditors are among them")
	}
	if len(m.Histories) > 0 && len(m.Questions) == 0 {
		v.notChecked("that the history is about what you want to know: nobody asked (arl verify --expect)")
	}
	return nil
}

// history does the steps for one history. It answers the questions about its subjects
// that no history before has answered and, if there is none at all, what it can.
func (v *run) history(m *Material, h *History, answered []bool) error {
	questions := m.Questions
	index, err := v.indexEntry(h)
	if err != nil {
		return err
	}
	shown, err := h.Check(index)
	if err != nil {
		return err
	}
	v.count[StepRecord] += len(h.Subjects)
	v.count[StepPrefix] += len(h.Subjects)
	v.count[StepList] += shown.lists
	if size := v.opened[h.Head].Size; h.Size > size {
		return &StepError{Step: StepReach, What: historyName, Cause: fmt.Errorf("it claims something about %d entries, and its head has %d", h.Size, size)}
	}
	if err := v.contradiction(m, h, shown); err != nil {
		return err
	}
	var ask []Question
	for i, q := range questions {
		if _, about := shown.subjects[q.Subject]; about && !answered[i] {
			answered[i], ask = true, append(ask, q)
		}
	}
	for i := range h.Subjects {
		if len(questions) == 0 {
			ask = append(ask, shown.questions(&h.Subjects[i], h.Size)...)
		}
	}
	tail := 0
	for _, q := range ask {
		if q.Size == 0 {
			q.Size = h.Size
		}
		if q.Size > h.Size {
			return &StepError{Step: StepReach, What: q.String(), Cause: fmt.Errorf("asked about the first %d entries, and the history ends at %d", q.Size, h.Size)}
		}
		a, err := shown.Answer(q, func(index uint64) *entry.Entry { return v.in(h, index) })
		if err != nil {
			return err
		}
		v.out.Answers = append(v.out.Answers, a)
		v.count[StepReach]++
		v.count[StepContent] += len(a.Entries) - a.Tail
		tail = max(tail, int(q.Size-min(q.Size, max(index.Size, q.From))))
	}
	v.count[StepTail] += tail
	return nil
}

// indexEntry returns the index entry that a history leads to (step 9).
func (v *run) indexEntry(h *History) (*entry.LogIndex, error) {
	fail := func(format string, args ...any) (*entry.LogIndex, error) {
		return nil, &StepError{Step: StepIndex, What: entryName(h.Index), Cause: fmt.Errorf(format, args...)}
	}
	e := v.in(h, h.Index)
	if e == nil {
		return fail("the index entry is left out")
	}
	index, ok := e.Body.(*entry.LogIndex)
	switch {
	case !ok:
		return fail("of kind %s, want %s", e.Kind, entry.KindIndex)
	case index.Size > h.Index:
		return fail("it covers %d entries, and %d stand before it", index.Size, h.Index)
	}
	i, _ := slices.BinarySearchFunc(v.out.Entries, h.Index, byIndex)
	if !v.out.Entries[i].Signed {
		v.missing(StepIndex, "the policies and agent entries that let its signer in, in the history or as receipts", "that the index entry at %d is by a coordinator", h.Index)
	} else {
		v.count[StepIndex]++
	}
	return index, nil
}

// in returns the entry of a history at an index; nil: there is none. All have been
// proven, and two at one index are one.
func (v *run) in(h *History, index uint64) *entry.Entry {
	if _, given := slices.BinarySearchFunc(h.Entries, index, func(l Leaf, index uint64) int { return cmp.Compare(l.Index, index) }); !given {
		return nil
	}
	i, _ := slices.BinarySearchFunc(v.out.Entries, index, byIndex)
	return v.out.Entries[i].Entry
}

// absent says which absences are not proven.
func (v *run) absent() string {
	const text = "absences: a revocation, a policy or any other entry that was not given"
	if len(v.out.Answers) > 0 {
		return text + ", beyond what the histories answer"
	}
	return text
}
