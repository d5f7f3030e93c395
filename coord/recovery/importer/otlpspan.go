package importer

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"recoveryledger/coord/recovery/importer/spanrow"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// role is the part that a span has in a run of agents.
type role int

const (
	roleOther  role = iota // a request, a query, a framework's own span
	roleModel              // a call of a model
	roleTool               // a call of a tool
	roleAgent              // an agent at work: it holds the calls it makes
	roleClient             // an HTTP request or RPC that a call is made of
	roleHolds              // a chain or a check: it holds calls, and is none
)

// span has the values of a span that a case needs. The attributes are not kept.
type span struct {
	id, parent pcommon.SpanID
	links      []pcommon.SpanID // to spans of the same trace
	start, end pcommon.Timestamp
	role       role
	agent      string // its own agent's name, or else that of the service
	named      bool   // the agent, and not only the service, is named
	tool       string
	model      string

	failed       bool
	status       string // the message of a status that is an error
	bare         bool   // the status alone says that the span failed
	raw          scenario.RawError
	evidence     entry.Digest // set where it failed
	resent       bool         // this request repeats an earlier one
	own          string       // the id of the step, where that of the span is made of it
	unended      bool         // the source has no end of the span
	number, line int          // of the record that brought the span

	input, output       entry.Digest
	inputText           string // of a tool
	tokensIn, tokensOut *int64
	cost                *int64
}

// attributes reads the attributes of a span, and remembers the first attribute with a value of the
// wrong type.
type attributes struct {
	pcommon.Map
	wrong *scenario.Error
}

// text is the first of the named attributes that is there, as text.
func (a *attributes) text(names ...string) string {
	for _, name := range names {
		if v, ok := a.Get(name); ok {
			return v.AsString()
		}
	}
	return ""
}

// count is a count of at least 0, if it is there.
func (a *attributes) count(names ...string) *int64 {
	for _, name := range names {
		v, ok := a.Get(name)
		if !ok {
			continue
		}
		n := v.Int()
		if v.Type() != pcommon.ValueTypeInt || n < 0 || n > entry.MaxInteger {
			a.refuse(name, v, "write a number of tokens, or leave it out")
			return nil
		}
		return &n
	}
	return nil
}

// money is the first of the named amounts in USD that is there. Text, integers and doubles are
// read by their decimal digits.
func (a *attributes) money(names ...string) *int64 {
	var v pcommon.Value
	found, name := false, ""
	for _, name = range names {
		if v, found = a.Get(name); found {
			break
		}
	}
	if !found {
		return nil
	}
	amount, wrong := micros("/attributes", jsontext.Value(v.AsString()))
	if wrong != nil || !jsontext.Value(v.AsString()).IsValid() {
		a.refuse(name, v, "write an amount in USD of at least 0, or leave it out")
		return nil
	}
	return amount
}

// status is the HTTP status of a response, 0 without one.
func (a *attributes) status() int {
	status, err := strconv.Atoi(a.text("http.response.status_code", "http.status_code"))
	if err != nil || status < 100 || status > 599 {
		return 0
	}
	return status
}

func (a *attributes) refuse(name string, v pcommon.Value, remedy string) {
	if a.wrong == nil {
		a.wrong = scenario.Malformed("/attributes", fmt.Sprintf("hold %s = %s", name, scenario.Cut(strconv.Quote(v.AsString()), scenario.ToolMax)), remedy)
	}
}

// newSpan reads a span of a service.
func newSpan(s ptrace.Span, service string) (span, *scenario.Error) {
	a := &attributes{Map: s.Attributes()}
	out := span{
		id: s.SpanID(), parent: s.ParentSpanID(), start: s.StartTimestamp(), end: s.EndTimestamp(),
		agent:     a.text("gen_ai.agent.name", "gen_ai.agent.id", "agent.name", "ai.telemetry.functionId"),
		model:     modelID(a.text("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "embedding.model_name", "ai.response.model", "ai.model.id")),
		tokensIn:  a.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.inputTokens", "ai.usage.promptTokens"),
		tokensOut: a.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "ai.usage.outputTokens", "ai.usage.completionTokens"),
		cost:      a.money("gen_ai.usage.cost", "llm.cost.total"),
	}
	if a.wrong != nil {
		return span{}, a.wrong
	}
	if out.id.IsEmpty() {
		return span{}, scenario.Malformed("/spanId", "is missing", "export each span with its 16 hexadecimal digits")
	}
	for _, link := range s.Links().All() {
		if link.TraceID() == s.TraceID() {
			out.links = append(out.links, link.SpanID())
		}
	}
	if out.named = out.agent != ""; !out.named {
		out.agent = service
	}
	out.takeRole(s, a)
	out.takeContent(a)
	out.takeFailure(s, a)
	return out, nil
}

// takeRole sets the role of the span, by the first convention that names one: the operation of
// OpenTelemetry, the kind of OpenInference, the kinds of OpenLLMetry and LangSmith, the operation
// of the AI SDK. A span that no convention names has roleOther.
func (p *span) takeRole(s ptrace.Span, a *attributes) {
	operation := a.text("gen_ai.operation.name")
	if operation == "" {
		operation = strings.ToLower(a.text(spanrow.OpenInferenceKind, "traceloop.span.kind", "langsmith.span.kind", "llm.request.type", "ai.operationId"))
	}
	switch operation {
	case "chat", "text_completion", "generate_content", "embeddings", "llm", "embedding", "completion", "ai.generatetext.dogenerate", "ai.streamtext.dostream",
		"ai.generateobject.dogenerate", "ai.streamobject.dostream", "ai.embed.doembed", "ai.embedmany.doembed":
		p.role = roleModel
	case "execute_tool", "tool", "ai.toolcall":
		p.role, p.tool = roleTool, cmp.Or(a.text("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "tool_call.function.name", "ai.toolCall.name"), s.Name())
	case "retrieval", "retriever":
		p.role, p.tool = roleTool, "retrieval"
	case "reranker":
		p.role, p.tool = roleTool, "rerank"
	case "create_agent", "invoke_agent", "invoke_workflow", "ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject", "ai.embed", "ai.embedmany":
		p.role = roleAgent
	case "agent":
		p.role = roleAgent
		p.agent, p.named = cmp.Or(a.text("gen_ai.agent.name", "agent.name", "traceloop.entity.name", "ai.telemetry.functionId"), s.Name()), true
	case "chain", "workflow", "task", "prompt", "guardrail", "evaluator", "parser":
		p.role = roleHolds
	default:
		p.takeOther(s, a)
	}
}

// takeOther sets the role of a span whose operation says nothing.
func (p *span) takeOther(s ptrace.Span, a *attributes) {
	switch {
	case a.text("gen_ai.tool.name") != "":
		p.role, p.tool = roleTool, a.text("gen_ai.tool.name")
	case p.model != "" && p.tokensIn != nil:
		p.role = roleModel
	case s.Kind() == ptrace.SpanKindClient && (a.status() != 0 || a.text("http.request.method", "rpc.system", "rpc.system.name") != ""):
		p.role = roleClient
		count, err := strconv.Atoi(a.text("http.request.resend_count"))
		p.resent = err == nil && count > 0
	}
}

// takeContent digests input and output, if the exporter recorded them.
func (p *span) takeContent(a *attributes) {
	in, out := "gen_ai.input.messages", "gen_ai.output.messages"
	if p.role == roleTool {
		in, out = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
	}
	if text := a.text(in, "input.value", "traceloop.entity.input", "ai.toolCall.args", "ai.prompt.messages"); text != "" {
		p.input = entry.DigestOf(text)
		if p.role == roleTool {
			p.inputText = strings.Clone(text)
		}
	}
	answer := a.text(out, "output.value", "traceloop.entity.output", "ai.toolCall.result", "ai.response.text", "ai.response.toolCalls", "ai.response.object")
	if answer == "" {
		return
	}
	p.output = entry.DigestOf(answer)
	if raw, failed := scenario.FailureIn(answer); failed && p.role == roleTool {
		p.failed, p.raw, p.evidence = true, raw, p.output
	}
}

// takeFailure sets whether the span failed, and its failure. A span failed if its status is error,
// if it has error.type, or if a filter or refusal ended the answer.
func (p *span) takeFailure(s ptrace.Span, a *attributes) {
	kind := a.text("error.type")
	reason := finishReason(a)
	if s.Status().Code() != ptrace.StatusCodeError && kind == "" && reason == "" {
		return
	}
	raw := scenario.RawError{Text: s.Status().Message(), ProviderCode: reason, HTTPStatus: a.status(), GRPCCode: grpcCode(a), RetryAfterMS: retryAfter(a)}
	if raw.HTTPStatus < 400 {
		raw.HTTPStatus = 0
	}
	p.status, p.bare = s.Status().Message(), kind == "" && !raw.Typed()
	for _, event := range s.Events().All() {
		thrown := attributes{Map: event.Attributes()}
		if event.Name() == "exception" {
			p.bare = false
			raw.ProviderCode = thrown.text("exception.type")
			if message := thrown.text("exception.message"); message != "" {
				raw.Text = message
			}
		}
	}
	if status, err := strconv.Atoi(kind); err == nil && 400 <= status && status < 600 {
		raw.HTTPStatus = status
	} else if kind != "" && !(scenario.RawError{ProviderCode: raw.ProviderCode}).Typed() {
		raw.ProviderCode = kind
	}
	if p.failed && !raw.Typed() {
		return // the tool's own answer says more
	}
	p.failed, p.raw = true, raw
	if p.evidence == "" {
		p.evidence = spanDigest(s)
	}
}

// finishReason is why a model ended its answer, if that is a failure.
func finishReason(a *attributes) string {
	v, ok := a.Get("gen_ai.response.finish_reasons")
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		return ""
	}
	for _, reason := range v.Slice().All() {
		if text := reason.AsString(); text == "content_filter" || text == "refusal" {
			return text
		}
	}
	return ""
}

// spanDigest is the digest of the span as it was recorded.
func spanDigest(s ptrace.Span) entry.Digest {
	one := ptrace.NewTraces()
	s.CopyTo(one.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(one)
	if err != nil { // a value that JSON cannot hold: a double that is no number
		return entry.DigestOf([]byte(s.TraceID().String() + s.SpanID().String()))
	}
	return entry.DigestOf(text)
}

// grpcCode is the name of a gRPC status other than OK.
func grpcCode(a *attributes) string {
	names := []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	}
	text := a.text("rpc.grpc.status_code", "rpc.response.status_code")
	if code, err := strconv.Atoi(text); err == nil && 0 < code && code < len(names) {
		return names[code]
	}
	for _, name := range names[1:] {
		if strings.EqualFold(name, text) {
			return name
		}
	}
	return ""
}

// retryAfter is the header of that name in milliseconds, where it holds
// seconds; a date is not related to the time of the span.
func retryAfter(a *attributes) *int64 {
	v, ok := a.Get("http.response.header.retry-after")
	if !ok {
		return nil
	}
	text := v.AsString()
	if v.Type() == pcommon.ValueTypeSlice && v.Slice().Len() > 0 {
		text = v.Slice().At(0).AsString()
	}
	return scenario.RetryAfterMS(text)
}

// latency is the time between two instants in milliseconds, rounded half up;
// absent where a clock was not set or ran backwards.
func latency(start, end pcommon.Timestamp) *int64 {
	if start == 0 || end < start {
		return nil
	}
	const nanos = 1_000_000
	elapsed := uint64(end - start)
	ms := int64(elapsed / nanos) // at most 2^64/10^6
	if elapsed%nanos >= nanos/2 {
		ms++
	}
	return &ms
}
