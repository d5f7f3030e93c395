package entry

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// scan checks what the typed decoder does not: required members are there, at
// every level, and null stands only where it has a meaning; numbers are integers
// within ±(2^53 − 1) written without fraction, exponent or negative zero, and
// nesting ends at [MaxDepth], in unknown members too. The payload is JSON that
// the decoder has accepted, so that syntax and types need no check here.
func scan(payload []byte, r *rule) error {
	s := scanner{text: payload}
	if s.peek() != '{' {
		return malformed(wholePayload, "%.20s, want an object", payload)
	}
	return s.object(r)
}

// scanner reads JSON from front to back. Its methods return a refusal whose field is the path from
// the value that the method began with.
type scanner struct {
	text  []byte
	at    int // offset of the next byte
	depth int
}

// value reads a value under a rule. Under a nil rule every JSON value is allowed.
func (s *scanner) value(r *rule) error {
	switch s.peek() {
	case '{':
		return s.object(r)
	case '[':
		return s.array(r)
	case '"':
		s.quoted()
	case 't':
		s.at += len("true")
	case 'f':
		s.at += len("false")
	case 'n':
		s.at += len("null")
		if r != nil {
			return malformed("", "null").remedy("leave an unknown member out")
		}
	default:
		return s.number()
	}
	return nil
}

func (s *scanner) object(r *rule) error {
	if err := s.enter(); err != nil {
		return err
	}
	members := 0
	seen := uint64(0) // bit i: the i-th required member
	for ; s.peek() != '}'; members++ {
		quoted := s.quoted()
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name, _ = jsontext.AppendUnquote(nil, quoted) // valid: the decoder took it
		}
		var err error
		if r == nil {
			err = s.value(nil)
		} else {
			err = s.member(r, name, &seen)
		}
		if err != nil {
			return inside(string(name), err)
		}
	}
	if s.leave(); s.depth == 0 && members > maxMembers {
		return malformed(wholePayload, "%d members, the limit is %d", members, maxMembers)
	}
	if r != nil {
		if i := bits.TrailingZeros64(^seen); i < len(r.required) {
			return malformed(r.required[i], "missing")
		}
	}
	return nil
}

// member reads the value of a member of an object under r.
func (s *scanner) member(r *rule, name []byte, seen *uint64) error {
	same := func(known string) bool { return known == string(name) }
	place := slices.IndexFunc(r.required, same)
	optional := place < 0 && slices.ContainsFunc(r.optional, same)
	if place >= 0 {
		*seen |= 1 << place
	}
	first := s.peek()
	switch {
	case place < 0 && !optional && !r.anyName:
		return s.value(nil)
	case first == 'n' && slices.ContainsFunc(r.nullable, same):
		return s.value(nil)
	case first == '"' && optional && s.text[s.at+1] == '"':
		return malformed("", "empty").remedy("leave an unknown member out")
	case first == '{' || first == '[':
		if value, ok := r.inner[string(name)]; ok {
			return s.value(value)
		}
	}
	return s.value(plain)
}

// plain is the rule of numbers, of texts, and of lists of either.
var plain = new(rule)

func (s *scanner) array(r *rule) error {
	if err := s.enter(); err != nil {
		return err
	}
	for i := 0; s.peek() != ']'; i++ {
		if err := s.value(r); err != nil {
			return inside("["+strconv.Itoa(i)+"]", err)
		}
	}
	s.leave()
	return nil
}

func (s *scanner) number() error {
	text := s.text[s.at:]
	if n := bytes.IndexAny(text, ",]} \t\r\n"); n >= 0 {
		text = text[:n]
	}
	s.at += len(text)
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || string(text) == "-0" || n > MaxInteger || n < -MaxInteger {
		return malformed("", "%.40s is not an integer within ±(2^53−1)", text).
			remedy("write integers without fraction, exponent or negative zero")
	}
	return nil
}

// enter reads an opening bracket, leave a closing bracket.
func (s *scanner) enter() error {
	s.at++
	s.depth++
	return refuseIf(s.depth > MaxDepth, wholePayload, "nesting deeper than %d", MaxDepth)
}

func (s *scanner) leave() {
	s.at++
	s.depth--
}

// peek skips white space and separators, and returns the next byte.
func (s *scanner) peek() byte {
	for {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return c
		}
	}
}

// quoted reads a string and returns the string with its quotes.
func (s *scanner) quoted() []byte {
	start := s.at
	s.at++
	size := bytes.IndexByte(s.text[s.at:], '"')
	if escaped := bytes.IndexByte(s.text[s.at:][:size], '\\'); escaped < 0 {
		s.at += size
	} else {
		s.skipEscaped()
	}
	s.at++
	return s.text[start:s.at]
}

// skipEscaped goes to the quote at the end of the string, byte by byte.
func (s *scanner) skipEscaped() {
	for ; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
}
