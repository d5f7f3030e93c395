package pieces

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// readMax is how many bytes are read from a file at once, or a quarter of what was read of the
// value if that is more: a broken record makes a caller read not much more again. A decoder moves
// all that it has of a value before each read, so that small reads of a large value are slow.
const readMax = 64 << 10

// ErrTooLarge is the error of a [Guard], returned through the decoder, and of a value that is read
// whole and over the limit.
var ErrTooLarge = errors.New("record over the limit")

// Guard reads a file. It refuses to read more than Limit bytes beyond the beginning of a value, so
// that one endless value cannot fill the memory.
type Guard struct {
	Reader io.Reader
	Limit  int
	// Err is the error of the reader, if it is not io.EOF: the decoder reports it as one of the
	// syntax.
	Err error

	base, read int64  // the beginning of the value, and what was read
	newlines   int    // in what was read
	again      []byte // read, given back, and to be read again
}

// Begin says that a value begins where the bytes do that the decoder has not decoded.
func (g *Guard) Begin(unread []byte) { g.base = g.read - int64(len(unread)) }

// LinesBefore is the number of newlines before the bytes that the decoder has not decoded.
func (g *Guard) LinesBefore(unread []byte) int { return g.newlines - bytes.Count(unread, []byte("\n")) }

// Read implements [io.Reader].
func (g *Guard) Read(p []byte) (int, error) {
	left := g.base + int64(g.Limit) + 1 - g.read
	if left <= 0 {
		return 0, ErrTooLarge
	}
	p = p[:min(int64(len(p)), left, max(readMax, (g.read-g.base)/4))]
	if len(g.again) > 0 {
		n := copy(p, g.again)
		if g.again = g.again[n:]; len(g.again) == 0 {
			g.again = nil // the bytes may be the buffer of a decoder that held a whole value
		}
		g.count(p[:n])
		return n, nil
	}
	n, err := g.Reader.Read(p)
	g.count(p[:n])
	if err != nil && err != io.EOF { // an error that only wraps it is not the end
		g.Err = err
	}
	return n, err
}

// count counts bytes that were read.
func (g *Guard) count(p []byte) {
	g.read += int64(len(p))
	g.newlines += bytes.Count(p, []byte("\n"))
}

// Unread gives back the bytes that were read last, and keeps them.
func (g *Guard) Unread(p []byte) {
	g.read, g.newlines = g.read-int64(len(p)), g.LinesBefore(p)
	if len(p) == 0 {
		return
	}
	if len(g.again) > 0 {
		p = slices.Concat(p, g.again)
	}
	g.again = p
}

// ToObject reads to the next line that begins with an object, or to the end of the file.
func (g *Guard) ToObject() error {
	part := make([]byte, readMax)
	for ended := false; ; { // after a byte that ended a line
		n, err := g.Read(part)
		for i, b := range part[:n] {
			if ended && b == '{' {
				g.Unread(part[i:n])
				return nil
			}
			ended = b == '\n'
		}
		if g.Err == nil && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
