package scenario

import (
	"errors"
	"io"
)

// Find returns the case with an id, and the line of the case, from 1. Other lines are not decoded.
// The line is 0 if no line has the id. The error is a [*Error] about the line of the case, or an
// error of the reader.
func Find(name string, r io.Reader, id string) (c Case, line int, err error) {
	lines := newLineReader(name, r)
	var text []byte
	for {
		var wrong *Error
		text, wrong, err = lines.next(text[:0])
		switch {
		case errors.Is(err, io.EOF):
			return Case{}, 0, nil
		case err != nil:
			return Case{}, 0, err
		case wrong != nil || idOf(text) != id:
			continue
		}
		if c, wrong = decode(text); wrong != nil {
			return Case{}, lines.number, lines.at(wrong)
		}
		return c, lines.number, nil
	}
}
