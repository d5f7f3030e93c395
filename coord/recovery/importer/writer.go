package importer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Writer writes cases as lines of a scenario.
type Writer struct {
	Out  io.Writer
	Tags []string // of every case
	// Shape says what tools do, and which results are dependencies.
	Shape
	// Refused is called with the error of each record that cannot be used; the record is counted.
	// Nil: the first such record ends All.
	Refused func(error)
	// Counts is of the file at hand, and told of each case that is refused here. Nil: nothing is
	// counted.
	Counts *Counts

	seen             map[[16]byte]bool // hashes of the ids so far
	written, refused int
	used             map[string]*Use
}

// Count returns the number of cases written and the number of records refused.
func (w *Writer) Count() (written, refused int) { return w.written, w.refused }

// All writes the cases of a file, and calls tell after each.
func (w *Writer) All(ctx context.Context, file string, cases iter.Seq2[scenario.Case, error], tell func()) error {
	number := 0
	for c, err := range cases {
		number++
		if err == nil {
			if err = w.write(file, number, c); err != nil && w.Counts != nil {
				w.Counts.Refuse(err)
			}
		}
		var wrong *scenario.Error
		switch {
		case err == nil:
		case errors.As(err, &wrong) && w.Refused != nil:
			w.Refused(err)
			w.refused++
		default:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tell()
	}
	return nil
}

// write writes one case. Ids are unique over all files.
func (w *Writer) write(file string, number int, c scenario.Case) error {
	c.Tags = append(c.Tags, w.Tags...)
	if wrong := w.Apply(&c); wrong != nil {
		wrong.File, wrong.Record = file, number
		return wrong
	}
	line, err := scenario.Encode(MergeRetries(c))
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		wrong.File, wrong.Record = file, number
	}
	if err != nil {
		return err
	}
	id := sha256.Sum256([]byte(c.ID))
	if w.seen[[16]byte(id[:16])] {
		return &scenario.Error{Problem: entry.IDConflict, File: file, Record: number, Detail: fmt.Sprintf("case %q already came from an earlier file", c.ID),
			Remedy: "import the files into scenarios of their own"}
	}
	if w.seen == nil {
		w.seen = map[[16]byte]bool{}
	}
	w.seen[[16]byte(id[:16])] = true
	w.count(&c)
	if _, err := w.Out.Write(append(line, '\n')); err != nil {
		return err
	}
	w.written++
	return nil
}
