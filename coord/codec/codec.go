// Package codec is the form of a snapshot: numbers as unsigned varints in their shortest form, and
// texts and lists after their lengths. One description serves both directions: [Number], [List] and
// similar functions write a value, or read into it. Parts that differ by direction are written with
// Put and read with Get. A snapshot has only one encoding, and a reader refuses every other.
package codec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Codec writes one snapshot, or reads one. The first error stays: after it, every
// number that is read is 0, and every text empty or of any content. It is not safe
// for concurrent use.
type Codec struct {
	w *bufio.Writer // one of w and r is set
	r *bufio.Reader

	malformed error // what a refusal wraps
	err       error // first error of reading; w keeps its own
	buf       []byte
}

// BufferSize is how many bytes are read or written at once.
const BufferSize = 1 << 16

// NewWriter returns the codec that writes to w.
func NewWriter(w io.Writer) *Codec { return &Codec{w: bufio.NewWriterSize(w, BufferSize)} }

// NewReader returns the codec that reads from r. It reads further than the snapshot goes, unless r
// is a [bufio.Reader] of at least [BufferSize]. The error of a refusal wraps malformed.
func NewReader(r io.Reader, malformed error) *Codec {
	return &Codec{r: bufio.NewReaderSize(r, BufferSize), malformed: malformed}
}

// Reading reports whether c reads.
func (c *Codec) Reading() bool { return c.r != nil }

// Err returns the first error: a refusal, or an error of the reader or writer.
func (c *Codec) Err() error { return c.err }

// OK reports whether nothing went wrong so far; a writer may tell its error later.
func (c *Codec) OK() bool { return c.err == nil }

// Close ends the snapshot. A writer writes its buffer. A reader refuses bytes after the end. Close
// returns the first error.
func (c *Codec) Close() error {
	if !c.Reading() {
		if err := c.w.Flush(); err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		return nil
	}
	if _, err := c.r.ReadByte(); err == nil {
		c.Refuse("bytes behind the end")
	} else if !errors.Is(err, io.EOF) {
		c.failed(err)
	}
	return c.err
}

// Refuse notes that the input of c is malformed, unless there was an error before.
func (c *Codec) Refuse(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{c.malformed}, args...)...)
	}
}

func (c *Codec) failed(err error) {
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		c.Refuse("it ends too early")
	case c.err == nil:
		c.err = fmt.Errorf("read snapshot: %w", err)
	}
}

// Magic passes the text that a snapshot begins with.
func (c *Codec) Magic(magic string) {
	if !c.Reading() {
		_, _ = c.w.WriteString(magic)
	} else if string(c.GetRaw(len(magic))) != magic {
		c.Refuse("it does not begin with %q", magic)
	}
}

// Put writes a number.
func (c *Codec) Put(n uint64) { _, _ = c.w.Write(binary.AppendUvarint(c.w.AvailableBuffer(), n)) }

// PutFlag writes a flag.
func (c *Codec) PutFlag(set bool) {
	if set {
		c.Put(1)
		return
	}
	c.Put(0)
}

// PutText writes a text behind its length.
func (c *Codec) PutText(text []byte) {
	c.Put(uint64(len(text)))
	c.PutRaw(text)
}

// PutRaw writes bytes.
func (c *Codec) PutRaw(b []byte) { _, _ = c.w.Write(b) }

// Get reads a number below limit.
func (c *Codec) Get(limit uint64) (n uint64) {
	for shift := 0; ; shift += 7 {
		b, err := c.r.ReadByte()
		if err != nil {
			c.failed(err)
			return 0
		}
		if shift > 0 && b == 0 || shift == 63 && b > 1 {
			c.Refuse("a number that is not in its shortest form")
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	if n >= limit {
		c.Refuse("%d, want less than %d", n, limit)
	}
	if c.err != nil {
		return 0
	}
	return n
}

// GetCount reads the length of a list of at most so many elements.
func (c *Codec) GetCount(most uint64) uint64 { return c.Get(most + 1) }

// GetFlag reads a flag.
func (c *Codec) GetFlag() bool { return c.Get(2) == 1 }

// GetText reads a text of at most limit bytes, as GetRaw does.
func (c *Codec) GetText(limit int) []byte { return c.GetRaw(int(c.Get(uint64(limit) + 1))) }

// GetRaw reads so many bytes; they last until the next call.
func (c *Codec) GetRaw(size int) []byte {
	if cap(c.buf) < size {
		c.buf = make([]byte, size)
	}
	c.buf = c.buf[:size]
	if _, err := io.ReadFull(c.r, c.buf); err != nil {
		c.failed(err)
	}
	return c.buf
}

// Number passes a number below limit.
func Number[T ~int | ~int64 | ~uint32 | ~uint64 | ~uint8](c *Codec, n *T, limit uint64) {
	if c.Reading() {
		*n = T(c.Get(limit))
		return
	}
	c.Put(uint64(*n))
}

// Instant passes Unix milliseconds or a duration.
func (c *Codec) Instant(at *int64) { Number(c, at, math.MaxInt64) }

// Flag passes a flag.
func (c *Codec) Flag(set *bool) {
	if c.Reading() {
		*set = c.GetFlag()
		return
	}
	c.PutFlag(*set)
}

// Raw passes bytes of a known length.
func (c *Codec) Raw(b []byte) {
	if c.Reading() {
		copy(b, c.GetRaw(len(b)))
		return
	}
	c.PutRaw(b)
}

// Text passes a text of at most limit bytes.
func (c *Codec) Text(text *string, limit int) {
	if c.Reading() {
		*text = string(c.GetText(limit))
		return
	}
	c.PutText([]byte(*text))
}

// List passes the at most so many elements of a list, each by a function.
func List[T any](c *Codec, elements *[]T, most uint64, each func(*T)) {
	count := uint64(len(*elements))
	Number(c, &count, most+1)
	for i := range count {
		if c.Reading() {
			var zero T
			*elements = append(*elements, zero)
		}
		each(&(*elements)[i])
		if !c.OK() {
			return
		}
	}
}

// Ascending passes a list of numbers below limit that strictly ascend.
func Ascending[T ~uint32 | ~uint64](c *Codec, numbers *[]T, limit uint64) {
	next := uint64(0)
	List(c, numbers, limit, func(n *T) {
		gap := uint64(*n) - next
		Number(c, &gap, max(limit, next)-next)
		if c.Reading() { // other states may share the value that is written
			*n = T(next + gap)
		}
		next += gap + 1
	})
}

// Optional passes a value that may be absent.
func Optional[T any](c *Codec, to **T, each func(*T)) {
	present := *to != nil
	if c.Flag(&present); !present || !c.OK() {
		return
	}
	if c.Reading() {
		*to = new(T)
	}
	each(*to)
}
