package mcp

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/ledger/entry"
)

// The members of _meta that the proxy adds: to a call, the idempotency key; to a result, the
// execution.
const (
	metaKey  = "agent-recovery/idempotency-key"
	metaExec = "agent-recovery/execution"
)

// result is the result of a call of a tool.
type result struct {
	value   jsontext.Value // a CallToolResult
	isError bool
}

// readResult reads a CallToolResult. A value that is none is an error.
func readResult(value jsontext.Value) (*result, error) {
	var r struct {
		IsError bool             `json:"isError"`
		Content []jsontext.Value `json:"content"`
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("mcp: the answer is no result of a tool: %w", err)
	}
	return &result{value, r.IsError}, nil
}

// RefusedError reports a call that the server answered with an error of the protocol, such as an
// unknown tool or arguments that do not fit.
type RefusedError struct {
	Code    int64
	Message string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server refuses the call: %s (%d)", e.Message, e.Code)
}

// begun reports whether the tool may have been reached all the same.
func (e *RefusedError) begun() bool {
	return e.Code != jsonrpc.CodeMethodNotFound && e.Code != jsonrpc.CodeInvalidParams && e.Code != jsonrpc.CodeInvalidRequest && e.Code != jsonrpc.CodeParseError
}

// refusedBy returns the error of an answer, or nil.
func refusedBy(err error) error {
	if err == nil {
		return nil
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &RefusedError{wire.Code, wire.Message}
	}
	return err
}

// asker is a session of the server that the proxy can ask itself.
type asker interface {
	// ask makes a request, and returns its result. It waits while ctx lasts. The error may be a
	// [*RefusedError].
	ask(ctx context.Context, method string, params any) (jsontext.Value, error)
}

// callTool calls a tool.
func callTool(ctx context.Context, in asker, name string, arguments map[string]any, key string) (*result, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	params := map[string]any{"name": name, "arguments": arguments}
	if key != "" {
		params["_meta"] = map[string]string{metaKey: key}
	}
	value, err := in.ask(ctx, "tools/call", params)
	if err != nil {
		return nil, err
	}
	return readResult(value)
}

// list asks for the annotations of all tools.
func list(ctx context.Context, in asker) (map[string]*hints, error) {
	found := map[string]*hints{}
	cursor := ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		value, err := in.ask(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name        string `json:"name"`
				Annotations *hints `json:"annotations"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(value, &page); err != nil {
			return nil, fmt.Errorf("mcp: the answer is no list of tools: %w", err)
		}
		for _, tool := range page.Tools {
			found[tool.Name] = tool.Annotations
		}
		if len(found) > maxDeclared {
			return nil, fmt.Errorf("mcp: the server lists more than %d tools", maxDeclared)
		}
		if cursor = page.NextCursor; cursor == "" {
			return found, nil
		}
	}
	return nil, fmt.Errorf("mcp: the server's list of tools has more than %d pages", maxPages)
}

// learnTools waits until the tools of the server are known, where they are not known or have
// changed. One call asks for them, and no call waits longer than for its own end. A server that
// does not list its tools is asked again after a while, so that not each call waits for it.
func (s *session) learnTools(ctx context.Context) {
	s.mu.Lock()
	if !s.listed && time.Now().After(s.again) {
		s.listed, s.listing = true, make(chan struct{})
		go s.list(context.WithoutCancel(ctx), s.listing) // ends with the server, or after the limit
	}
	listing := s.listing
	s.mu.Unlock()
	if listing == nil {
		return
	}
	select {
	case <-listing:
	case <-ctx.Done():
	}
}

// list asks for the tools of the server.
func (s *session) list(ctx context.Context, done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(ctx, s.p.cfg.Ask)
	defer cancel()
	found, err := list(ctx, s)
	if err != nil {
		s.mu.Lock()
		s.listed, s.again = false, time.Now().Add(listPause)
		s.mu.Unlock()
		s.tell("lists of tools", "the list of tools: %v; a tool that nothing is known of counts as undeclared", err)
	}
	s.p.learn(found)
}

// learn takes up what the server claims of its tools. What it claimed before counts, too: a server
// cannot make a tool harmless later.
func (p *Proxy) learn(found map[string]*hints) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var reads []string
	for name, h := range found {
		before, known := p.listed[name]
		switch {
		case !known:
			p.listed[name] = h
			if p.cfg.Tools.trusts() && h.effect() == entry.EffectNone && p.cfg.Tools.of(name).Effect == "" && len(p.cfg.Tools.of(name).Compensation) == 0 {
				reads = append(reads, name)
			}
			if h.contradict() {
				p.cfg.Tell("tool %s: the server says that it only reads, and that it is destructive: it counts as irrevocable", name)
			}
		case before.effect() != h.effect():
			p.listed[name] = before.stricter(h)
			p.cfg.Tell("tool %s: the server said %s before, and says %s now: it counts as %s", name, before.effect(), h.effect(), p.listed[name].effect())
		}
	}
	if slices.Sort(reads); len(reads) > 0 {
		p.cfg.Tell("tools that only read, by the word of the server alone: %s; what such a tool changes all the same is not rolled back: declare it in the tools file", listed(reads))
	}
}

// listed returns the first names, and how many more there are.
func listed(names []string) string {
	if len(names) <= toldMax {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:toldMax], ", "), len(names)-toldMax)
}

// hintsOf returns what the server claims of a tool; nil: nothing.
func (p *Proxy) hintsOf(name string) *hints {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed[name]
}

// client is a session of the server that the proxy has for itself.
type client struct{ *sdk.ClientSession }

// connect returns the proxy's own session of the server. One caller opens the session, and others
// wait for it no longer than their ctx lasts.
func (p *Proxy) connect(ctx context.Context) (*client, error) {
	select {
	case p.opening <- struct{}{}:
		defer func() { <-p.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("mcp: the server is not connected: %w", ctx.Err())
	}
	p.mu.Lock()
	spare := p.spare
	p.mu.Unlock()
	if spare != nil {
		ctx, cancel := context.WithTimeout(ctx, p.cfg.Ask)
		defer cancel()
		if spare.Ping(ctx, nil) == nil {
			return spare, nil
		}
		_ = spare.Close() // it answers no more
	}
	opening, cancel := context.WithTimeout(ctx, p.cfg.Ask)
	defer cancel()
	opened, err := sdk.NewClient(&sdk.Implementation{Name: "arl", Version: "1"}, nil).Connect(opening, p.cfg.Connect(), nil)
	if err != nil {
		return nil, fmt.Errorf("mcp: connect to the server: %w", err)
	}
	own := &client{opened}
	p.mu.Lock()
	p.spare = own
	p.mu.Unlock()
	found, err := list(opening, own)
	if err != nil {
		p.cfg.Tell("the list of tools: %v; a tool that nothing is known of counts as undeclared", err)
	}
	p.learn(found)
	return own, nil
}

// ask implements [asker].
func (c *client) ask(ctx context.Context, method string, params any) (jsontext.Value, error) {
	var got any
	var err error
	text, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	switch method { // the types of the SDK are made for encoding/json
	case "tools/call":
		call := new(sdk.CallToolParams)
		if err = stdjson.Unmarshal(text, call); err == nil {
			got, err = c.CallTool(ctx, call)
		}
	default:
		listing := new(sdk.ListToolsParams)
		if err = stdjson.Unmarshal(text, listing); err == nil {
			got, err = c.ListTools(ctx, listing)
		}
	}
	if err != nil {
		return nil, refusedBy(err)
	}
	return stdjson.Marshal(got)
}
