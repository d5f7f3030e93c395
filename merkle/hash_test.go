package merkle_test

import (
	"bytes"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"pgregory.net/rapid"

	"recoveryledger/merkle"
)

// TestHashesAreThoseOfTheLibrary compares with the RFC 6962 hasher that others
// use.
func TestHashesAreThoseOfTheLibrary(t *testing.T) {
	if root := merkle.EmptyHead().Root; !bytes.Equal(root[:], rfc6962.DefaultHasher.EmptyRoot()) {
		t.Errorf("empty root %s", root)
	}
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		leaf := merkle.HashLeaf(data)
		if !bytes.Equal(leaf[:], rfc6962.DefaultHasher.HashLeaf(data)) {
			t.Fatalf("leaf hash %s", leaf)
		}
		other := merkle.HashLeaf(append(data, 0))
		if node := merkle.HashChildren(leaf, other); !bytes.Equal(node[:], rfc6962.DefaultHasher.HashChildren(leaf[:], other[:])) {
			t.Fatalf("node hash %s", node)
		}
	})
}
