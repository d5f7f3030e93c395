package anchor_test

import (
	"bytes"
	"strings"
	"testing"

	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// FuzzDecode looks for a slot that is read, but is not what is written.
func FuzzDecode(f *testing.F) {
	const origin = "ledger.example/test"
	empty := anchor.Anchor{Head: merkle.EmptyHead()}
	f.Add(empty.Encode(origin))
	f.Add(anchor.Anchor{Seq: 1 << 60, Head: merkle.Head{Size: 1 << 62}}.Encode(origin))
	f.Add(anchor.Anchor{}.Encode(strings.Repeat("o", entry.MaxName)))
	f.Add(bytes.Replace(empty.Encode(origin), []byte("\n0\n"), []byte("\n00\n"), 1))
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, slot []byte) {
		a, ok := anchor.Decode(slot, origin)
		if ok && !bytes.Equal(a.Encode(origin), slot) {
			t.Fatalf("%q is read as %+v", slot, a)
		}
	})
}
