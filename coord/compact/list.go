package compact

import "slices"

// List is a slice that grows without copying and without a pause. Its clones
// share its elements until one of them is changed.
type List[T comparable] struct {
	blocks []block[T]
	peers  *peers[[]T]
}

// block is up to blockSize elements in a row.
type block[T any] struct {
	elements []T
	shared   bool // with other lists: it is copied before it is written to
}

const (
	blockSize = 1 << 10 // elements of a list's block, texts of one of names
	// settleAfter is the number of blocks before its end that a list does not settle. Older blocks
	// seldom change: an older execution has mostly ended.
	settleAfter = 16
)

// Add appends an element and returns its number.
func (l *List[T]) Add(element T) uint32 {
	number := l.Size()
	if number%blockSize == 0 {
		l.settle(len(l.blocks) - settleAfter)
		l.blocks = append(l.blocks, block[T]{elements: make([]T, 0, blockSize)})
	}
	last := l.own(len(l.blocks) - 1)
	*last = append(*last, element)
	return number
}

// At returns the element with a number, until the list changes. The caller must not write to the
// element.
func (l *List[T]) At(number uint32) *T {
	return &l.blocks[number/blockSize].elements[number%blockSize]
}

// Change returns the element with a number, to be written to before the list is
// cloned or grows.
func (l *List[T]) Change(number uint32) *T {
	return &(*l.own(int(number / blockSize)))[number%blockSize]
}

// own returns a block that is this list's alone.
func (l *List[T]) own(number int) *[]T {
	b := &l.blocks[number]
	if b.shared {
		*b = block[T]{elements: append(make([]T, 0, blockSize), b.elements...)}
	}
	return &b.elements
}

// Size returns how many elements there are.
func (l *List[T]) Size() uint32 {
	if len(l.blocks) == 0 {
		return 0
	}
	return uint32((len(l.blocks)-1)*blockSize + len(l.blocks[len(l.blocks)-1].elements))
}

// Clone returns a list with the same elements, to be changed on its own. It is a
// change of l as far as goroutines are concerned.
func (l *List[T]) Clone() List[T] {
	if l.peers == nil {
		l.peers = &peers[[]T]{}
	}
	for i := range l.blocks {
		l.blocks[i].shared = true
	}
	return List[T]{slices.Clone(l.blocks), l.peers}
}

// settle shares a block with a clone that has the same there.
func (l *List[T]) settle(number int) {
	if number >= 0 && l.peers != nil {
		l.blocks[number] = block[T]{l.peers.settle(number, l.blocks[number].elements, slices.Equal), true}
	}
}
