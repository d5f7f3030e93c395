package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/entry"
)

// session is a client at the proxy, with a session of the server of its own.
type session struct {
	p              *Proxy
	wid            entry.WorkflowID
	client, server sdk.Connection
	slots          chan struct{}          // one for each call that may be under way
	passing        chan struct{}          // one for each request that is on its way to a server over HTTP
	refusals       chan *jsonrpc.Response // to requests of the server

	mu       sync.Mutex                            // guards all below
	asked    map[jsonrpc.ID]bool                   // requests of the client that the server has not answered, but for calls
	own      map[jsonrpc.ID]chan *jsonrpc.Response // requests of the proxy
	under    map[jsonrpc.ID]*flight                // calls under way
	requests map[jsonrpc.ID]bool                   // requests of the server that the client has not answered; MaxRequests at most
	told     map[string]int                        // faults of the server, by kind
	number   int                                   // of the newest call
	gone     bool                                  // the server answers no more
	mute     bool                                  // the server did not answer the proxy in time, and has answered nothing since
	closed   bool                                  // no further call is taken up
	listed   bool                                  // the tools of the server are known, or asked for
	listing  chan struct{}                         // closed when the list that was asked for is there, or never will be; nil: none was
	again    time.Time                             // before it the server is not asked for a list
	// results are the calls whose results the client was given, in this order. A call rests on all
	// results that were given before it came, thus on the newest of them that no other one of them
	// rests on.
	results []given
}

// given is a call whose result the client was given.
type given struct {
	exec   entry.Ref
	tool   string
	seen   int  // number of results that were given before the call came
	soft   bool // calls after it do not rest on it
	undone bool // a rollback is about it: nothing rests on it any more
}

// flight is a call under way.
type flight struct {
	answer    chan *jsonrpc.Response // of the server; one at most
	cancelled context.CancelFunc     // the client wants no answer any more
	reached   bool                   // the server was asked. Guarded by the session's lock
}

// errServerGone reports a server that answers no more.
var errServerGone = errors.New("mcp: the server has ended")

// Serve stands between a client and a new session of the server until one of them ends, or ctx. The
// error is nil if the client left, or ctx ended. Calls under way then go on for [Config.Ask], and
// for a few seconds once ctx has ended.
func (p *Proxy) Serve(ctx context.Context, client sdk.Connection) error {
	server, err := p.cfg.Connect().Connect(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("mcp: connect to the server: %w", err), client.Close())
	}
	s := &session{p: p, wid: entry.WorkflowID("mcp-" + p.cfg.NewID()), client: client, server: server, slots: make(chan struct{}, maxInFlight), passing: make(chan struct{}, MaxRequests),
		refusals: make(chan *jsonrpc.Response, MaxRequests), asked: map[jsonrpc.ID]bool{}, own: map[jsonrpc.ID]chan *jsonrpc.Response{}, under: map[jsonrpc.ID]*flight{}, requests: map[jsonrpc.ID]bool{},
		told: map[string]int{}}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	calls := new(sync.WaitGroup)
	pumps := new(sync.WaitGroup)
	ended := make(chan error, 2)
	pumps.Go(func() { ended <- s.fromClient(running, calls) })
	pumps.Go(func() { ended <- s.fromServer(running) })
	pumps.Go(func() { s.sendRefusals(running) })
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	late := time.AfterFunc(min(p.cfg.Ask, p.cfg.Limit), s.closing) // a client that asks no more may still read
	hurried := context.AfterFunc(ctx, func() { late.Reset(min(cancelGrace, p.cfg.Limit)) })
	calls.Wait()
	hurried()
	late.Stop()
	s.closing()
	stop()
	err = errors.Join(err, client.Close())
	if closeErr := server.Close(); closeErr != nil {
		p.cfg.Tell("the end of the server: %v", closeErr)
	}
	pumps.Wait()
	return err
}

// closing has calls under way end soon, and takes no more.
func (s *session) closing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, f := range s.under {
		f.cancelled()
	}
}

// tell tells of a fault of the server, a few times for each kind.
func (s *session) tell(kind, format string, args ...any) {
	s.mu.Lock()
	s.told[kind]++
	n := s.told[kind]
	s.mu.Unlock()
	if n <= toldMax {
		s.p.cfg.Tell(format, args...)
	}
	if n == toldMax {
		s.p.cfg.Tell("%s: further ones are not told of", kind)
	}
}

// fromClient hands on what the client sends. It returns nil when the client has left.
func (s *session) fromClient(ctx context.Context, calls *sync.WaitGroup) error {
	for {
		message, err := s.client.Read(ctx)
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil //nolint:nilerr // the session is over, whatever is read
		case err != nil:
			return fmt.Errorf("mcp: read from the client: %w", err)
		}
		request, is := message.(*jsonrpc.Request)
		if is && request.IsCall() {
			if !s.take(ctx, request, calls) {
				continue
			}
		} else if is && request.Method == "notifications/cancelled" {
			if !s.cancel(request) {
				continue
			}
		} else if response, is := message.(*jsonrpc.Response); is {
			s.mu.Lock()
			waited := s.requests[response.ID]
			delete(s.requests, response.ID)
			s.mu.Unlock()
			if !waited {
				continue // nobody asked
			}
		}
		if _, remote := s.server.(*remoteConnection); !remote || !is || !request.IsCall() || request.Method == "initialize" {
			s.pass(ctx, message)
			continue
		}
		select { // each request is one of HTTP, which lasts until the server begins to answer
		case s.passing <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		go func() { // ends with the session
			defer func() { <-s.passing }()
			s.pass(ctx, message)
		}()
	}
}

// pass hands a message of the client to the server.
func (s *session) pass(ctx context.Context, message jsonrpc.Message) {
	if err := s.server.Write(ctx, message); err != nil && ctx.Err() == nil {
		s.unsent(ctx, message, err)
	}
}

// unsent answers a request that did not reach the server. That a server is gone is noticed where it
// is read.
func (s *session) unsent(ctx context.Context, message jsonrpc.Message, err error) {
	request, is := message.(*jsonrpc.Request)
	if !is || !request.IsCall() {
		s.tell("messages that did not reach the server", "a message of the client did not reach the server: %v", err)
		return
	}
	s.mu.Lock()
	delete(s.asked, request.ID)
	s.mu.Unlock()
	s.answerError(ctx, request.ID, jsonrpc.CodeInternalError, fmt.Sprintf("%s did not reach the server: %v", request.Method, err))
}

// take takes up a request of the client, and reports whether it is to be handed on as it is.
func (s *session) take(ctx context.Context, request *jsonrpc.Request, calls *sync.WaitGroup) bool {
	s.mu.Lock()
	if _, twice := s.under[request.ID]; twice || s.asked[request.ID] {
		s.mu.Unlock()
		s.answerError(ctx, request.ID, jsonrpc.CodeInvalidRequest, "the id is that of a request which is not answered yet")
		return false
	}
	if request.Method != "tools/call" {
		s.asked[request.ID] = true
		s.mu.Unlock()
		return true
	}
	s.mu.Unlock()
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	calling, cancelled := context.WithCancel(ctx)
	f := &flight{answer: make(chan *jsonrpc.Response, 1), cancelled: cancelled}
	s.mu.Lock()
	s.under[request.ID] = f
	seen := len(s.results)
	if s.closed {
		cancelled()
	}
	s.mu.Unlock()
	calls.Go(func() {
		defer func() { <-s.slots }()
		defer cancelled()
		s.call(ctx, calling, request, f, seen)
	})
	return false
}

// cancel takes up that the client wants no answer any more, and reports whether the server is to
// know.
func (s *session) cancel(notice *jsonrpc.Request) bool {
	var params struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(notice.Params, &params) != nil {
		return true
	}
	id, err := jsonrpc.MakeID(params.RequestID)
	if err != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.under[id]
	if f == nil {
		return true
	}
	f.cancelled()
	return f.reached
}

// fromServer hands on what the server sends. The error is [errServerGone], or nil if ctx has ended.
func (s *session) fromServer(ctx context.Context) error {
	defer s.serverGone()
	for {
		message, err := s.server.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return errServerGone
		case err != nil:
			return fmt.Errorf("%w: %w", errServerGone, err)
		}
		switch message := message.(type) {
		case *jsonrpc.Response:
			if !s.answered(message) {
				continue
			}
		case *jsonrpc.Request:
			if message.IsCall() && !s.admit(message) {
				continue
			}
			if message.Method == "notifications/tools/list_changed" {
				s.mu.Lock()
				s.listed = false
				s.mu.Unlock()
			}
		}
		if err := s.client.Write(ctx, message); err != nil && ctx.Err() == nil {
			s.undelivered(message, err)
		}
	}
}

// answered takes up an answer of the server, and reports whether it is to be handed on as it is.
func (s *session) answered(response *jsonrpc.Response) bool {
	s.mu.Lock()
	own, f, asked := s.own[response.ID], s.under[response.ID], s.asked[response.ID]
	s.mute = false
	delete(s.own, response.ID)
	delete(s.asked, response.ID)
	s.mu.Unlock()
	switch {
	case own != nil:
		own <- response
	case f != nil:
		select {
		case f.answer <- response:
		default:
			s.tell("second answers", "the server answered request %v twice: the first answer counts", response.ID.Raw())
		}
	case asked:
		return true
	default:
		s.tell("answers without a question", "the server answered request %v, which waits for no answer: the answer is dropped", response.ID.Raw())
	}
	return false
}

// admit takes up a request of the server, and reports whether the client is to have the request.
func (s *session) admit(request *jsonrpc.Request) bool {
	s.mu.Lock()
	free := len(s.requests) < MaxRequests || s.requests[request.ID]
	if free {
		s.requests[request.ID] = true
	}
	s.mu.Unlock()
	if !free {
		s.tell("requests above the limit", "%d requests of the server wait for the client: %s is refused", MaxRequests, request.Method)
		s.refusal(request.ID, CodeTooMany, fmt.Sprintf("%d requests wait for the client: ask again after an answer", MaxRequests))
	}
	return free
}

// refusal has a request of the server refused. The session never waits for a server that sends and
// does not read: such a server misses refusals.
func (s *session) refusal(id jsonrpc.ID, code int64, text string) {
	select {
	case s.refusals <- &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: text}}:
	default:
		s.tell("refusals that the server does not read", "the server reads no answers: the refusal of request %v is dropped", id.Raw())
	}
}

// sendRefusals sends refusals to the server until ctx ends.
func (s *session) sendRefusals(ctx context.Context) {
	for {
		select {
		case refusal := <-s.refusals:
			_ = s.server.Write(ctx, refusal) // a server that is gone is noticed when it is read
		case <-ctx.Done():
			return
		}
	}
}

// undelivered says so where a client cannot be reached, which over HTTP may be for the moment.
func (s *session) undelivered(message jsonrpc.Message, err error) {
	s.tell("messages that did not reach the client", "a message of the server did not reach the client: %v", err)
	if request, is := message.(*jsonrpc.Request); is && request.IsCall() {
		s.mu.Lock()
		delete(s.requests, request.ID)
		s.mu.Unlock()
		s.refusal(request.ID, jsonrpc.CodeInternalError, "the client cannot be reached")
	}
}

// serverGone ends all that waits for the server. Only what reads from the server may call it.
func (s *session) serverGone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	for _, waiting := range s.own {
		close(waiting)
	}
	clear(s.own)
	for _, f := range s.under {
		close(f.answer)
	}
}

// ask implements [asker] within the session.
func (s *session) ask(ctx context.Context, method string, params any) (jsontext.Value, error) {
	text, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	id, err := jsonrpc.MakeID("arl-" + s.p.cfg.NewID())
	if err != nil {
		return nil, err
	}
	waiting := make(chan *jsonrpc.Response, 1)
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil, errServerGone
	}
	s.own[id] = waiting
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.own, id)
		s.mu.Unlock()
	}()
	if err := s.server.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: text}); err != nil {
		return nil, err
	}
	select {
	case response := <-waiting:
		switch {
		case response == nil:
			return nil, errServerGone
		case response.Error != nil:
			return nil, refusedBy(response.Error)
		}
		return jsontext.Value(response.Result), nil
	case <-ctx.Done():
		s.mu.Lock()
		s.mute = true
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

// answer answers a request of the client.
func (s *session) answer(ctx context.Context, id jsonrpc.ID, value jsontext.Value) {
	s.reply(ctx, &jsonrpc.Response{ID: id, Result: []byte(value)})
}

// answerError answers a request of the client with an error of the protocol.
func (s *session) answerError(ctx context.Context, id jsonrpc.ID, code int64, text string) {
	s.reply(ctx, &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: text}})
}

func (s *session) reply(ctx context.Context, response *jsonrpc.Response) {
	if err := s.client.Write(ctx, response); err != nil && ctx.Err() == nil {
		s.tell("messages that did not reach the client", "an answer did not reach the client: %v", err)
	}
}

// parents returns what a call rests on: of the first seen results, the newest that no other of them
// rests on. Results that a rollback is about are left out. Of those that are for information alone
// the newest are named, as many as there is room for.
func (s *session) parents(seen int) []entry.Parent {
	s.mu.Lock()
	defer s.mu.Unlock()
	floor := 0
	for _, r := range s.results[:seen] {
		if !r.undone && !r.soft {
			floor = max(floor, r.seen)
		}
	}
	parents := []entry.Parent{}
	for _, dep := range []entry.Dep{entry.Hard, entry.Soft} {
		for _, r := range slices.Backward(s.results[floor:seen]) {
			if !r.undone && r.soft == (dep == entry.Soft) && len(parents) < entry.MaxParents {
				parents = append(parents, entry.Parent{Exec: r.exec, Dep: dep})
			}
		}
	}
	return parents
}

// forget takes the members of an incident from what later calls rest on, and returns them with
// their tools.
func (s *session) forget(members []entry.Member) (undone []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	about := map[entry.Ref]bool{}
	for i := range members {
		about[members[i].Exec] = true
	}
	for i := range s.results {
		if r := &s.results[i]; about[r.exec] && !r.undone {
			r.undone = true
			undone = append(undone, fmt.Sprintf("%s (%s)", r.tool, r.exec))
		}
	}
	return undone
}
