package importer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// samples are the formats with a good input each.
func samples() map[Format]string {
	return map[Format]string{
		OpenAIChat: chatSample, Attempts: attemptsSample, ToolBench: toolbenchSample, Galaxy: galaxySample, ECT: ectSample(), OpenInference: inferenceSample(), SWEAgent: sweSample, OpenHands: handsSample,
		OpenAIResponses: responsesSample, Anthropic: anthropicSample, GroupChat: groupSample, LangSmith: smithSample, WfCommons: wfSample,
	}
}

// badInput is an input with the one error that it gives, written as problem,
// record, line, field and the beginning of the detail.
type badInput struct {
	desc   string
	format Format
	text   string
	want   string
	cases  int // that are imported all the same
}

func chatOf(messages string) string { return `{"messages": [` + messages + `]}` }

func graphOf(steps string) string { return `{"steps": {` + steps + `}}` }

// Bad input of every kind gives one error that names the place.
func TestBadInput(t *testing.T) {
	const call = `{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}`
	for _, c := range []badInput{
		{"empty", OpenAIChat, "", "malformed 0 0 : holds no record", 0},
		{"only space", Galaxy, " \n\n", "malformed 0 0 : holds no record", 0},
		{"no runs", OpenAIChat, "[]", "malformed 0 0 : holds no record", 0},
		{"no JSON", Attempts, "case;seq", "malformed 1 1 : is not JSON", 0},
		{"cut off", Galaxy, "{\n\"steps\": {\n\"0\": ", "malformed 1 3 /steps/0: is not JSON", 0},
		{"cut off array", OpenAIChat, "[" + chatOf("") + ",\n", "malformed 2 2 : is not JSON", 1},
		{"open array", OpenAIChat, "[" + chatOf(""), "malformed 2 1 : is not JSON", 1},
		{"broken array", OpenAIChat, "[" + chatOf("") + "\n}", "malformed 2 2 : is not JSON", 1},
		{"after the array", OpenAIChat, "[" + chatOf("") + "]\n[]", "malformed 0 2 : has text after the end of its array", 1},
		{"broken after the array", OpenAIChat, "[" + chatOf("") + "]\nx", "malformed 2 2 : is not JSON", 1},
		{"broken line", OpenAIChat, chatOf("") + "\n" + chatOf(`{`) + "\n" + chatOf(""), "malformed 2 2 /messages/0: is not JSON", 2},
		{"repeated member", Galaxy, `{"steps": {}, "steps": {}}`, "malformed 1 1 /steps: is not JSON", 0},
		{"invalid UTF-8", Attempts, "{\"case\": \"\xff\"}", "malformed 1 1 /case: is not JSON: invalid UTF-8", 0},
		{"lone surrogate", Attempts, `{"case": "\ud800"}`, "malformed 1 1 /case: is not JSON", 0},
		{"not an object", ToolBench, "7", "malformed 1 1 : holds a number and not an object", 0},
		{"unknown format", "syslog", "{}", `malformed 0 0 : has the unknown format "syslog"`, 0},

		{"no messages", OpenAIChat, "\n\n{}", "malformed 1 3 /messages: is missing", 0},
		{"messages null", OpenAIChat, `{"messages": null}`, "malformed 1 1 /messages: is missing", 0},
		{"messages not an array", OpenAIChat, `{"messages": "hi"}`, "malformed 1 1 /messages: holds a string and not an array", 0},
		{"id of a wrong type", OpenAIChat, `{"id": {}, "messages": []}`, "malformed 1 1 /id: holds an object", 0},
		{"task of a wrong type", OpenAIChat, `{"task_id": [], "messages": []}`, "malformed 1 1 /task_id: holds an array", 0},
		{"trial of a wrong type", OpenAIChat, `{"task_id": 1, "trial": true, "messages": []}`, "malformed 1 1 /trial: holds a boolean", 0},
		{"reward of a wrong type", OpenAIChat, `{"reward": "1", "messages": []}`, "malformed 1 1 /reward: holds a string", 0},
		{"unknown role", OpenAIChat, chatOf(`{"role": "critic", "content": "x"}`), `malformed 1 1 /messages/0/role: is "critic"`, 0},
		{"no role", OpenAIChat, chatOf(`{}`), `malformed 1 1 /messages/0/role: is ""`, 0},
		{"call without name", OpenAIChat, chatOf(`{"role": "assistant", "tool_calls": [{"id": "a"}]}`), "malformed 1 1 /messages/0/tool_calls/0/function/name: is missing", 0},
		{"answer without call", OpenAIChat, chatOf(`{"role": "tool", "tool_call_id": "a"}`), `malformed 1 1 /messages/0/tool_call_id: "a" answers no open call`, 0},
		{"two answers", OpenAIChat, chatOf(call + `,{"role":"tool","tool_call_id":"a","content":""},{"role":"tool","tool_call_id":"a","content":""}`), `malformed 1 1 /messages/2/tool_call_id: "a" answers no open call`, 0},
		{"repeated id", OpenAIChat, `{"id": "x", "messages": []}` + "\n" + `{"id": "x", "messages": []}` + "\n" + `{"id": "y", "messages": []}`, `id-conflict 2 2 : case "x" already came with record 1`, 2},
		{"one bad run of three", OpenAIChat, "[" + chatOf("") + ",\n {\"messages\": [7]},\n" + chatOf("") + "]", "malformed 2 2 /messages/0: holds a number and not an object", 2},

		{"row without case", Attempts, `{"class": "ok"}`, "malformed 1 1 /case: is missing", 0},
		{"row out of order", Attempts, `{"case": "a", "seq": 1}`, `malformed 1 1 /seq: is 1 where 0 is next; case "a" is not imported`, 0},
		{"fractional seq", Attempts, `{"case": "a", "seq": 0.5}`, `malformed 1 1 /seq: holds another number and not a 64-bit integer; case "a" is not imported`, 0},
		{"negative cost", Attempts, `{"case": "a", "cost_usd": -1}`, `malformed 1 1 /cost_usd: is negative; case "a"`, 0},
		{"cost as text", Attempts, `{"case": "a", "cost_usd": "1"}`, `malformed 1 1 /cost_usd: holds a string and not a number; case "a"`, 0},
		{"huge cost", Attempts, `{"case": "a", "cost_usd": 1e999999999}`, `malformed 1 1 /cost_usd: is too large; case "a"`, 0},
		{"negative latency", Attempts, `{"case": "a", "latency_ms": -1}`, `malformed 1 1 /latency_ms: is -1; case "a"`, 0},
		{"negative patch", Attempts, `{"case": "a", "patch_bytes": -1}`, `malformed 1 1 /patch_bytes: is -1; case "a"`, 0},
		{"bad row in a case", Attempts, "{\"case\":\"a\"}\n{\"case\":\"a\",\"seq\":2}\n{\"case\":\"a\",\"seq\":1}\n{\"case\":\"b\"}",
			`malformed 2 2 /seq: is 2 where 1 is next; case "a" is not imported`, 1},
		{"bad row of nobody", Attempts, "{\"case\":\"a\"}\n{\"seq\":1}\n{\"case\":\"b\"}", `malformed 2 2 /case: is missing; case "a" is not imported`, 1},
		{"broken line in a case", Attempts, "{\"case\":\"a\"}\n{\"case\":\"b\"}\n{\"case\"", `malformed 3 3 /case: is not JSON: unexpected EOF; case "b" is not imported`, 1},
		{"rows of a case apart", Attempts, "{\"case\":\"a\"}\n{\"case\":\"b\"}\n{\"case\":\"a\"}", `id-conflict 3 3 : case "a" already came with record 1`, 2},

		{"no tree", ToolBench, `{"win": true}`, "malformed 1 1 /tree/tree: is missing", 0},
		{"observation of a wrong type", ToolBench, `{"tree": {"tree": {"children": [{"observation": 7}]}}}`, "malformed 1 1 /tree/tree/children/0/observation: holds a number and not a string", 0},
		{"two trees", ToolBench, toolbenchSample + toolbenchSample, `id-conflict 2 11 : case "folder/file" already came with record 1`, 1},

		{"no steps", Galaxy, `{}`, "malformed 1 1 /steps: is missing", 0},
		{"step without number", Galaxy, graphOf(`"a": {}`), "malformed 1 1 /steps/a: does not have its number", 0},
		{"step with two numbers", Galaxy, graphOf(`"1": {"id": 2}`), "malformed 1 1 /steps/1: does not have its number", 0},
		{"number in another spelling", Galaxy, graphOf(`"01": {}`), "malformed 1 1 /steps/01: does not have its number", 0},
		{"edge to nowhere", Galaxy, graphOf(`"1": {"input_connections": {"a/b": {"id": 9, "output_name": "o"}}}`), `malformed 1 1 /steps/1/input_connections: names output "o" of step 9`, 0},
		{"edge of a wrong type", Galaxy, graphOf(`"1": {"input_connections": {"a/b": [{"id": "9"}]}}`), "malformed 1 1 /steps/1/input_connections/a~1b/0/id: holds a string and not a 64-bit integer", 0},
		{"edge to itself", Galaxy, graphOf(`"1": {"input_connections": {"a": {"id": 1, "output_name": "o"}}}`), "malformed 1 1 /steps/1: depends on itself", 0},
		{"output that is not there", Galaxy, graphOf(`"1": {"subworkflow": {"steps": {"0": {"type": "tool"}}}}, "2": {"input_connections": {"a": ` +
			`{"id": 1, "output_name": "o"}}}`), `malformed 1 1 /steps/2/input_connections: names output "o" of step 1`, 0},
		{"workflow output that is not there", Galaxy, graphOf(`"1": {"subworkflow": {"steps": {}}, "workflow_outputs": [{"output_name": "o"}]}`),
			`malformed 1 1 /steps/1/workflow_outputs: names output "o"`, 0},
		{"inner step that is not there", Galaxy, graphOf(`"0": {}, "1": {"subworkflow": {"steps": {}}, "input_connections": {"a": {"id": 0, ` +
			`"input_subworkflow_step_id": 5}}}`), "malformed 1 1 /steps/1/input_connections: names inner step 5", 0},
		{"inner step without number", Galaxy, graphOf(`"1": {"subworkflow": {"steps": {"x": {}}}}`), "malformed 1 1 /steps/1/subworkflow/steps/x: does not have its number", 0},
	} {
		cases, errs := importAll(t, c.format, c.text)
		if len(errs) != 1 {
			t.Errorf("%s: %d errors, want one: %v", c.desc, len(errs), errs)
			continue
		}
		e := errs[0]
		got := fmt.Sprintf("%s %d %d %s: %s", e.Problem, e.Record, e.Line, e.Field, e.Detail)
		if !strings.HasPrefix(got, c.want) || len(cases) != c.cases {
			t.Errorf("%s:\n got %s, %d cases\nwant %s, %d cases", c.desc, got, len(cases), c.want, c.cases)
		}
	}
}

// An error says everything in one line.
func TestErrorText(t *testing.T) {
	_, errs := importAll(t, Attempts, `{"case": "a", "cost_usd": -1}`)
	const want = `read folder/file.json: record 1: line 1: field /cost_usd: is negative; case "a" is not imported (malformed); write an amount of at least 0, or leave it out`
	if got := errs[0].Error(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// What the reader answers is passed on and ends the sequence.
func TestReadError(t *testing.T) {
	broken := fmt.Errorf("disk on fire: %w", io.EOF)
	for format, text := range samples() {
		r := io.MultiReader(strings.NewReader(text[:len(text)/2]), iotest.ErrReader(broken))
		var last error
		for c, err := range Import(format, "file", r, new(Counts)) {
			if last != nil {
				t.Errorf("%s: went on after %v with %s", format, last, c.ID)
			}
			last = err
		}
		if !errors.Is(last, broken) {
			t.Errorf("%s: ended with %v", format, last)
		}
	}
}

// The same bytes give the same cases, however the reader cuts them up, and
// in whatever order maps are walked.
func TestImportIsDeterministic(t *testing.T) {
	for format, text := range samples() {
		want := importText(t, format, text)
		for round := range 20 {
			var r io.Reader = strings.NewReader(text)
			if round%2 == 1 {
				r = iotest.OneByteReader(r)
			}
			var got []scenario.Case
			for c, err := range Import(format, "folder/file.json", r, new(Counts)) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, c)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s differs in round %d (-want +got):\n%s", format, round, diff)
			}
		}
	}
}

// repeat reads the same text again and again, and counts what was read.
type repeat struct {
	text string
	read int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.read%len(r.text):])
	r.read += n
	return n, nil
}

// Cases stream: from an input without end the first ones come after a part
// of it that does not grow, in an array as in lines; and a caller may stop.
func TestImportStreams(t *testing.T) {
	for format, layout := range map[Format][2]string{
		OpenAIChat: {"[", `{"messages": []}, `},
		Attempts:   {"", `{"case": "a"}{"case": "b"}` + "\n"},
	} {
		endless := &repeat{text: layout[1]}
		seen := 0
		for _, err := range Import(format, "file", io.MultiReader(strings.NewReader(layout[0]), endless), new(Counts)) {
			if seen++; seen == 2 {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if seen != 2 || endless.read > 1<<20 {
			t.Errorf("%s: %d cases after %d bytes", format, seen, endless.read)
		}
	}
}

// A record is read at the limit and refused one byte past it; a record
// without end is refused after no more than the limit was read.
func TestRecordLimit(t *testing.T) {
	const head, tail = `{"messages": [], "pad": "`, `"}`
	for size, want := range map[int]string{scenario.CaseBytesMax: "", scenario.CaseBytesMax + 1: "too-large 2 2"} {
		text := chatOf("") + "\n" + head + strings.Repeat("x", size-len(head)-len(tail)) + tail
		_, errs := importAll(t, OpenAIChat, text)
		got := ""
		if len(errs) > 0 {
			got = fmt.Sprintf("%s %d %d", errs[0].Problem, errs[0].Record, errs[0].Line)
		}
		if got != want || len(errs) > 1 {
			t.Errorf("record of %d bytes: %s, want %s", size, got, want)
		}
	}
	for _, text := range []string{"x", " ", "\n"} {
		endless := &repeat{text: strings.Repeat(text, 1<<20)}
		for _, err := range Import(Attempts, "file", io.MultiReader(strings.NewReader(`{"case": "`[:10*len(strings.TrimSpace(text))]), endless), new(Counts)) {
			if wrong := checkError(t, err); wrong.Problem != entry.TooLarge {
				t.Errorf("endless %q: %v", text, wrong)
			}
		}
		if endless.read > scenario.CaseBytesMax+4096 {
			t.Errorf("endless %q: read %d bytes", text, endless.read)
		}
	}
}

// The other limits, at each and one past it.
func TestCaseLimits(t *testing.T) {
	row := func(n int) string { return strings.Repeat("{\"case\": \"a\"}\n", n) }
	calls := func(n int) string {
		call := `{"id": "a", "function": {"name": "f"}}`
		return chatOf(`{"role": "assistant", "tool_calls": [` + strings.TrimSuffix(strings.Repeat(call+",", n), ",") + `]}`)
	}
	tree := func(n int) string {
		call := `{"node_type": "Action", "description": "a", "children": [{"node_type": "Action Input"}]}`
		return `{"tree": {"tree": {"children": [` + strings.TrimSuffix(strings.Repeat(call+",", n), ",") + `]}}}`
	}
	graph := func(n int) string {
		var steps []string
		for i := range n {
			steps = append(steps, fmt.Sprintf(`"%d": {}`, i))
		}
		return graphOf(strings.Join(steps, ","))
	}
	fan := func(n int) string {
		steps := []string{`"999": {"input_connections": {"all": [`}
		for i := range n {
			steps[0] += fmt.Sprintf(`{"id": %d},`, i)
			steps = append(steps, fmt.Sprintf(`"%d": {}`, i))
		}
		steps[0] = strings.TrimSuffix(steps[0], ",") + `]}}`
		return graphOf(strings.Join(steps, ","))
	}
	nest := func(n int) string {
		return strings.Repeat(`{"steps": {"0": {"subworkflow": `, n-1) + graphOf("") + strings.Repeat(`}}}`, n-1)
	}
	tool := func(n int) string {
		return chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "` + strings.Repeat("f", n) + `"}}]}`)
	}
	for _, c := range []struct {
		desc   string
		format Format
		limit  int
		text   func(n int) string
	}{
		{"attempts", Attempts, scenario.StepsMax, row},
		{"calls", OpenAIChat, scenario.StepsMax, calls},
		{"tree", ToolBench, scenario.StepsMax, tree},
		{"graph", Galaxy, scenario.StepsMax, graph},
		{"connections", Galaxy, scenario.ParentsMax, fan},
		{"graphs", Galaxy, graphsMax, nest},
		{"tool", OpenAIChat, scenario.ToolMax, tool},
	} {
		if _, errs := importAll(t, c.format, c.text(c.limit)); len(errs) > 0 {
			t.Errorf("%s at the limit: %v", c.desc, errs[0])
		}
		_, errs := importAll(t, c.format, c.text(c.limit+1))
		if len(errs) != 1 || errs[0].Problem != entry.TooLarge {
			t.Errorf("%s past the limit: %v", c.desc, errs)
		}
	}
}

// A call that uses more producers than a step may have parents is refused.
func TestParentsLimit(t *testing.T) {
	var messages, uses []string
	for i := range scenario.ParentsMax + 1 {
		id := fmt.Sprintf("AB%04d", i)
		messages = append(messages,
			`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "get_a", "arguments": "{}"}}]}`,
			`{"role": "tool", "tool_call_id": "a", "content": "`+id+`"}`)
		uses = append(uses, `\"`+id+`\"`)
	}
	use := func(n int) string {
		call := `{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "[` + strings.Join(uses[len(uses)-n:], ",") + `]"}}]}`
		return chatOf(strings.Join(append(slices.Clip(messages), call), ","))
	}
	if _, errs := importAll(t, OpenAIChat, use(scenario.ParentsMax)); len(errs) > 0 {
		t.Error(errs[0])
	}
	if _, errs := importAll(t, OpenAIChat, use(scenario.ParentsMax+1)); len(errs) != 1 || errs[0].Problem != entry.TooLarge {
		t.Errorf("errors %v", errs)
	}
}

// The text of an error is cut at a character.
func TestRawTextIsCut(t *testing.T) {
	long := strings.Repeat("é", scenario.TextMax)
	cases := importText(t, OpenAIChat, chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
		{"role": "tool", "tool_call_id": "a", "content": "Error: x`+long+`"}`))
	if text := cases[0].Steps[0].Failure.Raw.Text; len(text) != scenario.TextMax-1 || !strings.HasPrefix(text, "xé") || strings.ToValidUTF8(text, "") != text {
		t.Errorf("text of %d bytes", len(text))
	}
}
