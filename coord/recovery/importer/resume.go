package importer

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/importer/pieces"
	"recoveryledger/coord/recovery/scenario"
)

// resume goes on after a broken record: at the next line that begins with an object, or at the end
// of the file.
func (s *source) resume() error {
	s.broke = false
	s.in.Unread(bytes.TrimLeft(s.dec.UnreadBuffer(), " \t\r\n,:"))
	s.in.Begin(nil)
	err := s.in.ToObject()
	s.dec, s.line = jsontext.NewDecoder(s.in), s.in.LinesBefore(nil)
	if err != nil {
		return s.broken(err)
	}
	return nil
}

// pass decides whether next can go on after a record that is not JSON: where each record has a line
// of its own, because elsewhere nobody knows where the next record begins. Line is where the record
// begins. A record that is cut at its line's end may be found broken on a later line: then the
// records before tell.
func (s *source) pass(wrong *scenario.Error, line int, err error) {
	s.lost = bytes.HasPrefix(bytes.TrimLeft(s.dec.UnreadBuffer(), " \t\r\n"), []byte("{"))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF): // the file ends here
	case errors.Is(err, pieces.ErrTooLarge), s.large != nil, s.array, s.spread, wrong.Line > line && !s.lined:
		wrong.Detail += "; the rest of the file was not read"
	default:
		s.broke, wrong.Line = true, line
	}
}
