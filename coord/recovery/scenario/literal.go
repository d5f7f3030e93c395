package scenario

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Member is a member of an object: its value is the decoded text of a string
// (quoted), or the raw text of anything else.
type Member struct {
	Name, Value string
	quoted      bool // Value was a string
}

// Members reads the members of an object in JSON or in the text form of a Python dictionary. It
// reads both forms loosely, because recorded answers are often cut off in the middle: it returns
// the members that are there, and no errors. It does not look into nested values.
func Members(text string) []Member {
	s := scanner{text: text}
	if !s.take('{') {
		return nil
	}
	var all []Member
	for {
		s.space()
		name, quoted := s.value()
		if !quoted || !s.take(':') {
			return all
		}
		m := Member{Name: name}
		m.Value, m.quoted = s.value()
		all = append(all, m)
		if !s.take(',') {
			return all
		}
	}
}

// scanner walks over a text; at never passes its end.
type scanner struct {
	text string
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// take skips space and the byte c, and says whether it was there.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// value reads a string, a bracketed value or a bare word.
func (s *scanner) value() (text string, quoted bool) {
	s.space()
	if s.at == len(s.text) {
		return "", false
	}
	switch s.text[s.at] {
	case '"', '\'':
		return s.quoted(), true
	case '{', '[', '(':
		return s.bracketed(), false
	}
	start := s.at
	for s.at < len(s.text) && strings.IndexByte(",:}])", s.text[s.at]) < 0 {
		s.at++
	}
	return strings.TrimSpace(s.text[start:s.at]), false
}

// bracketed reads a value in brackets raw, to its end or that of the text.
func (s *scanner) bracketed() string {
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"', '\'':
			s.skipQuoted()
			continue
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		}
		s.at++
		if depth == 0 {
			break
		}
	}
	return s.text[start:s.at]
}

// skipQuoted passes a string and gives it raw, without its quotes.
func (s *scanner) skipQuoted() string {
	quote := s.text[s.at]
	s.at++
	start := s.at
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case quote:
			s.at++
			return s.text[start : s.at-1]
		case '\\':
			s.at++
		}
		s.at = min(s.at+1, len(s.text))
	}
	return s.text[start:]
}

// quoted reads a string and decodes the escapes that JSON and Python share.
func (s *scanner) quoted() string {
	raw := s.skipQuoted()
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var out strings.Builder
	for len(raw) > 0 {
		if raw[0] != '\\' || len(raw) == 1 {
			out.WriteByte(raw[0])
			raw = raw[1:]
			continue
		}
		char, size := unescape(raw)
		out.WriteString(char)
		raw = raw[size:]
	}
	return out.String()
}

// unescape decodes the escape that raw begins with, and gives its length.
func unescape(raw string) (char string, size int) {
	switch raw[1] {
	case 'n':
		return "\n", 2
	case 't':
		return "\t", 2
	case 'r':
		return "\r", 2
	case 'x':
		if code, ok := hexCode(raw, 4); ok {
			return string(code), 4
		}
	case 'u':
		code, ok := hexCode(raw, 6)
		if !ok {
			break
		}
		if low, ok := hexCode(raw[6:], 6); ok && raw[7] == 'u' && utf16.IsSurrogate(code) {
			if pair := utf16.DecodeRune(code, low); pair != utf8.RuneError {
				return string(pair), 12
			}
		}
		return string(code), 6
	}
	_, width := utf8.DecodeRuneInString(raw[1:])
	return raw[1 : 1+width], 1 + width
}

// hexCode reads the number of an escape \xNN or \uNNNN of the given length.
func hexCode(raw string, length int) (rune, bool) {
	if len(raw) < length || raw[0] != '\\' {
		return 0, false
	}
	code, err := strconv.ParseUint(raw[2:length], 16, 32)
	return rune(code), err == nil
}
