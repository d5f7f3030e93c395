package importer

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"recoveryledger/coord/recovery/scenario"
)

// importOdd imports a text and writes down what came: cases by their ids, errors by line, and the
// counts.
func importOdd(format Format, text string) string {
	var out []string
	for _, oneByte := range []bool{false, true} { // however the reader cuts the text up
		var r io.Reader = strings.NewReader(text)
		if oneByte && len(text) < 1<<20 {
			r = iotest.OneByteReader(r)
		}
		counts, got := new(Counts), []string(nil)
		for c, err := range Import(format, "file", r, counts) {
			if wrong, ok := err.(*scenario.Error); ok { //nolint:errorlint // the sequence gives it bare
				got = append(got, fmt.Sprintf("line %d: %s", wrong.Line, wrong.Detail))
			} else {
				got = append(got, c.ID)
			}
		}
		out = append(out, strings.Join(append(got, counts.String()), "\n"))
	}
	if out[0] != out[1] {
		return "cut up: " + out[1] + "\nwhole: " + out[0]
	}
	return out[0]
}

func chatNamed(id string) string { return fmt.Sprintf(`{"id": %q, "messages": []}`, id) }

// rowOf is a span row of a trace.
func rowOf(trace, span int) string {
	return fmt.Sprintf(`{"name": "get_a", "context": {"trace_id": "%032x", "span_id": "%016x"}, "start_time": "2026-01-02T03:04:05Z", "end_time": `+
		`"2026-01-02T03:04:06Z", "attributes": {"openinference.span.kind": "TOOL", "tool.name": "get_a"}}`, trace, span)
}

// After a line that is no record the next lines are read, where each record has a line. What may
// belong together with a lost record is not imported, and what was not read is said.
func TestBrokenLinesArePassedOver(t *testing.T) {
	const bare = "; without a step, because no tool is called: "
	attempt := func(name string, seq int) string { return fmt.Sprintf(`{"case": %q, "seq": %d}`, name, seq) }
	lines := func(all ...string) string { return strings.Join(all, "\n") }
	one, two := fmt.Sprintf("%032x", 1), fmt.Sprintf("%032x", 2)
	for _, c := range []struct {
		desc   string
		format Format
		text   string
		want   string
	}{
		{"a line of a log", OpenAIChat, lines(chatNamed("a"), "WARNING: exporter retry", chatNamed("b")),
			lines("a", "line 2: is not JSON: invalid character 'W' at start of value", "b", "records taken: 2 of 3; left: 1 that could not be used"+bare+"2")},
		{"the first line", OpenAIChat, lines("WARNING", "", chatNamed("b")),
			lines("line 1: is not JSON: invalid character 'W' at start of value", "b", "records taken: 1 of 2; left: 1 that could not be used"+bare+"1")},
		{"lines of a panic", OpenAIChat, lines(chatNamed("a"), "panic: x", "", "  at {y}", chatNamed("b"), "", "x", chatNamed("c"), "end"),
			lines("a", "line 2: is not JSON: invalid character 'p' at start of value", "b",
				"line 7: is not JSON: invalid character 'x' at start of value", "c", "line 9: is not JSON: invalid character 'e' at start of value",
				"records taken: 3 of 6; left: 3 that could not be used"+bare+"3")},
		{"a cut line", OpenAIChat, lines(chatNamed("a"), `{"id": "x`, chatNamed("b"), `{"id": `),
			lines("a", `line 2: is not JSON: invalid character '\n' in string (expecting non-control character)`, "b",
				"line 4: is not JSON: unexpected EOF", "records taken: 2 of 4; left: 2 that could not be used"+bare+"2")},
		{"a record of several lines", OpenAIChat, lines(`{"messages": [`, `{"messages": []}`, "oh", chatNamed("b")),
			lines("line 3: is not JSON: invalid character 'o' after array element (expecting ',' or ']'); the rest of the file was not read", "records taken: 0 of 1; left: 1 that could not be used")},
		{"after records of several lines", OpenAIChat, lines("{", `"messages": []}`, "oh", chatNamed("b")),
			lines("run-1", "line 3: is not JSON: invalid character 'o' at start of value; the rest of the file was not read", "records taken: 1 of 2; left: 1 that could not be used"+bare+"1")},
		{"inside an array", OpenAIChat, lines("[", chatNamed("a")+",", "oh", ","+chatNamed("b")+"]"),
			lines("a", "line 3: is not JSON: invalid character 'o' at start of value; the rest of the file was not read", "records taken: 1 of 2; left: 1 that could not be used"+bare+"1")},
		{"rows of spans", OpenInference, lines(rowOf(1, 1), rowOf(1, 2), "WARNING: exporter retry", rowOf(1, 3), rowOf(2, 4)),
			lines("line 3: is not JSON: invalid character 'W' at start of value", one, two, "spans taken: 4 of 5; left: 1 that could not be used")},
		{"a cut row", OpenInference, lines(rowOf(1, 1), rowOf(1, 2)[:40], rowOf(1, 3), rowOf(2, 4)),
			lines(`line 2: is not JSON: invalid character '{' after object name (expecting ':'); the traces that were not whole before are `+
				`not imported: 1`, two, "spans taken: 1 of 4; left: 1 of traces that were not whole before a record that could not be used, 2 that could not be used")},
		{"a line among attempts", Attempts, lines(attempt("a", 0), "oh", attempt("a", 1), attempt("b", 0)),
			lines("line 2: is not JSON: invalid character 'o' at start of value", "a", "b", "records taken: 3 of 4; left: 1 that could not be used")},
		{"a cut attempt", Attempts, lines(attempt("a", 0), `{"case": "b`, attempt("b", 1), `{"case": "c"}`, `{"case": `+"\x01", `{"case": "d"}`, attempt("e", 0), `{"case": `+"\x01", attempt("f", 0)),
			lines(`line 2: is not JSON: invalid character '\n' in string (expecting non-control character); case "a" is not imported`, `line 3: is 1 where 0 is next; case "b" is not imported`,
				`line 5: is not JSON: invalid character '\x01' at start of value; case "c" is not imported`, `line 6: comes after a row that is not JSON and may be of the same case; case "d" is not imported`,
				`line 8: is not JSON: invalid character '\x01' at start of value; case "e" is not imported`, "f", "records taken: 1 of 9; left: 8 that could not be used")},
	} {
		if got := importOdd(c.format, c.text); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.desc, got, c.want)
		}
	}
}

// A broken record counts, and is told with the counts.
func TestBrokenRecordsCount(t *testing.T) {
	const one = " taken: 0 of 1; left: 1 that could not be used"
	large := `{"messages": [], "pad": "` + strings.Repeat("x", scenario.CaseBytesMax)
	for _, c := range []struct {
		format Format
		text   string
		want   string
	}{
		{OTLP, `{"resourceLogs": []}`, "spans" + one}, {OpenInference, `{}`, "spans" + one}, {OTLP, "plain text", "spans" + one}, {OTLP, `{"resourceSpans": [`, "spans" + one},
		{OTLP, `{"resourceSpans": 7}`, "spans" + one}, {LangSmith, "plain text", "runs" + one}, {LangSmith, `[{"id": "x`, "runs" + one}, {OpenAIChat, large, "records" + one},
		{SWEAgent, `{"trajectory": [`, "records" + one}, {Galaxy, `{"steps": {"steps": `, "records" + one}, {OpenHands, `[{"id": `, "events" + one}, {Attempts, `{"case"`, "records" + one},
		{OpenAIChat, "[" + strings.Repeat(chatOf("")+",", 46) + `{"messages": [`, "records taken: 46 of 47; left: 1 that could not be used; without a step, because no tool is called: 46"},
		{OpenAIChat, "", "records taken: 0 of 0"},
	} {
		got := importOdd(c.format, c.text)
		if got = got[strings.LastIndex(got, "\n")+1:]; got != c.want {
			t.Errorf("%s %.40s:\n got %s\nwant %s", c.format, c.text, got, c.want)
		}
	}
}
