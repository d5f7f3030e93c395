// Package compact holds millions of small values in few allocations. [Names] gives texts numbers.
// [List] grows without copying. [Tree] is a Merkle tree. Clones of each share their equal parts.
// The garbage collector has almost nothing to walk, however long the log.
package compact

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"
)

// Names gives texts numbers from 0, in the order in which the texts come, and finds the texts
// again. It holds no pointer for each text: the garbage collector has nothing to walk, however long
// the log.
//
// Every process seeds the hash anew, so that no party can choose texts that collide. Only look-ups
// depend on the hash, and never a result.
type Names struct {
	size int

	// slots is a hash table with linear probing. A slot is 32 bits of the hash
	// and, below them, the number plus one; 0 is free. The place of a text is
	// given by the upper bits of its 32, so that growing needs no text.
	slots []uint64
	shift int // 32 − log2(len(slots))
	seed  maphash.Seed

	blocks []nameBlock
	peers  *peers[nameBlock]
}

// nameBlock holds the texts of up to blockSize numbers in a row.
type nameBlock struct {
	text []byte
	ends []uint32 // where each text ends in text
}

func (b nameBlock) equal(other nameBlock) bool {
	return bytes.Equal(b.text, other.text) && slices.Equal(b.ends, other.ends)
}

const slotsMin = 1 << 4

// NewNames returns names with room for so many texts.
func NewNames(capacity int) *Names {
	n := &Names{seed: maphash.MakeSeed()}
	n.resize(capacity + capacity/2)
	return n
}

// Find returns the number of a text.
func (n *Names) Find(text []byte) (number uint32, ok bool) {
	return n.lookUp(n.tag(text), text)
}

// Add returns the number of a text, which gets the next one if it has none:
// then added is true.
func (n *Names) Add(text []byte) (number uint32, added bool) {
	tag := n.tag(text)
	if number, ok := n.lookUp(tag, text); ok {
		return number, false
	}
	if (n.size+1)*4 > len(n.slots)*3 {
		n.resize(2 * len(n.slots))
	}
	number = n.Append(text)
	n.put(slotOf(tag, number))
	return number, true
}

// Append gives a text the next number without asking whether it has one. It is
// found only after [Names.Index].
func (n *Names) Append(text []byte) (number uint32) {
	number = uint32(n.size)
	n.size++
	if number%blockSize == 0 {
		n.begin()
	}
	b := &n.blocks[len(n.blocks)-1]
	b.text = append(b.text, text...)
	b.ends = append(b.ends, uint32(len(b.text)))
	return number
}

// Index makes the appended texts findable, if no text was findable before. If a text stands there
// twice, ok is false, and twice is the number of one of the two.
//
// The texts are taken roughly in the order of their places in the table. In their own order, each
// text would wait for memory that no cache holds.
func (n *Names) Index() (twice uint32, ok bool) {
	n.resize(n.size + n.size/2)
	var ends [1 << 8]int
	for number := range uint32(n.size) {
		ends[n.tag(n.Text(number))>>24]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	slots := make([]uint64, n.size)
	for number := range uint32(n.size) {
		tag := n.tag(n.Text(number))
		ends[tag>>24]--
		slots[ends[tag>>24]] = slotOf(tag, number)
	}
	for _, slot := range slots {
		i := uint32(slot>>32) >> n.shift
		for ; n.slots[i] != 0; i = n.after(i) {
			if other := n.slots[i]; other>>32 == slot>>32 && bytes.Equal(n.Text(uint32(other)-1), n.Text(uint32(slot)-1)) {
				return uint32(slot) - 1, false
			}
		}
		n.slots[i] = slot
	}
	return 0, true
}

// Size returns how many texts have a number.
func (n *Names) Size() int { return n.size }

func (n *Names) lookUp(tag uint32, text []byte) (number uint32, ok bool) {
	for i := tag >> n.shift; ; i = n.after(i) {
		slot := n.slots[i]
		if slot == 0 {
			return 0, false
		}
		if number = uint32(slot) - 1; slot>>32 == uint64(tag) && bytes.Equal(n.Text(number), text) {
			return number, true
		}
	}
}

// Text returns the text of a number. It is not to be changed.
func (n *Names) Text(number uint32) []byte {
	b, i := &n.blocks[number/blockSize], number%blockSize
	if i == 0 {
		return b.text[:b.ends[0]]
	}
	return b.text[b.ends[i-1]:b.ends[i]]
}

// begin adds a block of the size of the last one, which is full. The full block gives back its
// surplus memory, or the equal block of a clone takes its place.
func (n *Names) begin() {
	var next nameBlock
	if last := len(n.blocks) - 1; last >= 0 {
		b := &n.blocks[last]
		next = nameBlock{make([]byte, 0, cap(b.text)), make([]uint32, 0, blockSize)}
		*b = n.peers.settle(last, nameBlock{bytes.Clone(b.text), slices.Clone(b.ends)}, nameBlock.equal)
	}
	n.blocks = append(n.blocks, next)
}

func (n *Names) tag(text []byte) uint32 { return uint32(maphash.Bytes(n.seed, text) >> 32) }

func (n *Names) after(i uint32) uint32 { return (i + 1) & uint32(len(n.slots)-1) }

func slotOf(tag, number uint32) uint64 { return uint64(tag)<<32 | uint64(number+1) }

func (n *Names) put(slot uint64) {
	i := uint32(slot>>32) >> n.shift
	for n.slots[i] != 0 {
		i = n.after(i)
	}
	n.slots[i] = slot
}

// resize makes a table with at least so many slots.
func (n *Names) resize(least int) {
	old := n.slots
	log := bits.Len(uint(max(slotsMin, least) - 1))
	n.slots, n.shift = make([]uint64, 1<<log), 32-log
	for _, slot := range old {
		if slot != 0 {
			n.put(slot)
		}
	}
}

// Clone returns names with the same texts and numbers, to which others may be
// added. It is a change of n as far as goroutines are concerned.
func (n *Names) Clone() *Names {
	clone := n.Frozen()
	clone.slots = slices.Clone(n.slots)
	return clone
}

// Frozen returns names with the same texts and numbers, for [Names.Text] and
// [Names.Size] alone: they have no table to find a text by. It is a change of n
// as far as goroutines are concerned.
func (n *Names) Frozen() *Names {
	if n.peers == nil {
		n.peers = &peers[nameBlock]{}
	}
	clone := *n
	clone.slots, clone.blocks = nil, slices.Clone(n.blocks)
	if last := len(clone.blocks) - 1; last >= 0 {
		b := &clone.blocks[last]
		b.text, b.ends = bytes.Clone(b.text), slices.Clone(b.ends)
	}
	return &clone
}
