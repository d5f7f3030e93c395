package entry

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// shape is what [scan] learns of a payload beside that it keeps the rules.
type shape struct {
	members [][]byte // names at the top level, in order
	nulls   [][]byte // those whose value is null
}

// scan checks what the typed decoder does not: numbers are integers within
// ±(2^53 − 1) written without fraction, exponent or negative zero, and nesting
// ends at [MaxDepth], in unknown members too. The payload is JSON that the
// decoder has accepted, so that syntax needs no check here.
func scan(payload []byte) (shape, error) {
	s := shape{members: make([][]byte, 0, 16)}
	depth, name := 0, true // name: a string at depth 1 is a member's name
	for i := 0; i < len(payload); {
		switch c := payload[i]; c {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return s, malformed("payload", "nesting deeper than %d", MaxDepth)
			}
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':':
			if depth == 1 {
				name = c == ','
			}
			i++
		case '"':
			end := stringEnd(payload, i)
			if depth == 1 && name {
				s.members = append(s.members, unquote(payload[i:end]))
			}
			i = end
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i + numberLen(payload[i:])
			if err := s.checkNumber(string(payload[i:end])); err != nil {
				return s, err
			}
			i = end
		case 'n':
			if depth == 1 {
				s.nulls = append(s.nulls, s.members[len(s.members)-1])
			}
			i += len("null")
		case 't':
			i += len("true")
		case 'f':
			i += len("false")
		default: // white space
			i++
		}
	}
	if len(s.members) > maxMembers {
		return s, malformed("payload", "%d members, the limit is %d", len(s.members), maxMembers)
	}
	return s, nil
}

// stringEnd returns the offset behind the string that begins at start.
func stringEnd(payload []byte, start int) int {
	for i := start + 1; ; i++ {
		switch payload[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func numberLen(rest []byte) int {
	if n := bytes.IndexAny(rest, ",]} \t\r\n"); n >= 0 {
		return n
	}
	return len(rest)
}

func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // valid: the decoder took it
	return name
}

func (s *shape) checkNumber(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text == "-0" || n > MaxInteger || n < -MaxInteger {
		field := "payload"
		if len(s.members) > 0 {
			field = string(s.members[len(s.members)-1])
		}
		return malformed(field, "%.40s is not an integer within ±(2^53−1)", text).
			remedy("write integers without fraction, exponent or negative zero")
	}
	return nil
}

func (s *shape) has(name string) bool {
	return slices.ContainsFunc(s.members, func(member []byte) bool { return string(member) == name })
}

// checkMembers enforces mandatory members, crit, and that null stands only
// where it has a meaning.
func (s *shape) checkMembers(kind Kind, crit []string) error {
	rule := kinds[kind]
	for _, names := range [][]string{headerMembers, rule.required} {
		for _, name := range names {
			if !s.has(name) {
				return malformed(name, "missing")
			}
		}
	}
	for _, name := range crit {
		if !rule.understood(name) {
			return malformed("crit", "member %.60q is critical and not understood", name).
				remedy("upgrade the ledger, or leave the member out")
		}
	}
	for _, null := range s.nulls {
		if name := string(null); rule.understood(name) && !slices.Contains(rule.nullable, name) {
			return malformed(name, "null").remedy("leave an unknown member out")
		}
	}
	return nil
}
