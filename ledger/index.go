package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/entry"
)

// posting is the entries of one commit with one tag: the meaning of a key of a secondary index.
// Entries of one commit often share an agent or a workflow, and always have only a few kinds.
type posting struct {
	first, last uint64
	gaps        []byte // the value of the key: of each entry but the first, its distance from the one before, as a uvarint
}

// postings are the postings of a commit in the making.
type postings map[entry.Tag]*posting

// add puts the entry at index, which is behind all before it, under the tag.
func (p postings) add(tag entry.Tag, index uint64) {
	in := p[tag]
	if in == nil {
		p[tag] = &posting{first: index, last: index}
		return
	}
	in.gaps = binary.AppendUvarint(in.gaps, index-in.last)
	in.last = index
}

// parsePosting returns the indexes of the entries that a key of a secondary index names with its
// value, in order. It takes no second spelling.
func parsePosting(key, value []byte) ([]uint64, error) {
	if len(key) < 3+8 {
		return nil, errors.New("it is short")
	}
	index := indexOf(key)
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

// tagPrefix begins the keys of a tag.
func tagPrefix(tag entry.Tag) []byte {
	key := make([]byte, 0, 3+len(tag.Value)+8)
	key = append(key, keyTag, byte(tag.Index))
	key = append(key, tag.Value...)
	return append(key, 0)
}

// tagKey is the key of the posting that begins at index.
func tagKey(tag entry.Tag, index uint64) []byte {
	return binary.BigEndian.AppendUint64(tagPrefix(tag), index)
}

// sameTag reports whether two keys are of postings of one tag.
func sameTag(a, b []byte) bool {
	return len(a) == len(b) && len(a) > 8 && bytes.Equal(a[:len(a)-8], b[:len(b)-8])
}

// indexOf returns the number that ends a key.
func indexOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

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

// Find returns the indexes of the entries that a query matches, in order.
func (l *Log) Find(q Query) (found []uint64, err error) {
	size := l.view.Load().head.Size
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
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: tagKey(tag, 0), UpperBound: tagKey(tag, q.To)})
	if err != nil {
		return nil, fmt.Errorf("ledger: find %c %q: %w", q.Index, q.Value, err)
	}
	found, err = q.read(it, tagKey(tag, q.From))
	return found, errors.Join(err, classed(it.Close()))
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
		entries, err := parsePosting(it.Key(), it.Value())
		if err == nil && !sameTag(it.Key(), from) {
			err = errors.New("it is of no tag")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: index key %q: %v", ErrCorrupt, it.Key(), err)
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
