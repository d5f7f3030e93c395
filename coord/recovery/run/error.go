package run

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"recoveryledger/ledger/entry"
)

// Error says what is wrong with an input, where, and what to do about it.
type Error struct {
	// Problem is malformed, too-large, or id-conflict for the id of an earlier
	// record of the file.
	Problem entry.Problem
	// File is the name given to Import, empty for what is no file; Record counts from 1, 0 where the
	// whole file is meant; Line is where the record begins, or the line of a
	// syntax error, from 1.
	File         string
	Record, Line int
	// Field is a JSON pointer into the record, empty for all of it.
	Field  string
	Detail string
	Remedy string
}

// Error gives all that is known in one line.
func (e *Error) Error() string {
	var at strings.Builder
	if e.File != "" {
		at.WriteString(": read " + e.File)
	}
	if e.Record > 0 {
		fmt.Fprintf(&at, ": record %d", e.Record)
	}
	if e.Line > 0 {
		fmt.Fprintf(&at, ": line %d", e.Line)
	}
	if e.Field != "" {
		fmt.Fprintf(&at, ": field %s", e.Field)
	}
	return fmt.Sprintf("run%s: %s (%s); %s", at.String(), e.Detail, e.Problem, e.Remedy)
}

// malformed makes the most common error; remedy says what would be right.
func malformed(field string, detail, remedy string) *Error {
	return &Error{Problem: entry.Malformed, Field: field, Detail: detail, Remedy: remedy}
}

// decode reads a record's value into a struct of its format and turns what
// the decoder says into an Error. Members the struct does not name are
// ignored; repeated ones were refused when the record was read.
func decode(value jsontext.Value, out any) *Error {
	err := json.Unmarshal(value, out)
	if err == nil {
		return nil
	}
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) || wrong.GoType == nil {
		return malformed("", err.Error(), "write the record as JSON")
	}
	got, want := kindName(wrong.JSONKind), typeName(wrong.GoType)
	return malformed(string(wrong.JSONPointer), "holds "+got+" and not "+want, "write "+want)
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "a string"
	case '0':
		return "another number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	default:
		return "another value"
	}
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int64:
		return "a 64-bit integer"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// notYAML turns an error of the YAML decoder into one that names the line.
func notYAML(err error, what, remedy string) *Error {
	wrong := malformed("", what+": "+cut(err.Error(), toolMax), remedy)
	if at, ok := errors.AsType[yaml.Error](err); ok {
		wrong.Detail = what + ": " + cut(at.GetMessage(), toolMax)
		if token := at.GetToken(); token != nil && token.Position != nil {
			wrong.Line = token.Position.Line
		}
	}
	return wrong
}

// lineInYAML is the line of the value at a JSON pointer, or of the innermost one
// on the way to it that is there; 0: there is none.
func lineInYAML(document []byte, field string) int {
	file, err := parser.ParseBytes(document, 0)
	if err != nil {
		return 0
	}
	line, path := 0, new(yaml.PathBuilder).Root()
	for token := range jsontext.Pointer(field).Tokens() {
		if at, err := strconv.ParseUint(token, 10, 32); err == nil {
			path = path.Index(uint(at))
		} else {
			path = path.Child(token)
		}
		node, err := path.Build().FilterFile(file)
		if err != nil {
			break
		}
		if at := node.GetToken(); at != nil && at.Position != nil {
			line = at.Position.Line
		}
	}
	return line
}
