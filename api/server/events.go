package server

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// getEvents is GET /v1/events. From an index on, it sends in order every entry that the
// filters let through, for as long as the client stays.
func (s *Server) getEvents(r *request) error {
	q := queryOf[api.EventsQuery](r)
	next, err := s.firstEvent(r, q.From)
	if err != nil {
		return err
	}
	return s.streaming(func(c echo.Context) error {
		s.stream(c, next, newListing(&q.Only))
		return nil
	})(r.c)
}

// streaming bounds the event streams at a time, of all clients and of one. The context of a
// stream's request also ends when the server is about to end, and at once for HEAD.
func (s *Server) streaming(stream echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		client := clientOf(c)
		if !s.streams.Take(client, 1) {
			return s.crowded("event streams", client)
		}
		defer s.streams.Give(client, 1)
		s.metrics.Streams().Inc()
		defer s.metrics.Streams().Dec()
		ctx, cancel := until(c.Request().Context(), s.draining)
		defer cancel()
		if isHead(c.Request()) {
			cancel()
		}
		c.SetRequest(c.Request().WithContext(ctx))
		return stream(c)
	}
}

// crowded refuses a stream beyond the bounds.
func (s *Server) crowded(what, client string) error {
	all, one := s.streams.Bounds()
	return entry.Refuse(entry.RateLimited, "", "%d %s are open, or %d of %s", all, what, one, client)
}

// firstEvent returns the index at which the stream begins. A client that comes back names
// the last entry that it has seen in the header Last-Event-ID: the stream begins after that
// entry. Else the stream begins at the index of the query, or at the next new entry.
func (s *Server) firstEvent(r *request, from *uint64) (uint64, error) {
	size := s.log.Head().Size
	field, next := "from", *cmp.Or(from, &size)
	if last := r.c.Request().Header.Get("Last-Event-ID"); last != "" {
		index, err := api.ParseNumber(last, math.MaxUint64-1)
		if err != nil {
			return 0, entry.Refuse(entry.Malformed, "Last-Event-ID", "%.40q is not an index", last)
		}
		field, next = "Last-Event-ID", index+1
	}
	if next > size {
		return 0, entry.Refuse(entry.NotFound, field, "the log has size %d, and no entry at %d", size, next).
			WithRemedy("a log never shrinks: compare it with the last accepted tree head")
	}
	return next, nil
}

// stream writes events until the client leaves, does not read, or the server ends. It drops
// errors of writing, since no client is left to read them.
func (s *Server) stream(c echo.Context, next uint64, q *listing) {
	ctx := c.Request().Context()
	c.Response().Header().Set(echo.HeaderContentType, api.MediaEvents)
	w := &eventWriter{response: c.Response(), control: http.NewResponseController(c.Response()), timeout: s.cfg.WriteTimeout}
	if w.begin() != nil || ctx.Err() != nil {
		return
	}
	heard := time.Now()
	f := &feed{eventWriter: w, query: q, next: next}
	for {
		head := s.log.Head()
		if head.Size > f.next {
			sent, err := s.sendNews(ctx, f, &head)
			if err != nil {
				return
			}
			if f.next = head.Size; sent {
				heard = time.Now()
			}
		}
		silence, stop := context.WithTimeout(ctx, time.Until(heard.Add(s.cfg.Heartbeat)))
		err := s.log.Wait(silence, f.next+1)
		stop()
		if ctx.Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if time.Since(heard) >= s.cfg.Heartbeat { // the filters may hold back new entries
			w.buf = append(w.buf, ":\n\n"...)
			if w.flush() != nil {
				return
			}
			heard = time.Now()
		}
	}
}

// until returns a context that also ends when a channel is closed.
func until(ctx context.Context, end <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// feed is an event stream under way.
type feed struct {
	*eventWriter
	query    *listing
	next     uint64 // index after the last entry looked at
	previous uint64 // size of the head announced last
}

// sendNews writes the entries from next to the head, under that head. If the filters let no
// entry through, sendNews reports false and does not announce the head.
func (s *Server) sendNews(ctx context.Context, f *feed, head *ledger.Head) (sent bool, err error) {
	if len(f.query.tags) == 0 {
		if err := s.announce(f, head); err != nil {
			return false, err
		}
		return true, s.sendEntries(ctx, f, head.Head)
	}
	for index, err := range s.candidates(f.query, f.next, head.Size) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return sent, err
		}
		logged, err := s.log.Entry(index)
		if err != nil {
			return sent, err
		}
		if !f.query.matches(logged.Entry, index) {
			continue
		}
		if !sent {
			if err := s.announce(f, head); err != nil {
				return sent, err
			}
			sent = true
		}
		if err := s.sendEntry(f, logged, head.Head); err != nil {
			return sent, err
		}
		if len(f.buf) > maxPooled {
			if err := f.flush(); err != nil {
				return sent, err
			}
		}
	}
	if !sent {
		return false, nil
	}
	return true, f.flush()
}

// announce writes a tree head.
func (s *Server) announce(f *feed, head *ledger.Head) error {
	path, err := s.log.Consistency(f.previous, head.Size)
	if err != nil {
		return err
	}
	announced := &api.HeadEvent{Head: head.Note, Previous: f.previous, Path: path}
	f.previous = head.Size
	return f.event(api.EventHead, "", announced)
}

// sendEntries writes the entries from next to the head, in blocks, so that the
// store holds nothing for a client that reads slowly.
func (s *Server) sendEntries(ctx context.Context, f *feed, head merkle.Head) error {
	for next := f.next; next < head.Size; next += streamBlock {
		for logged, err := range s.log.Entries(ctx, next, min(next+streamBlock, head.Size)) {
			if err != nil {
				return err
			}
			if err := s.sendEntry(f, logged, head); err != nil {
				return err
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) sendEntry(f *feed, logged *entry.Registered, head merkle.Head) error {
	item, err := s.item(logged, head)
	if err != nil {
		return err
	}
	return f.event(api.EventEntry, strconv.FormatUint(item.Index, 10), item)
}

// eventWriter writes server-sent events, a block at a time.
type eventWriter struct {
	response *echo.Response
	control  *http.ResponseController
	timeout  time.Duration
	buf      []byte
}

// begin lifts the time limit of the request, and tells the client how soon to come back.
func (w *eventWriter) begin() error {
	if err := w.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	w.buf = append(w.buf, "retry: 1000\n\n"...)
	return w.flush()
}

func (w *eventWriter) event(name, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	w.buf = append(append(append(w.buf, "event: "...), name...), '\n')
	if id != "" {
		w.buf = append(append(append(w.buf, "id: "...), id...), '\n')
	}
	w.buf = append(append(append(w.buf, "data: "...), body...), "\n\n"...)
	return nil
}

// flush sends the buffer. It fails if the client takes longer than the time limit to read.
func (w *eventWriter) flush() error {
	if err := w.control.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	_, err := w.response.Write(w.buf)
	w.buf = w.buf[:0]
	if err != nil {
		return err
	}
	return w.control.Flush()
}
