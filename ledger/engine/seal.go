package engine

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// Seal returns the sealed form of text, a concatenation, as the value of key.
func Seal(key []byte, text ...[]byte) []byte {
	sealed := slices.Concat(append([][]byte{make([]byte, sha256.Size)}, text...)...)
	digest := sha256.New()
	digest.Write(key)
	digest.Write(sealed[sha256.Size:])
	digest.Sum(sealed[:0])
	return sealed
}

// Unseal returns the text of a sealed value. ok is false if a bit of the key or
// of the value has changed.
func Unseal(key, sealed []byte) (text []byte, ok bool) {
	if len(sealed) < sha256.Size {
		return nil, false
	}
	digest := sha256.New()
	digest.Write(key)
	digest.Write(sealed[sha256.Size:])
	return sealed[sha256.Size:], bytes.Equal(digest.Sum(nil), sealed[:sha256.Size])
}
