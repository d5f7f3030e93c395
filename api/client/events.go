package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/verify"
)

// Events yields every entry from an index on, in order, as the ledger registers it, until ctx
// ends. Events replaces a lost connection and continues after the last entry. It yields an
// error last. It does not yield the error of ctx.
func (c *Client) Events(ctx context.Context, from uint64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		s := &eventStream{client: c, next: from, yield: yield}
		for attempt := 1; ; attempt++ {
			before, at := s.next, c.server.Load()
			err := s.run(ctx)
			if s.done || ctx.Err() != nil {
				return
			}
			if s.next > before {
				attempt = 1
			}
			if !s.fatal {
				c.leave(ctx, at, err)
			}
			if s.fatal || attempt >= c.cfg.Attempts || !c.pause(ctx, err, attempt) {
				if ctx.Err() == nil {
					yield(nil, fmt.Errorf("client: follow the log at entry %d: %w", s.next, err))
				}
				return
			}
		}
	}
}

// eventStream follows the log over one connection after the other.
type eventStream struct {
	client *Client
	yield  func(*Entry, error) bool
	next   uint64 // index of the next entry
	head   string // signed head that the entries are under
	done   bool   // the consumer has enough
	fatal  bool   // the ledger gave a false answer
}

// run reads one connection to its end, and returns why it ended.
func (s *eventStream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.client.cfg.Timeout, cancel)
	defer silence.Stop()
	response, err := s.client.send(ctx, call{method: http.MethodGet, path: api.URL(api.PathEvents, &api.EventsQuery{From: &s.next}), answer: api.MediaEvents})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEvent)
	var name, data string
	for !s.done && lines.Scan() {
		silence.Reset(s.client.cfg.Timeout)
		field, text, _ := strings.Cut(lines.Text(), ":")
		switch text = strings.TrimPrefix(text, " "); field {
		case "event":
			name = text
		case "data":
			data = text
		case "": // the end of an event, or a comment
			if err := s.event(ctx, name, data); err != nil {
				s.fatal = ctx.Err() == nil
				return err
			}
			name, data = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (s *eventStream) event(ctx context.Context, name, data string) error {
	switch name {
	case api.EventHead:
		announced := new(api.HeadEvent)
		if err := json.Unmarshal([]byte(data), announced); err != nil {
			return malformed("%v", err)
		}
		s.head = announced.Head
		_, err := s.client.believe(ctx, announced.Head, announced)
		return err
	case api.EventEntry:
		item := new(api.Item)
		if err := json.Unmarshal([]byte(data), item); err != nil {
			return malformed("%v", err)
		}
		if item.Index != s.next {
			return malformed("entry %d in the place of %d", item.Index, s.next)
		}
		receipt, err := item.Receipt(s.head)
		if err != nil {
			return malformed("entry %d: %v", item.Index, err)
		}
		found, err := s.client.entries(ctx, []verify.Receipt{receipt})
		if err != nil {
			return err
		}
		s.next++
		s.done = !s.yield(&found[0], nil)
	}
	return nil // other events are of a later version
}
