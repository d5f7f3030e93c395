package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"recoveryledger/ledger/entry"
)

// Document describes a document, so that an error can name it.
type Document struct {
	// What names the document in words, for example "an outcome model". Help ends the remedies.
	What, Help string
	// BytesMax is the size of one in YAML; 0: no bound.
	BytesMax int
}

// DecodeJSON reads JSON in which every member has a meaning. An unknown, repeated
// or ill-typed member, or a number that is no integer, is an error that names the
// member.
func (d Document) DecodeJSON(text []byte, into any) *Error {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return Malformed(string(syntax.JSONPointer), "is not JSON: "+syntax.Err.Error(),
			"write one JSON object a line, in UTF-8, with each member named once")
	case errors.As(err, &wrong) && errors.Is(err, json.ErrUnknownName):
		return Malformed(string(wrong.JSONPointer), "is not a member of "+d.What, "remove it, or correct its name; "+d.Help)
	case wrong == nil || wrong.GoType == nil:
		return Malformed("", err.Error(), "write "+d.What+" as JSON; "+d.Help)
	case wrong.JSONKind == '0' && strings.ContainsAny(string(wrong.JSONValue), ".eE"):
		return Malformed(string(wrong.JSONPointer), fmt.Sprintf("holds %.40s and not an integer", wrong.JSONValue),
			"write an integer without fraction and exponent: money in micro-USD, time in milliseconds, ratios in parts per million")
	}
	return wrongKind(wrong)
}

// DecodeYAML reads YAML, and JSON, which is YAML, as [Document.DecodeJSON] reads
// JSON. Anchors, aliases and tags are refused: they make much of little. The error
// has the line, where one is known.
func (d Document) DecodeYAML(text []byte, into any) *Error {
	if d.BytesMax > 0 && len(text) > d.BytesMax {
		return &Error{Problem: entry.TooLarge, Detail: fmt.Sprintf("has more than %d bytes", d.BytesMax), Remedy: "keep it short"}
	}
	if !utf8.Valid(text) {
		return Malformed("", "has a character that is not UTF-8", "save it as UTF-8")
	}
	for _, t := range lexer.Tokenize(string(text)) {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			wrong := Malformed("", fmt.Sprintf("has %q, an anchor, alias or tag", Cut(t.Value, CodeMax)), "write it out")
			wrong.Line = t.Position.Line
			return wrong
		}
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return d.notYAML(err)
	}
	wrong := d.DecodeJSON(asJSON, into)
	if wrong != nil {
		wrong.Line = LineInYAML(text, wrong.Field)
	}
	return wrong
}

// DecodeRecord reads JSON into a struct and ignores other members, as records of other systems
// need. An error of the decoder becomes an error that names the member.
func DecodeRecord(value jsontext.Value, into any) *Error {
	err := json.Unmarshal(value, into)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if !ok || wrong.GoType == nil {
		return Malformed("", err.Error(), "write the record as JSON")
	}
	return wrongKind(wrong)
}

// wrongKind says that a value of one kind stands in place of another.
func wrongKind(wrong *json.SemanticError) *Error {
	got, want := KindName(wrong.JSONKind), typeName(wrong.GoType)
	if wrong.JSONKind == '0' && want == integer {
		got = "another number"
	}
	return Malformed(string(wrong.JSONPointer), "holds "+got+" and not "+want, "write "+want)
}

// KindName names the kind of a JSON value in words.
func KindName(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "a string"
	case '0':
		return "a number"
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

// integer is the kind of number that documents hold.
const integer = "a 64-bit integer"

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int64:
		return integer
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// notYAML turns an error of the YAML decoder into one that names the line.
func (d Document) notYAML(err error) *Error {
	what := "is not " + d.What + " in YAML"
	wrong := Malformed("", what+": "+Cut(err.Error(), ToolMax), d.Help)
	if at, ok := errors.AsType[yaml.Error](err); ok {
		wrong.Detail = what + ": " + Cut(at.GetMessage(), ToolMax)
		if token := at.GetToken(); token != nil && token.Position != nil {
			wrong.Line = token.Position.Line
		}
	}
	return wrong
}

// LineInYAML is the line of the value at a JSON pointer, or of the innermost existing value on the
// way to it; 0: there is none.
func LineInYAML(document []byte, field string) int {
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
