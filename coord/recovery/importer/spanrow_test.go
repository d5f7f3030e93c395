package importer

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/importer/spanrow"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// sdkLine writes a span as the console exporter of an OpenTelemetry SDK prints it, which smolagents
// and the instrumentors of LangChain and LlamaIndex use. ids are those of the trace, the span and
// its parent. A span begins at the second of its own id.
func sdkLine(ids, name, status, attributes string, events ...string) string {
	id := strings.Split(ids, " ")
	above := "null"
	if id[2] != "" {
		above = fmt.Sprintf(`"0x%016s"`, id[2])
	}
	return fmt.Sprintf(`{"name": %q, "context": {"trace_id": "0x%032s", "span_id": "0x%016s", "trace_state": "[]"}, "kind": "SpanKind.INTERNAL", "parent_id": %s,`+
		` "start_time": "2026-01-02T03:04:0%s.000000Z", "end_time": "2026-01-02T03:04:0%s.500000Z", "status": {"status_code": %q}, "attributes": {%s},`+
		` "events": [%s], "links": [], "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""}}`,
		name, id[0], id[1], above, id[1], id[1], status, attributes, strings.Join(events, ",")) + "\n"
}

const (
	kindLLM   = `"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.token_count.prompt": 12, "llm.token_count.completion": 3`
	kindTool  = `"openinference.span.kind": "TOOL", "tool.name": "fetch_price", "input.value": "{\"sku\": 1}"`
	rateLimit = `{"name": "exception", "timestamp": "2026-01-02T03:04:05.000000Z", "attributes": {"exception.type": "openai.RateLimitError", ` +
		`"exception.message": "Error code: 429", "exception.escaped": "False"}}`
	timedOut = `{"name": "exception", "attributes": {"exception.type": "requests.exceptions.ReadTimeout", "exception.message": "timed out"}}`
)

// inferenceSample is a run of an agent: a model that is refused once, and a tool that times out
// once.
func inferenceSample() string {
	return sdkLine("a 2 1", "ChatCompletion", "ERROR", kindLLM, rateLimit) +
		sdkLine("a 3 1", "ChatCompletion", "OK", kindLLM+`, "output.value": "call fetch_price"`) +
		sdkLine("a 4 1", "fetch_price", "ERROR", kindTool, timedOut) +
		sdkLine("a 5 1", "fetch_price", "OK", kindTool+`, "output.value": "{\"price\": 3}"`) +
		sdkLine("a 6 1", "documents", "UNSET", `"openinference.span.kind": "RETRIEVER", "input.value": "price"`) +
		sdkLine("a 7 1", "parse", "OK", `"openinference.span.kind": "CHAIN"`) +
		sdkLine("a 8 1", "GET", "OK", `"custom": true`) +
		sdkLine("a 1 ", "buyer", "OK", `"openinference.span.kind": "AGENT", "agent.name": "buyer"`)
}

func inferenceWant() string {
	return `0000000000000000000000000000000a | openinference/buyer | openinference/file/0000000000000000000000000000000a | openinference | ok
0000000000000002 | openinference/buyer |  | none | <> | failed | capacity.rate_limited | none | safe | 500 ms
0000000000000003 | openinference/buyer |  | none | <0000000000000002~> | ok | 500 ms
0000000000000004 | openinference/buyer | fetch_price | undeclared | <0000000000000003~> | failed | transient.timeout | unknown | unknown | 500 ms
0000000000000005 | openinference/buyer | fetch_price | undeclared | <0000000000000004~> | ok | 500 ms
0000000000000006 | openinference/buyer | retrieval | none | <0000000000000005~> | ok | 500 ms`
}

// One run in each form that exporters write: lines of an SDK, a page and rows of Phoenix.
func TestImportOpenInference(t *testing.T) {
	checkSummary(t, importText(t, OpenInference, inferenceSample()), inferenceWant())
	cases := importText(t, OpenInference, inferenceSample())
	if s := cases[0].Steps[1]; s.Model != "gpt-4o" || *s.TokensIn != 12 || *s.TokensOut != 3 || s.OutputDigest == "" {
		t.Errorf("step %+v", s)
	}
	if s := MergeRetries(cases[0]); len(s.Steps) != 3 || attemptList(s.Steps[1]) != "=failed[transient.timeout] retry=ok" {
		t.Errorf("folded %+v", s.Steps)
	}
	nested := `{"data": [{"id": "U3Bhbjox", "name": "ChatCompletion", "context": {"trace_id": "0000000000000000000000000000000b", "span_id": "0000000000000002"}, "span_kind": "LLM",
		"parent_id": null, "start_time": "2026-01-02T03:04:05+00:00", "end_time": "2026-01-02T03:04:06.250+00:00", "status_code": "ERROR", "status_message": "RateLimitError: slow down",
		"attributes": {"llm": {"model_name": "m", "token_count": {"prompt": 7.0}, "output_messages": [{"message": {"role": "assistant"}}], "tags": ["a", "b"]}},
		"events": [` + rateLimit + `]}], "next_cursor": null}`
	flat := `[{"name": "ChatCompletion", "span_kind": "LLM", "parent_id": null, "start_time": 1767323045000, "end_time": "2026-01-02 03:04:06.25+00:00", "status_code": "ERROR",
		"status_message": "", "events": [` + rateLimit + `], "context.span_id": "0000000000000002", "context.trace_id": "0000000000000000000000000000000b",
		"attributes.openinference.span.kind": "LLM", "attributes.llm.model_name": "m", "attributes.llm.token_count.prompt": 7.0, "attributes.llm.output_messages": null}]`
	for form, text := range map[string]string{"nested": nested, "flat": flat} {
		cases := importText(t, OpenInference, text)
		if len(cases) != 1 || len(cases[0].Steps) != 1 {
			t.Fatalf("%s: %+v", form, cases)
		}
		s := cases[0].Steps[0]
		if s.Model != "m" || s.Failure.String() != "capacity.rate_limited" || *s.TokensIn != 7 || *s.LatencyMS != 1250 || cases[0].Outcome != scenario.Failed {
			t.Errorf("%s: %+v failed with %+v, %s", form, s, s.Failure, cases[0].Outcome)
		}
	}
}

// What a span is, by each convention; a span that no convention names is none.
func TestRoles(t *testing.T) {
	for _, c := range []struct{ attributes, want string }{
		{`"gen_ai.operation.name": "chat"`, "model"},
		{`"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_x"`, "get_x"},
		{`"gen_ai.tool.name": "get_x"`, "get_x"},
		{`"gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": 4`, "model"},
		{`"gen_ai.request.model": "m"`, ""},
		{`"openinference.span.kind": "LLM"`, "model"},
		{`"openinference.span.kind": "EMBEDDING"`, "model"},
		{`"openinference.span.kind": "TOOL"`, "span"},
		{`"openinference.span.kind": "RERANKER"`, "rerank"},
		{`"openinference.span.kind": "GUARDRAIL"`, ""},
		{`"traceloop.span.kind": "tool", "traceloop.entity.name": "get_x"`, "get_x"},
		{`"traceloop.span.kind": "workflow"`, ""},
		{`"llm.request.type": "chat", "gen_ai.request.model": "m"`, "model"},
		{`"langsmith.span.kind": "retriever"`, "retrieval"},
	} {
		var got []string
		for _, s := range importText(t, OpenInference, sdkLine("a 2 ", "span", "OK", c.attributes))[0].Steps {
			if s.Tool == "" {
				s.Tool = "model"
			}
			got = append(got, s.Tool)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: steps %v, want %s", c.attributes, got, c.want)
		}
	}
}

// Every span is counted once: taken, or left for a reason.
func TestSpansAreCounted(t *testing.T) {
	count := func(format Format, text string) string {
		counts := new(Counts)
		for c, err := range Import(format, "file", strings.NewReader(text), counts) {
			if (c.ID == "") != (err != nil) {
				t.Errorf("%s: case %q and %v", format, c.ID, err)
			}
		}
		return counts.String()
	}
	for _, c := range []struct {
		format     Format
		text, want string
	}{
		{OpenInference, inferenceSample(), "spans taken: 5 of 8; left: 1 agents at work, which hold calls, 1 chains and checks, which are no calls, " +
			"1 spans without an attribute that says what they are"},
		{OTLP, otlpSample(), "spans taken: 5 of 10; left: 1 agents at work, which hold calls, 4 requests, which are parts of calls"},
		{OpenInference, sdkLine("x 2 ", "n", "OK", ""), "spans taken: 0 of 1; left: 1 that could not be used"},
		{OpenAIChat, chatSample, "records taken: 2 of 2; without a step, because no tool is called: 1"},
		{Attempts, attemptsSample, "records taken: 5 of 5"},
		{Attempts, "{\"case\": \"a\"}\n{\"case\": \"b\"}\n{\"case\": \"a\"}\n", "records taken: 2 of 3; left: 1 that could not be used"}, // an id again
		{ECT, ectSample(), "tokens taken: 4 of 4"},
		{ECT, ectSample() + "x\n" + ectToken("a", "exec+jwt", `{"iss":"a","jti":"x","wid":"w","exec_act":"x","pred":["0"]}`), "tokens taken: 4 of 6; left: 2 that could not be used"},
		{Attempts, "{\"case\": \"a\", \"cost_usd\": -1}\n{\"case\": \"b\"}\n", "records taken: 1 of 2; left: 1 that could not be used"},
	} {
		if got := count(c.format, c.text); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.format, got, c.want)
		}
	}
}

// A case whose id came from an earlier file is refused by the writer: its records are not taken,
// and its calls are none of those that the beginning of a tools file counts.
func TestRefusedByWriter(t *testing.T) {
	for format, c := range map[Format]struct{ first, more, want string }{
		ECT:      {ectSample(), ectToken("a", "exec+jwt", `{"iss":"a","jti":"1","wid":"w","exec_act":"x"}`), "tokens taken: 1 of 5; left: 4 that could not be used"},
		OTLP:     {otlpSample(), "", "spans taken: 0 of 10; left: 1 agents at work, which hold calls, 4 requests, which are parts of calls, 5 that could not be used"},
		Attempts: {attemptsSample, `{"case": "new"}`, "records taken: 1 of 6; left: 5 that could not be used"},
	} {
		w := Writer{Out: io.Discard, Refused: func(error) {}}
		var used []Use
		for _, text := range []string{c.first, c.first + c.more} {
			used, w.Counts = w.Used(), new(Counts)
			if err := w.All(t.Context(), "file", Import(format, "file", strings.NewReader(text), w.Counts), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.Counts.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", format, got, c.want)
		}
		if diff := cmp.Diff(used, w.Used()); format == OTLP && diff != "" {
			t.Error(diff)
		}
	}
}

// What is no span is named, by record and field.
func TestBadSpanRows(t *testing.T) {
	good := sdkLine("a 2 ", "n", "OK", kindLLM)
	deep := strings.Repeat(`{"a":`, spanrow.DepthMax+1) + "1" + strings.Repeat("}", spanrow.DepthMax+1)
	for _, c := range []struct{ old, new, field, detail string }{
		{`0x0000000000000000000000000000000a`, `zz`, "/context/trace_id", `is "zz"`},
		{`"0x0000000000000002"`, `7`, "/context/span_id", `is "7"`},
		{`"parent_id": null`, `"parent_id": "1"`, "/parent_id", `is "1"`},
		{`"llm.token_count.prompt": 12`, `"llm.token_count.prompt": -1`, "/attributes", "hold llm.token_count.prompt"},
		{`"llm.token_count.prompt": 12`, `"llm.token_count.prompt": "many"`, "/attributes", "hold llm.token_count.prompt"},
		{`"llm.model_name"`, `"deep": ` + deep + `, "llm.model_name"`, "/attributes", "hold more than"},
	} {
		_, errs := importAll(t, OpenInference, strings.Replace(good, c.old, c.new, 1))
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "field "+c.field) || !strings.Contains(errs[0].Error(), c.detail) {
			t.Errorf("%s → %s: %v", c.old, c.new, errs)
		}
	}
}

// Declarations of a tools file count in place of what a name shows.
func TestTools(t *testing.T) {
	tools, err := ParseTools("tools.yaml", []byte("trust_annotations: false\nkeep_days: 30\ntools:\n  fetch_price: {effect: none, idempotent: true, probe: {tool: x}}\n  other/one: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := Writer{Out: &out, Shape: Shape{Tools: tools}}
	if err := w.All(t.Context(), "file", Import(OpenInference, "file", strings.NewReader(inferenceSample()), new(Counts)), func() {}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"tool":"fetch_price","effect":"none","idempotent":true`) || strings.Contains(out.String(), `"effects":"unknown"`) {
		t.Error(out.String())
	}
	want := []Use{{"fetch_price", "none", 2, 1}, {"retrieval", "none", 1, 0}}
	if diff := cmp.Diff(want, w.Used()); diff != "" {
		t.Error(diff)
	}
	again, err := ParseTools("starter.yaml", []byte(Starter(w.Used())))
	if diff := cmp.Diff(Tools{"fetch_price": {Effect: "none"}, "retrieval": {Effect: "none"}}, again); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, c := range [][2]string{{"tools: {}", "/tools"}, {"tools: {a: {effect: some}}", "/tools/a/effect"}, {"tools: {a/b: {idempotent: 1}}", "/tools/a~1b/idempotent"},
		{"tool: {}", "/tool"}, {"tools: &a {}", ""}} {
		if _, err := ParseTools("tools.yaml", []byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}

// A call that failed may have had the effect that is declared, though the name of its tool shows
// none. A call that was refused had none.
func TestDeclaredEffectOfFailures(t *testing.T) {
	refused := strings.Replace(timedOut, "requests.exceptions.ReadTimeout", "ToolError", 1)
	refused = strings.Replace(refused, "timed out", "Authentication required", 1)
	kind := strings.Replace(kindTool, "fetch_price", "get_paid", 1)
	for event, want := range map[string]string{timedOut: `"effects":"unknown","replay_safety":"unknown"`, refused: `"effects":"none","replay_safety":"safe"`} {
		var out strings.Builder
		w := Writer{Out: &out, Shape: Shape{Tools: Tools{"get_paid": {Effect: entry.EffectIrrevocable}}}}
		text := sdkLine("a 2 ", "get_paid", "ERROR", kind, event)
		if err := w.All(t.Context(), "file", Import(OpenInference, "file", strings.NewReader(text), new(Counts)), func() {}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"effect":"irrevocable"`) || !strings.Contains(out.String(), want) {
			t.Errorf("want %s: %s", want, out.String())
		}
	}
}

func FuzzImportOpenInference(f *testing.F) {
	fuzzImport(f, OpenInference,
		sdkLine("a 2 9", "n", "ERROR", kindTool, timedOut),
		`{"data": [{"context.trace_id": "0000000000000000000000000000000b", "context.span_id": "0000000000000002", "attributes": {"a": [{"b": [1, "x"]}]}, "start_time": 1e300}]}`,
		`{"trace_id": "", "span_id": null}`,
	)
}

func FuzzParseTools(f *testing.F) {
	f.Add("tools:\n  a: {effect: none, idempotent: true}\n")
	f.Add("tools: {\"~/\": {effect: x}}")
	f.Fuzz(func(t *testing.T, text string) {
		tools, err := ParseTools("f", []byte(text))
		if (err == nil) != (len(tools) > 0) {
			t.Fatalf("%v, %v", tools, err)
		}
	})
}
