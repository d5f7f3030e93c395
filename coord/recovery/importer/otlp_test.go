package importer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// spanText writes a span of trace 1 as the file exporter of a collector does.
// Times are milliseconds.
func spanText(id, parent string, start, end int, rest ...string) string {
	hexID := func(id string) string {
		if id == "" {
			return ""
		}
		return strings.Repeat("0", 16-len(id)) + id
	}
	return fmt.Sprintf(`{"traceId": "%032d", "spanId": %q, "parentSpanId": %q, "name": "n", "startTimeUnixNano": "%d", "endTimeUnixNano": "%d"%s}`,
		1, hexID(id), hexID(parent), 1_000_000*int64(start), 1_000_000*int64(end), strings.Join(append([]string{""}, rest...), ", "))
}

// attributesText writes attributes: names and values in turn, the values as
// the JSON of an OTLP value, or as text.
func attributesText(pairs ...string) string {
	var all []string
	for pair := range slices.Chunk(pairs, 2) {
		value := pair[1]
		if !strings.Contains(value, `Value": `) {
			value = fmt.Sprintf(`{"stringValue": %q}`, value)
		}
		all = append(all, fmt.Sprintf(`{"key": %q, "value": %s}`, pair[0], value))
	}
	return `"attributes": [` + strings.Join(all, ", ") + `]`
}

func batchText(service string, spans ...string) string {
	return fmt.Sprintf(`{"resourceSpans": [{"resource": {%s}, "scopeSpans": [{"spans": [%s]}]}]}`,
		attributesText("service.name", service), strings.Join(spans, ", ")) + "\n"
}

const failedStatus = `"status": {"code": 2, "message": "it broke"}`

func intValue(n int) string { return fmt.Sprintf(`{"intValue": "%d"}`, n) }

// One run over two batches: an agent calls a model, whose client sends again
// after a 429 and an overload; a tool that times out inside its own request
// and is called again with other arguments; and a model on which the agent
// falls back.
func otlpSample() string {
	request := func(status int, rest ...string) string {
		return attributesText(append([]string{"http.request.method", "POST", "http.response.status_code", intValue(status)}, rest...)...)
	}
	first := batchText("shop",
		spanText("1", "", 0, 1000, attributesText("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "buyer")),
		spanText("2", "1", 10, 100, attributesText("gen_ai.operation.name", "chat", "gen_ai.request.model", "m", "gen_ai.response.model", "m-1",
			"gen_ai.usage.input_tokens", intValue(120), "gen_ai.usage.output_tokens", intValue(7), "gen_ai.usage.cost", `{"doubleValue": 0.0000125}`)),
		spanText("21", "2", 11, 20, `"kind": 3`, request(429, "http.response.header.retry-after", `{"arrayValue": {"values": [{"stringValue": "2"}]}}`), failedStatus),
		spanText("22", "2", 40, 50, `"kind": 3`, request(529, "http.request.resend_count", intValue(1)), failedStatus),
		spanText("23", "2", 70, 99, `"kind": 3`, request(200, "http.request.resend_count", intValue(2))),
	)
	return first + batchText("shop",
		spanText("3", "1", 110, 210, attributesText("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "fetch_price",
			"gen_ai.tool.call.arguments", `{"sku": 1}`, "error.type", "tool_error"), failedStatus),
		spanText("31", "3", 120, 200, `"kind": 3`, attributesText("rpc.system", "grpc", "rpc.grpc.status_code", intValue(4)), failedStatus),
		spanText("4", "1", 220, 230, attributesText("gen_ai.operation.name", "chat", "gen_ai.request.model", "m-1", "error.type", "anthropic.OverloadedError"), failedStatus),
		spanText("5", "1", 240, 250, attributesText("gen_ai.operation.name", "chat", "gen_ai.request.model", "m-2")),
		spanText("6", "1", 260, 270, attributesText("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "fetch_price",
			"gen_ai.tool.call.arguments", `{"sku": 2}`, "gen_ai.tool.call.result", `{"price": 3}`)),
	)
}

// attemptList writes the attempts of a step: "way=outcome[label]".
func attemptList(s scenario.Step) string {
	var all []string
	for _, a := range append([]scenario.Attempt{s.Attempt}, s.Attempts...) {
		text := strings.Trim(strings.Join([]string{a.Strategy, a.Variant, a.Model}, "/"), "/") + "=" + string(a.Outcome)
		if a.Failure != nil {
			text += "[" + a.Failure.String() + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestTraceBecomesCase(t *testing.T) {
	cases := importText(t, OTLP, otlpSample())
	if len(cases) != 1 {
		t.Fatalf("%d cases", len(cases))
	}
	c := cases[0]
	if c.ID != strings.Repeat("0", 31)+"1" || c.Agent != "otlp/buyer" || c.Outcome != scenario.OK || len(c.Steps) != 5 {
		t.Fatalf("case %+v", c)
	}
	model := c.Steps[0]
	if got, want := attemptList(model), "m-1=failed[capacity.rate_limited] retry//m-1=failed[capacity.overloaded] retry//m-1=ok"; got != want {
		t.Errorf("attempts %s, want %s", got, want)
	}
	last := model.Attempts[1]
	if *model.Failure.Raw.RetryAfterMS != 2000 || *model.LatencyMS != 9 || *last.LatencyMS != 29 || *last.TokensIn != 120 || *last.TokensOut != 7 || *last.CostMicroUSD != 13 {
		t.Errorf("attempt %+v, last %+v", model.Attempt, last)
	}
	if model.TokensIn != nil || model.CostMicroUSD != nil {
		t.Error("the refused request has tokens and a cost")
	}
	tool := c.Steps[1]
	if tool.Tool != "fetch_price" || tool.Effect != entry.EffectUndeclared || tool.Failure.String() != "transient.timeout" || tool.Failure.Effects != entry.EffectsUnknown {
		t.Errorf("tool %+v failed with %+v", tool, tool.Failure)
	}
	if got := parentList(c.Steps[4]); got != "0000000000000005~" {
		t.Errorf("parents %s", got)
	}
	var lists []string
	for _, s := range MergeRetries(c).Steps {
		lists = append(lists, attemptList(s))
	}
	want := []string{
		"m-1=failed[capacity.rate_limited] retry//m-1=failed[capacity.overloaded] retry//m-1=ok",
		"=failed[transient.timeout] retry_altered/repair_args=ok",
		"m-1=failed[capacity.overloaded] fallback_model//m-2=ok",
	}
	if diff := cmp.Diff(want, lists); diff != "" {
		t.Errorf("folded (-want +got):\n%s", diff)
	}
}

// What a trace shows of its calls: nesting, links, order, agents that failed
// by themselves, answers that report failures, a failed run.
func TestTraceShapes(t *testing.T) {
	chat := attributesText("gen_ai.operation.name", "chat")
	agent := attributesText("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "inner")
	tool := func(pairs ...string) string {
		return attributesText(append([]string{"gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "get_x"}, pairs...)...)
	}
	for _, c := range []struct {
		desc  string
		spans []string
		want  string // of each step: id(parents)agent=outcome[label], then the run's
	}{
		{"callee before caller, hard", []string{spanText("1", "", 0, 9, tool()), spanText("2", "1", 1, 8, chat)}, "2()svc=ok 1(2)svc=ok run=ok"},
		{"parallel calls do not depend on one another", []string{spanText("1", "", 0, 9), spanText("2", "1", 1, 8, chat), spanText("3", "1", 2, 9, chat)}, "2()svc=ok 3()svc=ok run=ok"},
		{"a link is a hard edge", []string{spanText("2", "", 1, 2, chat), spanText("3", "", 3, 4, chat, fmt.Sprintf(`"links": [{"traceId": "%032d", "spanId": "0000000000000002"}]`, 1))},
			"2()svc=ok 3(2)svc=ok run=ok"},
		{"an agent is no step", []string{spanText("1", "", 0, 9), spanText("2", "1", 1, 8, agent), spanText("3", "2", 2, 3, chat)}, "3()inner=ok run=ok"},
		{"an agent that failed by itself is one", []string{spanText("1", "", 0, 9), spanText("2", "1", 1, 8, agent, failedStatus)}, "2()inner=failed[unknown] run=ok"},
		{"an agent that a step failed is none", []string{spanText("1", "", 0, 9), spanText("2", "1", 1, 8, agent, failedStatus), spanText("3", "2", 2, 3, chat, failedStatus)},
			"3()inner=failed[unknown] run=ok"},
		{"the answer of a tool shows a failure", []string{spanText("1", "", 0, 9, tool("gen_ai.tool.call.result", `{"isError": true, "status": 403}`))}, "1()svc=failed[access.denied] run=failed"},
		{"the filter of a model", []string{spanText("1", "", 0, 9, attributesText("gen_ai.operation.name", "chat", "gen_ai.response.finish_reasons",
			`{"arrayValue": {"values": [{"stringValue": "content_filter"}]}}`))},
			"1()svc=failed[safety.content_filtered] run=failed"},
		{"the exception inside the wrapper", []string{
			spanText("1", "", 0, 9, attributesText("gen_ai.operation.name", "chat", "error.type", "tenacity.RetryError"), failedStatus),
			spanText("2", "1", 1, 2, `"events": [{"name": "exception", `+attributesText("exception.type", "openai.RateLimitError", "exception.message", "slow down")+`}]`, failedStatus)},
			"1()svc=failed[capacity.rate_limited] run=failed"},
		{"no call of an agent", []string{spanText("1", "", 0, 9, failedStatus)}, "run=not_observed"},
		{"without its root", []string{spanText("2", "1", 1, 8, chat)}, "2()svc=ok run=not_observed"},
	} {
		got := ""
		for _, one := range importText(t, OTLP, batchText("svc", c.spans...)) {
			for _, s := range one.Steps {
				got += fmt.Sprintf("%s(%s)%s%s ", strings.TrimLeft(s.ID, "0"), strings.ReplaceAll(parentList(s), "0", ""), strings.TrimPrefix(string(s.Agent), "otlp/"), attemptList(s))
			}
			got += "run=" + string(one.Outcome)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.desc, got, c.want)
		}
	}
}

// A run that failed ends with a verdict, whatever its steps came to.
func TestFailedTraceEndsWithVerdict(t *testing.T) {
	cases := importText(t, OTLP, batchText("svc",
		spanText("1", "", 0, 9, attributesText("error.type", "timeout"), failedStatus),
		spanText("2", "1", 1, 8, attributesText("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "send_certificate"))))
	steps := MergeRetries(cases[0]).Steps
	last := steps[len(steps)-1]
	if len(steps) != 2 || last.ID != "verdict" || last.Failure.String() != "transient.timeout" || last.Failure.Effects != entry.EffectsComplete || last.Effect != entry.EffectIrrevocable {
		t.Errorf("steps %+v, failure %+v", steps, last.Failure)
	}
}

// Bad traces are errors that name the span; the others of the file stay.
func TestBadTraces(t *testing.T) {
	good := strings.ReplaceAll(batchText("svc", spanText("1", "", 0, 9, attributesText("gen_ai.operation.name", "chat"))), fmt.Sprintf("%032d", 1), fmt.Sprintf("%032d", 2))
	for _, c := range []struct{ desc, text, want string }{
		{"no traces", `{"resourceLogs": []}`, "record 1: line 1: field /resourceSpans: is missing or empty"},
		{"an id that is none", `{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}`, "is not OTLP/JSON"},
		{"no trace id", `{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}`, "field /resourceSpans/0/scopeSpans/0/spans/0/traceId: is missing"},
		{"no span id", batchText("s", spanText("", "", 0, 9)), "/spans/0/spanId: is missing; trace 00000000000000000000000000000001 is not imported"},
		{"a span twice", batchText("s", spanText("1", "", 0, 9), spanText("1", "", 0, 9)), "hold span 0000000000000001 of the trace twice"},
		{"a span inside itself", batchText("s", spanText("1", "2", 0, 9), spanText("2", "1", 0, 9)), "hold a span that is inside itself"},
		{"negative tokens", batchText("s", spanText("1", "", 0, 9, attributesText("gen_ai.usage.input_tokens", intValue(-1)))), `hold gen_ai.usage.input_tokens = "-1"`},
		{"a cost that is no number", batchText("s", spanText("1", "", 0, 9, attributesText("gen_ai.usage.cost", "much"))), `hold gen_ai.usage.cost = "much"`},
	} {
		cases, errs := importAll(t, OTLP, c.text+"\n"+good)
		if len(cases) != 1 || len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s: %d cases, errors %v, want %q", c.desc, len(cases), errs, c.want)
		}
	}
}

// Spans inside one another up to the limit are a case, one more is an error;
// so are spans in a trace.
func TestTraceLimits(t *testing.T) {
	for extra, wantErrors := range []int{0, 1} {
		var spans []string
		for i := range spanDepthMax + extra {
			parent := ""
			if i > 0 {
				parent = fmt.Sprintf("%x", i)
			}
			spans = append(spans, spanText(fmt.Sprintf("%x", i+1), parent, i, 2*spanDepthMax))
		}
		if _, errs := importAll(t, OTLP, batchText("s", spans...)); len(errs) != wantErrors {
			t.Errorf("depth %d: %v", spanDepthMax+extra, errs)
		}
	}
	var spans []string
	for i := range spansMax + 1 {
		spans = append(spans, fmt.Sprintf(`{"traceId": "%032d", "spanId": "%016x"}`, 1, i+1))
	}
	for extra, wantErrors := range []int{0, 1} {
		if _, errs := importAll(t, OTLP, batchText("s", spans[:spansMax+extra]...)); len(errs) != wantErrors {
			t.Errorf("%d spans: %v", spansMax+extra, errs)
		}
	}
}

// A trace is given when enough batches passed without it, so that memory is
// bounded; what comes of it later is an error.
func TestTracesAreGivenWhenIdle(t *testing.T) {
	text := batchText("s", spanText("1", "", 0, 9, attributesText("gen_ai.operation.name", "chat")))
	other := func(i int) string { return strings.ReplaceAll(text, fmt.Sprintf("%032d", 1), fmt.Sprintf("%032d", i)) }
	var file strings.Builder
	file.WriteString(text)
	for i := range tracesIdleMax + 1 {
		file.WriteString(other(2 + i))
	}
	file.WriteString(strings.ReplaceAll(text, `"spanId": "0000000000000001"`, `"spanId": "0000000000000002"`))
	cases, errs := importAll(t, OTLP, file.String())
	if len(cases) != tracesIdleMax+2 || cases[0].ID != fmt.Sprintf("%032d", 1) || len(errs) != 1 || errs[0].Problem != entry.IDConflict {
		t.Fatalf("%d cases, the first %s, errors %v", len(cases), cases[0].ID, errs)
	}
}

// Spans of the OpenTelemetry SDK, exported over HTTP and written as a
// collector's file exporter does.
func TestTraceOfTheSDK(t *testing.T) {
	received := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		batch, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(body)
		if err != nil {
			t.Error(err)
		}
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(batch)
		if err != nil {
			t.Error(err)
		}
		received <- string(text)
	}))
	defer collector.Close()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(collector.URL), otlptracehttp.WithCompression(otlptracehttp.NoCompression))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	tracer := provider.Tracer("agent")
	ctx, root := tracer.Start(t.Context(), "invoke_agent buyer")
	root.SetAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "buyer"))
	_, chat := tracer.Start(ctx, "chat m", oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	chat.SetAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", "m"),
		attribute.Int("gen_ai.usage.input_tokens", 3), attribute.Int("http.response.status_code", 503))
	chat.RecordError(errors.New("no capacity"))
	chat.SetStatus(codes.Error, "no capacity")
	chat.End()
	root.End()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	cases := importText(t, OTLP, <-received)
	if len(cases) != 1 || len(cases[0].Steps) != 1 {
		t.Fatalf("cases %+v", cases)
	}
	step := cases[0].Steps[0]
	if cases[0].Agent != "otlp/buyer" || attemptList(step) != "m=failed[transient.unavailable]" || step.Failure.Raw.Text != "no capacity" || *step.TokensIn != 3 || step.LatencyMS == nil {
		t.Errorf("step %+v failed with %+v", step, step.Failure)
	}
}

func FuzzImportOTLP(f *testing.F) {
	fuzzImport(f, OTLP, otlpSample(),
		batchText("s", spanText("1", "2", 0, 9), spanText("2", "1", 9, 0)), batchText("s"),
		`{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00000000000000000000000000000001", "spanId": "0000000000000001", "attributes": `+
			`[{"key": "gen_ai.usage.cost", "value": {"doubleValue": "NaN"}}, {"key": "error.type"}], "status": {"code": 2}}]}]}]}`,
	)
}
