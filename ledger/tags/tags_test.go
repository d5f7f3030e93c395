package tags_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/tags"
)

// FuzzPosting: what is read as a posting strictly ascends, and there is no other
// spelling of it.
func FuzzPosting(f *testing.F) {
	key := tags.Key(entry.Tag{Index: entry.ByTask, Value: "a#b"}, 7)
	f.Add(key, []byte{})
	f.Add(key, []byte{1, 1, 0x80, 1})
	f.Add(key, []byte{0x81, 0})
	f.Add(key, []byte{0})
	f.Add(key, []byte{0x80})
	f.Add(key[:5], []byte{1})
	f.Add(bytes.Repeat([]byte{255}, 20), []byte{1})
	f.Add(key, bytes.Repeat([]byte{255}, 11))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		entries, err := tags.Parse(key, value)
		if err != nil {
			return
		}
		var again []byte
		for i, index := range entries[1:] {
			if index <= entries[i] {
				t.Fatalf("%d after %d", index, entries[i])
			}
			again = binary.AppendUvarint(again, index-entries[i])
		}
		if !bytes.Equal(again, value) || !bytes.HasSuffix(key, binary.BigEndian.AppendUint64(nil, entries[0])) {
			t.Fatalf("%x %x is %d, which is written %x", key, value, entries, again)
		}
	})
}
