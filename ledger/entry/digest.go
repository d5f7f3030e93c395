package entry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Digest names content by its hash: "sha256:" and 64 hexadecimal digits in lower
// case. Content that could be guessed has a keyed digest, "hmac-sha256:" and the
// digits (RFC 2104).
type Digest string

const (
	plainDigest = "sha256:"
	keyedDigest = "hmac-sha256:"
)

// DigestOf returns the digest of content.
func DigestOf[T ~string | ~[]byte](content T) Digest {
	sum := sha256.Sum256([]byte(content))
	return DigestFrom(sum[:])
}

// DigestFrom returns the digest of content from the content's SHA-256 sum.
func DigestFrom(sum []byte) Digest { return Digest(plainDigest + hex.EncodeToString(sum)) }

// KeyedDigestFrom returns the keyed digest of content from the content's HMAC-SHA-256.
func KeyedDigestFrom(mac []byte) Digest { return Digest(keyedDigest + hex.EncodeToString(mac)) }

// Check refuses text that is not a digest. The error is a [*Refusal] that names
// the field.
func (d Digest) Check(field string) error {
	text, ok := strings.CutPrefix(string(d), plainDigest)
	if !ok {
		text, ok = strings.CutPrefix(string(d), keyedDigest)
	}
	if !ok || len(text) != hex.EncodedLen(sha256.Size) || !lowerHex(text) {
		return malformed(field, "%.100q is not a digest", string(d)).
			remedy("write sha256: or hmac-sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

func checkDigest(field string, d Digest) error { return d.Check(field) }

func checkDigestText(field, d string) error { return Digest(d).Check(field) }
