// Package spanrow reads spans that are written as JSON and are no OTLP.
//
// A span row is one span: a line that an exporter of an OpenTelemetry SDK prints, or a row that
// Phoenix exports, with nested attributes or with one member each (attributes.llm.model_name,
// context.trace_id). docs/traces.md lists the members that are read.
package spanrow

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"recoveryledger/coord/recovery/scenario"
)

// Limits of a row.
const (
	// DepthMax is how deep the attributes of a row may be nested.
	DepthMax = 32
	// attributesMax is the number of values in the attributes, eventsMax the number of events that
	// are looked at.
	attributesMax = 10_000
	eventsMax     = 1_000
)

// OpenInferenceKind is the attribute that says what a span is in OpenInference.
const OpenInferenceKind = "openinference.span.kind"

type spanRow struct {
	members map[string]jsontext.Value
}

// Is says whether a record is a span row, or a page of rows.
func Is(value jsontext.Value) bool {
	return bytes.Contains(value, []byte(`span_id"`)) && !bytes.Contains(value, []byte(`"resourceSpans"`)) &&
		!bytes.Contains(value, []byte(`"resource_spans"`))
}

// Rows returns the rows of a record: the record itself, or the rows of a page of Phoenix.
func Rows(value jsontext.Value) (rows []jsontext.Value, page bool) {
	var document struct {
		Data []jsontext.Value `json:"data"`
	}
	if json.Unmarshal(value, &document) == nil && document.Data != nil {
		return document.Data, true
	}
	return []jsontext.Value{value}, false
}

// Read makes a span of a row, and the name of its service, which is empty where the row has none.
// The error names the member that is wrong.
func Read(value jsontext.Value) (ptrace.Span, string, *scenario.Error) {
	s := ptrace.NewSpan()
	row := spanRow{}
	if err := json.Unmarshal(value, &row.members); err != nil {
		return s, "", scenario.Malformed("", "is no span: "+scenario.Cut(err.Error(), scenario.ToolMax), "write each span as an object")
	}
	id, spanID := row.text("context.trace_id", "trace_id", "traceId"), row.text("context.span_id", "span_id", "spanId")
	wrong := scenario.FirstOf(hexID(id, "/context/trace_id", 16, func(b []byte) { s.SetTraceID(pcommon.TraceID(b)) }),
		hexID(spanID, "/context/span_id", 8, func(b []byte) { s.SetSpanID(pcommon.SpanID(b)) }))
	if parent := row.text("parent_id", "parent_span_id", "parentSpanId"); wrong == nil && parent != "" {
		wrong = hexID(parent, "/parent_id", 8, func(b []byte) { s.SetParentSpanID(pcommon.SpanID(b)) })
	}
	wrong = scenario.FirstOf(wrong, Instant("/start_time", row.text("start_time", "startTime"), s.SetStartTimestamp),
		Instant("/end_time", row.text("end_time", "endTime"), s.SetEndTimestamp))
	if wrong != nil {
		return s, "", wrong
	}
	s.SetName(row.text("name"))
	if strings.HasSuffix(strings.ToUpper(row.text("kind")), "CLIENT") {
		s.SetKind(ptrace.SpanKindClient)
	}
	if strings.HasSuffix(strings.ToUpper(row.text("status.status_code", "status_code", "status.code")), "ERROR") {
		s.Status().SetCode(ptrace.StatusCodeError)
	}
	s.Status().SetMessage(row.text("status.description", "status_message", "status.message"))
	if wrong := row.attributes(s.Attributes()); wrong != nil {
		return s, "", wrong
	}
	if kind := row.text("span_kind"); kind != "" && !strings.Contains(kind, "KIND_") {
		if _, said := s.Attributes().Get(OpenInferenceKind); !said {
			s.Attributes().PutStr(OpenInferenceKind, kind)
		}
	}
	row.events(s)
	return s, row.text("resource.attributes.service.name"), nil
}

// at is the first member of these names. A name with points is one member, or a way down.
func (r *spanRow) at(names ...string) jsontext.Value {
	for _, name := range names {
		if value, ok := r.members[name]; ok && value.Kind() != 'n' {
			return value
		}
		if first, rest, nested := strings.Cut(name, "."); nested {
			inner := spanRow{}
			if value := r.members[first]; value.Kind() == '{' && json.Unmarshal(value, &inner.members) == nil {
				if found := inner.at(rest); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// text is the first member of these names as text.
func (r *spanRow) text(names ...string) string {
	value := r.at(names...)
	if value.Kind() == '"' {
		return textIn(value)
	}
	return string(value)
}

func textIn(value jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(text)
}

// attributes puts the attributes of a row flat, under names with points, in the order of the names.
func (r *spanRow) attributes(into pcommon.Map) *scenario.Error {
	left := attributesMax
	if value := r.at("attributes"); value != nil {
		if wrong := flatten(into, "", value, DepthMax, &left); wrong != nil {
			return wrong
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if short, ok := strings.CutPrefix(name, "attributes."); ok && r.members[name].Kind() != 'n' {
			if wrong := flatten(into, short, r.members[name], DepthMax, &left); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

// flatten puts a value under a name, and the members of an object under longer names.
func flatten(into pcommon.Map, name string, value jsontext.Value, depth int, left *int) *scenario.Error {
	if *left--; *left < 0 || depth == 0 {
		return scenario.Malformed("/attributes", fmt.Sprintf("hold more than %d values, or values more than %d deep", attributesMax, DepthMax), "export fewer attributes")
	}
	below := func(inner string) string { return strings.TrimPrefix(name+"."+inner, ".") }
	switch value.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(value, &members); err != nil {
			return nil //nolint:nilerr // the file was read before: a member that stands twice says nothing
		}
		for _, inner := range slices.Sorted(maps.Keys(members)) {
			if wrong := flatten(into, below(inner), members[inner], depth-1, left); wrong != nil {
				return wrong
			}
		}
	case '[':
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			return nil //nolint:nilerr // as above
		}
		if len(elements) == 0 || elements[0].Kind() != '{' {
			list := into.PutEmptySlice(name)
			for _, element := range elements[:min(len(elements), *left)] {
				list.AppendEmpty().SetStr(strings.Trim(string(element), `"`))
			}
			*left -= min(len(elements), *left)
			return nil
		}
		for i, element := range elements {
			if wrong := flatten(into, below(strconv.Itoa(i)), element, depth-1, left); wrong != nil {
				return wrong
			}
		}
	case '"':
		into.PutStr(name, textIn(value))
	case 't', 'f':
		into.PutBool(name, value.Kind() == 't')
	case '0':
		number(into, name, string(value))
	}
	return nil
}

// number puts a number: a whole number as an integer, also where a table wrote 12.0; any other by
// its digits, as text.
func number(into pcommon.Map, name, digits string) {
	if n, err := strconv.ParseInt(strings.TrimSuffix(digits, ".0"), 10, 64); err == nil {
		into.PutInt(name, n)
		return
	}
	into.PutStr(name, digits)
}

// events puts the exceptions of a row. Other events say nothing of a failure.
func (r *spanRow) events(s ptrace.Span) {
	var all []jsontext.Value
	if json.Unmarshal(r.at("events"), &all) != nil {
		return
	}
	for _, value := range all[:min(len(all), eventsMax)] {
		event := spanRow{}
		if json.Unmarshal(value, &event.members) != nil || event.text("name") != "exception" {
			continue
		}
		e := s.Events().AppendEmpty()
		e.SetName("exception")
		for _, name := range []string{"exception.type", "exception.message"} {
			if text := event.text("attributes."+name, name); text != "" {
				e.Attributes().PutStr(name, text)
			}
		}
	}
}

// hexID reads an id of so many bytes in hexadecimal digits.
func hexID(text, field string, size int, set func([]byte)) *scenario.Error {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || len(b) != size {
		return scenario.Malformed(field, fmt.Sprintf("is %.60q", text), fmt.Sprintf("write %d hexadecimal digits", 2*size))
	}
	set(b)
	return nil
}

// Instant sets an instant of a span. An empty text, 0 and the year 1, which programs write for no
// instant, set nothing. Any other text is an error if [Timestamp] cannot read it: the order of the
// steps rests on their instants.
func Instant(field, text string, set func(pcommon.Timestamp)) *scenario.Error {
	at := Timestamp(text)
	if at == 0 && text != "" && text != "0" && !strings.HasPrefix(text, "0001-01-01") {
		return scenario.Malformed(field, fmt.Sprintf("is %.60q", text), "write the instant in the form of RFC 3339, or as a number of seconds since 1970")
	}
	set(at)
	return nil
}

// Timestamp reads an instant: RFC 3339, with a space or a T, or the time since 1970 in seconds,
// milliseconds, microseconds or nanoseconds, by the number of digits before the point. 0: it is
// none of these.
func Timestamp(text string) pcommon.Timestamp {
	whole, fraction, _ := strings.Cut(text, ".")
	if n, err := strconv.ParseUint(whole, 10, 63); err == nil {
		zeros := 9 // of the unit in nanoseconds
		switch digits := len(whole); {
		case digits > 16:
			zeros = 0
		case digits > 13:
			zeros = 3
		case digits > 10:
			zeros = 6
		}
		nanos := (fraction + "000000000")[:zeros]
		at, err := strconv.ParseUint(strconv.FormatUint(n, 10)+nanos, 10, 63)
		if err != nil {
			return 0
		}
		return pcommon.Timestamp(at)
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700",
		"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if at, err := time.Parse(form, text); err == nil && at.Year() >= 1970 && at.Year() < 2200 {
			return pcommon.NewTimestampFromTime(at)
		}
	}
	return 0
}
