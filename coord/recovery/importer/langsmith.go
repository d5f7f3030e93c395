package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/importer/spanrow"
	"recoveryledger/coord/recovery/scenario"
)

// A langsmith file is runs that LangSmith exported. Room foreign reads them. A run becomes a span,
// and a trace a case, as otlp.go says; the id of a step is that of its run. A run without an end is
// not observed.

// takeRuns sorts the runs of a record into traces.
func (o *otlpReader) takeRuns(rec record, refuse func(*scenario.Error) bool) bool {
	o.idle = rowsIdleMax
	runs, wrong := foreign.Spans(rec.value, spansMax)
	if wrong != nil {
		o.source.counts.Records++
		return refuse(wrong)
	}
	for i := range runs {
		o.found = true
		o.source.counts.Records++
		s, wrong := smithSpan(&runs[i])
		if wrong == nil {
			wrong = o.add(rec, s, runs[i].Project, &runs[i])
		}
		if wrong != nil {
			wrong.Field = runs[i].Field + wrong.Field
			if !refuse(wrong) {
				return false
			}
		}
	}
	return true
}

// smithSpan makes a span of a run. The id of a span is made of that of the run, and is shorter.
func smithSpan(run *foreign.Span) (ptrace.Span, *scenario.Error) {
	s := ptrace.NewSpan()
	trace, err := hex.DecodeString(strings.ReplaceAll(run.Trace, "-", ""))
	if err != nil || len(trace) != len(pcommon.TraceID{}) {
		return s, scenario.Malformed("/trace_id", fmt.Sprintf("is %.60q", run.Trace), "write a UUID")
	}
	s.SetTraceID(pcommon.TraceID(trace))
	s.SetSpanID(smithID(run.ID))
	if run.Parent != "" {
		s.SetParentSpanID(smithID(run.Parent))
	}
	s.SetName(run.Name)
	if wrong := scenario.FirstOf(spanrow.Instant("/start_time", run.Start, s.SetStartTimestamp), spanrow.Instant("/end_time", run.End, s.SetEndTimestamp)); wrong != nil {
		return s, wrong
	}
	a := s.Attributes()
	for _, v := range []struct{ name, value string }{
		{"langsmith.span.kind", run.Kind}, {"gen_ai.request.model", run.Model}, {"gen_ai.usage.cost", run.Cost},
		{"input.value", run.Input}, {"output.value", run.Output},
	} {
		if v.value != "" {
			a.PutStr(v.name, v.value)
		}
	}
	for _, v := range []struct {
		name  string
		value *int64
	}{{"gen_ai.usage.input_tokens", run.TokensIn}, {"gen_ai.usage.output_tokens", run.TokensOut}} {
		if v.value != nil {
			a.PutInt(v.name, *v.value)
		}
	}
	if run.Failed {
		s.Status().SetCode(ptrace.StatusCodeError)
		s.Status().SetMessage(run.Error)
		if run.Type != "" {
			a.PutStr("error.type", run.Type)
		}
	}
	return s, nil
}

// smithID is the id of the span of a run.
func smithID(run string) pcommon.SpanID {
	sum := sha256.Sum256([]byte(strings.ToLower(run)))
	return pcommon.SpanID(sum[:8])
}

// of sets what a span has of the run that it was made of.
func (p *span) of(run *foreign.Span) {
	p.own, p.unended = scenario.LocalID(run.ID), run.End == ""
}
