package complete

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// chunkLevel is the level in a list's tree of the runs that are stored together:
// 2^6 indexes.
const (
	chunkLevel = 6
	chunkSize  = 1 << chunkLevel
)

// row is the list of one label in a record.
type row struct {
	label entry.Label
	list  merkle.Frontier
	last  uint64      // newest index
	tail  []byte      // newest Size mod 64 indexes: the first, then distances, as uvarints
	root  merkle.Hash // of the list, unless it is stale
	stale bool
}

// record is the commitment of the tree to one subject: rows ascending by label.
type record struct{ rows []row }

// find returns the row of a label, which is made if it is not there.
func (r *record) find(label entry.Label) *row {
	at := 0
	for at < len(r.rows) && r.rows[at].label < label { // there are a few
		at++
	}
	if at == len(r.rows) || r.rows[at].label != label {
		r.rows = slices.Insert(r.rows, at, row{label: label})
	}
	return &r.rows[at]
}

// subtree is a perfect subtree of a list that must be stored.
type subtree struct {
	key     merkle.Hash // of the subject
	label   entry.Label
	level   uint   // 6, 12, 18 …
	number  uint64 // of those before it, of its level
	root    merkle.Hash
	indexes []byte // of level 6: its indexes; not to be kept
}

// add appends an index to the list, which is that of a key.
func (r *row) add(index uint64, key merkle.Hash, stored func(*subtree)) {
	if r.list.Size()%chunkSize == 0 {
		r.tail = binary.AppendUvarint(r.tail, index)
	} else {
		r.tail = binary.AppendUvarint(r.tail, index-r.last)
	}
	r.last, r.stale = index, true
	if (r.list.Size()+1)%chunkSize != 0 {
		_ = r.list.Append(merkle.HashIndex(index), nil) // never fails
		return
	}
	r.complete(index, key, stored)
}

// complete is add of the last index of a chunk.
func (r *row) complete(index uint64, key merkle.Hash, stored func(*subtree)) {
	_ = r.list.Append(merkle.HashIndex(index), func(level uint, number uint64, h merkle.Hash) { // never fails
		if stored != nil && level > 0 && level%chunkLevel == 0 {
			stored(&subtree{key, r.label, level, number, h, r.tail})
		}
	})
	r.tail = r.tail[:0]
}

// indexes returns the indexes of the tail.
func (r *row) indexes() ([]uint64, error) { return readIndexes(r.tail, int(r.list.Size()%chunkSize)) }

var errIndexes = errors.New("not a run of indexes")

// readIndexes reads count indexes: the first, then distances.
func readIndexes(from []byte, count int) ([]uint64, error) {
	list := make([]uint64, 0, count)
	for len(from) > 0 && len(list) < count {
		n, size := binary.Uvarint(from)
		if size <= 0 || len(list) > 0 && n == 0 {
			return nil, errIndexes
		}
		if from = from[size:]; len(list) > 0 {
			n += list[len(list)-1]
		}
		list = append(list, n)
	}
	if len(list) != count || len(from) > 0 {
		return nil, errIndexes
	}
	return list, nil
}

// head returns the head of the list.
func (r *row) head() merkle.Head {
	if r.stale {
		head, _ := r.list.Head() // never fails
		r.root, r.stale = head.Root, false
	}
	return merkle.Head{Size: r.list.Size(), Root: r.root}
}

// view returns the rows that the tree commits to.
func (r *record) view() []merkle.Row {
	rows := make([]merkle.Row, len(r.rows))
	for i := range r.rows {
		head := r.rows[i].head()
		rows[i] = merkle.Row{Label: string(r.rows[i].label), Count: head.Size, Root: head.Root}
	}
	return rows
}

// Key returns the key of a subject in the tree (IDX-2).
func Key(s entry.Subject) merkle.Hash { return merkle.SubjectKey(string(s.Type), s.Value) }

// listing is one listing of an entry, ready to be added.
type listing struct {
	key   merkle.Hash
	label entry.Label
	index uint64
}

// Tree is the index over the first entries of a log (IDX-1, IDX-2), in memory. It is
// not safe for concurrent use.
type Tree struct {
	prefix  merkle.PrefixTree
	size    uint64
	records map[merkle.Hash]*record
	changed map[merkle.Hash]*record // since root was computed
	stored  func(*subtree)
	load    func(key merkle.Hash) (*record, error) // reads records that are in prefix and not in records; nil: all are in records
	buf     []entry.Listing
}

// NewTree returns the index of the empty log, which keeps everything in memory: some
// 100 bytes an entry.
func NewTree() *Tree {
	return &Tree{records: map[merkle.Hash]*record{}, changed: map[merkle.Hash]*record{}}
}

// Size returns the number of entries that the index covers.
func (t *Tree) Size() uint64 { return t.size }

// Subjects returns the number of subjects, as of the last call of Root.
func (t *Tree) Subjects() uint64 { return uint64(t.prefix.Size()) }

// Add takes up the next entry.
func (t *Tree) Add(e *entry.Entry) error {
	t.buf = e.AppendSubjects(t.buf[:0], t.size)
	for i := range t.buf {
		l := &t.buf[i]
		if err := t.add(listing{Key(l.Subject), l.Label, t.size}); err != nil {
			return err
		}
	}
	t.size++
	return nil
}

func (t *Tree) add(l listing) error {
	of, err := t.record(l.key)
	if err != nil {
		return err
	}
	if of == nil {
		of = &record{}
		t.records[l.key] = of
	}
	t.changed[l.key] = of
	of.find(l.label).add(l.index, l.key, t.stored)
	return nil
}

// record returns the record of a key; nil: it has none.
func (t *Tree) record(key merkle.Hash) (*record, error) {
	if of, ok := t.records[key]; ok {
		return of, nil
	}
	if t.load == nil {
		return nil, nil
	}
	if _, ok := t.prefix.Record(key); !ok {
		return nil, nil
	}
	of, err := t.load(key)
	if err == nil {
		t.records[key] = of
	}
	return of, err
}

// Root returns the root over all that was added.
func (t *Tree) Root() (merkle.Hash, error) {
	batch := make([]merkle.PrefixLeaf, 0, len(t.changed))
	for key, of := range t.changed {
		hash, err := merkle.HashRecord(of.view())
		if err != nil {
			return merkle.Hash{}, fmt.Errorf("complete: %w", err)
		}
		batch = append(batch, merkle.PrefixLeaf{Key: key, Record: hash})
	}
	slices.SortFunc(batch, func(a, b merkle.PrefixLeaf) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	clear(t.changed)
	if err := t.prefix.Update(batch); err != nil {
		return merkle.Hash{}, fmt.Errorf("complete: %w", err)
	}
	return t.prefix.Root(), nil
}

// Check compares an index entry of the log with the index, which must cover exactly
// the entries that the index entry does. The error is a [*RootError].
func (t *Tree) Check(index uint64, x *entry.LogIndex) error {
	root, err := t.Root()
	if err != nil {
		return err
	}
	if t.size != x.Size {
		return fmt.Errorf("complete: compare index entry %d, of %d entries, with an index of %d", index, x.Size, t.size)
	}
	if x.Root != root || x.Subjects != t.Subjects() {
		return &RootError{Index: index, By: x.Iss, Size: x.Size, Said: x.Root, Root: root, SaidSubjects: x.Subjects, Subjects: t.Subjects()}
	}
	return nil
}

// RootError is an index entry that says something else than the entries before it. A
// ledger that has such an entry in its log is convicted by the log itself.
type RootError struct {
	Index                  uint64          // of the index entry
	By                     entry.Principal // who signed it
	Size                   uint64          // entries that it covers
	Said, Root             merkle.Hash     // the statement of the index entry, and the values that its entries give
	SaidSubjects, Subjects uint64
}

// Error implements error.
func (e *RootError) Error() string {
	return fmt.Sprintf("complete: index entry %d says root %s with %d subjects of %d entries, and these entries give root %s with %d",
		e.Index, e.Said, e.SaidSubjects, e.Size, e.Root, e.Subjects)
}

// keysOf returns the keys of records, ascending.
func keysOf(records map[merkle.Hash]*record) []merkle.Hash {
	return slices.SortedFunc(maps.Keys(records), func(a, b merkle.Hash) int { return bytes.Compare(a[:], b[:]) })
}
