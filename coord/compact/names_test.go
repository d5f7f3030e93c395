package compact

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestNames compares names with a map, over many blocks and sizes of the table,
// and with so many texts that some share the 32 bits of their hash.
func TestNames(t *testing.T) {
	n := NewNames(0)
	reference := map[string]uint32{}
	for i := range uint64(100*blockSize + 5) {
		text := binary.AppendUvarint(nil, i*i)
		if _, ok := n.Find(text); ok {
			t.Fatalf("found %x before it was added", text)
		}
		number, added := n.Add(text)
		if !added {
			t.Fatalf("%x is not new", text)
		}
		reference[string(text)] = number
	}
	for text, want := range reference {
		if got, ok := n.Find([]byte(text)); !ok || got != want || !bytes.Equal(n.Text(want), []byte(text)) {
			t.Fatalf("%x is %d, want %d", text, got, want)
		}
	}
	if _, ok := n.Find([]byte("absent")); ok || n.Size() != len(reference) {
		t.Fatalf("%d names of %d", n.size, len(reference))
	}
}

// TestNamesInOrder shows that numbers follow the order of coming, whatever the
// texts.
func TestNamesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := NewNames(rapid.IntRange(0, 100).Draw(t, "capacity"))
		var order []string
		for _, text := range rapid.SliceOf(rapid.StringN(0, 5, 5)).Draw(t, "texts") {
			number, added := n.Add([]byte(text))
			if added {
				order = append(order, text)
			}
			if order[number] != text {
				t.Fatalf("%q has the number of %q", text, order[number])
			}
		}
		for i, text := range order {
			if string(n.Text(uint32(i))) != text {
				t.Fatalf("%d is %q, want %q", i, n.Text(uint32(i)), text)
			}
		}
	})
}

// TestNamesIndexed shows that names which were appended and indexed are those
// that were added, and that no text may stand there twice.
func TestNamesIndexed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		added, appended := NewNames(0), NewNames(0)
		count := rapid.IntRange(0, 3*blockSize).Draw(t, "count")
		for i := range uint64(count) {
			text := binary.AppendUvarint(nil, i*i)
			added.Add(text)
			appended.Append(text)
		}
		if twice, ok := appended.Index(); !ok {
			t.Fatalf("%x twice", appended.Text(twice))
		}
		appended.Add([]byte("later"))
		added.Add([]byte("later"))
		for i := range uint32(added.Size()) {
			if number, ok := appended.Find(added.Text(i)); !ok || number != i {
				t.Fatalf("%x is %d, want %d", added.Text(i), number, i)
			}
		}
		again := added.Text(rapid.Uint32Range(0, uint32(count)).Draw(t, "again"))
		twin := NewNames(0)
		for i := range uint32(added.Size()) {
			twin.Append(added.Text(i))
		}
		twin.Append(again)
		if twice, ok := twin.Index(); ok || !bytes.Equal(twin.Text(twice), again) {
			t.Fatalf("%x stands there twice, found %d, %t", again, twice, ok)
		}
	})
}

// TestNamesClones shows that clones have what was there, and go their own ways.
func TestNamesClones(t *testing.T) {
	n := NewNames(0)
	for i := range blockSize + 10 {
		n.Add(binary.AppendUvarint(nil, uint64(i)))
	}
	clone, frozen := n.Clone(), n.Frozen()
	n.Add([]byte("old"))
	clone.Add([]byte("new"))
	last := uint32(blockSize + 10)
	if string(n.Text(last)) != "old" || string(clone.Text(last)) != "new" || frozen.Size() != int(last) {
		t.Fatal("clones are not apart")
	}
	if _, ok := clone.Find([]byte("old")); ok {
		t.Fatal("a clone finds what was added to the other")
	}
	if number, ok := clone.Find(binary.AppendUvarint(nil, 7)); !ok || number != 7 {
		t.Fatal("a clone lost a text")
	}
	for i := range last {
		if !bytes.Equal(frozen.Text(i), n.Text(i)) {
			t.Fatalf("frozen, %d is %q", i, frozen.Text(i))
		}
	}
}

// TestNamesSettle shows that names and their clone, which get the same texts,
// hold them once, and that others are not mistaken for them.
func TestNamesSettle(t *testing.T) {
	n := NewNames(0)
	n.Add([]byte("first"))
	clone := n.Clone()
	for i := range uint64(5 * blockSize) {
		text := binary.AppendUvarint(nil, i)
		n.Add(text)
		if i == 3*blockSize {
			text = []byte("another")
		}
		clone.Add(text)
	}
	for number, same := range []bool{true, true, true, false, true} {
		if got := &n.blocks[number].text[0] == &clone.blocks[number].text[0]; got != same {
			t.Errorf("block %d is there once: %t, want %t", number, got, same)
		}
	}
	if got := string(clone.Text(3*blockSize + 1)); got != "another" {
		t.Errorf("the clone says %q", got)
	}
}
