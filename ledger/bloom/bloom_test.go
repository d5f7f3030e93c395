package bloom_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"recoveryledger/ledger/bloom"
)

func key(n uint64) *[bloom.KeySize]byte {
	k := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	return &k
}

// A filter denies no key that was added, and nearly every other one.
func TestFilter(t *testing.T) {
	for _, keys := range []uint64{0, 1, 2, 1000} {
		f := bloom.New(32 * keys)
		for n := range keys {
			f.Add(key(n))
		}
		for n := range keys {
			if f.Denies(key(n)) {
				t.Errorf("%d keys: key %d was added", keys, n)
			}
		}
		wrong := 0
		for n := range uint64(10_000) {
			if !f.Denies(key(keys + n)) {
				wrong++
			}
		}
		if wrong > 20 {
			t.Errorf("%d keys: %d of 10,000 new keys are not denied", keys, wrong)
		}
	}
}
