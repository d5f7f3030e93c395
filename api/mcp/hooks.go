package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
)

// Hooks returns what undoes calls: Drain waits for the end of a call, Compensate makes the call
// that undoes another one, and Probe asks the probe of that call's tool. A compensation runs again
// with the same key where its tool is idempotent.
func (p *Proxy) Hooks() agent.Hooks {
	return agent.Hooks{Drain: p.drain, Compensate: p.compensate, Probe: p.probe, Repeatable: p.repeatable}
}

// member returns the call that a hook is about; nil if nothing is known of it.
func (p *Proxy) member(c *agent.Call) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[c.Members[0].Exec]
}

// drain waits until a call has ended, and the log knows how. A call that the journal does not have
// has ended: its end is in the log, or it did not reach the tool.
func (p *Proxy) drain(ctx context.Context, c *agent.Call) (*agent.Report, error) {
	k := p.member(c)
	if k == nil {
		return &agent.Report{Status: agent.Done}, nil
	}
	if k.session == nil {
		if err := p.settle(ctx, k); err != nil {
			return nil, err
		}
	}
	select {
	case <-k.ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(k.Outbox) == 0 && k.Progress != entry.Cancelled { // the log has the end
		return &agent.Report{Status: agent.Done}, nil
	}
	return &agent.Report{Status: agent.Done, Progress: k.Progress}, nil
}

// compensate makes the call that undoes another one.
func (p *Proxy) compensate(ctx context.Context, c *agent.Call) (*agent.Report, error) {
	k := p.member(c)
	if k == nil || k.Undo == nil {
		return &agent.Report{Status: agent.Failed, Residual: "the state of the proxy does not have the call"}, nil
	}
	arguments, report := p.undoing(k, c.Key)
	if report != nil {
		return report, nil
	}
	in, err := p.place(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", agent.ErrNotBegun, err)
	}
	tool := p.cfg.Tools.of(k.Undo.Tool)
	if tool.Key != "" {
		arguments[tool.Key] = c.Key
	}
	limited, cancel := context.WithTimeout(ctx, p.cfg.Limit)
	defer cancel()
	got, err := callTool(limited, in, k.Undo.Tool, arguments, c.Key)
	refused, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused && !refused.begun():
		p.cfg.Tell("%s: its compensation: %v", k.Exec, err)
		return &agent.Report{Status: agent.Failed, Residual: "the server refuses the compensation " + k.Undo.Tool}, nil
	case err != nil:
		return nil, fmt.Errorf("the compensation %s: %w", k.Undo.Tool, err)
	case !got.isError:
		return &agent.Report{Status: agent.Done}, nil
	}
	p.cfg.Tell("%s: its compensation %s answered with an error: %s", k.Exec, k.Undo.Tool, got.text())
	status := agent.Failed
	switch {
	case tool.Errors == errorsNoEffect:
		status = agent.NoEffect
	case tool.Probe != nil:
		status = agent.Unknown // the runtime asks the probe
	}
	return &agent.Report{Status: status, Residual: "the compensation " + k.Undo.Tool + " answered with an error"}, nil
}

// undoing returns the arguments of a compensation, or the report that there are none.
func (p *Proxy) undoing(k *call, key string) (map[string]any, *agent.Report) {
	p.mu.Lock()
	vs, err := p.journal.values(&k.record)
	p.mu.Unlock()
	var filled any
	if err == nil {
		filled, err = vs.with(key).fill(k.Undo.Arguments)
	}
	if err != nil {
		p.cfg.Tell("%s: its compensation cannot be made: %v", k.Exec, err)
		missing, is := errors.AsType[*MissingError](err)
		if !is {
			return nil, &agent.Report{Status: agent.Failed, Residual: "the compensation " + k.Undo.Tool + " cannot be made: what was kept for it cannot be read"}
		}
		return nil, &agent.Report{Status: agent.Failed, Residual: "the compensation " + k.Undo.Tool + " cannot be made: " + missing.Error()}
	}
	arguments := map[string]any{}
	maps.Copy(arguments, filled.(map[string]any)) //nolint:forcetypeassert // fill keeps the kind
	return arguments, nil
}

// place returns the session of the server in which a call is undone: that in which the call was
// made, if it goes on and answers, otherwise the proxy's own.
func (p *Proxy) place(ctx context.Context, k *call) (asker, error) {
	if s := k.session; s != nil {
		s.mu.Lock()
		gone := s.gone || s.mute
		s.mu.Unlock()
		if !gone {
			return s, nil
		}
	}
	return p.connect(ctx)
}

// probe finds out how the call of another hook ended.
func (p *Proxy) probe(ctx context.Context, c *agent.Call) (*agent.Report, error) {
	if c.Of == agent.Drain {
		return p.drain(ctx, c)
	}
	k := p.member(c)
	if k == nil || k.Undo == nil {
		return &agent.Report{Status: agent.Unknown}, nil
	}
	in, err := p.place(ctx, k) // with it come the hints of the server
	if err != nil {
		return nil, fmt.Errorf("%w: %w", agent.ErrNotBegun, err)
	}
	probe := p.cfg.Tools.of(k.Undo.Tool).Probe
	if probe == nil {
		return &agent.Report{Status: agent.Unknown}, nil
	}
	answer := agent.NoEffect
	for _, key := range c.Keys {
		arguments, report := p.undoing(k, key)
		if report != nil {
			return &agent.Report{Status: agent.Unknown}, nil
		}
		text, err := json.Marshal(arguments, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		vs := values{}
		if err := takeAll(vs, "arguments", text, probe.Arguments, probe.Done); err != nil {
			p.cfg.Tell("%s: the probe of its compensation: %v", k.Exec, err)
			return &agent.Report{Status: agent.Unknown}, nil
		}
		switch p.askProbe(ctx, in, probe, vs.with(key)) {
		case probedDone:
			return &agent.Report{Status: agent.Done}, nil
		case probedUnknown:
			answer = agent.Unknown
		}
	}
	return &agent.Report{Status: answer}, nil
}

// repeatable reports whether a hook may run again with the same call.
func (p *Proxy) repeatable(c *agent.Call) bool {
	if c.Hook == agent.Drain {
		return true
	}
	k := p.member(c)
	return c.Hook == agent.Compensate && k != nil && k.Undo != nil && p.cfg.Tools.idempotent(k.Undo.Tool, p.hintsOf(k.Undo.Tool))
}

// probed is what a probe says of a call.
type probed int

const (
	probedUnknown probed = iota
	probedDone           // the call had its effect
	probedNot            // the call had no effect
)

// effectTaken asks the probe of a call's tool whether the call had its effect.
func (p *Proxy) effectTaken(ctx context.Context, k *call) probed {
	if k.Probe == nil {
		return probedUnknown
	}
	in, err := p.place(ctx, k)
	if err != nil {
		p.cfg.Tell("%s (%s): its probe: %v", k.Exec, k.Tool, err)
		return probedUnknown
	}
	return p.askProbe(ctx, in, k.Probe, k.Asked.with(p.key(k.Exec)))
}

// askProbe makes the call of a probe.
func (p *Proxy) askProbe(ctx context.Context, in asker, probe *ToolProbe, vs values) probed {
	got, err := p.read(ctx, in, &probe.Call, vs)
	if err != nil {
		p.cfg.Tell("probe: %v", err)
		return probedUnknown
	}
	switch done := probe.Done.(type) {
	case string:
		if (done == doneError) == got.isError {
			return probedDone
		}
		return probedNot
	case map[string]any:
		if !got.isError {
			return matches(done, got.value, vs)
		}
	}
	return probedUnknown
}

// matches reports whether an answer has the values that a probe wants.
func matches(done map[string]any, answer jsontext.Value, vs values) probed {
	for pointer, want := range done {
		found, ok := lookUp(answer, pointer)
		if !ok {
			return probedNot
		}
		filled, err := vs.fill(want)
		if err != nil {
			return probedUnknown
		}
		wanted, err := json.Marshal(filled, json.Deterministic(true))
		if err != nil {
			return probedUnknown
		}
		if canonical(wanted) != canonical(found) {
			return probedNot
		}
	}
	return probedDone
}

// canonical returns JSON in its one form, to compare.
func canonical(v jsontext.Value) string {
	v = v.Clone()
	if v.Canonicalize() != nil {
		return string(v)
	}
	return string(v)
}
