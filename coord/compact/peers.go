package compact

import "sync"

// peers lets a list and its clone keep equal blocks once, as long as both grow alike, as two folds
// of one log do. The first to settle a block leaves the block here, and the second takes it in
// place of its own. No list writes to a block that was left. If more than two lists grow, the block
// that the third one leaves stays here.
type peers[B any] struct {
	mu   sync.Mutex
	left map[int]B // by the number of the block
}

// settle returns a block equal to mine, which is the block of that number and
// will not be written to.
func (p *peers[B]) settle(number int, mine B, equal func(a, b B) bool) B {
	if p == nil {
		return mine
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, ok := p.left[number]; ok {
		delete(p.left, number)
		if equal(other, mine) {
			return other
		}
		return mine
	}
	if p.left == nil {
		p.left = map[int]B{}
	}
	p.left[number] = mine
	return mine
}
