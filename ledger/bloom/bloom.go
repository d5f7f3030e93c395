// Package bloom is a filter that says of most keys that they are new.
//
// Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13(7), 1970.
package bloom

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// KeySize is the size of a key in bytes. A key is a hash, whose own bytes serve as the hash
// functions of the filter.
const KeySize = 32

// probes is the number of bits of a key.
const probes = 4

// A Filter holds keys. Any number of goroutines may use a Filter at once.
type Filter struct {
	words []atomic.Uint64 // a power of two of bits
}

// New returns a filter of at least so many bits. With 32 bits a key it denies all but one new key
// in some 4,000.
func New(size uint64) *Filter {
	return &Filter{words: make([]atomic.Uint64, max(1, 1<<bits.Len64(max(size, 1)-1)/64))}
}

func (f *Filter) place(key *[KeySize]byte, probe int) (word *atomic.Uint64, bit uint64) {
	at := binary.LittleEndian.Uint64(key[8*probe:])
	return &f.words[at/64&uint64(len(f.words)-1)], 1 << (at % 64)
}

// Add adds a key.
func (f *Filter) Add(key *[KeySize]byte) {
	for probe := range probes {
		word, bit := f.place(key, probe)
		word.Or(bit)
	}
}

// Denies reports that the key was not added before. False says nothing.
func (f *Filter) Denies(key *[KeySize]byte) bool {
	for probe := range probes {
		if word, bit := f.place(key, probe); word.Load()&bit == 0 {
			return true
		}
	}
	return false
}
