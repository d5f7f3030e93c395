package mcp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// values are what templates refer to: values of JSON, by the JSON pointers that templates name,
// such as arguments/path or result/content/0/text.
type values map[string]jsontext.Value

// valueKey is the template of the idempotency key. The key is never kept with the values.
const valueKey = "key"

// MissingError reports a template whose value is not there.
type MissingError struct{ Pointer string }

// Error implements error.
func (e *MissingError) Error() string { return "there is no " + e.Pointer }

// part is a piece of a text: literal text, or the pointer of a template.
type part struct {
	text    string
	pointer bool
}

// split separates the templates of a text: ${POINTER}. $${ stands for ${ itself.
func split(text string) (parts []part, err error) {
	literal := func(s string) {
		if n := len(parts) - 1; n >= 0 && !parts[n].pointer {
			parts[n].text += s
		} else if s != "" {
			parts = append(parts, part{text: s})
		}
	}
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			literal(text)
			return parts, nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			literal(escaped + "${")
			text = rest
			continue
		}
		literal(before)
		pointer, after, closed := strings.Cut(rest, "}")
		if !closed || pointer == "" {
			return nil, fmt.Errorf("%.60q is no template: want ${arguments/NAME}, or $${ for a text that begins with ${", "${"+rest)
		}
		parts = append(parts, part{pointer, true})
		text = after
	}
}

// pointers calls visit with the pointer of each template in a value.
func pointers(v any, visit func(pointer string) error) error {
	switch v := v.(type) {
	case string:
		parts, err := split(v)
		for _, p := range parts {
			if p.pointer && err == nil {
				err = visit(p.text)
			}
		}
		return err
	case []any:
		for _, element := range v {
			if err := pointers(element, visit); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := pointers(v[name], visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// take looks up in from the values of the templates in v that begin with the root, and adds them to
// the values. The error is a [*MissingError].
func (vs values) take(v any, root string, from jsontext.Value) error {
	return pointers(v, func(pointer string) error {
		first, rest, inside := strings.Cut(pointer, "/")
		if first != root {
			return nil
		}
		found := from
		if inside {
			var ok bool
			if found, ok = lookUp(from, rest); !ok {
				return &MissingError{pointer}
			}
		}
		vs[pointer] = found
		return nil
	})
}

// lookUp returns what a JSON pointer without its first slash names. The token * stands for every
// element of an array: the value is then an array, too.
func lookUp(in jsontext.Value, pointer string) (jsontext.Value, bool) {
	for rest, more := pointer, true; more; {
		var token string
		token, rest, more = strings.Cut(rest, "/")
		if token == "*" && in.Kind() == '[' {
			return lookUpEach(in, rest, more)
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch in.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if json.Unmarshal(in, &members) != nil {
				return nil, false
			}
			var ok bool
			if in, ok = members[token]; !ok {
				return nil, false
			}
		case '[':
			var elements []jsontext.Value
			if json.Unmarshal(in, &elements) != nil {
				return nil, false
			}
			at := index(token)
			if at < 0 || at >= len(elements) {
				return nil, false
			}
			in = elements[at]
		default:
			return nil, false
		}
	}
	return in, true
}

// lookUpEach looks a pointer up in each element of an array.
func lookUpEach(in jsontext.Value, pointer string, more bool) (jsontext.Value, bool) {
	var elements []jsontext.Value
	if json.Unmarshal(in, &elements) != nil {
		return nil, false
	}
	for i := range elements {
		if !more {
			break
		}
		found, ok := lookUp(elements[i], pointer)
		if !ok {
			return nil, false
		}
		elements[i] = found
	}
	all, err := json.Marshal(elements)
	return all, err == nil
}

// index reads the index of an array in a JSON pointer; -1: the token is none.
func index(token string) int {
	if token == "" || len(token) > 9 || token != "0" && token[0] == '0' {
		return -1
	}
	n := 0
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// fill replaces the templates in a value. A text that is one template becomes the value itself; a
// template within a text becomes text. The error is a [*MissingError], or says that a value within
// a text is a list or an object.
func (vs values) fill(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return vs.fillText(v)
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			var err error
			if filled[i], err = vs.fill(v[i]); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case map[string]any:
		filled := make(map[string]any, len(v))
		for name, value := range v {
			var err error
			if filled[name], err = vs.fill(value); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return v, nil
}

func (vs values) fillText(text string) (any, error) {
	parts, err := split(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		if !p.pointer {
			b.WriteString(p.text)
			continue
		}
		value, ok := vs[p.text]
		if !ok {
			return nil, &MissingError{p.text}
		}
		if len(parts) == 1 {
			return value, nil
		}
		switch value.Kind() {
		case '"':
			var s string
			if err := json.Unmarshal(value, &s); err != nil {
				return nil, err
			}
			b.WriteString(s)
		case '{', '[':
			return nil, fmt.Errorf("${%s} within a text is a list or an object: want a text, a number, or true or false", p.text)
		default:
			b.Write(value)
		}
	}
	return b.String(), nil
}

// with returns the values and an idempotency key.
func (vs values) with(key string) values {
	all := maps.Clone(vs)
	if all == nil {
		all = values{}
	}
	all[valueKey], _ = json.Marshal(key) // a text of hexadecimal digits
	return all
}

// size returns the bytes of JSON that the values take.
func (vs values) size() (n int) {
	for pointer, value := range vs {
		n += len(pointer) + len(value)
	}
	return n
}
