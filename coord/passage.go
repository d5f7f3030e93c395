package coord

import (
	"math"

	"recoveryledger/merkle"
)

// passage is the parts of a snapshot that are described once, for both
// directions: it writes what it is given, or reads into it. One of e and d is
// set.
type passage struct {
	e *encoder
	d *decoder
}

func (p *passage) reading() bool { return p.d != nil }

func (p *passage) ok() bool { return p.d == nil || p.d.err == nil }

// number passes a number below limit.
func number[T ~int | ~int64 | ~uint32 | ~uint64 | ~uint8](p *passage, n *T, limit uint64) {
	if p.reading() {
		*n = T(p.d.number(limit))
		return
	}
	p.e.number(uint64(*n))
}

// instant passes Unix milliseconds or a duration.
func instant(p *passage, at *int64) { number(p, at, math.MaxInt64) }

func flag(p *passage, set *bool) {
	if p.reading() {
		*set = p.d.flag()
		return
	}
	p.e.flag(*set)
}

// raw passes bytes of a known length.
func (p *passage) raw(b []byte) {
	if p.reading() {
		copy(b, p.d.bytes(len(b)))
		return
	}
	_, _ = p.e.w.Write(b)
}

func (p *passage) text(text *string, limit int) {
	if p.reading() {
		*text = string(p.d.text(limit))
		return
	}
	p.e.text([]byte(*text))
}

// head passes a tree head.
func (p *passage) head(h *merkle.Head) {
	number(p, &h.Size, math.MaxInt64)
	p.raw(h.Root[:])
}

// list passes the elements of a list.
func list[T any](p *passage, elements *[]T, most uint64, each func(*T)) {
	count := uint64(len(*elements))
	number(p, &count, most+1)
	for i := range count {
		if p.reading() {
			var zero T
			*elements = append(*elements, zero)
		}
		each(&(*elements)[i])
		if !p.ok() {
			return
		}
	}
}

// ascending passes a list of numbers below limit that strictly ascend.
func ascending[T ~uint32 | ~uint64](p *passage, numbers *[]T, limit uint64) {
	next := uint64(0)
	list(p, numbers, limit, func(n *T) {
		gap := uint64(*n) - next
		number(p, &gap, max(limit, next)-next)
		if p.reading() { // what is written may be shared with a state that others read
			*n = T(next + gap)
		}
		next += gap + 1
	})
}
