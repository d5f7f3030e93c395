package verify

import (
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
)

// IndexError reports an index entry that an entry of the same log contradicts: its
// lists leave the entry out, or name it where it does not belong. It stands in a
// [*StepError] of step content, and convicts the ledger, which admitted the index
// entry: no log gives that root.
type IndexError struct {
	Index   uint64 // of the index entry
	Entry   uint64 // of the entry that contradicts it
	Subject entry.Subject
	Label   entry.Label
	Listed  bool // whether the list names the entry; else it leaves it out

	history     *History
	receipts    []Receipt
	consistency []Consistency
}

// Error implements error.
func (e *IndexError) Error() string {
	if e.Listed {
		return fmt.Sprintf("entry %d, which its list has, is not one by its own content: the index is false", e.Entry)
	}
	return fmt.Sprintf("entry %d, which its list has not, is one by its own content: the index is false", e.Entry)
}

// Evidence returns the document by which others can check that the index is false.
func (e *IndexError) Evidence() *Evidence {
	history, err := e.history.Encode()
	if err != nil {
		panic(err) // it was checked
	}
	return &Evidence{Kind: EvidenceIndex, History: history, Receipts: e.receipts, Consistency: e.consistency,
		Detail: fmt.Sprintf("index entry %d: %v", e.Index, e)}
}

// contradiction returns the proof that the index of a history is false: a given entry, in the
// history or beside it, that the lists leave out, or name without reason.
func (v *run) contradiction(m *Material, h *History, shown *Shown) error {
	if !v.joined[v.opened[h.Head].Size] {
		return nil // it may be of another log than the entries
	}
	for _, p := range v.proven {
		if p.Index >= shown.size || !v.joined[p.head.Size] {
			continue
		}
		found := shown.contradicted(p.Entry.Entry, p.Index)
		if found == nil {
			continue
		}
		found.Index, found.history = h.Index, h
		if v.in(h, p.Index) == nil {
			found.consistency = m.Consistency
			for _, r := range m.Receipts {
				if r.Index == p.Index {
					found.receipts = append(found.receipts, r)
				}
			}
		}
		q := Question{Subject: found.Subject, Label: found.Label}
		return &StepError{Step: StepContent, What: q.String(), Cause: found}
	}
	return nil
}

// contradicted compares the lists with an entry; nil: they agree.
func (s *Shown) contradicted(e *entry.Entry, index uint64) *IndexError {
	listings := e.Subjects(index)
	for _, l := range listings {
		of, ok := s.subjects[l.Subject]
		if ok && of.leavesOut(l.Label, index) {
			return &IndexError{Entry: index, Subject: l.Subject, Label: l.Label}
		}
	}
	for subject, of := range s.subjects {
		for i := range of.Lists {
			l := &of.Lists[i]
			if _, named := slices.BinarySearch(l.Indexes, index); named && !slices.Contains(listings, entry.Listing{Subject: subject, Label: l.Label}) {
				return &IndexError{Entry: index, Subject: subject, Label: l.Label, Listed: true}
			}
		}
	}
	return nil
}

// leavesOut reports whether a list is shown that has its entries around an index, and
// not the index.
func (s *SubjectProof) leavesOut(label entry.Label, index uint64) bool {
	row := s.row(label)
	if row == nil {
		return true
	}
	l := s.list(label)
	if l == nil {
		return false
	}
	at, named := slices.BinarySearch(l.Indexes, index)
	begins, ends := at > 0 || l.From == 0, at < len(l.Indexes) || l.From+uint64(len(l.Indexes)) == row.Count
	return !named && begins && ends
}

// history returns the history in evidence of a false index. Nil: there is none, and the receipt of
// the index entry says what an audit of the whole log must judge.
func (e *Evidence) history() (*History, error) {
	switch {
	case e.Kind != EvidenceIndex:
		return nil, nil
	case len(e.History) > 0:
		plain := slices.Clone(e.History)
		if err := plain.Compact(); err != nil {
			return nil, Malformed("evidence", "history: %v", err)
		}
		return DecodeHistory(plain)
	case e.Root == nil || len(e.Receipts) == 0:
		return nil, Malformed("evidence", "a false index needs a history, or root and the receipt of the index entry").
			WithRemedy("give the document as it was written")
	}
	return nil, nil
}

// falseIndex judges evidence of a false index that convicts nobody by itself: what the
// entries give only who has them can compute.
func (v *run) falseIndex(e *Evidence) error {
	if len(e.History) > 0 {
		if slices.ContainsFunc(v.out.Missing, func(g Gap) bool { return g.Step == StepConsistency }) {
			return nil // it may, once the heads are known to be of one log
		}
		return &StepError{Step: StepContent, What: "evidence of a false index", Cause: fmt.Errorf("no entry given contradicts its history")}
	}
	at := e.Receipts[0].Index
	i, there := slices.BinarySearchFunc(v.out.Entries, at, byIndex)
	if !there {
		return Malformed("evidence", "the receipt of %s is not among the material", entryName(at))
	}
	refuse := func(format string, args ...any) error {
		return &StepError{Step: StepIndex, What: entryName(at), Cause: fmt.Errorf(format, args...)}
	}
	said, ok := v.out.Entries[i].Body.(*entry.LogIndex)
	switch {
	case !ok:
		return refuse("of kind %s, want %s", v.out.Entries[i].Kind, entry.KindIndex)
	case said.Root == *e.Root && said.Subjects == e.Subjects:
		return refuse("it says what the evidence says: root %s, %d subjects", said.Root, said.Subjects)
	}
	v.notChecked("that the first %d entries give the root %s with %d subjects, and not %s with %d as %s says: that follows from these entries (arl log audit)",
		said.Size, *e.Root, e.Subjects, said.Root, said.Subjects, entryName(at))
	return nil
}
