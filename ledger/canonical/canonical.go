// Package canonical writes Go values as canonical JSON (RFC 8785) in one pass. The library writes
// members in the order of the fields, and orders them in a second pass over the text: that is most
// of the time that an engine needs to make an entry. A [Form] orders the members of a type once.
//
//	var form = canonical.Of[Body]()
//	text, err := form.Append(nil, &body)
//
// The text is that of json.Marshal and jsontext.Value.Canonicalize, one after the other. A type
// that this package does not know is left to them.
package canonical

import (
	"encoding"
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Form is how values of a type are written. Goroutines may share it.
type Form[T any] struct{ write writer }

// writer appends the canonical form of a value.
type writer func(dst []byte, v reflect.Value) ([]byte, error)

// Of returns the form of a type.
func Of[T any]() Form[T] { return Form[T]{writerOf(reflect.TypeFor[T]())} }

// Append appends the canonical form of a value. The error is that of the library: text that is no
// UTF-8, or a [jsontext.Value] that is no JSON or has a member twice.
func (f Form[T]) Append(dst []byte, v *T) ([]byte, error) {
	return f.write(dst, reflect.ValueOf(v).Elem())
}

// writerOf returns the writer of a type.
func writerOf(t reflect.Type) writer {
	if t == reflect.TypeFor[jsontext.Value]() {
		return writeValue
	}
	if hasMethods(t) {
		return byLibrary
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(dst []byte, v reflect.Value) ([]byte, error) { return strconv.AppendBool(dst, v.Bool()), nil }
	case reflect.Int, reflect.Int64:
		return writeInt
	case reflect.String:
		return func(dst []byte, v reflect.Value) ([]byte, error) { return appendString(dst, v.String()) }
	case reflect.Pointer:
		return writePointer(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return writeSlice(t.Elem())
		}
	case reflect.Struct:
		if members, ok := membersOf(t); ok {
			return members.write
		}
	}
	return byLibrary
}

// hasMethods reports whether a type says itself how it is written.
func hasMethods(t reflect.Type) bool {
	for _, of := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender]()} {
		if t.Implements(of) || reflect.PointerTo(t).Implements(of) {
			return true
		}
	}
	return false
}

// byLibrary writes a value in two passes.
func byLibrary(dst []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Interface())
	if err == nil {
		err = (*jsontext.Value)(&text).Canonicalize()
	}
	return append(dst, text...), err
}

// exactMax is the greatest integer that RFC 8785, whose numbers are floats, writes exactly.
const exactMax = 1<<53 - 1

func writeInt(dst []byte, v reflect.Value) ([]byte, error) {
	if n := v.Int(); -exactMax <= n && n <= exactMax {
		return strconv.AppendInt(dst, n, 10), nil
	}
	return byLibrary(dst, v)
}

// appendString appends a quoted text.
func appendString(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return jsontext.AppendQuote(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// writePointer returns the writer of pointers. The writer of their elements is made when it is
// needed, because a type may point to itself.
func writePointer(of reflect.Type) writer {
	elem := sync.OnceValue(func() writer { return writerOf(of) })
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return elem()(dst, v.Elem())
	}
}

func writeSlice(of reflect.Type) writer {
	elem := sync.OnceValue(func() writer { return writerOf(of) })
	return func(dst []byte, v reflect.Value) ([]byte, error) {
		write := elem()
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = write(dst, v.Index(i)); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
}

// writeValue writes JSON. JSON that is canonical already is copied.
func writeValue(dst []byte, v reflect.Value) ([]byte, error) {
	if text := v.Bytes(); plain(text) {
		return append(dst, text...), nil
	}
	return byLibrary(dst, v)
}
