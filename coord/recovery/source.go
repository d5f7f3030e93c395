package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"recoveryledger/ledger/entry"
)

// Problem is one mistake in a policy file.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1; 0: the file as a whole
	Column int    `json:"column"` // from 1
	Field  string `json:"field,omitzero"`
	What   string `json:"what"`
	Fix    string `json:"fix"`
}

// Error says all in one line.
func (p *Problem) Error() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	if p.Field != "" {
		place += ": " + p.Field
	}
	return fmt.Sprintf("%s: %s (%s)", place, p.What, p.Fix)
}

// Error reports a policy file that cannot be loaded, with all mistakes in it.
type Error struct{ Problems []Problem }

// Error has a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i := range e.Problems {
		lines[i] = e.Problems[i].Error()
	}
	return strings.Join(lines, "\n")
}

// source is a parsed policy file: its values, and the line and column of each.
type source struct {
	name     string
	values   map[string]position // by JSON pointer
	members  map[string]position // the names of members, by the pointer to their values
	problems []Problem
}

type position struct{ line, column int }

func newSource(name string) *source {
	return &source{name: name, values: map[string]position{}, members: map[string]position{}}
}

// parse reads a YAML document; JSON is one. The value has integers, strings,
// booleans, null, lists and maps only. It is nil if the document is no YAML.
func parse(name string, doc []byte) (*source, any) {
	s := newSource(name)
	if len(doc) > DocumentMax {
		s.report(position{}, "", fmt.Sprintf("%d bytes, a policy has at most %d", len(doc), DocumentMax), "leave out rules that the last rule covers")
		return s, nil
	}
	if !utf8.Valid(doc) {
		line := 1
		for text := range bytes.Lines(doc) {
			if !utf8.Valid(text) {
				break
			}
			line++
		}
		s.report(position{line, 1}, "", "has a character that is not UTF-8", "save the file as UTF-8")
		return s, nil
	}
	file, err := parser.ParseBytes(doc, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(err)
		return s, nil
	}
	switch {
	case len(file.Docs) > 1:
		s.report(position{1, 1}, "", fmt.Sprintf("%d documents, want one", len(file.Docs)), "split the file")
		return s, nil
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		s.report(position{1, 1}, "", "is empty", "start from arl policy show")
		return s, nil
	}
	return s, s.value("", file.Docs[0].Body, 0)
}

func (s *source) syntax(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		s.report(place(at.GetToken()), "", at.GetMessage(), "write YAML 1.2")
		return
	}
	s.report(position{}, "", err.Error(), "write YAML 1.2")
}

func place(t *token.Token) position { return position{t.Position.Line, t.Position.Column} }

// value converts a node and remembers where it stands.
func (s *source) value(pointer string, node ast.Node, depth int) any {
	at := place(node.GetToken())
	if block, ok := node.(*ast.MappingNode); ok && len(block.Values) > 0 && !block.IsFlowStyle {
		at = place(block.Values[0].Key.GetToken()) // not the colon behind it
	}
	s.values[pointer] = at
	if depth > depthMax {
		s.report(at, pointer, fmt.Sprintf("nested deeper than %d", depthMax), "flatten it")
		return nil
	}
	switch n := node.(type) {
	case *ast.MappingNode:
		return s.object(pointer, n.Values, depth)
	case *ast.MappingValueNode:
		return s.object(pointer, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, element := range n.Values {
			list[i] = s.value(pointer+"/"+strconv.Itoa(i), element, depth+1)
		}
		return list
	case *ast.StringNode:
		return s.text(pointer, n.Value)
	case *ast.LiteralNode:
		return s.text(pointer, n.Value.Value)
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		return nil
	case *ast.IntegerNode:
		if i, err := strconv.ParseInt(n.Token.Value, 10, 64); err == nil && -entry.MaxInteger <= i && i <= entry.MaxInteger {
			return i
		}
		s.report(at, pointer, n.Token.Value+" is not a decimal integer within ±(2^53 − 1)", "write digits only")
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		s.report(at, pointer, node.String()+" is a floating-point number", "use integers: milliseconds, micro-USD, parts per million")
	default:
		s.report(at, pointer, "anchors, aliases, merge keys and tags are not allowed", "write the value out; quote a text that begins with !, & or *")
	}
	return nil
}

// text refuses characters that an escape can put into a text and that UTF-8 does not allow.
func (s *source) text(pointer, text string) any {
	if !utf8.ValidString(text) {
		s.wrong(pointer, "has a character that is not UTF-8", "write it without \\x")
		return ""
	}
	return text
}

func (s *source) object(pointer string, values []*ast.MappingValueNode, depth int) any {
	members := make(map[string]any, len(values))
	for _, member := range values {
		key, ok := member.Key.(*ast.StringNode)
		if !ok || !utf8.ValidString(key.Value) {
			s.report(place(member.Key.GetToken()), pointer, member.Key.String()+" is no name of a member", "write a plain name")
			continue
		}
		inside := pointer + "/" + pointerPart(key.Value)
		if first, twice := s.members[inside]; twice {
			s.report(place(key.Token), inside, fmt.Sprintf("is listed twice, first in line %d", first.line), "remove one of the two")
			continue
		}
		s.members[inside] = place(key.Token)
		members[key.Value] = s.value(inside, member.Value, depth+1)
	}
	return members
}

// pointerPart is the name of a member as a part of a pointer (RFC 6901, section 3).
func pointerPart(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// report adds a problem about the value at a pointer.
func (s *source) report(at position, pointer, what, fix string) {
	s.problems = append(s.problems, Problem{s.name, at.line, at.column, field(pointer), what, fix})
}

// wrong adds a problem with a value.
func (s *source) wrong(pointer, what, fix string) { s.report(s.at(pointer), pointer, what, fix) }

// at returns the position of a value or, if it is unknown, of the nearest value around it.
func (s *source) at(pointer string) position {
	for {
		if at, ok := s.values[pointer]; ok || pointer == "" {
			return at
		}
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
}

// field turns a JSON pointer into the form a[0].b.
func field(pointer string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return b.String()
}
