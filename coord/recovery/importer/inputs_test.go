package importer

import (
	"fmt"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// Inputs stand in a scenario if they were asked for, of calls of tools alone, and never with a
// secret.
func TestWithInputs(t *testing.T) {
	run := chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "mail", "arguments": "{\"to\": \"ann@example.org\", ` +
		`\"token\": \"ghp_0123456789abcdefghij\", \"seat\": \"12A\"}"}}]}`)
	for inputs, want := range map[bool]string{true: `"input":{"to":"[mail]","token":"[secret]","seat":"12A"}`, false: `"steps":[{"id":"0"`} {
		var out strings.Builder
		w := Writer{Out: &out, Shape: Shape{Inputs: inputs}}
		if err := w.All(t.Context(), "file", Import(OpenAIChat, "file", strings.NewReader(run), new(Counts)), func() {}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, `"input":`) != inputs || strings.Contains(got, "ann@") || strings.Contains(got, "ghp_") {
			t.Errorf("inputs %t: %s", inputs, got)
		}
	}
	for _, format := range []Format{OpenAIChat, OpenAIResponses, Anthropic, SWEAgent, OpenHands, ToolBench, LangSmith, OpenInference} {
		seen := 0
		for _, c := range importText(t, format, samples()[format]) {
			if wrong := (Shape{Inputs: true}).Apply(&c); wrong != nil {
				t.Fatal(wrong)
			}
			for _, s := range c.Steps {
				if s.Input != nil {
					seen++
				}
			}
			checkScenario(t, []scenario.Case{c})
		}
		if seen == 0 {
			t.Errorf("%s: no step has an input", format)
		}
	}
}

// Inputs in traces of spans have a room: 16 MiB. The calls whose input finds no room are in their
// cases without the input, and are counted. Traces that are whole give their room back.
func TestInputsHaveARoom(t *testing.T) {
	row := func(size int) func(i int) string {
		input := strings.Repeat("x", size)
		return func(i int) string {
			return fmt.Sprintf(`{"context.trace_id": "%032x", "context.span_id": "%016x", "name": "get_a", "attributes.openinference.span.kind": `+
				`"TOOL", "attributes.tool.name": "get_a", "attributes.input.value": %q, "start_time": "2026-01-02T03:04:05Z", "end_time": `+
				`"2026-01-02T03:04:06Z"}`, i+1, i+1, input)
		}
	}
	batch := func(size int) func(i int) string {
		input := strings.Repeat("x", size)
		return func(i int) string {
			return fmt.Sprintf(`{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "%032x", "spanId": "%016x", "name": "execute_tool get_a", `+
				`"startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": `+
				`"execute_tool"}}, {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": %q}}]}]}]}]}`, i+1, i+1, input)
		}
	}
	for name, c := range map[string]struct {
		format  Format
		line    func(i int) string
		limit   int
		without bool // some calls
	}{
		"open at once":      {OpenInference, row(1 << 20), 20 << 20, true},
		"one after another": {OTLP, batch(16000), 24 << 20, false},
	} {
		counts := &Counts{}
		held, cases := 0, 0
		file := &lines{line: c.line, limit: c.limit, peak: func() {}}
		for one, err := range Import(c.format, name, file, counts) {
			if err != nil {
				t.Fatal(err)
			}
			cases++
			if one.Steps[0].InputText != "" {
				held++
			}
		}
		if held+counts.Unheld != cases || counts.Taken != cases || (counts.Unheld > 0) != c.without || held == 0 {
			t.Errorf("%s: of %d cases %d have their input, %d are counted", name, cases, held, counts.Unheld)
		}
		if strings.Contains(counts.String(), "; inputs left out of calls: 4, because more than 16 MiB of inputs") != c.without {
			t.Errorf("%s: %s", name, counts)
		}
	}
}
