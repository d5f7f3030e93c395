package importer

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// What real exporters write. testdata/exporters runs them, and holds the importer to all that they
// write.

const thrownRateLimit = `"status": {"code": 2, "message": "Rate limit reached"}, "events": [{"name": "exception", "attributes": [` +
	`{"key": "exception.type", "value": {"stringValue": "AI_APICallError"}}, {"key": "exception.message", "value": {"stringValue": "Rate limit reached"}}]}]`

// aiSDKSample is a run that the AI SDK recorded itself: a tool, and a model that was refused once.
func aiSDKSample() string {
	operation := func(name string, rest ...string) string {
		return attributesText(append([]string{"operation.name", name + " shopper", "ai.operationId", name, "ai.telemetry.functionId", "shopper"}, rest...)...)
	}
	return batchText("shop",
		spanText("1", "", 0, 100, operation("ai.generateText", "ai.model.id", "gpt", "ai.usage.inputTokens", intValue(42))),
		spanText("2", "1", 1, 10, operation("ai.generateText.doGenerate", "ai.model.id", "gpt", "ai.usage.inputTokens", intValue(21), "ai.usage.outputTokens", intValue(7),
			"ai.prompt.messages", "[]", "ai.response.toolCalls", "[]")),
		spanText("3", "1", 11, 12, operation("ai.toolCall", "ai.toolCall.name", "get_price", "ai.toolCall.args", "{}", "ai.toolCall.result", "12")),
		spanText("4", "1", 13, 14, operation("ai.generateText.doGenerate", "ai.model.id", "gpt"), thrownRateLimit),
		spanText("5", "1", 15, 16, operation("ai.generateText.doGenerate", "ai.model.id", "gpt", "ai.response.text", "12 euros")),
	)
}

func TestTraceOfTheAISDK(t *testing.T) {
	cases := importText(t, OTLP, aiSDKSample())
	if len(cases) != 1 || len(cases[0].Steps) != 4 || cases[0].Agent != "otlp/shopper" || cases[0].Outcome != scenario.OK {
		t.Fatalf("%+v", cases)
	}
	first, tool, refused, again := cases[0].Steps[0], cases[0].Steps[1], cases[0].Steps[2], cases[0].Steps[3]
	if first.Model != "gpt" || *first.TokensIn != 21 || *first.TokensOut != 7 || first.InputDigest == "" || first.OutputDigest == "" {
		t.Errorf("model: %+v", first)
	}
	if tool.Tool != "get_price" || tool.InputDigest == "" || tool.OutputDigest == "" || parentList(tool) != "0000000000000002~" {
		t.Errorf("tool: %+v", tool)
	}
	if got, want := attemptList(refused)+" "+attemptList(again), "gpt=failed[capacity.rate_limited] retry//gpt=ok"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Exporters in JavaScript cut the beginning of a span to a millisecond: the end of the span before
// then seems to be later.
func TestBeginningsAreCut(t *testing.T) {
	kind := attributesText("gen_ai.operation.name", "chat", "gen_ai.request.model", "m")
	cut := func(text string) string {
		return strings.Replace(text, `endTimeUnixNano": "10000000`, `endTimeUnixNano": "10300000`, 1)
	} // the end of span 2
	for name, c := range map[string]struct{ text, want string }{
		"cut":            {batchText("s", cut(spanText("2", "1", 5, 10, kind)), spanText("3", "1", 10, 20, kind)), "0000000000000002~"},
		"side by side":   {batchText("s", cut(spanText("2", "1", 5, 10, kind)), spanText("3", "1", 9, 20, kind)), ""},
		"one beginning":  {batchText("s", spanText("3", "1", 10, 20, kind), cut(spanText("2", "1", 10, 10, kind))), "0000000000000002~"},
		"not cut at all": {batchText("s", cut(spanText("2", "1", 5, 10, kind)), strings.Replace(spanText("3", "1", 10, 20, kind), `"10000000"`, `"10200000"`, 1)), ""},
	} {
		steps := importText(t, OTLP, c.text)[0].Steps
		if got := parentList(steps[1]); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The span processor of OpenInference for the AI SDK writes the first error of a trace into the
// status of the spans after it.
func TestCopiedStatus(t *testing.T) {
	const copied = `"status": {"code": 2, "message": "Rate limit reached"}`
	chat := func(output string) string {
		pairs := []string{"openinference.span.kind", "LLM", "llm.model_name", "m"}
		if output != "" {
			pairs = append(pairs, "output.value", output)
		}
		return attributesText(pairs...)
	}
	sample := func(output, status string) string {
		return batchText("s", spanText("1", "", 0, 90, attributesText("openinference.span.kind", "AGENT", "output.value", "paid"), copied),
			spanText("2", "1", 5, 10, chat(""), thrownRateLimit), spanText("3", "1", 30, 40, attributesText("openinference.span.kind", "TOOL", "tool.name", "pay", "output.value", "{}")),
			spanText("4", "1", 50, 60, chat(output), status))
	}
	for name, c := range map[string]struct {
		text string
		want scenario.Outcome
	}{
		"a copy":              {sample("paid", copied), scenario.OK},
		"no answer":           {sample("", copied), scenario.Failed},
		"another message":     {sample("paid", failedStatus), scenario.Failed},
		"an exception of its": {sample("paid", thrownRateLimit), scenario.Failed},
	} {
		got := importText(t, OpenInference, c.text)[0]
		if last := got.Steps[2]; last.Final().Outcome != c.want || got.Outcome != scenario.OK || got.Steps[0].Failure == nil {
			t.Errorf("%s: %s, the run %s", name, last.Final().Outcome, got.Outcome)
		}
	}
}
