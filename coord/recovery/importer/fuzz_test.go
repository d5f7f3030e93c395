package importer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fuzzImport looks for inputs of a format that break a promise of Import:
// it ends, every case and error is as checkCase and checkError want it, a
// second reading gives the same, and the cases are lines of a scenario.
func fuzzImport(f *testing.F, format Format, seeds ...string) {
	f.Helper()
	for _, seed := range append(seeds, samples()[format], "", "[", "{}", "[{}]", "null", "\"\xff\"") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cases, errs := importAll(t, format, text)
		again, errsAgain := importAll(t, format, text)
		if diff := cmp.Diff(cases, again); diff != "" {
			t.Fatalf("cases differ:\n%s", diff)
		}
		if diff := cmp.Diff(errs, errsAgain); diff != "" {
			t.Fatalf("errors differ:\n%s", diff)
		}
		checkScenario(t, cases)
	})
}

func FuzzImportOpenAIChat(f *testing.F) {
	fuzzImport(f, OpenAIChat,
		`{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "get_a", "arguments": "{\"id\": \"AB1234\"}"}}]}, `+
			`{"role": "tool", "tool_call_id": "1", "content": "{'error': 'AB1234'}"}]}`,
		`{"id": 1.5e3, "reward": 1e-400, "traj": [{"role": "user", "content": [{"type": "text"}]}]}`,
	)
}

func FuzzImportAttempts(f *testing.F) {
	fuzzImport(f, Attempts,
		"{\"case\": \"a\", \"cost_usd\": 1e19}\n{\"case\": \"a\"}\n{\"case\": \"b\", \"seq\": 0}\n{}",
		`[{"case": "é", "class": "odd"}, {"case": "a"}, {"case": "é"}]`,
	)
}

func FuzzImportToolBench(f *testing.F) {
	fuzzImport(f, ToolBench,
		`{"tree": {"tree": {"node_type": "Action", "description": "f", "children": [{"node_type": "Action Input", "observation": "{\"error\": `+
			`\"Function executing from a error...\\nb\", \"response\": 1}"}, {"node_type": "Action Input", "observation": "{"}]}}}`,
	)
}

func FuzzImportGalaxy(f *testing.F) {
	fuzzImport(f, Galaxy,
		`{"steps": {"0": {"subworkflow": {"steps": {"1": {"workflow_outputs": [{"output_name": "o"}]}}}, "when": "x"}, "1": {"input_connections": {"a": {"id": 0, "output_name": "1:o"}}}}}`,
		`{"steps": {"1": {"input_connections": {"a": {"id": 2}}}, "2": {"input_connections": {"a": {"id": 1}}}}}`,
		`{"steps": {"01": {}, "02": {}}}`,
	)
}
