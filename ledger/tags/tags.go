// Package tags is the form of the secondary indexes of a log: which entries have a tag. A key names
// the tag and the first entry of one commit with the tag. Its value is the gaps to the others.
package tags

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
)

// KeyPrefix begins the keys of all secondary indexes.
const KeyPrefix = 'x'

// Posting is the entries of one commit with one tag: the meaning of a key of a secondary index.
// Entries of one commit often share an agent or a workflow, and always have only a few kinds.
type Posting struct {
	First, last uint64 // index of the first entry, and of the last one so far
	Gaps        []byte // the value of the key: of each entry but the first, its distance from the one before, as a uvarint
}

// Postings are the postings of a commit in the making.
type Postings map[entry.Tag]*Posting

// Add puts the entry at index, which is behind all before it, under the tag.
func (p Postings) Add(tag entry.Tag, index uint64) {
	in := p[tag]
	if in == nil {
		p[tag] = &Posting{First: index, last: index}
		return
	}
	in.Gaps = binary.AppendUvarint(in.Gaps, index-in.last)
	in.last = index
}

// Parse returns the indexes of the entries that a key of a secondary index names with its
// value, in order. It takes no second spelling.
func Parse(key, value []byte) ([]uint64, error) {
	if len(key) < 3+8 {
		return nil, errors.New("it is short")
	}
	index := IndexOf(key)
	entries := []uint64{index}
	for len(value) > 0 {
		gap, n := binary.Uvarint(value)
		if n <= 0 || gap == 0 || gap > math.MaxUint64-index || n > 1 && value[n-1] == 0 {
			return nil, fmt.Errorf("after entry %d its value, %.10x, is not a distance", index, value)
		}
		index += gap
		entries = append(entries, index)
		value = value[n:]
	}
	return entries, nil
}

// prefix begins the keys of a tag.
func prefix(tag entry.Tag) []byte {
	key := make([]byte, 0, 3+len(tag.Value)+8)
	key = append(key, KeyPrefix, byte(tag.Index))
	key = append(key, tag.Value...)
	return append(key, 0)
}

// Key is the key of the posting that begins at index.
func Key(tag entry.Tag, index uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(tag), index)
}

// Same reports whether two keys are of postings of one tag.
func Same(a, b []byte) bool {
	return len(a) == len(b) && len(a) > 8 && bytes.Equal(a[:len(a)-8], b[:len(b)-8])
}

// IndexOf returns the number that ends a key.
func IndexOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// Query asks a secondary index for entries.
type Query struct {
	Index entry.Index
	Value string
	// From and To bound the entries' indexes: From is the first that counts, To
	// the first behind. To 0 is the size of the log.
	From, To uint64
	Limit    int  // at most so many; 0 is none
	Newest   bool // from the newest backwards
}

// Find returns the indexes of the entries below size that the query matches in a store, in order.
func (q Query) Find(store pebble.Reader, size uint64) (found []uint64, err error) {
	if q.To == 0 || q.To > size {
		q.To = size
	}
	if q.From >= q.To {
		return nil, nil
	}
	// A NUL ends the value in a key. No value of an entry has a NUL: its keys would begin like
	// those of another value.
	if strings.ContainsRune(q.Value, 0) {
		return nil, nil
	}
	tag := entry.Tag{Index: q.Index, Value: q.Value}
	it, err := store.NewIter(&pebble.IterOptions{LowerBound: Key(tag, 0), UpperBound: Key(tag, q.To)})
	if err != nil {
		return nil, fmt.Errorf("ledger: find %c %q: %w", q.Index, q.Value, err)
	}
	found, err = q.read(it, Key(tag, q.From))
	return found, errors.Join(err, engine.Classed(it.Close()))
}

// read reads the postings of a tag; from is the key that one beginning at q.From
// would have. The last one before it may reach behind it.
func (q *Query) read(it *pebble.Iterator, from []byte) (found []uint64, err error) {
	step := it.Next
	var ok bool
	if q.Newest {
		ok, step = it.Last(), it.Prev
	} else if ok = it.SeekLT(from); !ok {
		ok = it.First()
	}
	for ; ok; ok = step() {
		entries, err := Parse(it.Key(), it.Value())
		if err == nil && !Same(it.Key(), from) {
			err = errors.New("it is of no tag")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: index key %q: %v", engine.ErrCorrupt, it.Key(), err)
		}
		begins := entries[0]
		if q.Newest {
			slices.Reverse(entries)
		}
		for _, index := range entries {
			if index >= q.From && index < q.To {
				found = append(found, index)
			}
			if q.Limit > 0 && len(found) == q.Limit {
				return found, nil
			}
		}
		if q.Newest && begins <= q.From {
			break
		}
	}
	return found, nil
}
