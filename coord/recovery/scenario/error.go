package scenario

import (
	"fmt"
	"strings"

	"recoveryledger/ledger/entry"
)

// Error names the mistake in an input, its place, and the remedy.
type Error struct {
	// Problem is malformed, too-large, or id-conflict for the id of an earlier
	// record of the file.
	Problem entry.Problem
	// File is the name of the file, empty for an input that is no file. Record counts from 1; 0
	// means the whole file. Line is the first line of the record, or the line of a syntax error,
	// from 1.
	File         string
	Record, Line int
	// Field is a JSON pointer into the record, empty for the whole record.
	Field  string
	Detail string
	Remedy string
}

// fieldShown is the number of bytes of a field that a message shows: a value of a hostile file may
// be very deep.
const fieldShown = 256

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
		fmt.Fprintf(&at, ": field %s", Cut(e.Field, fieldShown))
	}
	return strings.TrimPrefix(fmt.Sprintf("%s: %s (%s); %s", at.String(), e.Detail, e.Problem, e.Remedy), ": ")
}

// Malformed makes the most common error. The remedy says what a correct value is.
func Malformed(field string, detail, remedy string) *Error {
	return &Error{Problem: entry.Malformed, Field: field, Detail: detail, Remedy: remedy}
}
