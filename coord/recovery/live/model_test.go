package live

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// completion is the answer of a chat endpoint with a message.
func completion(message, finish string) string {
	return fmt.Sprintf(`{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": %q, "message": %s}],
		"usage": {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}}`, finish, message)
}

// said is a completion with a text.
func said(text string) string {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err)
	}
	return completion(`{"role": "assistant", "content": `+string(quoted)+`}`, "stop")
}

func modelConfig(url string) Config {
	return Config{Models: map[string]Endpoint{"primary": {BaseURL: url + "/v1", Model: "m-1"}}, DefaultModel: "primary"}
}

// What an endpoint answers, and what an attempt makes of it.
func TestLiveModel(t *testing.T) {
	schema := &scenario.Expect{Schema: jsontext.Value(`{"type": "object", "required": ["n"]}`)}
	for _, c := range []struct {
		desc, answer, want string
		expect             *scenario.Expect
	}{
		{"a text", said("hello"), "ok", nil},
		{"JSON that fits", said(` {"n": 1} `), "ok", schema},
		{"JSON that does not", said(`{"m": 1}`), "failed output.malformed none safe schema_violation", schema},
		{"no JSON", said("sorry"), "failed output.malformed none safe not_json", schema},
		{"cut off by length", completion(`{"role": "assistant", "content": "{\"n\": "}`, "length"), "failed output.malformed none safe length", schema},
		{"a refusal", completion(`{"role": "assistant", "refusal": "no"}`, "stop"), "failed output.refused none safe refusal", nil},
		{"a filter", completion(`{"role": "assistant"}`, "content_filter"), "failed safety.content_filtered none safe content_filter", nil},
		{"truncated JSON", said("hello")[:60], "failed output.malformed none safe truncated_json", nil},
		{"no choice", `{"choices": []}`, "failed output.malformed none safe truncated_json", nil},
		{"a limit", `429 {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}}`, "failed capacity.rate_limited none safe http_429", nil},
		{"a spent quota", `429 {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}`, "failed capacity.quota_exhausted none safe http_429", nil},
		{"an overload", `529 {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}`, "failed capacity.overloaded none safe http_529", nil},
		{"a long context", `400 {"error": {"message": "x", "type": "invalid_request_error", "code": "context_length_exceeded"}}`, "failed request.context_overflow none safe http_400", nil},
		{"an unknown code of a known type", `429 {"error": {"message": "x", "type": "insufficient_quota", "code": "odd"}}`, "failed capacity.quota_exhausted none safe http_429", nil},
		{"an unknown code", `400 {"error": {"message": "x", "type": "invalid_request_error", "code": "odd"}}`, "failed request.invalid none safe http_400", nil},
		{"no JSON in an error", `502 <html>`, "failed transient.unavailable none safe http_502", nil},
		{"a redirect", `302 {}`, "", nil},
	} {
		e := serve(t, answers(c.answer))
		step := modelStep(`"hi"`)
		step.Expect = c.expect
		a := try(t, newLive(t, modelConfig(e.URL)), step, scenario.Variation{})
		if got := told(a); got != c.want && c.want != "" || c.want == "" && a.Outcome != scenario.Failed {
			t.Errorf("%s: %s, want %s", c.desc, got, c.want)
		}
		if a.Model != "primary" || e.count() != 1 {
			t.Errorf("%s: model %s, %d requests", c.desc, a.Model, e.count())
		}
		if strings.HasPrefix(c.answer, "429") && *a.Failure.Raw.RetryAfterMS != 3000 {
			t.Errorf("%s: no pause", c.desc)
		}
		// 1000 · 3 + 10 · 15 micro-USD
		if strings.Contains(c.answer, `"usage"`) && c.desc != "truncated JSON" && (*a.TokensIn != 1000 || *a.TokensOut != 10 || *a.CostMicroUSD != 3150) {
			t.Errorf("%s: %v %v %v", c.desc, a.TokensIn, a.TokensOut, a.CostMicroUSD)
		}
	}
}

// What is known of the effect of a step that declares none: nothing took place where
// the endpoint refused, or where there is no output to act on; after anything else it
// may have.
func TestLiveModelEffects(t *testing.T) {
	call := func(function string) string {
		return completion(`{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": `+function+`}]}`, "tool_calls")
	}
	for answer, want := range map[string]string{
		`429 {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}}`: "failed capacity.rate_limited none",
		`401 {"error": {"message": "who?"}}`:                                                    "failed access.unauthenticated none",
		`400 {"error": {"message": "x", "code": "odd"}}`:                                        "failed request.invalid none",
		`408 {}`: "unknown",
		`409 {}`: "unknown",
		`503 {}`: "failed transient.unavailable unknown",
		`503 {"error": {"message": "not begun", "effects": "none"}}`:    "failed transient.unavailable none",
		`429 {"error": {"message": "half done", "effects": "partial"}}`: "failed capacity.rate_limited partial",
		completion(`{"role": "assistant", "refusal": "no"}`, "stop"):    "failed output.refused none",
		completion(`{"role": "assistant"}`, "content_filter"):           "failed safety.content_filtered none",
		completion(`{"role": "assistant", "content": "x"}`, "length"):   "failed output.malformed none",
		call(`{"name": "g", "arguments": "{}"}`):                        "failed output.hallucinated_tool none",
		said("hello")[:60]:                                              "failed output.malformed unknown",
	} {
		e := serve(t, answers(answer))
		step := modelStep(`"hi"`)
		step.Effect = entry.EffectUndeclared
		if got := told(try(t, newLive(t, modelConfig(e.URL)), step, scenario.Variation{})); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

// A rate limit recovers by waiting, though nobody has said what the step affects.
func TestLiveRateLimitRecovers(t *testing.T) {
	e := serve(t, answers(`429 {"error": {"message": "slow", "type": "requests", "code": "rate_limit_exceeded"}}`, said("hello")))
	step := modelStep(`"hi"`)
	step.Effect = entry.EffectUndeclared
	if done := recoverLive(t, newLive(t, modelConfig(e.URL)), step); done.Trace.Status != engine.AutoRecovered || e.count() != 2 {
		t.Errorf("trace %+v after %d requests", done.Trace, e.count())
	}
}

// A request carries the configured key and the step's, and nothing that the
// environment happens to hold.
func TestLiveModelRequest(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "not-for-this-endpoint")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	e := serve(t, answers(said("x")))
	config := modelConfig(e.URL)
	try(t, newLive(t, config), modelStep(`{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}`), scenario.Variation{})
	r := e.requests[0]
	if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Idempotency-Key") != "key-1-0" || strings.Contains(fmt.Sprint(r.Header), "not-for-this-endpoint") {
		t.Errorf("request %s %v", r.URL, r.Header)
	}
	if want := `{"messages":[{"content":"hi","role":"user"}],"model":"m-1","max_tokens":5}`; !equalJSON(jsontext.Value(e.bodies[0]), jsontext.Value(want)) {
		t.Errorf("body %s", e.bodies[0])
	}
	m := config.Models["primary"]
	m.KeyEnv = "MY_KEY"
	config.Models["primary"] = m
	config.LookupEnv = func(string) (string, bool) { return "k", true }
	try(t, newLive(t, config), modelStep(`"hi"`), scenario.Variation{})
	if got := e.requests[1].Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("authorization %q", got)
	}
	for _, input := range []string{``, `7`, `{}`, `{"messages": 7}`} {
		if got := told(try(t, newLive(t, modelConfig(e.URL)), modelStep(input), scenario.Variation{})); got != "failed request.invalid none safe input_invalid" {
			t.Errorf("input %s: %s", input, got)
		}
	}
}

// A model that hangs ends with its time.
func TestLiveModelHangs(t *testing.T) {
	e := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	config := modelConfig(e.URL)
	m := config.Models["primary"]
	m.TimeoutMS = 20
	config.Models["primary"] = m
	if got := told(try(t, newLive(t, config), modelStep(`"hi"`), scenario.Variation{})); got != "failed transient.timeout none safe timeout" || e.count() != 1 {
		t.Errorf("%s after %d requests", got, e.count())
	}
	e.Close()
	if got := told(try(t, newLive(t, modelConfig(e.URL)), modelStep(`"hi"`), scenario.Variation{})); got != "failed transient.unavailable none safe no_connection" {
		t.Errorf("gone: %s", got)
	}
}

// Tools that a model calls are an output; one it made up, or called with what
// is no object, is a failure.
func TestLiveModelCallsTools(t *testing.T) {
	const input = `{"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}`
	for call, want := range map[string]string{
		`{"name": "f", "arguments": "{\"a\": 1}"}`: `ok {"tool_calls":[{"name":"f","arguments":{"a":1}}]}`,
		`{"name": "g", "arguments": "{}"}`:         "failed output.hallucinated_tool none safe tool_not_offered",
		`{"name": "f", "arguments": "{"}`:          "failed output.bad_arguments none safe arguments_invalid",
		`{"name": "f", "arguments": "[1]"}`:        "failed output.bad_arguments none safe arguments_invalid",
	} {
		e := serve(t, answers(completion(`{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": `+call+`}]}`, "tool_calls")))
		a := try(t, newLive(t, modelConfig(e.URL)), modelStep(input), scenario.Variation{})
		got := told(a)
		if a.Outcome == scenario.OK {
			got += " " + string(a.Output)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
	}
}

// Each way of asking a model otherwise changes its request.
func TestLiveModelWays(t *testing.T) {
	const input = `{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}, ` +
		`{"role": "user", "content": "3"}, {"role": "assistant", "content": "4"}, {"role": "user", "content": "5"}], "temperature": 0.7}`
	expect := &scenario.Expect{Schema: jsontext.Value(`{"type": "object"}`), Checks: []scenario.Check{{Name: "total", Contains: "x"}}}
	e := serve(t, answers(said("{}")))
	config := modelConfig(e.URL)
	config.Models["other"] = Endpoint{BaseURL: e.URL}
	m := config.Models["primary"]
	m.Instead = map[string]string{"fail_reassign": "other"}
	config.Models["primary"] = m
	l := newLive(t, config)
	for _, c := range []struct {
		way  scenario.Variation
		want string
	}{
		{scenario.Variation{}, "m-1 S12345"},
		{scenario.Variation{Strategy: "retry"}, "m-1 S12345"},
		{scenario.Variation{Strategy: "fallback_model", Model: "other"}, "other S12345"},
		{scenario.Variation{Strategy: "fallback_model", Model: "unheard-of"}, "not_observed"},
		{scenario.Variation{Strategy: "fail_reassign"}, "other S12345"},
		{scenario.Variation{Strategy: "checkpoint_resume"}, "not_observed"},
		{scenario.Variation{Strategy: "state_reset", Variant: "context"}, "m-1 S5"},
		{scenario.Variation{Strategy: "state_reset", Variant: "verified"}, "not_observed"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "fresh_context"}, "m-1 S5"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "compact_context"}, "m-1 S345"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "reflect"},
			"m-1 S12345The last attempt failed: output.malformed. It has to satisfy: the schema of the answer, total. Find the mistake first, then answer again."},
		{scenario.Variation{Strategy: "retry_altered", Variant: "decompose"}, "m-1 S12345The last attempt failed: output.malformed. Split the task into parts, do them one after the other, then answer."},
		{scenario.Variation{Strategy: "retry_altered", Variant: "repair_args"},
			"m-1 S12345The last attempt failed: output.malformed. Make the call again with arguments that fit the description of the tool."},
		{scenario.Variation{Strategy: "retry_altered", Variant: "stricter_schema"}, "m-1 S12345Answer with JSON that fits the schema, and nothing else. schema"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "lower_variance"}, "m-1 S12345 cold"},
		{scenario.Variation{Strategy: "retry_altered", Variant: "alternate_tool"}, "not_observed"},
	} {
		before := e.count()
		step := modelStep(input)
		step.Expect = expect
		a := try(t, l, step, c.way)
		got := string(a.Outcome)
		if e.count() > before {
			got = asked(t, e.bodies[before])
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.way, got, c.want)
		}
	}
	step := modelStep(input)
	if got := told(try(t, l, step, scenario.Variation{Strategy: "retry_altered", Variant: "stricter_schema"})); got != "not_observed" {
		t.Errorf("a stricter schema without one: %s", got)
	}
}

// asked is what a request asks, in short.
func asked(t *testing.T, body string) string {
	t.Helper()
	var request struct {
		Model    string `json:"model"`
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
		Temperature    *jsontext.Value `json:"temperature"`
		ResponseFormat *jsontext.Value `json:"response_format"`
	}
	if err := json.Unmarshal([]byte(body), &request); err != nil {
		t.Fatal(err)
	}
	text := request.Model + " "
	for _, m := range request.Messages {
		text += m.Content
	}
	if request.ResponseFormat != nil {
		text += " schema"
	}
	if string(*request.Temperature) == "0" {
		text += " cold"
	}
	return text
}

// A case whose model answers badly, is overloaded, and answers well on another
// one; and one whose schema is kept only when it is enforced. Each replays.
func TestLiveModelRecovers(t *testing.T) {
	good := serve(t, answers(said(`{"total": 12}`)))
	overloaded := serve(t, answers(`529 {"error": {"type": "overloaded_error"}}`))
	l := newLive(t, Config{Models: map[string]Endpoint{"primary": {BaseURL: overloaded.URL}, "alternate": {BaseURL: good.URL}, "long-context": {BaseURL: good.URL}}, DefaultModel: "primary"})
	step := modelStep(`"add"`)
	step.Model = "primary"
	done := recoverLive(t, l, step)
	if done.Trace.Status != engine.AutoRecovered || !done.Trace.Fallback || overloaded.count() != 1 || good.count() != 1 {
		t.Errorf("trace %+v, %d and %d requests", done.Trace, overloaded.count(), good.count())
	}
	lax := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text := "twelve"
		if r.Header.Get("Idempotency-Key") != "" && strings.Contains(r.Header.Get("Idempotency-Key"), "-1") {
			text = `{"total": 12}`
		}
		_, _ = io.WriteString(w, said(text))
	})
	l = newLive(t, modelConfig(lax.URL))
	step.Expect = &scenario.Expect{Schema: jsontext.Value(`{"type": "object", "required": ["total"]}`), Checks: []scenario.Check{{Name: "total", At: "/total", Min: new(int64(1)), Required: true}}}
	done = recoverLive(t, l, step)
	last := done.Case.Steps[0].Attempts
	if done.Trace.Status != engine.AutoRecovered || len(last) != 1 || last[0].Variant != string(recovery.StricterSchema) || !last[0].Verified ||
		*last[0].ConfidencePPM != scenario.FullPPM || !strings.Contains(lax.bodies[1], `"json_schema"`) {
		t.Errorf("trace %+v, attempts %+v", done.Trace, last)
	}
}

// Costs are exact, rounded half up, and absent where they would overflow.
func TestLiveCost(t *testing.T) {
	const most = 1<<53 - 1
	for _, c := range []struct{ in, out, inPrice, outPrice, want int64 }{
		{1, 0, 499_999, 0, 0}, {1, 0, 500_000, 0, 1}, {0, 0, 1, 1, 0}, {most, 0, 1_000_000, 0, most}, {most, 1, 1_000_000, 500_000, -1}, {most, most, most, most, -1},
	} {
		got := costOf(recovery.Model{InputPrice: c.inPrice, OutputPrice: c.outPrice}, c.in, c.out)
		if got == nil && c.want >= 0 || got != nil && *got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
