package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// turns writes a conversation a turn a line: kind, place, agent, id, tool, text, failure.
func turns(c Conversation) string {
	var lines []string
	for _, t := range c.Turns {
		line := fmt.Sprint([]string{"call", "answer", "speech", "user"}[t.Kind], " ", t.Field, " ", t.Agent, "|", t.ID, "|", t.Tool, "|", t.Text)
		if t.Failure != nil {
			line += fmt.Sprintf("|failed %s %s", t.Failure.ProviderCode, t.Failure.Text)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Each form of a conversation gives its turns with their places.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		desc string
		read func(jsontext.Value) (Conversation, *scenario.Error)
		text string
		left int
		want []string
	}{
		{"chat", Chat, `{"traj": [{"role": "system"}, {"role": "user"}, {"role": "assistant", "content": "x"}, {"role": "assistant", "tool_calls": ` +
			`[{"id": "a", "custom": {"name": "f", "input": "in"}}]}, {"role": "tool", "tool_call_id": "a", "content": "out"}]}`, 2,
			[]string{"user /traj/1 |||", "call /traj/3/tool_calls/0 |a|f|in", "answer /traj/4/tool_call_id |a||out"}},
		{"hosted tools", Responses, `{"input": "x", "output": [{"type": "file_search_call", "id": "1", "status": "completed", "queries": ["q"], ` +
			`"results": [{"text": "r"}]}, {"type": "code_interpreter_call", "id": "2", "status": "in_progress", "code": "1"}, {"type": ` +
			`"web_search_call", "id": "3", "status": "failed"}, {"type": "mcp_list_tools"}]}`, 1,
			[]string{"user /input |||", `call /output/0 |1|file_search|["q"]`, "answer /output/0 |1||r", "call /output/1 |2|code_interpreter|1",
				"call /output/2 |3|web_search|", "answer /output/2 |3||the call failed|failed  the call failed"}},
		{"calls with actions", Responses, `{"items": [{"type": "apply_patch_call", "call_id": "1", "operation": "o"}, {"type": ` +
			`"apply_patch_call_output", "call_id": "1", "status": "failed", "output": "no"}]}`, 0,
			[]string{"call /items/0 |1|apply_patch|o", "answer /items/1/call_id |1||no|failed  no"}},
		{"blocks", Messages, `{"role": "assistant", "content": [{"type": "thinking"}, {"type": "mcp_tool_use", "id": "1", "name": "f", "input": {"a": ` +
			`1}}, {"type": "mcp_tool_result", "tool_use_id": "1", "is_error": true, "content": "bad"}]}`, 0,
			[]string{`call /content/1 |1|f|{"a": 1}`, "answer /content/2/tool_use_id |1||bad|failed  bad"}},
		{"group", Group, `{"chat_history": [{"role": "user", "content": "task"}, {"name": "a", "tool_calls": [{"id": "1", "function": {"name": "f", ` +
			`"arguments": "{}"}}]}, {"name": "b", "role": "tool", "tool_responses": [{"tool_call_id": "1", "content": "r"}]}, {"source": "c", "type": ` +
			`"ModelClientStreamingChunkEvent", "content": "x"}, {"name": "d", "content": "exitcode: 2 (failed)"}]}`, 1,
			[]string{"user /chat_history/0 |||", "call /chat_history/1/tool_calls/0 a|1|f|{}",
				"answer /chat_history/2/tool_responses/0/tool_call_id |1||r", "call /chat_history/4 d|/chat_history/4|execute_code|",
				"answer /chat_history/4 |/chat_history/4||exitcode: 2 (failed)|failed  exit code 2"}},
	} {
		got, wrong := c.read(jsontext.Value(c.text))
		if wrong != nil {
			t.Errorf("%s: %v", c.desc, wrong)
			continue
		}
		if turns(got) != strings.Join(c.want, "\n") || got.Left != c.left {
			t.Errorf("%s: left %d, turns\n%s", c.desc, got.Left, turns(got))
		}
	}
}

// The id of a run is its own, or its task and trial.
func TestIDs(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": 7, "task_id": 1}`: "7", `{"task_id": "a", "trial": 0}`: "task-a/trial-0", `{"task_id": 3}`: "task-3", `{"id": null}`: "", `{"id": {}}`: "/id", `{"trial": true}`: "/trial",
	} {
		c, wrong := Chat(jsontext.Value(strings.TrimSuffix(text, "}") + `, "messages": []}`))
		got := c.ID
		if wrong != nil {
			got = wrong.Field
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Workflows and exports over a limit are refused, at one past it.
func TestLimits(t *testing.T) {
	const two = `{"workflow": {"tasks": [{"id": "a"}, {"id": "b"}]}}`
	if _, wrong := Workflow(jsontext.Value(two), 2); wrong != nil {
		t.Error(wrong)
	}
	if _, wrong := Workflow(jsontext.Value(two), 1); wrong == nil || wrong.Problem != entry.TooLarge {
		t.Errorf("two tasks of one: %v", wrong)
	}
	run := func(depth int) jsontext.Value {
		return jsontext.Value(strings.Repeat(`{"id": "a", "run_type": "tool", "child_runs": [`, depth) + strings.Repeat("]}", depth))
	}
	for depth, want := range map[int]bool{nestedMax: true, nestedMax + 1: false} {
		if runs, wrong := Spans(run(depth), 1000); (wrong == nil) != want || want && len(runs) != depth {
			t.Errorf("%d runs inside one another: %d, %v", depth, len(runs), wrong)
		}
	}
	if _, wrong := Spans(run(3), 2); wrong == nil || wrong.Problem != entry.TooLarge {
		t.Errorf("three runs of two: %v", wrong)
	}
}

// Tasks stand after their parents, whichever side names the edge; an old instance names them.
func TestOrder(t *testing.T) {
	g, wrong := Workflow(jsontext.Value(`{"workflow": {"tasks": [{"id": "1", "name": "c", "parents": ["b"]}, {"id": "2", "name": "b"}, {"id": "3", `+
		`"name": "a", "children": ["2"]}, {"id": "4", "name": "a"}]}}`), 10)
	var order []string
	for _, task := range g.Tasks {
		order = append(order, fmt.Sprint(task.ID, task.Parents))
	}
	if want := []string{"3[]", "4[]", "2[0]", "1[2]"}; wrong != nil || !slices.Equal(order, want) {
		t.Errorf("%v, %v", order, wrong)
	}
}

func TestExceptionOf(t *testing.T) {
	for text, want := range map[string]string{"ValueError('x')": "ValueError", "openai.RateLimitError: slow": "openai.RateLimitError", "it broke": "", "": "", "(x)": "", "Name": ""} {
		if got := exceptionOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
