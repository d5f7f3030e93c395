package canonical

import "unicode/utf8"

// plain reports whether a text is JSON in canonical form, of the plain kind: names of members are
// in ASCII and rise, no text has an escape, and numbers are integers of at most 15 digits. Another
// text may be canonical, too.
func plain(text []byte) bool {
	s := scanner{text: text}
	return s.value(0) && s.at == len(text)
}

// depthMax bounds the nesting that plain looks into.
const depthMax = 32

// scanner reads canonical JSON from front to back. Its methods report whether there was some.
type scanner struct {
	text []byte
	at   int // offset of the next byte
}

// peek returns the next byte; 0: there is none, or it is no JSON.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// next takes the next byte if it is c.
func (s *scanner) next(c byte) bool {
	if s.peek() != c || c == 0 {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(depth int) bool {
	switch c := s.peek(); {
	case c == '{' && depth < depthMax:
		return s.object(depth + 1)
	case c == '[' && depth < depthMax:
		return s.array(depth + 1)
	case c == '"':
		_, ok := s.quoted()
		return ok
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) object(depth int) bool {
	s.at++ // the brace
	if s.next('}') {
		return true
	}
	for before, first := []byte(nil), true; ; first = false {
		name, ok := s.quoted()
		if !ok || !first && string(before) >= string(name) || !ascii(name) {
			return false
		}
		before = name
		if !s.next(':') || !s.value(depth) {
			return false
		}
		if s.next('}') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// ascii reports whether a name has only bytes of ASCII. Their order is that of UTF-16, by which RFC
// 8785 orders members.
func ascii(name []byte) bool {
	for _, c := range name {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (s *scanner) array(depth int) bool {
	s.at++ // the bracket
	if s.next(']') {
		return true
	}
	for {
		if !s.value(depth) {
			return false
		}
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// quoted takes a text without escapes, and returns the part between the quotes.
func (s *scanner) quoted() (inner []byte, ok bool) {
	if !s.next('"') {
		return nil, false
	}
	from, ascii := s.at, true
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			inner = s.text[from:s.at]
			s.at++
			return inner, ascii || utf8.Valid(inner)
		case c < ' ' || c == '\\':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// number takes an integer that a float holds exactly.
func (s *scanner) number() bool {
	const digitsMax = 15
	negative := s.next('-')
	from := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	digits := s.text[from:s.at]
	if len(digits) == 0 || len(digits) > digitsMax {
		return false
	}
	return digits[0] != '0' || len(digits) == 1 && !negative
}
