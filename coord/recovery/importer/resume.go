package importer

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"recoveryledger/coord/recovery/scenario"
)

// errTooLarge is the error of a guard, returned through the decoder.
var errTooLarge = errors.New("record over the limit")

// guard refuses to read more than CaseBytesMax beyond base, the end of the
// last record, so that one endless record cannot fill the memory. It keeps
// the error of the reader, if it is not io.EOF: the decoder reports it as one
// of the syntax.
type guard struct {
	r          io.Reader
	base, read int64
	err        error
	again      []byte // read, given back, and to be read again
}

// Read implements [io.Reader].
func (g *guard) Read(p []byte) (int, error) {
	left := g.base + scenario.CaseBytesMax + 1 - g.read
	if left <= 0 {
		return 0, errTooLarge
	}
	p = p[:min(int64(len(p)), left, readMax)]
	if len(g.again) > 0 {
		n := copy(p, g.again)
		g.again, g.read = g.again[n:], g.read+int64(n)
		return n, nil
	}
	n, err := g.r.Read(p)
	g.read += int64(n)
	if err != nil && err != io.EOF { // an error that only wraps it is not the end
		g.err = err
	}
	return n, err
}

// unread gives back bytes that were read last.
func (g *guard) unread(p []byte) {
	g.again, g.read = slices.Concat(p, g.again), g.read-int64(len(p))
}

// resume goes on after a broken record: at the next line that begins with an object, or at the end
// of the file.
func (s *source) resume() error {
	s.broke = false
	rest := s.dec.UnreadBuffer()
	s.line += scenario.NewlinesBefore(rest)
	s.in.unread(bytes.TrimLeft(rest, " \t\r\n,:"))
	s.in.base = s.in.read
	err := s.skip()
	s.offset = s.in.read
	s.dec.Reset(s.in)
	if err != nil {
		return s.broken(err)
	}
	return nil
}

// skip reads to the next line that begins with an object.
func (s *source) skip() error {
	part := make([]byte, readMax)
	for ended := false; ; { // after a byte that ended a line
		n, err := s.in.Read(part)
		for i, b := range part[:n] {
			if ended && b == '{' {
				s.in.unread(part[i:n])
				return nil
			}
			if ended = b == '\n'; ended {
				s.line++
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// pass decides whether next can go on after a record that is not JSON: where each record has a line
// of its own, because elsewhere nobody knows where the next record begins. Line is where the record
// begins. A record that is cut at its line's end may be found broken on a later line: then the
// records before tell.
func (s *source) pass(wrong *scenario.Error, line int, err error) {
	s.lost = bytes.HasPrefix(bytes.TrimLeft(s.dec.UnreadBuffer(), " \t\r\n"), []byte("{"))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF): // the file ends here
	case errors.Is(err, errTooLarge), s.array, s.spread, wrong.Line > line && !s.lined:
		wrong.Detail += "; the rest of the file was not read"
	default:
		s.broke, wrong.Line = true, line
	}
}
