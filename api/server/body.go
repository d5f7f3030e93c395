package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// readsBody turns every error of a request's body into a problem of the client, on every
// route. Only the client can send the rest of the body.
func readsBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := c.Request(); r.Body != nil && r.Body != http.NoBody {
			r.Body = &arriving{r.Body}
		}
		return next(c)
	}
}

// arriving is the body of a request under way.
type arriving struct{ io.ReadCloser }

// Read implements [io.Reader]. Its errors are io.EOF, a time limit
// ([os.ErrDeadlineExceeded]), or malformed.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == nil || err == io.EOF { // readers return io.EOF bare
		return n, err
	}
	return n, brokenBody(err)
}

// brokenBody returns the problem of a body that cannot be read.
func brokenBody(err error) error {
	broken := func(detail, remedy string) error {
		return &failure{api.NewProblem(entry.Refuse(entry.Malformed, "", "%s", detail).WithRemedy(remedy)), err}
	}
	const whole = "send the whole body: as many bytes as Content-Length says, or every chunk and the last one of 0 bytes"
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, http.ErrBodyReadAfterClose):
		return err // the body is too slow, or the handler made a mistake
	case errors.Is(err, io.ErrUnexpectedEOF):
		return broken("the body ends too early", whole)
	case network, errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return broken("the connection broke before the end of the body", whole) // err names addresses
	}
	return broken("the body cannot be read: "+strconv.QuoteToASCII(err.Error()), whole)
}

// readBody reads the whole body into buf. More than limit bytes are too-large.
func readBody(r *http.Request, buf []byte, limit int) ([]byte, error) {
	tooLarge := entry.Refuse(entry.TooLarge, "", "the body has more than %d bytes", limit)
	if r.ContentLength > int64(limit) {
		return buf, tooLarge
	}
	if want := int(r.ContentLength) + 1; cap(buf) < want { // one byte more, to read the end
		buf = make([]byte, 0, want)
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return buf, tooLarge
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}
