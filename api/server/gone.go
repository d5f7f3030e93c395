package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
)

// statusGone is the status, in metrics and in the log, of a request whose client went away
// before the answer began. No client sees the status.
const statusGone = 499

// watched is the writer of an answer. It remembers that the client has left. On every route an
// error of a write, except a mistake of the handler, means that the client has left.
type watched struct {
	http.ResponseWriter
	lost error // the first such error; nil: the client is there
}

// Write implements [io.Writer].
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err != nil && w.lost == nil && !ownMistake(err) {
		w.lost = err
	}
	return n, err
}

// Unwrap lets [http.ResponseController] find the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ownMistake reports whether an error of a write is a mistake of the handler: the header of
// the answer does not allow the write.
func ownMistake(err error) bool {
	return errors.Is(err, http.ErrContentLength) || errors.Is(err, http.ErrBodyNotAllowed) || errors.Is(err, http.ErrHijacked)
}

// watchedOf returns the writer of the request's answer.
func watchedOf(c echo.Context) *watched {
	for w := c.Response().Writer; w != nil; {
		if found, ok := w.(*watched); ok {
			return found
		}
		around, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = around.Unwrap()
	}
	return nil
}

// hasLeft reports whether an error says only that the client has gone away. Then a write to
// the client failed, or the request was cancelled, which only the client does. Such an error
// is no refusal, and no fault of the server.
func hasLeft(c echo.Context, err error) bool {
	w := watchedOf(c)
	if w == nil {
		return false
	}
	cancelled := errors.Is(err, context.Canceled) && errors.Is(c.Request().Context().Err(), context.Canceled)
	if w.lost == nil && (cancelled || errors.Is(err, http.ErrAbortHandler)) {
		w.lost = err
	}
	return w.lost != nil && (cancelled || errors.Is(err, w.lost))
}

// countGone counts a request whose client has gone away, if it has. The line in the log
// is at the level that shows all requests, because clients can leave as often as they
// like. The end of an event stream is no such case: a client ends it by leaving.
func (s *Server) countGone(c echo.Context, w *watched) {
	if w.lost == nil || c.Path() == api.PathEvents {
		return
	}
	s.metrics.Gone()
	if !c.Response().Committed {
		c.Response().Status = statusGone
	}
	s.cfg.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "client gone", slog.String("request", c.Request().Header.Get(api.HeaderRequestID)),
		slog.String("client", c.RealIP()), slog.String("path", c.Request().URL.Path), slog.String("cause", w.lost.Error()))
}
