package importer

import (
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// Inputs stand in a scenario if they were asked for, of calls of tools alone, and never with a
// secret.
func TestWithInputs(t *testing.T) {
	run := chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "mail", "arguments": "{\"to\": \"ann@example.org\", \"token\": \"ghp_0123456789abcdefghij\", \"seat\": \"12A\"}"}}]}`)
	for inputs, want := range map[bool]string{true: `"input":{"to":"[mail]","token":"[secret]","seat":"12A"}`, false: `"steps":[{"id":"0"`} {
		var out strings.Builder
		w := Writer{Out: &out, Shape: Shape{Inputs: inputs}}
		if err := w.All(t.Context(), "file", Import(OpenAIChat, "file", strings.NewReader(run)), func() {}); err != nil {
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
