package entry

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// first returns the first of several refusals. With it, the rules of a body read as a list.
func first(refusals ...error) error {
	for _, err := range refusals {
		if err != nil {
			return err
		}
	}
	return nil
}

// each checks the elements of a list and returns the first refusal.
func each[T any](list string, elements []T, check func(*T) error) error {
	for i := range elements {
		if err := check(&elements[i]); err != nil {
			return inside(list+"["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// distinct refuses a list in which two elements have the same value of a member.
func distinct[T any, K comparable](list string, elements []T, member string, value func(*T) K) error {
	if len(elements) < 2 {
		return nil
	}
	seen := make(map[K]bool, len(elements))
	return each(list, elements, func(element *T) error {
		k := value(element)
		twice := seen[k]
		seen[k] = true
		return refuseIf(twice, member, "%.140q is listed twice", fmt.Sprint(k))
	})
}

// refuseIf refuses a member as malformed if the condition holds.
func refuseIf(condition bool, field, format string, args ...any) error {
	if condition {
		return malformed(field, format, args...)
	}
	return nil
}

// optional checks a member if the member is present.
func optional[T ~string](field string, value T, check func(string, T) error) error {
	if value == "" {
		return nil
	}
	return check(field, value)
}

func checkName(field, name string) error {
	if name == "" || len(name) > MaxName {
		return malformed(field, "%d characters, want 1 to %d", len(name), MaxName)
	}
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:/@-", c) >= 0 {
			continue
		}
		return malformed(field, "%q has a character outside A–Z a–z 0–9 . _ : / @ -", name)
	}
	return nil
}

func checkRef(field string, ref Ref) error {
	issuer, id, ok := strings.Cut(string(ref), "#")
	if !ok {
		return malformed(field, "%.140q is not a reference", string(ref)).remedy("write issuer#id")
	}
	return first(checkName(field, issuer), checkName(field, id))
}

// checkWord checks an open word such as a code: lower case, digits and _ . -
func checkWord(field, word string) error {
	if word == "" || len(word) > maxToken {
		return malformed(field, "%d characters, want 1 to %d", len(word), maxToken)
	}
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
		return malformed(field, "%q has a character outside a–z 0–9 _ . -", word)
	}
	return nil
}

func checkOneOf[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return malformed(field, "%.60q is none of %v", string(value), slices.Clone(allowed)) // the clone, so that allowed never escapes
}

// lowerHex reports whether text is hexadecimal digits in lower case.
//
// The function has no branches. Branches on random digits are mispredicted, and would cost more
// than all other checks of an entry.
func lowerHex(text string) bool {
	const digits, letters = uint64(0x3ff) << '0', uint64(0x3f) << ('a' - 64) // a bit for each character, from 0 and from 64 on
	all := uint64(1)
	for i := range len(text) {
		c := text[i]
		all &= digits>>c | letters>>(c-64)
	}
	return all == 1
}

// checkKeyID accepts a fingerprint in its one base64 spelling. The decoder skips line breaks, so
// the function also compares the length.
func checkKeyID(field, keyID string) error {
	text, ok := strings.CutPrefix(keyID, "SHA256:")
	if ok = ok && len(keyID) == MaxKeyID; ok {
		var sum [sha256.Size]byte
		size, err := rawBase64.Decode(sum[:], []byte(text))
		ok = err == nil && size == len(sum)
	}
	if !ok {
		return malformed(field, "%.80q is not a key id", keyID).
			remedy("use the OpenSSH SHA-256 fingerprint of the public key, SHA256:…")
	}
	return nil
}

// checkText bounds the length of a detail or a reason. The text is not trusted.
func checkText(field, text string) error {
	if len(text) > MaxText {
		return malformed(field, "%d bytes, the limit is %d", len(text), MaxText)
	}
	return nil
}

func checkReason(text string) error {
	return first(refuseIf(text == "", "reason", "empty"), checkText("reason", text))
}

// checkCount refuses a negative number. The upper bound is that of every number in a payload.
func checkCount(field string, n int64) error {
	return refuseIf(n < 0, field, "%d is negative", n)
}

func checkPositive(field string, n int64) error {
	return refuseIf(n <= 0, field, "%d, want a positive number", n)
}

func checkLen(field string, n, least, most int) error {
	return refuseIf(n < least || n > most, field, "%d elements, want %d to %d", n, least, most)
}

func checkEvidence(list []Evidence) error {
	if err := checkLen("evidence", len(list), 0, MaxList); err != nil {
		return err
	}
	return each("evidence", list, func(e *Evidence) error {
		return first(checkDigest("digest", e.Digest),
			refuseIf(len(e.URI) > maxURI, "uri", "%d bytes, the limit is %d", len(e.URI), maxURI))
	})
}
