package coord

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestNames compares names with a map, over many blocks and sizes of the table,
// and with so many texts that some share the 32 bits of their hash.
func TestNames(t *testing.T) {
	n := newNames(0)
	reference := map[string]uint32{}
	for i := range uint64(100*blockSize + 5) {
		text := binary.AppendUvarint(nil, i*i)
		if _, ok := n.find(text); ok {
			t.Fatalf("found %x before it was added", text)
		}
		number, added := n.add(text)
		if !added {
			t.Fatalf("%x is not new", text)
		}
		reference[string(text)] = number
	}
	for text, want := range reference {
		if got, ok := n.find([]byte(text)); !ok || got != want || !bytes.Equal(n.text(want), []byte(text)) {
			t.Fatalf("%x is %d, want %d", text, got, want)
		}
	}
	if _, ok := n.find([]byte("absent")); ok || n.size != len(reference) {
		t.Fatalf("%d names of %d", n.size, len(reference))
	}
}

// TestNamesInOrder shows that numbers follow the order of coming, whatever the
// texts.
func TestNamesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNames(rapid.IntRange(0, 100).Draw(t, "capacity"))
		var order []string
		for _, text := range rapid.SliceOf(rapid.StringN(0, 5, 5)).Draw(t, "texts") {
			number, added := n.add([]byte(text))
			if added {
				order = append(order, text)
			}
			if order[number] != text {
				t.Fatalf("%q has the number of %q", text, order[number])
			}
		}
		for i, text := range order {
			if string(n.text(uint32(i))) != text {
				t.Fatalf("%d is %q, want %q", i, n.text(uint32(i)), text)
			}
		}
	})
}

// TestListKeepsPlaces shows that elements stay where they are.
func TestListKeepsPlaces(t *testing.T) {
	var l list[int]
	first := l.at(l.add(7))
	for i := range 2 * blockSize {
		if got := l.add(i); got != uint32(i+1) {
			t.Fatalf("number %d, want %d", got, i+1)
		}
	}
	if first != l.at(0) || *l.at(blockSize) != blockSize-1 || l.size() != 2*blockSize+1 {
		t.Fatal("elements moved")
	}
}
