package recovery

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Int returns the number at a path of the rules, such as limits.attempts,
// thresholds.tolerance_ppm or rules[transient.timeout].ladder[0].max. Elements
// of lists are named by position, rules and guards also by id, models by name.
func (p *Policy) Int(path string) (int64, bool) {
	pointer, ok := p.pointer(path)
	if !ok {
		return 0, false
	}
	_, value, found := replace(p.canonical, pointer, "")
	n, err := strconv.ParseInt(value, 10, 64)
	return n, found && err == nil
}

// With returns the policy with another number at a path, see [Policy.Int]. The error says that the
// path has no number, or that the changed policy would not load.
func (p *Policy) With(path string, value int64) (*Policy, error) {
	if _, ok := p.Int(path); !ok {
		return nil, fmt.Errorf("recovery: set %s: the policy has no such number", path)
	}
	pointer, _ := p.pointer(path)
	changed, _, _ := replace(p.canonical, pointer, strconv.FormatInt(value, 10))
	doc := append(append([]byte(`{"recovery":`), changed...), '}')
	other, err := Load(path+"="+strconv.FormatInt(value, 10), doc)
	if err != nil {
		return nil, fmt.Errorf("recovery: set %s: %w", path, err)
	}
	return other, nil
}

// pointer turns a path into a JSON pointer.
func (p *Policy) pointer(path string) (jsontext.Pointer, bool) {
	var pointer jsontext.Pointer
	if strings.HasSuffix(path, ".") {
		return "", false
	}
	for rest := path; rest != ""; {
		if inside, ok := strings.CutPrefix(rest, "["); ok {
			name, after, closed := strings.Cut(inside, "]")
			at, found := p.index(string(pointer), name)
			if !closed || !found {
				return "", false
			}
			pointer, rest = pointer.AppendToken(strconv.Itoa(at)), strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		pointer = pointer.AppendToken(rest[:end])
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	return pointer, pointer != ""
}

// index finds an element of a list by its position or name.
func (p *Policy) index(list, name string) (int, bool) {
	if at, err := strconv.Atoi(name); err == nil {
		return at, at >= 0
	}
	switch list {
	case "/rules":
		for i := range p.doc.Rules {
			if p.doc.Rules[i].ID == name {
				return i, true
			}
		}
	case "/guards":
		for i := range p.doc.Guards {
			if p.doc.Guards[i].ID == name {
				return i, true
			}
		}
	case "/models":
		for i := range p.doc.Models {
			if p.doc.Models[i].Name == name {
				return i, true
			}
		}
	}
	return 0, false
}

// replace copies JSON and puts another value in place of a number. It returns the copy, the old
// value, and whether the old value is a number.
func replace(from jsontext.Value, at jsontext.Pointer, with string) (out jsontext.Value, was string, found bool) {
	d := jsontext.NewDecoder(bytes.NewReader(from))
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	for {
		token, err := d.ReadToken()
		if err == io.EOF { //nolint:errorlint // the decoder returns it as it is
			return b.Bytes(), was, found
		}
		if err != nil {
			return nil, "", false
		}
		if token.Kind() == '0' && d.StackPointer() == at {
			found, was = true, token.String()
			if err := e.WriteValue(jsontext.Value(with)); err != nil {
				return nil, was, true // the caller only wants the present value
			}
			continue
		}
		if err := e.WriteToken(token); err != nil {
			return nil, "", false
		}
	}
}
