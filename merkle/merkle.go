// Package merkle is the arithmetic of the log's RFC 6962 tree: hashes, heads,
// proofs and tile coordinates. It is pure: no storage, no keys, no clock.
//
// A leaf hashes as SHA-256(0x00 ‖ data), an inner node as
// SHA-256(0x01 ‖ left ‖ right), the empty tree as SHA-256(""). Proving and
// checking stand in pairs: what [ProveInclusion] makes, [CheckInclusion]
// accepts, and nothing else.
//
// Sources: RFC 6962 section 2.1, RFC 9162 section 2.1, c2sp.org/tlog-tiles.
package merkle

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// The prefixes that keep leaves and nodes apart (RFC 6962, section 2.1).
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

// HashSize is the length of a [Hash] in bytes.
const HashSize = sha256.Size

// Hash is a SHA-256 value of the tree. Its text form is standard padded
// base64, as in a checkpoint.
type Hash [HashSize]byte

// ErrMalformed reports text or a path that is not in the one form this package
// writes.
var ErrMalformed = errors.New("merkle: malformed")

// ErrProof reports a proof that does not lead to the root it is checked
// against.
var ErrProof = errors.New("merkle: proof does not verify")

// ParseHash reads the text form of a hash. The error is [ErrMalformed].
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != base64.StdEncoding.EncodedLen(HashSize) {
		return Hash{}, fmt.Errorf("%w: hash %.60q: want %d characters of base64", ErrMalformed, text,
			base64.StdEncoding.EncodedLen(HashSize))
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != HashSize {
		return Hash{}, fmt.Errorf("%w: hash %q: not standard padded base64 of %d bytes", ErrMalformed, text, HashSize)
	}
	copy(h[:], raw)
	return h, nil
}

// String returns the text form.
func (h Hash) String() string { return base64.StdEncoding.EncodeToString(h[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (h Hash) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, h[:]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]; it is [ParseHash].
func (h *Hash) UnmarshalText(text []byte) error {
	parsed, err := ParseHash(string(text))
	if err != nil {
		return err
	}
	*h = parsed
	return nil
}

// Head is the state of a tree: the number of its leaves and its root hash.
type Head struct {
	Size uint64 `json:"size"`
	Root Hash   `json:"root"`
}

// EmptyHead returns the head of the tree without leaves.
func EmptyHead() Head { return Head{Root: sha256.Sum256(nil)} }

// HashLeaf returns the leaf hash of data.
func HashLeaf(data []byte) Hash {
	digest := sha256.New()
	var h Hash
	digest.Write([]byte{leafPrefix})
	digest.Write(data)
	digest.Sum(h[:0])
	return h
}

// HashChildren returns the hash of the node above left and right.
func HashChildren(left, right Hash) Hash {
	var buf [1 + 2*HashSize]byte
	buf[0] = nodePrefix
	copy(buf[1:], left[:])
	copy(buf[1+HashSize:], right[:])
	return sha256.Sum256(buf[:])
}

// hasher is the hashes above in the shape that the proof library asks for.
type hasher struct{}

// EmptyRoot implements the library's LogHasher.
func (hasher) EmptyRoot() []byte {
	h := EmptyHead().Root
	return h[:]
}

// HashLeaf implements the library's LogHasher.
func (hasher) HashLeaf(leaf []byte) []byte {
	h := HashLeaf(leaf)
	return h[:]
}

// HashChildren implements the library's LogHasher.
func (hasher) HashChildren(left, right []byte) []byte {
	h := HashChildren(Hash(left), Hash(right))
	return h[:]
}

// Size implements the library's LogHasher.
func (hasher) Size() int { return HashSize }
