package words

import "strings"

// Quoted returns a word as a shell takes it (POSIX.1-2017, section 2.2.2).
func Quoted(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("-._#/:@+", r) && !isPlain(r) }) && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func isPlain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
