package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// summary writes a case as lines: the case, then a step a line.
func summary(c scenario.Case) string {
	lines := []string{strings.Join([]string{c.ID, string(c.Agent), string(c.Workflow), c.Source, string(c.Outcome)}, " | ")}
	for _, s := range c.Steps {
		line := []string{s.ID, string(s.Agent), s.Tool, string(s.Effect), "<" + parentList(s) + ">", string(s.Outcome)}
		if s.Failure != nil {
			line = append(line, s.Failure.String(), string(s.Failure.Effects), string(s.Failure.ReplaySafety))
		}
		if s.CostMicroUSD != nil {
			line = append(line, fmt.Sprintf("%d micro-USD", *s.CostMicroUSD))
		}
		if s.LatencyMS != nil {
			line = append(line, fmt.Sprintf("%d ms", *s.LatencyMS))
		}
		if s.Conditional {
			line = append(line, "conditional")
		}
		if s.Checkpoint {
			line = append(line, "checkpoint")
		}
		lines = append(lines, strings.Join(line, " | "))
	}
	return strings.Join(lines, "\n")
}

func checkSummary(t *testing.T, cases []scenario.Case, want ...string) {
	t.Helper()
	var got []string
	for _, c := range cases {
		got = append(got, summary(c))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

// A transcript gives its calls with data edges: the cancellation depends on
// the call that first gave the reservation and on the one that last wrote it.
// Repeated call ids, answers in another order and a call without answer are
// as real transcripts have them.
func TestImportChat(t *testing.T) {
	checkSummary(t, importText(t, OpenAIChat, chatSample),
		`r1 | openai-chat/m-1 | openai-chat/file/r1 | openai-chat | ok
0 | openai-chat/m-1 | get_user_details | none | <> | ok
1 | openai-chat/m-1 | get_reservation_details | none | <0> | ok | checkpoint
2 | openai-chat/m-1 | update_reservation_flights | compensable | <0 1> | ok
3 | openai-chat/m-1 | send_mail | undeclared | <2~> | failed | output.bad_arguments | none | safe
4 | openai-chat/m-1 | cancel_reservation | irrevocable | <0 2 3~> | not_observed`,
		`task-7/trial-2 | openai-chat/file | openai-chat/file/task-7/trial-2 | openai-chat | failed`)
}

// One run, one run a line and an array of runs are the same to the importer.
func TestImportChatLayouts(t *testing.T) {
	const one = `{"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "think", "arguments": ""}}]}]}`
	for _, text := range []string{one, "\n  " + one + "\n", "[" + one + "]"} {
		checkSummary(t, importText(t, OpenAIChat, text),
			"run-1 | openai-chat/file | openai-chat/file/run-1 | openai-chat | not_observed\n0 | openai-chat/file | think | none | <> | not_observed")
	}
	if cases := importText(t, OpenAIChat, one+"\n"+one+"\n"); len(cases) != 2 || cases[1].ID != "run-2" {
		t.Errorf("two lines gave %d cases", len(cases))
	}
}

// Digests are over the raw arguments and answers.
func TestImportDigests(t *testing.T) {
	step := importText(t, OpenAIChat, chatSample)[0].Steps[1]
	if step.InputDigest != entry.DigestOf(`{"reservation_id":"ABC123"}`) || step.OutputDigest != entry.DigestOf(`{"flights": ["HX017"]}`) {
		t.Errorf("digests %s, %s", step.InputDigest, step.OutputDigest)
	}
	failed := importText(t, OpenAIChat, chatSample)[0].Steps[3]
	if failed.Failure.Evidence != failed.OutputDigest || failed.OutputDigest != entry.DigestOf("Error: payment method not found") {
		t.Errorf("evidence %s of output %s", failed.Failure.Evidence, failed.OutputDigest)
	}
	row, _, _ := strings.Cut(attemptsSample, "\n")
	if got := importText(t, Attempts, attemptsSample)[0].Steps[0].Failure.Evidence; got != entry.DigestOf(row) {
		t.Errorf("evidence %s is not the row", got)
	}
}

// Attempts alternate agents, cost what they say, and leave absent what they
// do not.
func TestImportAttempts(t *testing.T) {
	large := string(principal(Attempts, "large one")) // a blank is not in the grammar
	checkSummary(t, importText(t, Attempts, attemptsSample),
		`p__p-1 | attempts/harness | attempts/file/p__p-1 | attempts | ok
0 | attempts/small | attempt | reversible | <> | failed | output.malformed | partial | safe | 2 micro-USD
1 | `+large+` | attempt | reversible | <0~> | ok | 1250000 micro-USD | 900 ms | checkpoint`,
		`p__p-2 | attempts/harness | attempts/file/p__p-2 | attempts | failed
0 | attempts/harness | attempt | reversible | <> | failed | verify.gate_failed | complete | safe`,
		`p__p-3 | attempts/harness | attempts/file/p__p-3 | attempts | failed
0 | attempts/harness | attempt | reversible | <> | failed | progress.premature_end | none | safe`,
		`p__p-4 | attempts/harness | attempts/file/p__p-4 | attempts | not_observed
0 | attempts/harness | attempt | reversible | <> | not_observed`)
}

// A search tree gives its calls in the order of the search; the codes of the
// observations decide nothing.
func TestImportToolBench(t *testing.T) {
	checkSummary(t, importText(t, ToolBench, toolbenchSample),
		`folder/file | toolbench/file | toolbench/folder/file | toolbench | ok
0 | toolbench/file | search_x | none | <> | failed | request.invalid | none | safe | checkpoint
1 | toolbench/file | fetch_y | undeclared | <0> | failed | transient.unavailable | unknown | unknown
2 | toolbench/file | fetch_y | undeclared | <0> | ok
3 | toolbench/file | Finish | none | <2> | not_observed`)
}

// The agent of a search tree is the method in the file's name.
func TestToolBenchAgent(t *testing.T) {
	for name, want := range map[string]string{"10_ChatGPT_DFS": "ChatGPT_DFS", "answer": "answer", "7_": "7_", "a_b": "a_b"} {
		if got := method(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A workflow is flattened: a condition on a subworkflow holds back what
// starts it, its outputs come from the inner step, and a repeated connection
// is one edge.
func TestImportGalaxy(t *testing.T) {
	checkSummary(t, importText(t, Galaxy, galaxySample),
		`folder/file | galaxy/file | galaxy/folder/file | galaxy | not_observed
0 | galaxy/file | data_input | none | <> | not_observed
1 | galaxy/file | parameter_input | none | <> | not_observed
2/0 | galaxy/file | data_input | none | <0 1> | not_observed | conditional
2/1 | galaxy/file | parameter_input | none | <1> | not_observed | conditional
2/10 | galaxy/file | trim/1.0 | reversible | <2/0 2/1> | not_observed | conditional | checkpoint
3 | galaxy/file | merge/2 | reversible | <0 2/10> | not_observed | checkpoint
4 | galaxy/file | export_remote | undeclared | <3> | not_observed`)
}

// Steps whose numbers do not follow the edges come out parents first.
func TestImportGalaxyOrder(t *testing.T) {
	cases := importText(t, Galaxy, `{"steps": {
		"0": {"type": "tool", "tool_id": "last", "input_connections": {"a": {"id": 2, "output_name": "o"}}},
		"1": {"type": "tool", "tool_id": "first"},
		"2": {"type": "tool", "tool_id": "middle", "input_connections": {"a": {"id": 1, "output_name": "o"}}}}}`)
	var order []string
	for _, s := range cases[0].Steps {
		order = append(order, s.Tool)
	}
	if got := strings.Join(order, " "); got != "first middle last" {
		t.Errorf("order %s", got)
	}
}

// What looks like an id makes an edge, what is a word, a date or an amount
// does not.
func TestIDs(t *testing.T) {
	for word, want := range map[string]bool{
		"HAT136": true, "ZFA04Y": true, "HATHAT": true, "mia_li_3668": true, "credit_card_4421486": true, "#W2378156": true, "1008292230": true,
		"f81d4fae-7dec-11d0-a765-00a0c91e6bf6": true,
		"JFK":                                  false, "USA1": true, "economy": false, "basic_economy": false, "2024-05-20": false, "1990": false, "12345": false,
		"": false, "a b1": false, "x1@y.z": false, "Ottawa": false, strings.Repeat("a1", 33): false,
	} {
		if got := isID(word); got != want {
			t.Errorf("isID(%q) = %t", word, got)
		}
	}
	var found []string
	for id := range ids(`{"a": "HAT136", "card_991": ["x\nAB1234", 123456]} certificate_77.`) {
		found = append(found, id)
	}
	if got := strings.Join(found, " "); got != "HAT136 card_991 AB1234 123456 certificate_77" {
		t.Errorf("ids %s", got)
	}
	if got := argumentIDs(`{"HAT136": "AB1234", "b": ["CD5678", {"c": "EF9012 x"}], "d": "GH3456", `); strings.Join(got, " ") != "AB1234 CD5678 GH3456" {
		t.Errorf("ids of cut-off arguments %v", got)
	}
}

// A failed call gives nothing that a later one could depend on.
func TestNoEdgeFromFailure(t *testing.T) {
	cases := importText(t, OpenAIChat, `{"messages": [
		{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "get_a", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "1", "content": "Error: AB1234 is locked"},
		{"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "get_b", "arguments": "{\"id\":\"AB1234\"}"}}]}]}`)
	if got := parentList(cases[0].Steps[1]); got != "0~" {
		t.Errorf("parents %s", got)
	}
}
