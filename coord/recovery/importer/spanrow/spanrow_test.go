package spanrow_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"recoveryledger/coord/recovery/importer/spanrow"
)

const (
	nested = `{"name": "chat", "context": {"trace_id": "0x0000000000000000000000000000000a", "span_id": "0x0000000000000002"}, "parent_id": "0000000000000001",
		"kind": "SpanKind.CLIENT", "start_time": "2026-01-02T03:04:05.5Z", "end_time": 1767323046000, "status": {"status_code": "ERROR", "description": "broke"},
		"attributes": {"llm": {"model_name": "m", "token_count": {"prompt": 12.0}}, "tags": ["a", "b"], "cost": 0.5, "ok": true},
		"events": [{"name": "exception", "attributes": {"exception.type": "E"}}, {"name": "other"}], "resource": {"attributes": {"service.name": "shop"}}}`
	flat = `{"context.trace_id": "0000000000000000000000000000000a", "context.span_id": "0000000000000002", "attributes.llm.model_name": "m", "span_kind": "LLM"}`
)

func TestRead(t *testing.T) {
	s, service, wrong := spanrow.Read(jsontext.Value(nested))
	if wrong != nil || service != "shop" || s.Name() != "chat" || s.Kind() != ptrace.SpanKindClient || s.ParentSpanID().String() != "0000000000000001" {
		t.Fatalf("%v: %s of %s", wrong, s.Name(), service)
	}
	if s.Status().Code() != ptrace.StatusCodeError || s.Status().Message() != "broke" || s.Events().Len() != 1 || s.EndTimestamp()-s.StartTimestamp() != 500_000_000 {
		t.Errorf("status %v, %d events, %d ns", s.Status(), s.Events().Len(), s.EndTimestamp()-s.StartTimestamp())
	}
	got := s.Attributes().AsRaw()
	if got["llm.model_name"] != "m" || got["llm.token_count.prompt"] != int64(12) || got["cost"] != "0.5" || got["ok"] != true || len(got["tags"].([]any)) != 2 {
		t.Errorf("attributes %v", got)
	}
	s, service, wrong = spanrow.Read(jsontext.Value(flat))
	got = s.Attributes().AsRaw()
	if wrong != nil || service != "" || got["llm.model_name"] != "m" || got[spanrow.OpenInferenceKind] != "LLM" {
		t.Errorf("%v: %q, %v", wrong, service, got)
	}
}

func TestBadRows(t *testing.T) {
	deep := strings.Repeat(`{"a":`, spanrow.DepthMax) + "1" + strings.Repeat("}", spanrow.DepthMax)
	for field, text := range map[string]string{
		"":                  `[]`,
		"/context/trace_id": strings.Replace(nested, "0x0000000000000000000000000000000a", "0a", 1),
		"/context/span_id":  strings.Replace(nested, "0x0000000000000002", "zz", 1),
		"/parent_id":        strings.Replace(nested, `"0000000000000001"`, `"1"`, 1),
		"/attributes":       strings.Replace(flat, `"m"`, deep, 1),
	} {
		if _, _, wrong := spanrow.Read(jsontext.Value(text)); wrong == nil || wrong.Field != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
}

func TestRows(t *testing.T) {
	page := jsontext.Value(`{"data": [` + nested + "," + flat + `]}`)
	for _, test := range []struct {
		text string
		rows int
		page bool
	}{{string(page), 2, true}, {`{"data": [` + flat + `]}`, 1, true}, {flat, 1, false}} {
		if rows, is := spanrow.Rows(jsontext.Value(test.text)); !spanrow.Is(page) || len(rows) != test.rows || is != test.page {
			t.Errorf("%.40s is read as %d rows, a page: %t", test.text, len(rows), is)
		}
	}
	for _, name := range []string{"resourceSpans", "resource_spans"} {
		if spanrow.Is(jsontext.Value(`{"` + name + `": [{"span_id": 1}]}`)) {
			t.Error("OTLP is taken for a row")
		}
	}
}

func TestTimestamp(t *testing.T) {
	const second = 1_767_323_046
	for _, text := range []string{"1767323046", "1767323046000", "1767323046000000", "1767323046000000000", "2026-01-02T03:04:06Z", "2026-01-02 03:04:06Z", "2026-01-02T03:04:06",
		"1767323046.0", "2026-01-02 03:04:06", "2026-01-02T04:04:06+0100"} {
		if got := spanrow.Timestamp(text); got != second*1_000_000_000 {
			t.Errorf("%s: %d", text, got)
		}
	}
	for _, text := range []string{"", "soon", "1900-01-02T03:04:06Z", "-1", "1.x", "9999999999999999999"} {
		if got := spanrow.Timestamp(text); got != 0 {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestInstants refuses what is there and cannot be read. What stands for no instant is none, and a
// fraction counts.
func TestInstants(t *testing.T) {
	for _, text := range []string{"0000-00-00", "9999-01-01T00:00:00Z", "-5", "1.7e9"} {
		row := strings.Replace(flat, "{", `{"start_time": "`+text+`", `, 1)
		if _, _, wrong := spanrow.Read(jsontext.Value(row)); wrong == nil || wrong.Field != "/start_time" {
			t.Errorf("%s: %v", text, wrong)
		}
	}
	for text, want := range map[string]pcommon.Timestamp{"0": 0, "0001-01-01T00:00:00Z": 0, "1767323046.25": 1_767_323_046_250_000_000, "1767323046000.5": 1_767_323_046_000_500_000} {
		row := strings.Replace(flat, "{", `{"end_time": `+text+`, `, 1)
		if strings.Contains(text, "-") {
			row = strings.Replace(flat, "{", `{"end_time": "`+text+`", `, 1)
		}
		if s, _, wrong := spanrow.Read(jsontext.Value(row)); wrong != nil || s.EndTimestamp() != want {
			t.Errorf("%s: %v, %d", text, wrong, s.EndTimestamp())
		}
	}
}

// FuzzRead reads any text, and every row that is read has both ids.
func FuzzRead(f *testing.F) {
	f.Add(nested)
	f.Add(flat)
	f.Fuzz(func(t *testing.T, text string) {
		value := jsontext.Value(text)
		if !value.IsValid() {
			return
		}
		rows, _ := spanrow.Rows(value)
		for _, row := range rows {
			if s, _, wrong := spanrow.Read(row); wrong == nil && s.SpanID().IsEmpty() && !strings.Contains(text, "0000000000000000") {
				t.Errorf("%s: no id", row)
			}
		}
	})
}
