package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/importer/pieces"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// source reads a file as a sequence of records: the top-level JSON values of
// it (one document, or NDJSON), or the elements of its only array. It holds
// one record at a time, or a piece of one (large.go).
type source struct {
	file string
	in   *pieces.Guard
	dec  *jsontext.Decoder

	// number counts the records read, line the newlines before the
	// decoder's offset.
	number, line int
	// begun is set after the first byte, array inside the only array of the file, spread after a
	// record of several lines, lined after a record of one.
	begun, array, spread, lined bool
	// broke is set after a record that is not JSON if next can go on, lost if that record began as
	// an object.
	broke, lost bool
	// forms are those of the objects that are read in pieces, large reads such an object, and whole
	// is its place.
	forms []pieces.Form
	large *pieces.Reader
	whole record
	// seen maps the hash of a case id to the record that brought it, so that
	// a repeated id is found at a small cost per case.
	seen map[[16]byte]int
	// counts is what became of the records.
	counts *Counts
}

// record is one value of the file and where it begins.
type record struct {
	number, line int
	value        jsontext.Value // valid until the next record is read
	piece        *pieces.Piece  // that the value is, or nil: the value is the whole record
}

func newSource(file string, r io.Reader) *source {
	in := &pieces.Guard{Reader: r, Limit: scenario.CaseBytesMax}
	return &source{file: file, in: in, dec: jsontext.NewDecoder(in), seen: map[[16]byte]int{}, counts: new(Counts)}
}

// next gives the next record, if there is one. An error is final, unless broke is set: then next
// goes on after the record.
func (s *source) next() (rec record, more bool, err error) {
	if s.broke {
		if err := s.resume(); err != nil {
			return record{}, false, err
		}
	}
	s.in.Begin(s.dec.UnreadBuffer())
	if s.large != nil {
		return s.nextPiece()
	}
	kind := s.dec.PeekKind()
	line := s.line + scenario.NewlinesBefore(s.dec.UnreadBuffer())
	if !s.begun && kind == '[' {
		s.begun, s.array, s.line = true, true, line
		if _, err := s.dec.ReadToken(); err != nil {
			return record{}, false, s.broken(err)
		}
		return s.next()
	}
	s.begun = true
	if s.array && kind == ']' {
		s.line = line
		return record{}, false, s.close()
	}
	value, err := s.dec.ReadValue()
	if s.in.Err == nil && errors.Is(err, io.EOF) {
		return record{}, false, s.end()
	}
	if err == nil && len(value) > s.in.Limit {
		err = pieces.ErrTooLarge
	}
	if errors.Is(err, pieces.ErrTooLarge) && kind == '{' && !s.array && s.forms != nil {
		return s.divide(value, line)
	}
	if err != nil {
		return record{}, false, s.broken(err)
	}
	s.number++
	if s.counts.unit == "" {
		s.counts.Records++
	}
	lines := bytes.Count(value, []byte("\n"))
	s.line, s.spread, s.lined = line+lines, s.spread || lines > 0, s.lined || lines == 0
	return record{number: s.number, line: line + 1, value: value}, true, nil
}

// close reads the end of the only array and checks that nothing follows.
func (s *source) close() error {
	if _, err := s.dec.ReadToken(); err != nil {
		return s.broken(err)
	}
	s.in.Begin(s.dec.UnreadBuffer())
	s.dec.PeekKind() // only to have the space before the next value in the buffer
	line := s.line + scenario.NewlinesBefore(s.dec.UnreadBuffer())
	_, err := s.dec.ReadToken()
	if s.in.Err == nil && errors.Is(err, io.EOF) {
		return s.end()
	}
	if err != nil {
		return s.broken(err)
	}
	e := scenario.Malformed("", "has text after the end of its array", "write one array, or one value a line")
	e.File, e.Line = s.file, line+1
	return e
}

// end is an error when the file held nothing: then something went wrong
// before, and saying nothing would hide it.
func (s *source) end() error {
	if s.number > 0 {
		return nil
	}
	e := scenario.Malformed("", "holds no record", "pass the right file, and check that the file is complete")
	e.File = s.file
	return e
}

// broken adds the place to an error of the decoder, and counts the record.
func (s *source) broken(err error) error {
	if s.in.Err != nil {
		return fmt.Errorf("importer: read %s: %w", s.file, s.in.Err)
	}
	if s.large == nil {
		s.number++
	}
	s.counts.Records++
	e := &scenario.Error{File: s.file, Record: s.number, Line: s.line + 1}
	rest := s.dec.UnreadBuffer()
	begin := e.Line + scenario.NewlinesBefore(rest)
	if s.number == 1 {
		begin := make([]byte, 8) // rest may be a single byte
		n, _ := io.ReadFull(s.in, begin)
		s.in.Unread(begin[:n])
		if wrong := scenario.NoText(append(slices.Clip(rest), begin[:n]...)); wrong != nil {
			wrong.File, wrong.Line = s.file, 1
			return wrong
		}
	}
	if wrong := s.wrongPiece(err); wrong != nil {
		wrong.File, wrong.Record, wrong.Line = e.File, e.Record, cmp.Or(wrong.Line, begin)
		s.pass(wrong, begin, err)
		return wrong
	}
	cause := err
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		past := min(max(syntax.ByteOffset-s.dec.InputOffset(), 0), int64(len(rest)))
		e.Line += bytes.Count(rest[:past], []byte("\n"))
		e.Field, err = s.field(syntax.JSONPointer), syntax.Err
	}
	e.Problem, e.Detail = entry.Malformed, "is not JSON: "+err.Error()
	e.Remedy = "write the file as JSON in UTF-8 with each member named once"
	s.pass(e, begin, cause)
	return e
}

// field is a pointer into the record, from one into the file.
func (s *source) field(pointer jsontext.Pointer) string {
	if !s.array {
		return string(pointer)
	}
	for first := range pointer.Tokens() {
		return string(pointer[1+len(first):]) // an index, which needs no escape
	}
	return ""
}

// cases converts each record on its own. An error of one record does not end
// the sequence; one of the file does.
func (s *source) cases(convert func(record) (scenario.Case, *scenario.Error)) iter.Seq2[scenario.Case, error] {
	return func(yield func(scenario.Case, error) bool) {
		for {
			rec, more, err := s.next()
			if err != nil && yield(scenario.Case{}, err) && s.broke {
				continue
			}
			if !more {
				return
			}
			c, wrong := convert(rec)
			if wrong == nil {
				s.counts.Taken++
				if len(c.Steps) == 0 {
					s.counts.Bare++
				}
			}
			if !s.deliver(yield, rec, c, wrong) {
				return
			}
		}
	}
}

// deliver checks what holds for every case and yields it, or what is wrong.
func (s *source) deliver(yield func(scenario.Case, error) bool, rec record, c scenario.Case, wrong *scenario.Error) bool {
	if wrong == nil {
		wrong = s.admit(rec, c)
	}
	s.counts.settle(wrong == nil)
	if wrong == nil {
		return yield(c, nil)
	}
	if wrong.File = s.file; wrong.Record == 0 {
		wrong.Record, wrong.Line = rec.number, rec.line
	}
	return yield(scenario.Case{}, wrong)
}

// admit checks the limits of a case and that its id is new.
func (s *source) admit(rec record, c scenario.Case) *scenario.Error {
	for _, step := range c.Steps {
		if wrong := checkStep(step); wrong != nil {
			return wrong
		}
	}
	key := scenario.IDHash(c.ID)
	if first, ok := s.seen[key]; ok {
		return &scenario.Error{
			Problem: entry.IDConflict,
			Detail:  fmt.Sprintf("case %q already came with record %d", c.ID, first),
			Remedy:  "give each run its own id, and keep the records of one run together",
		}
	}
	s.seen[key] = rec.number
	return nil
}

// checkStep checks the limits of a step.
func checkStep(step scenario.Step) *scenario.Error {
	if len(step.Parents) > scenario.ParentsMax {
		return tooLarge("split the step", "step %s depends on %d steps, over the limit of %d", step.ID, len(step.Parents), scenario.ParentsMax)
	}
	if len(step.Tool) > scenario.ToolMax {
		return tooLarge("shorten the name", "step %s has a tool name of %d bytes, over the limit of %d", step.ID, len(step.Tool), scenario.ToolMax)
	}
	return nil
}

// tooManySteps is the error of a case that grows over StepsMax.
func tooManySteps() *scenario.Error {
	return tooLarge("split the run into cases", "holds more than %d steps", scenario.StepsMax)
}

// tooLarge is an error about what is over a limit.
func tooLarge(remedy, detail string, args ...any) *scenario.Error {
	return &scenario.Error{Problem: entry.TooLarge, Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
}
