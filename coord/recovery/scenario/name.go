package scenario

import (
	"strings"
	"unicode/utf8"

	"recoveryledger/ledger/entry"
)

// LocalID makes an id or principal of any text. A text that already is one does not change. In
// other texts LocalID replaces or cuts the characters that do not fit, and adds a part of the
// text's digest, so that different texts stay different.
func LocalID(text string) string {
	fits := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isAlnum(byte(r)) || strings.ContainsRune("._:/@-", r)) {
			return r
		}
		return '-'
	}, text)
	if fits == text && text != "" && len(text) <= entry.MaxName {
		return text
	}
	tail := "-" + string(entry.DigestOf(text)[len("sha256:"):][:16])
	return fits[:min(len(fits), entry.MaxName-len(tail))] + tail
}

func isAlnum(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
