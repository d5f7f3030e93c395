package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"recoveryledger/ledger/entry"
)

// outcome is how a call ended: with an answer, or with the error that says why there is none.
type outcome struct {
	response *jsonrpc.Response
	err      error
	seen     int // results that the session had given when the call came
}

// conclude notes how a call ended, and answers the client.
func (s *session) conclude(ctx context.Context, id jsonrpc.ID, k *call, c *calling, o outcome) {
	progress, found := entry.Failed, values(nil)
	var got *result
	err := o.err
	if err == nil {
		got, err = readResponse(o.response)
	}
	refused, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case errors.Is(err, errNotReached), isRefused && !refused.begun(), got != nil && got.isError && c.tool.Errors == errorsNoEffect:
		progress = entry.Cancelled
	case err == nil && !got.isError:
		progress = entry.Confirmed
		found = s.p.keep(k, got.value)
	default:
		switch s.p.effectTaken(context.WithoutCancel(ctx), k) {
		case probedDone:
			progress = entry.Confirmed
		case probedNot:
			progress = entry.Cancelled
		}
	}
	failed := s.p.finish(k, progress, found)
	if failed == nil {
		failed = s.p.sync(k)
	}
	if failed != nil {
		s.p.cfg.Tell("%s: %v", k.Exec, failed)
		err, got, isRefused = failed, nil, false
	}
	s.mu.Lock()
	s.results = append(s.results, given{exec: k.Exec, tool: k.Tool, seen: o.seen, soft: c.tool.Informational})
	s.mu.Unlock()
	switch {
	case got != nil:
		s.answer(ctx, id, got.of(k.Exec))
	case isRefused:
		s.reply(ctx, &jsonrpc.Response{ID: id, Error: o.response.Error})
	default:
		s.answer(ctx, id, lostResult(k, progress, err))
	}
}

// readResponse returns the result in an answer to tools/call. The error may be a [*RefusedError].
func readResponse(response *jsonrpc.Response) (*result, error) {
	if response.Error != nil {
		return nil, refusedBy(response.Error)
	}
	return readResult(jsontext.Value(response.Result))
}

// keep returns the values that the compensation of a call needs, with those of the result; nil if
// the result adds none.
func (p *Proxy) keep(k *call, value jsontext.Value) values {
	if k.Undo == nil {
		return nil
	}
	found := values{}
	if err := found.take(k.Undo.Arguments, "result", value); err != nil {
		p.cfg.Tell("%s (%s): its compensation cannot be made: %v", k.Exec, k.Tool, err)
	}
	if len(found) == 0 {
		return nil
	}
	p.mu.Lock()
	before, err := p.journal.values(&k.record)
	p.mu.Unlock()
	if err != nil {
		p.cfg.Tell("%s (%s): its compensation cannot be made: %v", k.Exec, k.Tool, err)
		return nil
	}
	maps.Copy(found, before)
	if found.size() > maxValues {
		p.cfg.Tell("%s (%s): its compensation cannot be made: what is to be kept has %d bytes, the limit is %d", k.Exec, k.Tool, found.size(), maxValues)
		return nil
	}
	return found
}

// text returns the texts of a result, for people, in one line and cut.
func (r *result) text() string {
	var parts struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(r.value, &parts) // an answer without texts has nothing to say
	var b strings.Builder
	for _, p := range parts.Content {
		b.WriteString(p.Text + " ")
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.ToValidUTF8(text[:min(len(text), 300)], "")
}

// of returns the result with the execution in its _meta.
func (r *result) of(exec entry.Ref) jsontext.Value {
	members, meta := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if json.Unmarshal(r.value, &members) != nil || members["_meta"] != nil && json.Unmarshal(members["_meta"], &meta) != nil {
		return r.value
	}
	name, err := json.Marshal(exec)
	if err != nil {
		return r.value
	}
	meta[metaExec] = name
	if members["_meta"], err = json.Marshal(meta, json.Deterministic(true)); err != nil {
		return r.value
	}
	value, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return r.value
	}
	return value
}

// toolError makes a result that is an error.
func toolError(text string, meta map[string]any) jsontext.Value {
	value, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": true, "_meta": meta}, json.Deterministic(true))
	if err != nil {
		return jsontext.Value(`{"content":[],"isError":true}`) // a text that is not UTF-8
	}
	return value
}

// lostResult is the result of a call whose answer is lost.
func lostResult(k *call, progress entry.Progress, err error) jsontext.Value {
	text := fmt.Sprintf("%s gave no result: %v. ", k.Tool, err)
	switch progress {
	case entry.Confirmed:
		text += "Its probe says that the call had its effect."
	case entry.Cancelled:
		text += "The call had no effect."
	default:
		text += "The call may have had its effect: look before you call it again."
		if k.Effect == entry.EffectNone {
			text = strings.TrimSuffix(text, "The call may have had its effect: look before you call it again.") + "The tool only reads: call it again."
		}
	}
	return toolError(text, map[string]any{metaExec: k.Exec})
}

// metaRefused marks, in the _meta of a result, a call that did not reach the tool.
const metaRefused = "agent-recovery/not-called"

// refuse answers a call that does not reach the tool.
func (s *session) refuse(ctx context.Context, id jsonrpc.ID, tool string, err error) {
	s.p.cfg.Tell("%s was not called: %v", tool, err)
	s.answer(ctx, id, toolError(fmt.Sprintf("%s was not called: %v", tool, err), map[string]any{metaRefused: reason(err)}))
}

// reason is a refusal in a word for programs.
func reason(err error) string {
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return string(refusal.Problem)
	}
	if _, fenced := errors.AsType[*FenceError](err); fenced {
		return string(entry.FencedDependency)
	}
	return "not-prepared"
}

// FenceError reports a call that an incident holds. It did not reach the tool.
type FenceError struct {
	Incident uint64
	WaitsFor string   // empty: the incident is over
	Undone   []string // what the session had read and what holds no more
	Cause    *entry.Refusal
}

// Error implements error.
func (e *FenceError) Error() string {
	switch {
	case e.WaitsFor != "":
		return fmt.Sprintf("incident %d holds what this session has read, and waits for %s: do not use those results, and call again later", e.Incident, e.WaitsFor)
	case len(e.Undone) > 0:
		return fmt.Sprintf("incident %d rolled back %s: these results hold no more. Do again what is still to be done; calls from now on do not rest on them",
			e.Incident, strings.Join(e.Undone, ", "))
	}
	return e.Cause.Error()
}

// Unwrap returns the ledger's refusal.
func (e *FenceError) Unwrap() error { return e.Cause }

// explain makes of a refusal by a fence what the client is told. Once the incident is over, the
// members of its plan are taken from what later calls of the session rest on: the client has been
// told, and may go on.
func (s *session) explain(refusal *entry.Refusal) error {
	if refusal.Problem != entry.FencedDependency || refusal.Incident == 0 {
		return refusal
	}
	fenced := &FenceError{Incident: refusal.Incident, WaitsFor: refusal.WaitsFor, Cause: refusal}
	if refusal.WaitsFor != "" {
		return fenced
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.p.cfg.Patience)
	defer cancel()
	plan, err := s.p.cfg.Ledger.Plan(ctx, refusal.Incident)
	if err != nil {
		return errors.Join(fenced, err)
	}
	fenced.Undone = s.forget(plan)
	return fenced
}
