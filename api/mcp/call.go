package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"recoveryledger/ledger/entry"
)

// calling is what a call needs on its way.
type calling struct {
	name      string
	params    map[string]jsontext.Value // as the client sent them
	arguments jsontext.Value            // an object
	tool      *Tool
	key       string
}

// call takes one call of a tool from the client to the server, and its result back. ctx is the
// session's, wanted ends when the client cancels the call.
func (s *session) call(ctx, wanted context.Context, request *jsonrpc.Request, f *flight, seen int) {
	defer func() {
		s.mu.Lock()
		delete(s.under, request.ID)
		s.mu.Unlock()
	}()
	c, err := s.readCall(request)
	if err != nil {
		s.answerError(ctx, request.ID, jsonrpc.CodeInvalidParams, err.Error())
		return
	}
	k, err := s.prepare(wanted, c, seen)
	if err == nil {
		err = s.dispatch(wanted, k)
	}
	if err != nil {
		s.refuse(ctx, request.ID, c.name, err)
		return
	}
	response, err := s.reach(ctx, wanted, request, c, f)
	s.conclude(ctx, request.ID, k, c, outcome{response, err, seen})
}

// readCall reads the parameters of tools/call.
func (s *session) readCall(request *jsonrpc.Request) (*calling, error) {
	c := &calling{arguments: jsontext.Value("{}")}
	if err := json.Unmarshal(request.Params, &c.params); err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	if err := json.Unmarshal(c.params["name"], &c.name); err != nil || c.name == "" {
		return nil, errors.New("params.name: want the name of a tool")
	}
	if given := c.params["arguments"]; given != nil && given.Kind() != 'n' {
		c.arguments = given
	}
	if c.arguments.Kind() != '{' {
		return nil, errors.New("params.arguments: want an object")
	}
	c.tool = s.p.cfg.Tools.of(c.name)
	return c, nil
}

// prepare makes the record of a call, with all that a compensation needs and that is known before
// the tool is reached. An error says that the tool is not called.
func (s *session) prepare(ctx context.Context, c *calling, seen int) (*call, error) {
	s.learnTools(ctx)
	s.mu.Lock()
	s.number++
	number := s.number
	s.mu.Unlock()
	_, session, _ := strings.Cut(string(s.wid), "-")
	local := fmt.Sprintf("%s/%s/%d", plain(c.name), session, number)
	k := &call{session: s, ended: make(chan struct{}), record: record{
		Exec: entry.NewRef(s.p.cfg.Agent, local), Wid: s.wid, Tool: c.name, Effect: s.p.cfg.Tools.effect(c.name, s.p.hintsOf(c.name)), Parents: s.parents(seen)}}
	c.key = s.p.key(k.Exec)
	if c.tool.Probe != nil {
		k.Probe, k.Asked = c.tool.Probe, values{}
		if err := takeAll(k.Asked, "arguments", c.arguments, c.tool.Probe.Arguments, c.tool.Probe.Done); err != nil {
			return nil, fmt.Errorf("its probe cannot be asked afterwards: %w", err)
		}
	}
	if len(c.tool.Compensation) == 0 {
		return k, nil
	}
	undo, before, err := s.before(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("it could not be undone: %w", err)
	}
	k.Undo, k.Values = &undo.Call, values{}
	if err := takeAll(k.Values, "arguments", c.arguments, undo.Arguments); err != nil {
		return nil, fmt.Errorf("it could not be undone: %w", err)
	}
	if err := takeAll(k.Values, "before", before, undo.Arguments); err != nil {
		return nil, fmt.Errorf("it could not be undone: before the call, %w", err)
	}
	if k.Values.size() > maxValues {
		return nil, fmt.Errorf("it could not be undone: what is to be kept has %d bytes, the limit is %d", k.Values.size(), maxValues)
	}
	return k, nil
}

// takeAll is [values.take] for several values with templates.
func takeAll(vs values, root string, from jsontext.Value, templates ...any) error {
	for _, t := range templates {
		if err := vs.take(t, root, from); err != nil {
			return err
		}
	}
	return nil
}

// before makes the call before a call, and chooses the compensation.
func (s *session) before(ctx context.Context, c *calling) (*Compensation, jsontext.Value, error) {
	if c.tool.Before == nil {
		return &c.tool.Compensation[0], nil, nil
	}
	vs := values{}
	if err := vs.take(c.tool.Before.Arguments, "arguments", c.arguments); err != nil {
		return nil, nil, err
	}
	got, err := s.p.read(ctx, s, c.tool.Before, vs)
	if err != nil {
		return nil, nil, err
	}
	for i := range c.tool.Compensation {
		undo := &c.tool.Compensation[i]
		if undo.When == "" || (undo.When == whenFailed) == got.isError {
			return undo, got.value, nil
		}
	}
	return nil, nil, fmt.Errorf("%s answered with an error before the call, and no compensation is for that: %s", c.tool.Before.Tool, got.text())
}

// read makes a call of a tool that must have no effect.
func (p *Proxy) read(ctx context.Context, in asker, c *Call, vs values) (*result, error) {
	if effect := p.cfg.Tools.effect(c.Tool, p.hintsOf(c.Tool)); effect != entry.EffectNone {
		return nil, fmt.Errorf("%s is to be asked only for information, and its effect is %s: declare its effect as none, if it has none", c.Tool, effect)
	}
	filled, err := vs.fill(c.Arguments)
	if err != nil {
		return nil, err
	}
	arguments, _ := filled.(map[string]any)
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Ask)
	defer cancel()
	got, err := callTool(ctx, in, c.Tool, arguments, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Tool, err)
	}
	return got, nil
}

// dispatch keeps a call in the journal, and has the ledger register that it starts. A nil error is
// the permission to reach the tool.
func (s *session) dispatch(ctx context.Context, k *call) error {
	p := s.p
	e, err := p.sign(p.body(&k.record, entry.Started))
	if err != nil {
		return err
	}
	p.mu.Lock()
	k.Outbox = []jsontext.Value{e.AppendEnvelope(nil)}
	if err = p.makeRoom(); err == nil {
		err = p.journal.begin(&k.record)
	}
	if err == nil {
		p.calls[k.Exec] = k
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	synced := make(chan error, 1)
	go func() { synced <- p.sync(k) }() // while the ledger registers the entry
	err = p.submit(ctx, k, e)
	if failed := <-synced; failed != nil {
		return failed
	}
	refusal, refused := errors.AsType[*entry.Refusal](err)
	switch {
	case err == nil:
		p.mu.Lock()
		k.Outbox = nil
		p.mu.Unlock()
		return nil
	case refused && !temporary(refusal): // the log has nothing of the call, and never will
		err = s.explain(refusal)
		p.mu.Lock()
		defer p.mu.Unlock()
		k.Progress, k.Outbox = entry.Cancelled, nil
		close(k.ended)
		delete(p.calls, k.Exec)
		return errors.Join(err, p.journal.write(&record{Exec: k.Exec, Progress: entry.Cancelled}))
	}
	return errors.Join(fmt.Errorf("the call cannot be logged: %w", err), p.finish(k, entry.Cancelled, nil))
}

// submit has the ledger register the start of a call, for as long as the proxy's patience lasts.
func (p *Proxy) submit(ctx context.Context, k *call, e *entry.Entry) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Patience, fmt.Errorf("the ledger has not answered within %v", p.cfg.Patience))
	defer cancel()
	pause := sendFirst
	for {
		_, err := p.cfg.Ledger.Submit(ctx, e)
		refusal, refused := errors.AsType[*entry.Refusal](err)
		switch {
		case err == nil || refused && !temporary(refusal) && refusal.Problem != entry.Stale:
			return err
		case refused && refusal.Problem == entry.Stale: // the clock of this machine is behind, or the answer took long
			if e, err = p.sign(e.Body); err != nil {
				return err
			}
			p.mu.Lock()
			k.Outbox = []jsontext.Value{e.AppendEnvelope(nil)}
			failed := p.journal.write(&record{Exec: k.Exec, Outbox: k.Outbox})
			p.mu.Unlock()
			if failed != nil {
				return failed
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return fmt.Errorf("%w: %w", cause, err)
			}
			return fmt.Errorf("the call was cancelled, or its session has ended: %w", err)
		}
		pause = min(2*pause, sendMost)
	}
}

// reach hands a call to the server, and waits for the answer. The error says why there is none.
func (s *session) reach(ctx, wanted context.Context, request *jsonrpc.Request, c *calling, f *flight) (*jsonrpc.Response, error) {
	params, err := c.withKey()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	gone := s.gone
	f.reached = !gone
	s.mu.Unlock()
	if gone || wanted.Err() != nil {
		return nil, errNotReached
	}
	written := make(chan error, 1)
	go func() { // the server may not read, or not answer the request of HTTP: this ends with the session
		written <- s.server.Write(ctx, &jsonrpc.Request{ID: request.ID, Method: request.Method, Params: []byte(params)})
	}()
	limit := time.NewTimer(s.p.cfg.Limit)
	defer limit.Stop()
	done := wanted.Done()
	for {
		select {
		case response := <-f.answer:
			if response == nil {
				return nil, errServerGone
			}
			return response, nil
		case err := <-written:
			if err != nil {
				return nil, fmt.Errorf("write to the server: %w", err)
			}
			written = nil
		case <-done:
			done = nil
			limit.Reset(min(cancelGrace, s.p.cfg.Limit))
		case <-limit.C:
			if wanted.Err() != nil {
				return nil, errors.New("the client cancelled the call")
			}
			go s.abandon(ctx, request.ID)
			return nil, fmt.Errorf("no answer within %v", s.p.cfg.Limit)
		}
	}
}

// errNotReached reports a tool that was certainly not reached.
var errNotReached = errors.New("the tool was not reached")

// abandon tells the server that nobody waits for an answer any more.
func (s *session) abandon(ctx context.Context, id jsonrpc.ID) {
	ctx, cancel := context.WithTimeout(ctx, cancelGrace)
	defer cancel()
	params, err := json.Marshal(map[string]any{"requestId": id.Raw(), "reason": "no answer in time"})
	if err == nil {
		err = s.server.Write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
	if err != nil {
		s.tell("messages that did not reach the server", "a cancellation did not reach the server: %v", err)
	}
}

// withKey returns the parameters with the idempotency key.
func (c *calling) withKey() (jsontext.Value, error) {
	meta := map[string]jsontext.Value{}
	if given := c.params["_meta"]; given != nil && json.Unmarshal(given, &meta) != nil {
		return nil, errors.New("params._meta: want an object")
	}
	key, err := json.Marshal(c.key)
	if err != nil {
		return nil, err
	}
	meta[metaKey] = key
	if c.params["_meta"], err = json.Marshal(meta, json.Deterministic(true)); err != nil {
		return nil, err
	}
	if c.tool.Key != "" {
		var arguments map[string]jsontext.Value
		if err := json.Unmarshal(c.arguments, &arguments); err != nil {
			return nil, err
		}
		arguments[c.tool.Key] = key
		if c.params["arguments"], err = json.Marshal(arguments, json.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(c.params, json.Deterministic(true))
}

// plain makes the beginning of an id of the name of a tool.
func plain(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
			return c
		}
		return '_'
	}, name)
	return name[:min(len(name), nameMax)]
}
