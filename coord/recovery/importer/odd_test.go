package importer

import (
	"strings"
	"testing"
)

// TestOddFiles: what is no text, no object, or there twice is named by its place and with what to
// do, and no record of a run that is not imported counts as taken.
func TestOddFiles(t *testing.T) {
	const (
		row    = `{"context": {"trace_id": "0000000000000000000000000000000a", "span_id": "0000000000000002"}, "name": "x", "span_kind": "TOOL", "start_time": 1767323046}`
		run    = `{"id": "00000000-0000-0000-0000-000000000001", "trace_id": "00000000-0000-0000-0000-000000000001", "run_type": "tool", "name": "x"}`
		action = `{"id": 1, "source": "agent", "action": "run", "args": {}}`
	)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "x"
	for _, c := range []struct {
		format Format
		text   string
		want   []string
	}{
		{OTLP, "\x1f\x8b\x08\x00", []string{"is compressed by gzip", "gzip -dc"}},
		{OpenAIChat, "\xff\xfe{\x00", []string{"is UTF-16", "iconv -f UTF-16 -t UTF-8"}},
		{OpenAIChat, "\x00{\x00}", []string{"is UTF-16", "iconv -f UTF-16BE"}},
		{OpenInference, "PAR1\x15", []string{"is Parquet"}},
		{OTLP, "12", []string{"holds a number and not an object", "spans taken: 0 of 1"}},
		{OpenInference, `"x"`, []string{"holds a string and not an object"}},
		{OpenInference, row + "\n" + row, []string{"record 2: line 2: field /resourceSpans: hold span 0000000000000002 of the trace twice"}},
		{LangSmith, run + "\n" + run, []string{"record 2: line 2: field /id: hold run 00000000-0000-0000-0000-000000000001 of the trace twice"}},
		{LangSmith, strings.Replace(run, "{", `{"start_time": "0000-00-00", `, 1), []string{`field /start_time: is "0000-00-00"`, "runs taken: 0 of 1"}},
		{OpenInference, row + "\n{", []string{"not imported: 1", "spans taken: 0 of 2; left: 1 of traces that were not whole before a record that could not be used, 1 that could not be used"}},
		{OpenHands, "[" + action + "] x", []string{"the run is not imported", "events taken: 0 of"}},
		{OpenHands, action + "\n\x00\n", []string{"the run is not imported", "events taken: 0 of 2"}},
		{OpenAIChat, deep, []string{"is not JSON"}},
	} {
		if odd := importOdd(c.format, c.text); strings.HasPrefix(odd, "cut up: ") {
			t.Errorf("%s %.40q: %.600s", c.format, c.text, odd)
		}
		counts, got := new(Counts), ""
		for _, err := range Import(c.format, "file", strings.NewReader(c.text), counts) {
			if err != nil {
				got += err.Error() + "\n"
			}
		}
		got += counts.String()
		for _, want := range c.want {
			if !strings.Contains(got, want) || len(got) > 1200 {
				t.Errorf("%s %.40q:\n got %.1300s\nwant %s", c.format, c.text, got, want)
			}
		}
	}
}
