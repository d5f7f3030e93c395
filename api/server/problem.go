package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
)

// failure is a problem for the client. The cause, if any, is for the log alone.
type failure struct {
	*api.Problem
	cause error
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

// asFailure returns the problem that an error is to the client.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if r, ok := errors.AsType[*entry.Refusal](err); ok {
		return &failure{Problem: api.NewProblem(r)}
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return echoFailure(e)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		_, detail, _ := strings.Cut(err.Error(), ledger.ErrNotFound.Error()+": ")
		return &failure{api.NewProblem(entry.Refuse(entry.NotFound, "", "%s", detail).WithRemedy("arl log head, or GET /v1/log, has the size of the log")), err}
	case errors.Is(err, ledger.ErrStopped):
		return &failure{Problem: api.NewProblem(entry.Refuse(entry.NotReady, "", "the server is shutting down"))}
	case errors.Is(err, agreement.ErrNotLeading):
		return &failure{Problem: api.NewProblem(entry.Refuse(entry.NotReady, "", "this node does not order the log, and no node does that it reaches"))}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{Problem: api.NewStatus(http.StatusRequestTimeout, "the request arrived too slowly", "send the request faster, or send less at once")}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &failure{api.NewProblem(entry.Refuse(entry.NotReady, "", "the request ended before its answer")), err}
	}
	return &failure{api.NewStatus(http.StatusInternalServerError, "an error inside the server",
		"look for the request id in the server's log"), err}
}

// echoFailure returns the problem of a request that the router or its middleware refuses.
func echoFailure(e *echo.HTTPError) *failure {
	switch e.Code {
	case http.StatusNotFound:
		return &failure{Problem: api.NewProblem(entry.Refuse(entry.NotFound, "", "no such path").
			WithRemedy("GET /openapi.json lists the paths"))}
	case http.StatusMethodNotAllowed:
		return &failure{Problem: api.NewStatus(e.Code, "the path has no such method", "use a method of the Allow header")}
	}
	return &failure{api.NewStatus(http.StatusInternalServerError, "an error inside the server",
		"look for the request id in the server's log"), e}
}

// occurred completes a problem for its request, counts the problem and logs it.
func (s *Server) occurred(c echo.Context, f *failure) {
	f.SetRequest(requestID(c))
	if f.RetryAfterMS == 0 && f.Temporary() {
		f.RetryAfterMS = 1000
	}
	if f.RetryAfterMS > 0 && !c.Response().Committed {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatInt((f.RetryAfterMS+999)/1000, 10))
	}
	name := cmp.Or(string(f.Name()), strconv.Itoa(f.Status))
	s.metrics.Refused(name)
	s.metrics.Damaged(f.cause)
	level := slog.LevelInfo
	switch {
	case f.Status == http.StatusInternalServerError:
		level = slog.LevelError
	case f.Status > http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	s.sampled(c, sample{message: "refused", name: name, level: level}, func() []slog.Attr {
		attrs := []slog.Attr{slog.String("field", clip(f.Field)), slog.String("detail", clip(f.Detail))}
		if f.cause != nil {
			attrs = append(attrs, slog.String("cause", clip(f.cause.Error())))
		}
		return attrs
	})
}

// answerError is the router's error handler. It answers err, unless an answer has begun or the
// client has left.
func (s *Server) answerError(err error, c echo.Context) {
	if hasLeft(c, err) {
		return
	}
	f := asFailure(err)
	s.occurred(c, f)
	if c.Response().Committed {
		return
	}
	body, err := json.Marshal(f.Problem)
	if err == nil {
		err = s.answer(c, f.Status, api.MediaProblem, body)
	}
	if err != nil {
		s.cfg.Logger.Debug("answer lost", slog.String("error", err.Error()))
	}
}

// answer writes a whole answer.
func (s *Server) answer(c echo.Context, status int, mediaType string, body []byte) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, mediaType)
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(body)
	return err
}
