package server_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/server"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// stream is an open event stream.
type stream struct {
	n        *node
	response *http.Response
	in       *bufio.Scanner
	head     merkle.Head
	note     string
}

func (n *node) events(path, lastEventID string) *stream {
	n.t.Helper()
	request := n.request(http.MethodGet, path, "", nil)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	must(n.t, err)
	n.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != api.MediaEvents {
		n.t.Fatalf("GET %s: %s %s", path, response.Status, response.Header.Get("Content-Type"))
	}
	s := &stream{n: n, response: response, in: bufio.NewScanner(response.Body), head: merkle.EmptyHead()}
	s.in.Buffer(nil, 1<<20)
	return s
}

// fields reads the fields of the next event, or of a block without data; ok is
// false at the end of the stream.
func (s *stream) fields() (fields map[string]string, ok bool) {
	s.n.t.Helper()
	fields = map[string]string{}
	for s.in.Scan() {
		if s.in.Text() == "" {
			return fields, true
		}
		name, content, _ := strings.Cut(s.in.Text(), ":")
		fields[name] = strings.TrimPrefix(content, " ")
	}
	return nil, false
}

// next returns the next entry, proven under a head that the heads before are
// consistent with.
func (s *stream) next() *api.Item {
	s.n.t.Helper()
	for {
		fields, ok := s.fields()
		if !ok {
			s.n.t.Fatalf("the stream ended: %v", s.in.Err())
		}
		switch fields["event"] {
		case api.EventHead:
			s.readHead(fields["data"])
		case api.EventEntry:
			item := new(api.Item)
			must(s.n.t, json.Unmarshal([]byte(fields["data"]), item, json.RejectUnknownMembers(true)))
			receipt, err := item.Receipt(s.note)
			must(s.n.t, err)
			s.n.verify(verify.Material{Receipts: []verify.Receipt{receipt}})
			if id, err := json.Marshal(item.Index); err != nil || string(id) != fields["id"] {
				s.n.t.Fatalf("id %q of entry %d", fields["id"], item.Index)
			}
			return item
		}
	}
}

func (s *stream) readHead(data string) {
	s.n.t.Helper()
	var event api.HeadEvent
	must(s.n.t, json.Unmarshal([]byte(data), &event, json.RejectUnknownMembers(true)))
	head, err := s.n.root().Head([]byte(event.Head))
	must(s.n.t, err)
	if event.Previous != s.head.Size {
		s.n.t.Fatalf("proof from size %d, the head before has %d", event.Previous, s.head.Size)
	}
	must(s.n.t, merkle.CheckConsistency(s.head, head, event.Path))
	s.head, s.note = head, event.Head
}

// A stream from an index sends every entry once, in order, those that come
// later too; it goes on where Last-Event-ID says.
func TestEventsResume(t *testing.T) {
	n := start(t, nil)
	s := n.events("/v1/events?from=1", "")
	for index := uint64(1); index < 3; index++ {
		if got := s.next().Index; got != index {
			t.Fatalf("entry %d, want %d", got, index)
		}
	}
	var batch []*entry.Entry
	for range 600 {
		batch = append(batch, n.good())
	}
	n.register(batch[0])
	if got := s.next().Index; got != 3 {
		t.Fatalf("entry %d, want 3", got)
	}
	n.post(api.MediaNDJSON, batchOf(batch...))
	for index := uint64(4); index < 50; index++ {
		if got := s.next().Index; got != index {
			t.Fatalf("entry %d, want %d", got, index)
		}
	}
	s.response.Body.Close()
	s = n.events("/v1/events?from=1", "49")
	for index := uint64(50); index < n.log.Head().Size; index++ {
		if got := s.next().Index; got != index {
			t.Fatalf("resumed with entry %d, want %d", got, index)
		}
	}
}

// Without a place to begin, a stream sends what is new.
func TestEventsBeginWithNew(t *testing.T) {
	n := start(t, nil)
	s := n.events("/v1/events", "")
	size := n.log.Head().Size
	n.register(n.good())
	if got := s.next().Index; got != size {
		t.Fatalf("entry %d, want %d", got, size)
	}
}

// Silence is broken by comments, so that a dead connection is noticed.
func TestEventsHeartbeat(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Heartbeat = time.Millisecond })
	s := n.events("/v1/events", "")
	for range 3 {
		fields, ok := s.fields()
		if !ok || fields["event"] != "" {
			t.Fatalf("fields %v", fields)
		}
	}
}

// There are as many streams as the limit says, and not one more; a place is free
// when its stream has ended.
func TestEventsAreBounded(t *testing.T) {
	for _, limits := range [][2]int64{{2, 4}, {4, 2}} { // together, of one client
		n := start(t, nil)
		n.again().SetStreams(limits[0], limits[1])
		first, _ := n.events("/v1/events", ""), n.events("/v1/events", "")
		n.problem(n.get("/v1/events"), entry.RateLimited, http.StatusTooManyRequests)
		must(t, first.response.Body.Close())
		for {
			response, err := http.DefaultClient.Do(n.request(http.MethodGet, "/v1/events", "", nil))
			must(t, err)
			must(t, response.Body.Close())
			if response.StatusCode == http.StatusOK {
				break // the server has seen that the first one is gone
			}
		}
	}
}

// An index that the log does not have is refused: a log never shrinks.
func TestEventsBeyondTheLog(t *testing.T) {
	n := start(t, nil)
	request := n.request(http.MethodGet, "/v1/events", "", nil)
	request.Header.Set("Last-Event-ID", "7")
	p := n.problem(n.do(request), entry.NotFound, http.StatusNotFound)
	if p.Field != "Last-Event-ID" {
		t.Fatalf("field %q", p.Field)
	}
	if p = n.problem(n.get("/v1/events?from=7"), entry.NotFound, http.StatusNotFound); p.Field != "from" {
		t.Fatalf("field %q", p.Field)
	}
	request.Header.Set("Last-Event-ID", "seven")
	n.problem(n.do(request), entry.Malformed, http.StatusBadRequest)
}

// A client that does not read is given up: its stream ends although it would
// go on for ever.
func TestEventsSlowReader(t *testing.T) {
	n := start(t, func(c *server.Config) { c.WriteTimeout = 50 * time.Millisecond })
	s := n.events("/v1/events?from=0", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n.metric("arl_event_streams") != "0" {
		if ctx.Err() != nil {
			t.Fatal("the stream is still open")
		}
		var batch []*entry.Entry
		for range 300 {
			batch = append(batch, n.good())
		}
		n.post(api.MediaNDJSON, batchOf(batch...))
	}
	s.response.Body.Close()
}
