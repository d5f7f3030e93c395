package coord

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"
)

// names gives texts numbers from 0, in the order in which they come, and finds
// them again. It holds no pointer for each text: the garbage collector has
// nothing to walk, however long the log.
//
// The hash is seeded anew in every process, so that nobody can choose texts
// that collide. Only look-ups depend on it, never a result.
type names struct {
	size int

	// slots is a hash table with linear probing. A slot is 32 bits of the hash
	// and, below them, the number plus one; 0 is free. The place of a text is
	// given by the upper bits of its 32, so that growing needs no text.
	slots []uint64
	shift int // 32 − log2(len(slots))
	seed  maphash.Seed

	blocks []nameBlock
}

// nameBlock holds the texts of up to blockSize numbers in a row.
type nameBlock struct {
	text []byte
	ends []uint32 // where each text ends in text
}

const (
	blockSize = 1 << 12 // of lists and names
	slotsMin  = 1 << 4
)

// newNames returns names with room for so many texts.
func newNames(capacity int) *names {
	n := &names{seed: maphash.MakeSeed()}
	n.resize(max(slotsMin, capacity+capacity/2))
	return n
}

// find returns the number of a text.
func (n *names) find(text []byte) (number uint32, ok bool) {
	return n.lookUp(n.tag(text), text)
}

// add returns the number of a text, which gets the next one if it has none:
// then added is true.
func (n *names) add(text []byte) (number uint32, added bool) {
	tag := n.tag(text)
	if number, ok := n.lookUp(tag, text); ok {
		return number, false
	}
	if (n.size+1)*4 > len(n.slots)*3 {
		n.resize(2 * len(n.slots))
	}
	number = uint32(n.size)
	n.size++
	n.put(uint64(tag)<<32 | uint64(number+1))
	if number%blockSize == 0 {
		n.seal()
		n.blocks = append(n.blocks, nameBlock{})
	}
	b := &n.blocks[len(n.blocks)-1]
	b.text = append(b.text, text...)
	b.ends = append(b.ends, uint32(len(b.text)))
	return number, true
}

func (n *names) lookUp(tag uint32, text []byte) (number uint32, ok bool) {
	for i := tag >> n.shift; ; i = n.after(i) {
		slot := n.slots[i]
		if slot == 0 {
			return 0, false
		}
		if number = uint32(slot) - 1; slot>>32 == uint64(tag) && bytes.Equal(n.text(number), text) {
			return number, true
		}
	}
}

// text returns the text of a number. It is not to be changed.
func (n *names) text(number uint32) []byte {
	b, i := &n.blocks[number/blockSize], number%blockSize
	if i == 0 {
		return b.text[:b.ends[0]]
	}
	return b.text[b.ends[i-1]:b.ends[i]]
}

// seal gives back what the last block has allocated too much.
func (n *names) seal() {
	if len(n.blocks) > 0 {
		b := &n.blocks[len(n.blocks)-1]
		b.text, b.ends = bytes.Clone(b.text), slices.Clone(b.ends)
	}
}

func (n *names) tag(text []byte) uint32 { return uint32(maphash.Bytes(n.seed, text) >> 32) }

func (n *names) after(i uint32) uint32 { return (i + 1) & uint32(len(n.slots)-1) }

func (n *names) put(slot uint64) {
	i := uint32(slot>>32) >> n.shift
	for n.slots[i] != 0 {
		i = n.after(i)
	}
	n.slots[i] = slot
}

// resize makes a table with at least so many slots.
func (n *names) resize(least int) {
	old := n.slots
	log := bits.Len(uint(least - 1))
	n.slots, n.shift = make([]uint64, 1<<log), 32-log
	for _, slot := range old {
		if slot != 0 {
			n.put(slot)
		}
	}
}

// list is a slice that never moves its elements: it grows without copying and
// without a pause.
type list[T any] struct {
	blocks [][]T
}

// add appends an element and returns its number.
func (l *list[T]) add(element T) uint32 {
	number := l.size()
	if number%blockSize == 0 {
		l.blocks = append(l.blocks, make([]T, 0, blockSize))
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, element)
	return number
}

// at returns the element with a number.
func (l *list[T]) at(number uint32) *T { return &l.blocks[number/blockSize][number%blockSize] }

func (l *list[T]) size() uint32 {
	if len(l.blocks) == 0 {
		return 0
	}
	return uint32((len(l.blocks)-1)*blockSize + len(l.blocks[len(l.blocks)-1]))
}
