package importer

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// mistake is a label made by hand: a step of a run that went wrong, and the later steps that used
// what it gave, directly or by others.
type mistake struct {
	Run     string `json:"run"`
	Mistake int    `json:"mistake"`
	Used    []int  `json:"used"`
}

func readMistakes(t *testing.T) []mistake {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "labels", "mistakes.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []mistake
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var m mistake
		if err := json.Unmarshal(lines.Bytes(), &m, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// reached is the steps that rest on a step, directly or not.
func reached(c scenario.Case, from string) []string {
	in, out := []string{from}, []string(nil)
	for _, s := range c.Steps {
		if slices.ContainsFunc(s.Parents, func(p scenario.Parent) bool { return p.Dep == entry.Hard && slices.Contains(in, p.Step) }) {
			in, out = append(in, s.ID), append(out, s.ID)
		}
	}
	return out
}

// TestEdgesAgainstLabels measures the kinds of edges on labelled mistakes of real runs: of the
// steps that used a mistake, how many are in the rollback set, and of the steps in it, how many
// used the mistake. The default leaves none out.
func TestEdgesAgainstLabels(t *testing.T) {
	cases := map[string]scenario.Case{}
	for _, c := range importFiles(t, OpenAIChat, dataFiles(t, "tau_bench_airline", ".json")) {
		cases[c.ID] = c
	}
	mistakes := readMistakes(t)
	var page strings.Builder
	page.WriteString("| `--edges` | mistakes | steps that used one | of them in the rollback set (recall) | in the rollback set | of them used it (precision) |\n|---|--:|--:|--:|--:|--:|\n")
	for _, edges := range []Edges{Conversation, Dataflow} {
		used, in, both := 0, 0, 0
		for _, m := range mistakes {
			c, ok := cases[m.Run]
			if !ok || m.Mistake >= len(c.Steps) {
				t.Fatalf("no step %d of %s", m.Mistake, m.Run)
			}
			if wrong := (Shape{Edges: edges}).Apply(&c); wrong != nil {
				t.Fatal(wrong)
			}
			set := reached(c, strconv.Itoa(m.Mistake))
			used, in = used+len(m.Used), in+len(set)
			for _, step := range m.Used {
				if slices.Contains(set, strconv.Itoa(step)) {
					both++
				}
			}
		}
		if edges == Conversation && both != used {
			t.Errorf("the default leaves out %d of %d steps", used-both, used)
		}
		fmt.Fprintf(&page, "| `%s` | %d | %d | %s | %d | %s |\n", edges, len(mistakes), used, share(both, used), in, share(both, in))
	}
	compareFiguresOf(t, "traces.md", "TestEdgesAgainstLabels", page.String())
}

// What an agent had read is a hard dependency, but what is informational, through which the
// dependency leads to what was read before; calls side by side do not rest on each other.
func TestConversationEdges(t *testing.T) {
	run := chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "get_a", "arguments": "{}"}}, {"id": "b", "function": {"name": "get_b", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "b", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "AB1234"},
		{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "log", "arguments": "{\"id\": \"AB1234\"}"}}]},
		{"role": "tool", "tool_call_id": "c", "content": "CD1234"},
		{"role": "assistant", "tool_calls": [{"id": "d", "function": {"name": "charge", "arguments": "{\"id\": \"CD1234\"}"}}]}`)
	for _, c := range []struct {
		shape Shape
		want  string
	}{
		{Shape{}, "<> <0~> <0 1> <2>"},
		{Shape{Edges: Dataflow}, "<> <0~> <0 1~> <2>"},
		{Shape{Tools: Tools{"log": {Informational: true}}}, "<> <0~> <0 1> <2~ 0 1>"},
		{Shape{Edges: Dataflow, Tools: Tools{"log": {Informational: true}}}, "<> <0~> <0 1~> <2~>"},
	} {
		one := importText(t, OpenAIChat, run)[0]
		if wrong := c.shape.Apply(&one); wrong != nil {
			t.Fatal(wrong)
		}
		var got []string
		for _, s := range one.Steps {
			got = append(got, "<"+parentList(s)+">")
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.shape, got, c.want)
		}
	}
}

// For every format, a shaped case keeps what Import promises, and an attempt that begins anew rests
// on no other.
func TestShapedCasesKeepTheirForm(t *testing.T) {
	for format, text := range samples() {
		for _, c := range importText(t, format, text) {
			before := summary(c)
			shaped := c
			if wrong := (Shape{}).Apply(&shaped); wrong != nil {
				t.Fatal(wrong)
			}
			checkCase(t, shaped)
			if diff := cmp.Diff(before, summary(c)); diff != "" {
				t.Errorf("%s: the case itself changed:\n%s", format, diff)
			}
			if format == Attempts && summary(shaped) != before {
				t.Errorf("attempts changed:\n%s", cmp.Diff(before, summary(shaped)))
			}
		}
	}
}

// A step that rests on more results than a step may have is refused by its limit, and not cut.
func TestTooManyResults(t *testing.T) {
	var calls, answers []string
	for i := range scenario.ParentsMax + 1 {
		calls = append(calls, fmt.Sprintf(`{"id": "%d", "function": {"name": "get_a", "arguments": "{}"}}`, i))
		answers = append(answers, fmt.Sprintf(`{"role": "tool", "tool_call_id": "%d", "content": "x"}`, i))
	}
	run := chatOf(`{"role": "assistant", "tool_calls": [` + strings.Join(calls, ",") + `]},` + strings.Join(answers, ",") +
		`,{"role": "assistant", "tool_calls": [{"id": "z", "function": {"name": "charge", "arguments": "{}"}}]}`)
	c := importText(t, OpenAIChat, run)[0]
	if wrong := (Shape{}).Apply(&c); wrong == nil || wrong.Problem != entry.TooLarge {
		t.Errorf("129 results: %v", wrong)
	}
}

// What depends on a later try depends on what that try had read, once the try is an attempt of the
// first step.
func TestMergedTriesKeepWhatTheyRead(t *testing.T) {
	c := importText(t, OpenAIChat, chatOf(`{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "book", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "Error: no"},
		{"role": "assistant", "tool_calls": [{"id": "b", "function": {"name": "get_b", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "b", "content": "x"},
		{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "book", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "y"},
		{"role": "assistant", "tool_calls": [{"id": "d", "function": {"name": "charge", "arguments": "{}"}}]}`))[0]
	if wrong := (Shape{}).Apply(&c); wrong != nil {
		t.Fatal(wrong)
	}
	merged := MergeRetries(c)
	if got := parentList(merged.Steps[2]); len(merged.Steps) != 3 || got != "0 1" {
		t.Errorf("%d steps, the last rests on %s", len(merged.Steps), got)
	}
}

func TestParseEdges(t *testing.T) {
	for name, want := range map[string]Edges{"": Conversation, "conversation": Conversation, "dataflow": Dataflow, "all": ""} {
		if got, ok := ParseEdges(name); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", name, got, ok)
		}
	}
}
