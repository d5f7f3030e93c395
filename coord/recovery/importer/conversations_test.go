package importer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
)

const responsesSample = `{"id": "resp_1", "model": "m-1", "input": [
  {"role": "system", "content": "policy"}, {"role": "user", "content": [{"type": "input_text", "text": "cancel ABC123"}]}],
 "output": [
  {"type": "reasoning", "id": "rs_1", "summary": []},
  {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_reservation", "arguments": "{\"id\":\"ABC123\"}", "status": "completed"},
  {"type": "function_call_output", "call_id": "c1", "output": "{\"id\": \"ABC123\"}"},
  {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "refunds"}},
  {"type": "mcp_call", "id": "mcp_1", "name": "send_mail", "server_label": "mail", "arguments": "{\"to\":\"a\"}", "output": null, "error": "Connection timed out"},
  {"type": "custom_tool_call", "call_id": "c2", "name": "run_sql", "input": "drop x"},
  {"type": "local_shell_call", "call_id": "c3", "action": {"type": "exec", "command": ["ls"]}},
  {"type": "local_shell_call_output", "call_id": "c3", "output": "make: *** [all] Error 2\nexit code: 2"},
  {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}],
 "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
{"request": 1, "input": "hello", "response": {"model": "m-2", "output": [], "status": "completed"}}`

const anthropicSample = `[{"id": "a1", "model": "m-1", "system": "policy", "reward": 1, "messages": [
  {"role": "user", "content": "cancel ABC123"},
  {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one moment"},
    {"type": "tool_use", "id": "t1", "name": "get_reservation", "input": {"id":"ABC123"}},
    {"type": "tool_use", "id": "t2", "name": "get_user", "input": {}}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": "no user named"},
    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "{\"id\": \"ABC123\"}"}]}]},
  {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}}]},
  {"role": "user", "content": "go on"}],
  "response": {"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "t3", "name": "cancel_reservation", "input": {"id":"ABC123"}}], "stop_reason": "tool_use"}},
 {"id": "a2", "messages": [{"role": "user", "content": "hi"}], "response": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}]`

const groupSample = `{"is_correct": false, "question_ID": "q-7", "history": [
  {"role": "user", "name": "Planner", "content": "find the height"},
  {"role": "user", "name": "Coder", "content": "print(3)"},
  {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1 (execution failed)\nCode output: Traceback (most recent call last):\n  File \"x\"\nKeyError: 'a'"},
  {"role": "user", "name": "Coder", "content": "print(4)"},
  {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0 (execution succeeded)\nCode output: 4"}]}
{"messages": [
  {"source": "user", "type": "TextMessage", "content": "book it"},
  {"source": "clerk", "type": "ToolCallRequestEvent", "content": [{"id": "k1", "name": "book_room", "arguments": "{\"n\": 1}"}]},
  {"source": "clerk", "type": "ToolCallExecutionEvent", "content": [{"call_id": "k1", "name": "book_room", "is_error": true, "content": "no such hotel"}]},
  {"source": "clerk", "type": "TextMessage", "content": "sorry", "models_usage": {"prompt_tokens": 12, "completion_tokens": 3}},
  {"source": "user", "type": "StopMessage", "content": "TERMINATE"}], "stop_reason": "done"}`

const smithSample = `{"id": "11111111-1111-1111-1111-111111111111", "trace_id": "11111111-1111-1111-1111-111111111111", "name": "agent", "run_type": "chain", "session_name": "shop", "start_time": "2026-01-02T03:04:05.000000", "end_time": "2026-01-02T03:04:09.000000", "status": "success", "inputs": {}, "outputs": {}}
{"id": "22222222-2222-2222-2222-222222222222", "trace_id": "11111111-1111-1111-1111-111111111111", "parent_run_id": "11111111-1111-1111-1111-111111111111", "name": "ChatOpenAI", "run_type": "llm", "start_time": "2026-01-02T03:04:05.000000", "end_time": "2026-01-02T03:04:06.500000", "status": "success", "prompt_tokens": 20, "completion_tokens": 5, "total_cost": "0.000125", "extra": {"metadata": {"ls_model_name": "m-1"}}, "inputs": {}, "outputs": {}}
{"id": "33333333-3333-3333-3333-333333333333", "trace_id": "11111111-1111-1111-1111-111111111111", "parent_run_id": "11111111-1111-1111-1111-111111111111", "name": "charge_card", "run_type": "tool", "start_time": "2026-01-02T03:04:07.000000", "end_time": "2026-01-02T03:04:08.000000", "status": "error", "error": "ConnectionError('refused')Traceback (most recent call last):\n  x", "inputs": {"input": "{'id': 7}"}, "outputs": null}
{"id": "44444444-4444-4444-4444-444444444444", "trace_id": "11111111-1111-1111-1111-111111111111", "parent_run_id": "11111111-1111-1111-1111-111111111111", "name": "get_state", "run_type": "tool", "start_time": "2026-01-02T03:04:08.500000", "end_time": null, "status": "pending", "inputs": {"input": "x"}}
`

const wfSample = `{"name": "wf", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
  {"name": "merge", "id": "ID3", "parents": ["ID1", "ID2"], "children": [], "inputFiles": ["b", "c"], "outputFiles": ["d"]},
  {"name": "split", "id": "ID1", "parents": [], "children": ["ID3", "ID2"], "inputFiles": ["a"], "outputFiles": ["b"]},
  {"name": "touch", "id": "ID2", "parents": [], "children": ["ID3"], "inputFiles": ["c"], "outputFiles": ["c"]}],
  "files": [{"id": "a", "sizeInBytes": 1}]},
 "execution": {"makespanInSeconds": 10, "executedAt": "2026-01-02T03:04:05Z", "tasks": [
  {"id": "ID1", "runtimeInSeconds": 1.2345, "command": {"program": "split", "arguments": ["-n", "2"]}},
  {"id": "ID2", "runtimeInSeconds": 2}]}}}
{"name": "old", "schemaVersion": "1.2", "workflow": {"jobs": [
  {"name": "a_1", "type": "compute", "runtime": 3.5, "parents": [], "files": [{"link": "output", "name": "x", "size": 1}]},
  {"name": "b_2", "type": "transfer", "runtime": 1, "parents": ["a_1"], "files": [{"link": "input", "name": "x"}]}]}}`

func TestImportResponses(t *testing.T) {
	cases := importText(t, OpenAIResponses, responsesSample)
	checkSummary(t, cases, `resp_1 | openai-responses/m-1 | openai-responses/file/resp_1 | openai-responses | failed
0 | openai-responses/m-1 | get_reservation | none | <> | ok
1 | openai-responses/m-1 | web_search | undeclared | <0~> | ok
2 | openai-responses/m-1 | send_mail | undeclared | <1~> | failed | transient.timeout | unknown | unknown
3 | openai-responses/m-1 | run_sql | undeclared | <2~> | not_observed
4 | openai-responses/m-1 | local_shell | undeclared | <3~> | failed | tool.error | unknown | unknown`,
		`run-2 | openai-responses/m-2 | openai-responses/file/run-2 | openai-responses | not_observed`)
	if v := cases[0].Verdict; v.String() != "safety.content_filtered" {
		t.Errorf("verdict %s", v)
	}
}

func TestImportAnthropic(t *testing.T) {
	cases := importText(t, Anthropic, anthropicSample)
	checkSummary(t, cases, `a1 | anthropic/m-1 | anthropic/file/a1 | anthropic | ok
0 | anthropic/m-1 | get_reservation | none | <> | ok
1 | anthropic/m-1 | get_user | none | <0~> | failed | output.bad_arguments | none | safe
2 | anthropic/m-1 | web_search | undeclared | <1~> | failed | capacity.rate_limited | unknown | unknown | checkpoint
3 | anthropic/m-1 | cancel_reservation | irrevocable | <0 2~> | not_observed`,
		`a2 | anthropic/file | anthropic/file/a2 | anthropic | failed`)
	if v := cases[1].Verdict; v.String() != "capacity.overloaded" {
		t.Errorf("verdict %s", v)
	}
	if got := fmt.Sprint(cases[0].Steps[1].Read, cases[0].Steps[2].Read, cases[0].Steps[3].Read); got != "[] [1 0] [2]" {
		t.Errorf("read before: %s", got)
	}
}

func TestImportGroupChat(t *testing.T) {
	cases := importText(t, GroupChat, groupSample)
	checkSummary(t, cases, `task-q-7 | group-chat/file | group-chat/file/task-q-7 | group-chat | failed
0 | group-chat/Planner |  | none | <> | ok
1 | group-chat/Coder |  | none | <0~> | ok
2 | group-chat/Computer_terminal | execute_code | undeclared | <1~> | failed | output.bad_arguments | unknown | unknown
3 | group-chat/Coder |  | none | <2~> | ok
4 | group-chat/Computer_terminal | execute_code | undeclared | <3~> | ok`,
		`run-2 | group-chat/file | group-chat/file/run-2 | group-chat | not_observed
0 | group-chat/clerk | book_room | undeclared | <> | failed | output.bad_arguments | unknown | unknown
1 | group-chat/clerk |  | none | <0~> | ok`)
	if v := cases[0].Verdict; v.String() != "verify.gate_failed" {
		t.Errorf("verdict %s", v)
	}
	if in := cases[1].Steps[1].TokensIn; in == nil || *in != 12 {
		t.Errorf("tokens in: %v", in)
	}
}

func TestImportLangSmith(t *testing.T) {
	const want = `11111111111111111111111111111111 | langsmith/shop | langsmith/file/11111111111111111111111111111111 | langsmith | ok
22222222-2222-2222-2222-222222222222 | langsmith/shop |  | none | <> | ok | 125 micro-USD | 1500 ms
33333333-3333-3333-3333-333333333333 | langsmith/shop | charge_card | undeclared | <22222222-2222-2222-2222-222222222222~> | failed | transient.unavailable | unknown | unknown | 1000 ms
44444444-4444-4444-4444-444444444444 | langsmith/shop | get_state | none | <33333333-3333-3333-3333-333333333333~> | not_observed`
	checkSummary(t, importText(t, LangSmith, smithSample), want)
	lines := strings.Split(strings.TrimSpace(smithSample), "\n")
	page := `{"runs": [` + strings.Join(lines, ",") + `], "cursors": {}}`
	nested := strings.TrimSuffix(lines[0], "}") + `, "child_runs": [` + strings.Join(lines[1:], ",") + `]}`
	for _, text := range []string{page, nested, "[" + strings.Join(lines, ",") + "]"} {
		checkSummary(t, importText(t, LangSmith, text), want)
	}
	counts := new(Counts)
	for _, err := range Import(LangSmith, "file", strings.NewReader(nested), counts) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := counts.String(); got != "runs taken: 3 of 4; left: 1 chains and checks, which are no calls" {
		t.Error(got)
	}
}

func TestImportWfCommons(t *testing.T) {
	checkSummary(t, importText(t, WfCommons, wfSample), `folder/file | wfcommons/wf | wfcommons/folder/file | wfcommons | not_observed
ID1 | wfcommons/wf | split | reversible | <> | ok | 1235 ms
ID2 | wfcommons/wf | touch | undeclared | <ID1> | ok | 2000 ms
ID3 | wfcommons/wf | merge | reversible | <ID1 ID2> | not_observed`,
		`folder/file/2 | wfcommons/old | wfcommons/folder/file/2 | wfcommons | not_observed
a_1 | wfcommons/old | a_1 | reversible | <> | ok | 3500 ms
b_2 | wfcommons/old | b_2 | undeclared | <a_1> | ok | 1000 ms`)
}

// The real transcripts, written as messages of Anthropic, as items of responses and as a group chat
// with tool calls, give the same steps as they do as chat completions.
func TestOneTranscriptInEveryForm(t *testing.T) {
	text, err := os.ReadFile(dataFiles(t, "tau_bench_airline", ".json")[0])
	if err != nil {
		t.Fatal(err)
	}
	var runs []map[string]any
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	want := importText(t, OpenAIChat, string(text))
	for format, rewrite := range map[Format]func(map[string]any) any{Anthropic: asBlocks, OpenAIResponses: asItems} {
		var out []any
		for _, run := range runs {
			out = append(out, map[string]any{"task_id": run["task_id"], "trial": run["trial"], "reward": run["reward"],
				map[Format]string{Anthropic: "messages", OpenAIResponses: "items"}[format]: rewrite(run)})
		}
		written, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		got := importText(t, format, string(written))
		if len(got) != len(want) {
			t.Fatalf("%s: %d cases, want %d", format, len(got), len(want))
		}
		for i := range got {
			as := strings.ReplaceAll(summary(got[i]), string(format), string(OpenAIChat))
			if diff := cmp.Diff(summary(want[i]), as); diff != "" {
				t.Fatalf("%s (-chat +other):\n%s", format, diff)
			}
			for j, s := range got[i].Steps {
				if !cmp.Equal(s.Read, want[i].Steps[j].Read) || s.OutputDigest != want[i].Steps[j].OutputDigest {
					t.Fatalf("%s: step %s of %s had read %v, want %v", format, s.ID, got[i].ID, s.Read, want[i].Steps[j].Read)
				}
			}
		}
	}
}

// eachMessage calls back for the messages of a run in the form of chat completions.
func eachMessage(run map[string]any, tell func(role string, m map[string]any, calls []any)) {
	for _, one := range run["traj"].([]any) {
		m := one.(map[string]any)
		calls, _ := m["tool_calls"].([]any)
		tell(m["role"].(string), m, calls)
	}
}

func asBlocks(run map[string]any) any {
	var out []any
	eachMessage(run, func(role string, m map[string]any, calls []any) {
		switch {
		case len(calls) > 0:
			var blocks []any
			for _, one := range calls {
				f := one.(map[string]any)["function"].(map[string]any)
				blocks = append(blocks, map[string]any{"type": "tool_use", "id": one.(map[string]any)["id"], "name": f["name"], "input": f["arguments"]})
			}
			out = append(out, map[string]any{"role": "assistant", "content": blocks})
		case role == "tool":
			out = append(out, map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": m["tool_call_id"], "content": m["content"]}}})
		default:
			out = append(out, map[string]any{"role": role, "content": "words"})
		}
	})
	return out
}

func asItems(run map[string]any) any {
	var out []any
	eachMessage(run, func(role string, m map[string]any, calls []any) {
		for _, one := range calls {
			f := one.(map[string]any)["function"].(map[string]any)
			out = append(out, map[string]any{"type": "function_call", "call_id": one.(map[string]any)["id"], "name": f["name"], "arguments": f["arguments"]})
		}
		switch {
		case len(calls) > 0:
		case role == "tool":
			out = append(out, map[string]any{"type": "function_call_output", "call_id": m["tool_call_id"], "output": m["content"]})
		default:
			out = append(out, map[string]any{"type": "message", "role": role, "content": m["content"]})
		}
	})
	return out
}

// Bad documents of the formats that room foreign reads give one error each, which names the place.
func TestBadConversations(t *testing.T) {
	for _, c := range []badInput{
		{"responses: nothing", OpenAIResponses, `{"id": "x"}`, "malformed 1 1 /output: is missing, and so are items and input", 0},
		{"responses: input", OpenAIResponses, `{"input": 7}`, "malformed 1 1 /input: holds a number", 0},
		{"responses: item", OpenAIResponses, `{"items": [{"type": 7}]}`, "malformed 1 1 /items/0/type: holds a number and not a string", 0},
		{"responses: inner item", OpenAIResponses, `{"response": {"output": [7]}}`, "malformed 1 1 /response/output/0: holds a number", 0},
		{"responses: no name", OpenAIResponses, `{"output": [{"type": "function_call", "call_id": "a"}]}`, "malformed 1 1 /output/0/name: is missing", 0},
		{"responses: no role", OpenAIResponses, `{"input": [{"content": "x"}]}`, "malformed 1 1 /input/0/role: is missing", 0},
		{"responses: lone output", OpenAIResponses, `{"output": [{"type": "function_call_output", "call_id": "a"}]}` + "\n" + `{"output": []}`,
			`malformed 1 1 /output/0/call_id: "a" answers no open call`, 1},
		{"anthropic: nothing", Anthropic, `{}`, "malformed 1 1 /messages: is missing", 0},
		{"anthropic: role", Anthropic, `{"messages": [{"role": "tool"}]}`, `malformed 1 1 /messages/0/role: is "tool"`, 0},
		{"anthropic: content", Anthropic, `{"messages": [{"role": "user", "content": {}}]}`, "malformed 1 1 /messages/0/content: holds an object", 0},
		{"anthropic: block", Anthropic, `{"messages": [{"role": "user", "content": [7]}]}`, "malformed 1 1 /messages/0/content/0: holds a number", 0},
		{"anthropic: no type", Anthropic, `{"messages": [{"role": "user", "content": [{}]}]}`, "malformed 1 1 /messages/0/content/0/type: is missing", 0},
		{"anthropic: no name", Anthropic, `{"content": [{"type": "tool_use", "id": "a"}]}`, "malformed 1 1 /content/0/name: is missing", 0},
		{"anthropic: lone result", Anthropic, `{"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]}`,
			`malformed 1 1 /messages/0/content/0/tool_use_id: "a" answers no open call`, 0},
		{"group: nothing", GroupChat, `{}`, "malformed 1 1 /history: is missing", 0},
		{"group: empty", GroupChat, `{"history": []}`, "malformed 1 1 /history: is empty", 0},
		{"group: nobody", GroupChat, `{"history": [{"content": "x"}]}`, "malformed 1 1 /history/0/name: is missing", 0},
		{"group: calls", GroupChat, `{"messages": [{"source": "a", "type": "ToolCallRequestEvent", "content": "x"}]}`, "malformed 1 1 /messages/0/content: holds a string and not an array", 0},
		{"group: lone result", GroupChat, `{"messages": [{"source": "a", "type": "ToolCallExecutionEvent", "content": [{"call_id": "k"}]}]}`,
			`malformed 1 1 /messages/0/content/0/call_id: "k" answers no open call`, 0},
		{"langsmith: no id", LangSmith, `{"run_type": "llm"}`, "malformed 1 1 /id: is missing", 0},
		{"langsmith: no type", LangSmith, `{"id": "x"}`, "malformed 1 1 /run_type: is missing", 0},
		{"langsmith: no UUID", LangSmith, `{"runs": [{"id": "x", "run_type": "llm"}]}`, `malformed 1 1 /runs/0/trace_id: is "x"`, 0},
		{"langsmith: no trace", LangSmith, `{"id": "x", "parent_run_id": "y", "run_type": "llm"}`, "malformed 1 1 /trace_id: is missing", 0},
		{"langsmith: no runs", LangSmith, `{"runs": []}`, "malformed 0 0 /resourceSpans: hold no span", 0},
		{"wfcommons: nothing", WfCommons, `{}`, "malformed 1 1 /workflow: is missing", 0},
		{"wfcommons: no tasks", WfCommons, `{"workflow": {"specification": {}}}`, "malformed 1 1 /workflow/specification/tasks: is missing or empty", 0},
		{"wfcommons: no id", WfCommons, `{"workflow": {"tasks": [{}]}}`, "malformed 1 1 /workflow/tasks/0/id: is missing", 0},
		{"wfcommons: twice", WfCommons, `{"workflow": {"tasks": [{"id": "a"}, {"id": "a"}]}}`, `malformed 1 1 /workflow/tasks/1/id: is "a", which an earlier task has`, 0},
		{"wfcommons: no parent", WfCommons, `{"workflow": {"tasks": [{"id": "a", "parents": ["b"]}]}}`, `malformed 1 1 /workflow/tasks/0/parents/0: is "b", which is no task`, 0},
		{"wfcommons: no child", WfCommons, `{"workflow": {"tasks": [{"id": "a", "children": ["b"]}]}}`, `malformed 1 1 /workflow/tasks/0/children/0: is "b", which is no task`, 0},
		{"wfcommons: cycle", WfCommons, `{"workflow": {"tasks": [{"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}]}}`, "malformed 1 1 /workflow/tasks/0: depends on itself", 0},
		{"wfcommons: runtime", WfCommons, `{"workflow": {"tasks": [{"id": "a", "runtime": -1}]}}`, "malformed 1 1 /workflow/tasks/0/runtime: is -1", 0},
		{"wfcommons: executed", WfCommons, `{"workflow": {"specification": {"tasks": [{"id": "a"}]}, "execution": {"tasks": [{"id": "b"}]}}}`,
			`malformed 1 1 /workflow/execution/tasks/0/id: is "b", which is no task`, 0},
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

// Whatever stands in a file, the formats are not mistaken for one another in silence: a file of one
// read as another gives cases with steps, or an error, and no case without a step for a record that
// has some.
func TestMixedFormats(t *testing.T) {
	for of, text := range samples() {
		for _, as := range formats() {
			if of == as || of == OpenInference && as == OTLP {
				continue
			}
			cases, errs := importAll(t, as, text)
			steps := 0
			for _, c := range cases {
				steps += len(c.Steps)
			}
			if len(errs) == 0 && steps == 0 {
				t.Errorf("%s read as %s: %d cases without a step and no error", of, as, len(cases))
			}
		}
	}
}

// failedCharges is a run with a failed charge, in each form of a conversation.
var failedCharges = map[string]string{
	"blocks": `{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "text", "text": "one moment"}, ` +
		`{"type": "tool_use", "id": "t1", "name": "charge", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", ` +
		`"content": "Error: HTTP 503", "is_error": true}]}]}`,
	"blocks alone": `{"messages": [{"role": "assistant", "content": [{"type": "mcp_tool_use", "id": "t1", "name": "charge", "input": {}}, {"type": ` +
		`"mcp_tool_result", "tool_use_id": "t1", "content": "Error: HTTP 503", "is_error": true}]}]}`,
	"tool calls": `{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "t1", "function": ` +
		`{"name": "charge", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "t1", "content": "Error: HTTP 503"}]}`,
	"functions": `{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "function_call": {"name": "charge", ` +
		`"arguments": "{}"}}, {"role": "function", "name": "charge", "content": "Error: HTTP 503"}, {"role": "assistant", "content": "sorry", ` +
		`"function_call": null}]}`,
	"items": `{"input": "x", "output": [{"type": "function_call", "call_id": "t1", "name": "charge", "arguments": "{}"}, {"type": ` +
		`"function_call_output", "call_id": "t1", "output": "Error: HTTP 503"}]}`,
	"other items": `{"input": "x", "output": [{"type": "tool_call", "id": "t1", "name": "charge", "arguments": "{}", "error": "HTTP 503"}]}`,
	"item blocks": `{"output": [{"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "charge", "input": {}}]}]}`,
	"block items": `{"output": [{"type": "tool_use", "id": "t1", "name": "charge", "input": {}}]}`,
	"item calls":  `{"items": [{"role": "assistant", "tool_calls": [{"id": "t1", "function": {"name": "charge", "arguments": "{}"}}]}]}`,
	"events": `{"messages": [{"source": "clerk", "type": "ToolCallRequestEvent", "content": [{"id": "t1", "name": "charge", "arguments": ` +
		`"{}"}]}, {"source": "clerk", "type": "ToolCallExecutionEvent", "content": [{"call_id": "t1", "is_error": true, "content": "Error: HTTP 503"}]}]}`,
	"open calls": `{"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"id": "t1", "function": {"name": "charge", "arguments": "{}"}}]}]}`,
}

// A call that failed is never lost: a conversation in another provider's form gives the call as
// a step, or an error with the field.
func TestForeignCallsAreNotLost(t *testing.T) {
	for form, text := range failedCharges {
		for _, as := range []Format{OpenAIChat, OpenAIResponses, Anthropic, GroupChat} {
			cases, errs := importAll(t, as, text)
			charged := len(cases) == 1 && slices.ContainsFunc(cases[0].Steps, func(s scenario.Step) bool {
				return s.Tool == "charge" && (s.Outcome == scenario.Failed || form == "open calls")
			})
			if refused := len(errs) == 1 && errs[0].Field != "" && len(cases) == 0; charged == refused {
				t.Errorf("%s as %s: %d cases, charged %t, errors %v", form, as, len(cases), charged, errs)
			}
		}
	}
	for form, as := range map[string]Format{"blocks": OpenAIChat, "blocks alone": GroupChat, "item blocks": OpenAIResponses, "block items": OpenAIResponses} {
		if _, errs := importAll(t, as, failedCharges[form]); !strings.Contains(errs[0].Remedy, "--format anthropic") {
			t.Errorf("%s as %s: %v", form, as, errs[0])
		}
	}
}

// Functions in the form before tools are steps, in a transcript and in a group chat.
func TestImportFunctions(t *testing.T) {
	checkSummary(t, importText(t, OpenAIChat, failedCharges["functions"]), `run-1 | openai-chat/file | openai-chat/file/run-1 | openai-chat | not_observed
0 | openai-chat/file | charge | undeclared | <> | failed | transient.unavailable | unknown | unknown`)
	checkSummary(t, importText(t, GroupChat, failedCharges["functions"]), `run-1 | group-chat/file | group-chat/file/run-1 | group-chat | not_observed
0 | group-chat/assistant | charge | undeclared | <> | failed | transient.unavailable | unknown | unknown
1 | group-chat/assistant |  | none | <0~> | ok`)
}

// An item of responses whose type is not known is told.
func TestUnknownItemsAreTold(t *testing.T) {
	counts := new(Counts)
	for _, err := range Import(OpenAIResponses, "file", strings.NewReader(`{"input": "x", "output": [{"type": "reasoning"}, {"type": "mood"}, {"type": "weather"}]}`), counts) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := counts.String(); got != `records taken: 1 of 1; without a step, because no tool is called: 1; items left out of runs: 2, of types that the format does not name, such as "mood"` {
		t.Error(got)
	}
}

func FuzzImportOpenAIResponses(f *testing.F) {
	fuzzImport(f, OpenAIResponses, `{"input": "x", "error": {"code": "server_error"}}`, `{"items": [{"type": "mcp_call", "id": "a", "name": "f", "error": {}}]}`)
}

func FuzzImportAnthropic(f *testing.F) {
	fuzzImport(f, Anthropic, `{"content": [{"type": "tool_use", "id": "a", "name": "f"}, {"type": "mcp_tool_result", "tool_use_id": "a", "is_error": true}], "stop_reason": "refusal"}`)
}

func FuzzImportGroupChat(f *testing.F) {
	fuzzImport(f, GroupChat, `{"chat_history": [{"name": "a", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}, {"name": "b", "role": "tool", `+
		`"tool_responses": [{"tool_call_id": "1"}]}, {"name": "c", "content": "exitcode: x"}]}`)
}

func FuzzImportLangSmith(f *testing.F) {
	fuzzImport(f, LangSmith, `{"id": "11111111-1111-1111-1111-111111111111", "run_type": "tool", "error": "E(", "child_runs": [{"id": "x", `+
		`"run_type": "llm", "outputs": {"output": {"content": [], "status": "error"}}}]}`)
}

func FuzzImportWfCommons(f *testing.F) {
	fuzzImport(f, WfCommons, `{"workflow": {"jobs": [{"name": "a"}, {"name": "b", "parents": ["a", "a"], "children": ["b"]}]}}`)
}

// A run without a call is taken, and is said to have no step.
func TestBareRunsAreTold(t *testing.T) {
	for format, text := range map[Format]string{OpenAIChat: chatOf(`{"role": "assistant", "content": "hi"}`), SWEAgent: `{"trajectory": []}`,
		ToolBench: `{"tree": {"tree": {"children": []}}}`, Galaxy: `{"steps": {}}`} {
		counts := new(Counts)
		for _, err := range Import(format, "file", strings.NewReader(text), counts) {
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
		}
		if got := counts.String(); got != "records taken: 1 of 1; without a step, because no tool is called: 1" {
			t.Errorf("%s: %s", format, got)
		}
	}
}
