package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore"

	"recoveryledger/coord/recovery/scenario/firsts"
	"recoveryledger/ledger/entry"
)

// Pipeline takes the cases of a scenario through a function, several at a time,
// and gives the results in the order of the scenario. One goroutine reads,
// several work, the caller's takes the results. Its memory hardly grows with
// the scenario: by two bytes for each id, see [firsts.Lines].
type Pipeline[T any] struct {
	// Workers is how many cases are at work at a time; less than 1 counts as 1.
	Workers int
	// OneByOne has a worker take one line at a time, as is right where the function
	// waits for others; else a worker takes a few.
	OneByOne bool
	// Check refuses the case of a line; nil: every case is taken.
	Check func(c *Case) *Error
	// Do makes the result of a case. An error ends the sequence.
	Do func(ctx context.Context, c *Case) (T, error)

	room  *semaphore.Weighted
	work  chan *job[T]
	order chan *job[T]
	end   error // the error that ended the reading, other than the end of the file; set before order is closed

	// owner is the line that has the id of a line that could not be decoded: the next decodable
	// line with that id; 0 until there is one.
	owner map[int]int

	texts sync.Pool // of *[]byte, for jobs
}

// Item is the result of one line.
type Item[T any] struct {
	Line  int // of the scenario, from 1
	Value T
	done  bool // Value counts
}

// job is a few lines.
type job[T any] struct {
	file  string
	lines []jobLine
	text  []byte        // of all lines
	done  []Item[T]     // one for each line, once ready is closed
	err   error         // of the first line that is not done; it ends the run
	ready chan struct{} // closed by the worker
}

type jobLine struct {
	number     int
	start, end int
	wrong      *Error
	// first is the earlier line with the same id, 0 without one. Whether that
	// line claims the id is known when the line is delivered.
	first int
}

// The sizes of a job: small enough to spread few cases over all workers, large
// enough that handing it over costs nothing.
const (
	jobLines = 16
	jobBytes = 256 << 10
)

// inFlightMax bounds the text of the cases that are at work, in bytes. One line
// of the largest size fits.
const inFlightMax = 2 * CaseBytesMax

// Run yields results or errors. An [*Error] about a line that cannot be used does not end the
// sequence; every other error does. A caller can range over the sequence once. When the caller
// stops, the work in progress ends.
func (s *Pipeline[T]) Run(ctx context.Context, name string, r io.Reader) iter.Seq2[*Item[T], error] {
	return func(yield func(*Item[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		workers := max(1, s.Workers)
		s.room = semaphore.NewWeighted(inFlightMax)
		s.owner = map[int]int{}
		s.work, s.order = make(chan *job[T], workers), make(chan *job[T], 2*workers)
		var group sync.WaitGroup
		group.Go(func() { s.read(ctx, newLineReader(name, r)) })
		for range workers {
			group.Go(func() { s.labour(ctx) })
		}
		more := s.deliver(ctx, yield)
		cancel()
		for range s.order { // results that no caller waits for any more
		}
		group.Wait()
		if more && s.end != nil {
			yield(nil, s.end)
		}
	}
}

// read cuts the scenario into jobs, and finds mistakes of the file as a whole.
func (s *Pipeline[T]) read(ctx context.Context, lines *lineReader) {
	defer close(s.order)
	defer close(s.work)
	var seen firsts.Lines
	defer seen.Close() //nolint:errcheck // a temporary file
	var end error
	for end == nil {
		j := &job[T]{file: lines.file, text: s.text(), ready: make(chan struct{})}
		end = j.fill(lines, s.most(), &seen)
		if err := s.pass(ctx, j); err != nil {
			end = err
		}
	}
	switch {
	case !errors.Is(end, io.EOF):
		s.end = end
	case lines.number == 1:
		s.end = &Error{Problem: entry.Malformed, File: lines.file, Detail: "holds no case",
			Remedy: "pass the right file, and check that the file is complete"}
	}
}

// text returns room for the lines of a job, from a job that was delivered.
func (s *Pipeline[T]) text() []byte {
	if text, ok := s.texts.Get().(*[]byte); ok {
		return (*text)[:0]
	}
	return nil
}

// most is how many lines a worker takes at a time.
func (s *Pipeline[T]) most() int {
	if s.OneByOne {
		return 1
	}
	return jobLines
}

// pass gives a job to the workers, and to the goroutine that delivers in order.
func (s *Pipeline[T]) pass(ctx context.Context, j *job[T]) error {
	if len(j.lines) == 0 {
		return nil
	}
	if err := s.room.Acquire(ctx, int64(len(j.text))); err != nil {
		return err
	}
	for _, to := range []chan *job[T]{s.work, s.order} {
		select {
		case to <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fill takes lines until the job is large enough or the scenario ends.
func (j *job[T]) fill(lines *lineReader, most int, seen *firsts.Lines) error {
	for len(j.lines) < most && len(j.text) < jobBytes {
		start := len(j.text)
		text, wrong, err := lines.next(j.text)
		if err != nil {
			return err
		}
		j.text = text
		l := jobLine{number: lines.number, start: start, end: len(text), wrong: wrong}
		if id := idOf(text[start:]); wrong == nil && id != "" {
			first, err := seen.First(id, int32(lines.number))
			if err != nil {
				return err
			}
			l.first = int(first)
		}
		j.lines = append(j.lines, l)
	}
	return nil
}

// claim does a line whose id an earlier one has, unless that claims it: a line
// that cannot be decoded claims none. Lines come here in order.
func (s *Pipeline[T]) claim(ctx context.Context, j *job[T], i int) error {
	l := &j.lines[i]
	owner, free := s.owner[l.first]
	if !free {
		owner = l.first
	}
	if owner != 0 {
		l.wrong = &Error{Problem: entry.IDConflict, File: j.file, Line: l.number, Field: "/id", Remedy: "give each case its own id",
			Detail: fmt.Sprintf("line %[2]d has the id %[1]q already", idOf(j.text[l.start:l.end]), owner)}
		return nil
	}
	err := s.one(ctx, j, i)
	if l.wrong == nil {
		s.owner[l.first] = l.number
	}
	return err
}

// labour works off jobs.
func (s *Pipeline[T]) labour(ctx context.Context) {
	for j := range s.work {
		j.done = make([]Item[T], len(j.lines))
		for i := range j.lines {
			if j.lines[i].first > 0 {
				continue // the owner of the id is known once all earlier lines are delivered
			}
			if j.err = s.one(ctx, j, i); j.err != nil {
				break
			}
		}
		close(j.ready)
	}
}

// one does the case on one line of a job.
func (s *Pipeline[T]) one(ctx context.Context, j *job[T], i int) error {
	l, result := &j.lines[i], &j.done[i]
	result.Line = l.number
	if l.wrong != nil {
		return nil //nolint:nilerr // it is yielded with its line
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, wrong := decode(j.text[l.start:l.end])
	if wrong == nil && s.Check != nil {
		wrong = s.Check(&c)
	}
	if wrong != nil {
		wrong.File, wrong.Line, l.wrong = j.file, l.number, wrong
		return nil //nolint:nilerr // likewise
	}
	var err error
	result.Value, err = s.Do(ctx, &c)
	result.done = err == nil
	return err
}

// deliver yields the results in order and reports whether the scenario came to
// its end.
func (s *Pipeline[T]) deliver(ctx context.Context, yield func(*Item[T], error) bool) bool {
	for j := range s.order {
		<-j.ready
		for i := range j.done {
			l, more := &j.lines[i], false
			err := j.err
			if l.first > 0 {
				err = s.claim(ctx, j, i)
			}
			switch {
			case l.wrong != nil:
				if l.first == 0 {
					s.owner[l.number] = 0
				}
				more = yield(nil, l.wrong)
			case j.done[i].done:
				more = yield(&j.done[i], nil)
			default:
				yield(nil, err)
			}
			if !more {
				return false
			}
		}
		s.room.Release(int64(len(j.text)))
		s.texts.Put(&j.text)
	}
	return true
}
