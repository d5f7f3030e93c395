package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// chatRequest is a chat completion in the form of OpenAI, by its members: those that
// the engine does not know are sent as they stand in the input.
type chatRequest map[string]jsontext.Value

// chatMessage is what the engine looks at in a message.
type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chatTool is what the engine looks at in a tool that a request offers or that an
// answer calls.
type chatTool struct {
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatChoice is what the engine looks at in an answer.
type chatChoice struct {
	FinishReason string `json:"finish_reason"`
	Message      struct {
		Content   string     `json:"content"`
		Refusal   string     `json:"refusal"`
		ToolCalls []chatTool `json:"tool_calls"`
	} `json:"message"`
}

// callModel asks a model. An error is that the run itself is to end, or that
// the model cannot be asked as it is configured.
func (l *Runtime) callModel(ctx context.Context, p *plan, q scenario.Request) (answer, error) {
	m := p.model
	request, err := newChatRequest(p.input)
	if err != nil {
		a := failure("invalid_request", "input_invalid", err.Error())
		a.effects = entry.EffectsNone
		return a, nil
	}
	request.set("model", cmp.Or(m.Model, m.name))
	p.ask.apply(request, q.Step.Expect)
	header := http.Header{"Content-Type": {"application/json"}}
	if m.KeyEnv != "" {
		key, ok := l.config.LookupEnv(m.KeyEnv)
		if !ok {
			return answer{}, fmt.Errorf("live: model %s: the environment has no %s", m.name, m.KeyEnv)
		}
		header.Set("Authorization", "Bearer "+key)
	}
	if q.Key != "" {
		header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", q.Key, q.Attempt))
	}
	if err := m.places.enter(ctx); err != nil {
		return answer{}, err
	}
	defer m.places.leave()
	limit, budget := timeLimit(m.TimeoutMS, q.TimeLeftMS)
	limited, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	text, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		return answer{}, fmt.Errorf("live: request to model %s: %w", m.name, err)
	}
	req, err := http.NewRequestWithContext(limited, http.MethodPost, strings.TrimRight(m.BaseURL, "/")+"/chat/completions", bytes.NewReader(text))
	if err != nil {
		return answer{}, fmt.Errorf("live: model %s: %w", m.name, err)
	}
	req.Header = header
	body, _, refused := l.exchange(req)
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case refused != nil && errors.Is(context.Cause(limited), errDeadline):
		return named(timedOut(budget), m), nil
	case refused != nil:
		return named(*refused, m), nil
	}
	return named(l.completed(m, body, request, q.Step.Expect), m), nil
}

func named(a answer, m *liveModel) answer {
	a.model = m.name
	return a
}

// newChatRequest reads the input of a model step: a text, or the members of a chat
// completion.
func newChatRequest(input jsontext.Value) (chatRequest, error) {
	request := chatRequest{}
	switch input.Kind() {
	case '"':
		request.set("messages", []chatMessage{{"user", scenario.ContentText(input)}})
	case '{':
		if err := json.Unmarshal(input, &request); err != nil {
			return nil, err
		}
	}
	if len(request.messages()) == 0 {
		return nil, errors.New("the input of a step without a tool is a text, or an object with messages")
	}
	return request, nil
}

// messages are the messages of the request; none where the member is no list.
func (r chatRequest) messages() (all []jsontext.Value) {
	if json.Unmarshal(r["messages"], &all) != nil {
		return nil
	}
	return all
}

// set gives the request a member that can be encoded.
func (r chatRequest) set(member string, value any) {
	text, err := json.Marshal(value, json.Deterministic(true))
	if err == nil {
		r[member] = text
	}
}

// completed reads a completion. Usage that cannot be read is not known.
func (l *Runtime) completed(m *liveModel, body []byte, request chatRequest, expect *scenario.Expect) answer {
	var c struct {
		Choices []chatChoice   `json:"choices"`
		Usage   jsontext.Value `json:"usage"`
	}
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 {
		a := failure("malformed_output", "truncated_json", "")
		a.evidence = entry.DigestOf(body)
		return a
	}
	a := chosen(&c.Choices[0], request, expect)
	var usage *struct {
		In  int64 `json:"prompt_tokens"`
		Out int64 `json:"completion_tokens"`
	}
	if json.Unmarshal(c.Usage, &usage) == nil && usage != nil && usage.In >= 0 && usage.Out >= 0 {
		a.tokensIn, a.tokensOut = &usage.In, &usage.Out
		if price, ok := l.prices[m.name]; ok {
			a.cost = costOf(price, usage.In, usage.Out)
		}
	}
	if a.failed && a.evidence == "" {
		a.evidence = entry.DigestOf(body)
	}
	return a
}

// chosen reads the message of a choice.
func chosen(choice *chatChoice, request chatRequest, expect *scenario.Expect) answer {
	message := &choice.Message
	switch {
	case choice.FinishReason == "content_filter":
		return withoutOutput("content_filtered", "content_filter")
	case message.Refusal != "":
		return withoutOutput("refused", "refusal")
	case choice.FinishReason == "length":
		return withoutOutput("malformed_output", "length")
	case len(message.ToolCalls) > 0:
		return calledTools(message.ToolCalls, request)
	}
	content := jsontext.Value(strings.TrimSpace(message.Content))
	if kind := content.Kind(); (kind == '{' || kind == '[') && content.IsValid() {
		return answer{output: content}
	}
	if expect != nil && len(expect.Schema) > 0 && !content.IsValid() {
		return failure("malformed_output", "not_json", "")
	}
	quoted, err := jsontext.AppendQuote(nil, message.Content)
	if err != nil {
		return failure("malformed_output", "not_utf8", "")
	}
	return answer{output: quoted}
}

// withoutOutput is an answer that holds no output for anybody to act on: the step has
// had no effect.
func withoutOutput(code, reason string) answer {
	a := failure(code, reason, "")
	a.effects = entry.EffectsNone
	return a
}

// calledTools is the output of an answer that calls tools: {tool_calls:
// [{name, arguments}]}. A tool that was not offered was made up, and
// arguments that are no object do not fit any.
func calledTools(calls []chatTool, request chatRequest) answer {
	type call struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	var tools []chatTool
	offered := map[string]bool{}
	if json.Unmarshal(request["tools"], &tools) == nil {
		for _, tool := range tools {
			offered[tool.Function.Name] = true
		}
	}
	var out struct {
		ToolCalls []call `json:"tool_calls"`
	}
	for _, c := range calls {
		arguments := jsontext.Value(c.Function.Arguments)
		switch {
		case !offered[c.Function.Name]:
			return withoutOutput("tool_not_found", "tool_not_offered")
		case !arguments.IsValid() || arguments.Kind() != '{':
			return withoutOutput("tool_schema_violation", "arguments_invalid")
		}
		out.ToolCalls = append(out.ToolCalls, call{Name: c.Function.Name, Arguments: arguments})
	}
	text, err := json.Marshal(out)
	if err != nil {
		return failure("malformed_output", "arguments_invalid", err.Error())
	}
	return answer{output: text}
}

// costOf is the price of tokens in micro-USD, rounded half up; nil where it is
// beyond what an entry may hold.
func costOf(price recovery.Model, in, out int64) *int64 {
	const perMillion = 1_000_000
	high, low := bits.Mul64(uint64(in), uint64(price.InputPrice))
	high2, low2 := bits.Mul64(uint64(out), uint64(price.OutputPrice))
	low, carry := bits.Add64(low, low2, 0)
	high, _ = bits.Add64(high, high2, carry)
	low, carry = bits.Add64(low, perMillion/2, 0)
	high += carry
	if high >= perMillion {
		return nil
	}
	cost, _ := bits.Div64(high, low, perMillion)
	if cost > entry.MaxInteger {
		return nil
	}
	micros := int64(cost)
	return &micros
}
