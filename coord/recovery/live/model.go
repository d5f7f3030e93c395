package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// newChat is the client of a model's endpoint. It makes no second attempts of
// its own, and takes nothing from the environment that is not configured.
func newChat(m Endpoint, client *http.Client) openai.ChatCompletionService {
	return openai.NewChatCompletionService(
		option.WithBaseURL(strings.TrimRight(m.BaseURL, "/")+"/"), option.WithHTTPClient(client), option.WithMaxRetries(0))
}

// callModel asks a model. An error is that the run itself is to end, or that
// the model cannot be asked as it is configured.
func (l *Runtime) callModel(ctx context.Context, p *plan, q scenario.Request) (answer, error) {
	m := p.model
	params, err := chatParams(p.input)
	if err != nil {
		a := failure("invalid_request", "input_invalid", err.Error())
		a.effects = entry.EffectsNone
		return a, nil
	}
	params.Model = cmp.Or(m.Model, m.name)
	p.ask.apply(&params, q.Step.Expect)
	options := []option.RequestOption{}
	if m.KeyEnv != "" {
		key, ok := l.config.LookupEnv(m.KeyEnv)
		if !ok {
			return answer{}, fmt.Errorf("live: model %s: the environment has no %s", m.name, m.KeyEnv)
		}
		options = append(options, option.WithAPIKey(key))
	}
	if q.Key != "" {
		options = append(options, option.WithHeader("Idempotency-Key", fmt.Sprintf("%s-%d", q.Key, q.Attempt)))
	}
	if err := m.places.enter(ctx); err != nil {
		return answer{}, err
	}
	defer m.places.leave()
	limit, budget := timeLimit(m.TimeoutMS, q.TimeLeftMS)
	limited, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	var body []byte
	_, err = m.chat.New(limited, params, append(options, option.WithResponseBodyInto(&body))...)
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case err != nil && errors.Is(context.Cause(limited), errDeadline):
		return named(timedOut(budget), m), nil
	case err != nil:
		return named(refusedByModel(err), m), nil
	}
	return named(l.completed(m, body, &params, q.Step.Expect), m), nil
}

func named(a answer, m *liveModel) answer {
	a.model = m.name
	return a
}

// chatParams reads the input of a model step: a text, or the parameters of a
// chat completion.
func chatParams(input jsontext.Value) (openai.ChatCompletionNewParams, error) {
	var params openai.ChatCompletionNewParams
	switch input.Kind() {
	case '"':
		params.Messages = append(params.Messages, openai.UserMessage(scenario.ContentText(input)))
		return params, nil
	case '{':
		if err := json.Unmarshal(input, &params); err != nil {
			return params, err
		}
	}
	if len(params.Messages) == 0 {
		return params, errors.New("the input of a step without a tool is a text, or an object with messages")
	}
	return params, nil
}

// refusedByModel is the answer of a call that brought no completion. Of nested
// errors the innermost with a typed cause counts.
func refusedByModel(err error) answer {
	if refused, ok := errors.AsType[*openai.Error](err); ok {
		raw, _ := scenario.ErrorObject(refused.RawJSON())
		raw.Text = cmp.Or(raw.Text, refused.Message)
		if !(scenario.RawError{ProviderCode: raw.ProviderCode}).Typed() && (scenario.RawError{ProviderCode: refused.Type}).Typed() {
			raw.ProviderCode = refused.Type
		}
		raw.HTTPStatus = refused.StatusCode
		if refused.Response != nil {
			raw.RetryAfterMS = scenario.RetryAfterMS(refused.Response.Header.Get("Retry-After"))
		}
		return answer{failed: true, raw: raw, reason: fmt.Sprintf("http_%d", refused.StatusCode), evidence: scenario.Digest(refused.RawJSON()),
			effects: effectsOfRefusal(refused.StatusCode, []byte(refused.RawJSON()))}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return failure("malformed_output", "output_too_large", "")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return failure("unavailable", "response_cut", err.Error())
	}
	return unsent(err)
}

// completed reads a completion. The client's own decoder takes what was cut
// off, so that the whole of it is checked first.
func (l *Runtime) completed(m *liveModel, body []byte, params *openai.ChatCompletionNewParams, expect *scenario.Expect) answer {
	var c openai.ChatCompletion
	if !jsontext.Value(body).IsValid() || json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 {
		a := failure("malformed_output", "truncated_json", "")
		a.evidence = scenario.Digest(string(body))
		return a
	}
	a := l.chosen(&c.Choices[0], params, expect)
	if c.JSON.Usage.Valid() && c.Usage.PromptTokens >= 0 && c.Usage.CompletionTokens >= 0 {
		a.tokensIn, a.tokensOut = &c.Usage.PromptTokens, &c.Usage.CompletionTokens
		if price, ok := l.prices[m.name]; ok {
			a.cost = costOf(price, c.Usage.PromptTokens, c.Usage.CompletionTokens)
		}
	}
	if a.failed && a.evidence == "" {
		a.evidence = scenario.Digest(string(body))
	}
	return a
}

// chosen reads the message of a choice.
func (l *Runtime) chosen(choice *openai.ChatCompletionChoice, params *openai.ChatCompletionNewParams, expect *scenario.Expect) answer {
	message := &choice.Message
	switch {
	case choice.FinishReason == "content_filter":
		return withoutOutput("content_filtered", "content_filter")
	case message.Refusal != "":
		return withoutOutput("refused", "refusal")
	case choice.FinishReason == "length":
		return withoutOutput("malformed_output", "length")
	case len(message.ToolCalls) > 0:
		return calledTools(message.ToolCalls, params)
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
func calledTools(calls []openai.ChatCompletionMessageToolCallUnion, params *openai.ChatCompletionNewParams) answer {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	offered := map[string]bool{}
	for _, tool := range params.Tools {
		if f := tool.GetFunction(); f != nil {
			offered[f.Name] = true
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
		out.ToolCalls = append(out.ToolCalls, call{Name: c.Function.Name, Arguments: json.RawMessage(arguments)})
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
