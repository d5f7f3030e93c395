package importer

import (
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"recoveryledger/testdata/budget"
)

// lines makes a file of records without holding it: record i of n is line(i).
type lines struct {
	line    func(i int) string
	left    []byte
	i, size int
	limit   int
	peak    func() // looks at the heap
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.left) == 0 {
		if l.size >= l.limit {
			return 0, io.EOF
		}
		l.left = []byte(l.line(l.i) + "\n")
		if l.i, l.size = l.i+1, l.size+len(l.left); l.i%250 == 0 {
			l.peak()
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// tokenHead begins a token: {"alg":"EdDSA","kid":"a","typ":"exec+jwt"}.
const tokenHead = "eyJhbGciOiJFZERTQSIsImtpZCI6ImEiLCJ0eXAiOiJleGVjK2p3dCJ9."

// heapMax is the growth of the heap that an import may need, whatever the size of the file: open
// traces of runs and span rows (64,000 of them) are most of it, or the tokens of a file.
const heapMax = 48 << 20

// A file of 100 MB is read in flat memory: 4 MiB where a record is a run, 48 MiB where a run is
// many records. Usually a smaller file is read, under the same bounds. Formats whose file is one
// record hold that record, whose size has a limit (TestRecordLimit).
func TestImportIsFlatChaos(t *testing.T) {
	limit := budget.Budget{Short: 1 << 20, Usual: 3 << 20, Chaos: 100 << 20}.Now()
	pad := strings.Repeat("word ", 400)
	one := func(text string) string { return strings.ReplaceAll(text, "\n", " ") }
	records := map[Format]func(i int) string{
		OpenAIChat: func(i int) string {
			return one(fmt.Sprintf(`{"id": "r%d", "messages": [{"role": "user", "content": %q}, {"role": "assistant", "tool_calls": [{"id": "c", `+
				`"function": {"name": "get_a", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": %q}]}`, i, pad, pad))
		},
		OpenAIResponses: func(i int) string {
			return one(fmt.Sprintf(`{"id": "r%d", "input": %q, "output": [{"type": "function_call", "call_id": "c", "name": "get_a", "arguments": `+
				`"{}"}, {"type": "function_call_output", "call_id": "c", "output": %q}]}`, i, pad, pad))
		},
		Anthropic: func(i int) string {
			return one(fmt.Sprintf(`{"id": "r%d", "messages": [{"role": "user", "content": %q}, {"role": "assistant", "content": [{"type": `+
				`"tool_use", "id": "c", "name": "get_a", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", `+
				`"content": %q}]}]}`, i, pad, pad))
		},
		GroupChat: func(i int) string {
			return one(fmt.Sprintf(`{"id": "r%d", "history": [{"name": "a", "content": %q}, {"name": "b", "content": %q}]}`, i, pad, pad))
		},
		LangSmith: func(i int) string {
			trace := fmt.Sprintf("%032x", i/4+1)
			parent := ""
			if i%4 > 0 {
				parent = fmt.Sprintf(`"parent_run_id": "run-%d", `, i/4*4)
			}
			return fmt.Sprintf(`{"id": "run-%d", "trace_id": %q, %s"name": "get_a", "run_type": "tool", "start_time": "2026-01-02T03:04:05", `+
				`"end_time": "2026-01-02T03:04:06", "inputs": {"input": %q}}`, i, trace, parent, pad)
		},
		WfCommons: func(i int) string {
			return fmt.Sprintf(`{"name": "w%d", "workflow": {"tasks": [{"id": "a", "runtime": 1}, {"id": "b", "parents": ["a"], "runtime": 1}], "note": %q}}`, i, pad+pad)
		},
		Attempts: func(i int) string {
			return fmt.Sprintf(`{"case": "c%d", "seq": %d, "model": "m", "class": "test_fail", "note": %q}`, i/3, i%3, pad)
		},
		OpenHands: func(i int) string { // a file is one run: most of its events are no steps
			if i == 0 {
				return `{"id": 0, "source": "agent", "action": "run", "args": {"command": "make"}}`
			}
			return fmt.Sprintf(`{"id": %d, "source": "user", "action": "message", "args": {"content": %q}}`, i, pad+pad)
		},
		OTLP: func(i int) string {
			span := fmt.Sprintf(`{"traceId": "%032x", "spanId": "%016x", "name": "get_a", "startTimeUnixNano": "1", "endTimeUnixNano": "2", %s}`, i/4+1, i+1,
				attributesText("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "get_a", "gen_ai.tool.call.arguments", pad))
			return one(batchText("shop", span))
		},
		OpenInference: func(i int) string {
			return one(fmt.Sprintf(`{"name": "get_a", "context": {"trace_id": "0x%032x", "span_id": "0x%016x"}, "parent_id": null, "start_time": `+
				`"2026-01-02T03:04:05Z", "end_time": "2026-01-02T03:04:06Z", "status": {"status_code": "OK"}, "attributes": `+
				`{"openinference.span.kind": "TOOL", "tool.name": "get_a", "input.value": %q}, "events": []}`, i/4+1, i+1, pad))
		},
		ECT: func(i int) string { // no key is given: no signature is checked
			claims := fmt.Sprintf(`{"iss":"spiffe://example.org/%d","jti":"t%d","wid":"w%d","exec_act":"get_a","pred":[],"ext":{"org.example.note":%q}}`, i%7, i, i/4, pad)
			return tokenHead + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + strings.Repeat("A", 86)
		},
	}
	for _, format := range formats() {
		if oneRecord := format == SWEAgent || format == ToolBench || format == Galaxy; records[format] == nil != oneRecord {
			t.Errorf("%s is not read", format)
		}
	}
	manyRecords := map[Format]bool{LangSmith: true, OTLP: true, OpenInference: true, OpenHands: true, ECT: true}
	for format, line := range records {
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		peak, seen := uint64(0), 0
		file := &lines{line: line, limit: limit, peak: func() {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}}
		for _, err := range Import(format, "file.ndjson", file, &Counts{NoInputs: true}) {
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			seen++
		}
		bound := uint64(4 << 20)
		if manyRecords[format] {
			bound = heapMax
		}
		if seen < limit/32768 && format != OpenHands || seen == 0 || peak > bound {
			t.Errorf("%s: %d cases of %d bytes needed %d bytes", format, seen, file.size, peak)
		}
		t.Logf("%s: %d cases of %d bytes, heap grew by at most %d bytes", format, seen, file.size, peak)
	}
}
