package complete

import (
	"bytes"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// records returns stored records of several lengths.
func records(tb testing.TB) (all [][]byte) {
	tb.Helper()
	t := NewTree()
	for _, e := range newStream(9).take(400) {
		must(tb, t.Add(e))
	}
	for range 130 {
		must(tb, t.Add(wrap(&entry.Execution{Header: entry.Header{Iss: "busy"}})))
	}
	for _, value := range t.Records() {
		all = append(all, bytes.Clone(value))
	}
	return all
}

// FuzzDecodeRecord: no bytes break the reader, and a record that is read says the same
// when it is written and read again.
func FuzzDecodeRecord(f *testing.F) {
	for i, value := range records(f) {
		if i%16 == 0 || len(value) > 200 {
			f.Add(value)
			f.Add(value[:len(value)/2])
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		of, err := decodeRecord(value)
		if err != nil {
			return
		}
		again := appendRecord(nil, of)
		second, err := decodeRecord(again)
		must(t, err)
		if !slices.Equal(of.view(), second.view()) || !bytes.Equal(appendRecord(nil, second), again) {
			t.Errorf("%x says %v, and %x says %v", value, of.view(), again, second.view())
		}
	})
}

// FuzzDecodeMark: a mark has one form.
func FuzzDecodeMark(f *testing.F) {
	m := mark{size: 7, root: merkle.Hash{1}, log: merkle.Hash{2}, seen: 9}
	f.Add(m.encode())
	f.Add(m.encode()[1:])
	f.Add([]byte(storeFormat))
	f.Fuzz(func(t *testing.T, value []byte) {
		if m, err := decodeMark(value); err == nil && !bytes.Equal(m.encode(), value) {
			t.Errorf("%x is read as %+v", value, m)
		}
	})
}

// FuzzReadIndexes: what is read ascends, and has as many indexes as were asked for.
func FuzzReadIndexes(f *testing.F) {
	f.Add([]byte{5, 1, 200, 1}, 3)
	f.Add([]byte{0}, 1)
	f.Fuzz(func(t *testing.T, value []byte, count int) {
		if count < 0 || count > chunkSize {
			return
		}
		list, err := readIndexes(value, count)
		if err == nil && (len(list) != count || !slices.IsSorted(list)) {
			t.Errorf("%x is read as %v", value, list)
		}
	})
}

// FuzzReadTree: records that are read make a tree that writes the same records.
func FuzzReadTree(f *testing.F) {
	all := records(f)
	f.Add(all[0], all[1])
	f.Fuzz(func(t *testing.T, first, second []byte) {
		given := [][]byte{first, second}
		tree, err := ReadTree(3, func(yield func(merkle.Hash, []byte) bool) {
			for i, value := range given {
				if !yield(merkle.Hash{byte(i)}, value) {
					return
				}
			}
		})
		if err != nil {
			return
		}
		i := 0
		for _, value := range tree.Records() {
			if !bytes.Equal(value, given[i]) {
				t.Errorf("record %d: %x is written as %x", i, given[i], value)
			}
			i++
		}
	})
}
