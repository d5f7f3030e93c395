package importer

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/importer/pieces"
	"recoveryledger/coord/recovery/scenario"
)

// An object of many spans or runs that is over the limit of a record is read in pieces. All pieces
// are one record, with the place of the object, so that an error names the field of the object.

// divide reads the object again that is over the limit, in pieces. The value is empty, or the whole
// object, which the decoder has passed. Line is the number of lines before the object.
func (s *source) divide(value jsontext.Value, line int) (record, bool, error) {
	s.in.Unread(s.dec.UnreadBuffer())
	s.in.Unread(value)
	s.dec = jsontext.NewDecoder(s.in)
	s.number++
	s.large, s.whole = pieces.New(s.dec, s.in, s.forms), record{number: s.number, line: line + 1}
	return s.nextPiece()
}

// nextPiece gives the next piece of the object, or the record after the object.
func (s *source) nextPiece() (record, bool, error) {
	piece, err := s.large.Next()
	if err == nil {
		return record{number: s.whole.number, line: s.whole.line, value: piece.Value, piece: piece}, true, nil
	}
	s.line = s.in.LinesBefore(s.dec.UnreadBuffer())
	if s.in.Err != nil || !errors.Is(err, io.EOF) {
		return record{}, false, s.broken(err)
	}
	s.large = nil
	lines := s.line + 1 - s.whole.line
	s.spread, s.lined = s.spread || lines > 0, s.lined || lines == 0
	return s.next()
}

// wrongPiece is the error of a record over the limit, or of an object that cannot be divided. Its
// line is that of the whole record where it is not 0.
func (s *source) wrongPiece(err error) *scenario.Error {
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		return wrong
	}
	wrong := tooLarge("split the record, or leave out what is not part of the run", "is larger than %d bytes", s.in.Limit)
	switch {
	case errors.Is(err, pieces.ErrForm):
		wrong.Line = s.whole.line
	case !errors.Is(err, pieces.ErrTooLarge):
		return nil
	case s.large != nil:
		wrong.Field = s.large.Place()
	}
	return wrong
}
