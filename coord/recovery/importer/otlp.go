package importer

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"recoveryledger/coord/recovery/importer/foreign"
	"recoveryledger/coord/recovery/importer/pieces"
	"recoveryledger/coord/recovery/importer/spanrow"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// An otlp or openinference file is traces: OTLP/JSON, as the file exporter of a
// collector writes it, one batch of spans a line, or spans a line (package spanrow);
// the spans of a trace stand in any of them. The attributes are those of the
// semantic conventions for generative AI, of OpenInference or of OpenLLMetry;
// docs/traces.md lists them. Contents of messages are read only where the
// exporter was told to record them, and only digested.
//
//   - A case is a trace. It is given when a number of batches brought no
//     span of it; a span that comes later is an error.
//   - A step is a call of a model or of a tool; a retrieval counts as a tool.
//     An agent at work is a step only where it failed and nothing inside did.
//   - Requests below a step that carry a resend count are attempts of that
//     step: the client's own retries.
//   - A call depends hard on the calls inside it and on those it links to,
//     and softly on the last one that ended before it began in the same place.
//   - A call of the model right after one that failed tries the same again,
//     on the same model or another; a call of a tool does so where the
//     recorded arguments show whether they are the same.
//   - The error of a step is the innermost one below it with a typed cause:
//     what a client, a wrapper or the agent made of it tells less.
//   - The effect of a tool is that of effects.go; a model has none.
//   - The agent is the innermost one named around a call, else the service.
//   - The outcome of the run is that of the span without parent.
type otlpReader struct {
	source *source
	format Format
	idle   int // batches after which a trace is whole
	batch  int // of spans, from 1
	open   map[pcommon.TraceID]*list.Element
	order  *list.List // of *trace, the one seen last at the end
	found  bool       // a span, or an error
	held   int        // bytes of inputs of the open traces
}

// trace is the spans of one trace so far.
type trace struct {
	id     pcommon.TraceID
	rec    record // where the first of them came
	last   int    // the batch that brought the last one
	spans  []span
	broken bool // a span of the trace was an error, which stands for the trace
	held   int  // bytes of inputs of the spans
}

// traces yields the cases of a file of traces.
func (s *source) traces(format Format, yield func(scenario.Case, error) bool) {
	s.counts.unit, s.forms = "spans", pieces.Spans()
	if format == LangSmith {
		s.counts.unit, s.forms = "runs", pieces.Runs()
	}
	o := &otlpReader{source: s, format: format, idle: tracesIdleMax, open: map[pcommon.TraceID]*list.Element{}, order: list.New()}
	defer o.unread()
	for {
		rec, more, err := s.next()
		if err == nil && !more && !o.found {
			err = o.source.nothing()
		}
		if err != nil && o.lose(yield, err) {
			continue
		}
		if err != nil {
			return
		}
		if more && !o.take(rec, yield) {
			return
		}
		for front := o.order.Front(); front != nil; front = o.order.Front() {
			if t := front.Value.(*trace); more && t.last+o.idle >= o.batch {
				break
			}
			if !o.give(front, yield) {
				return
			}
		}
		if !more {
			return
		}
	}
}

// abandon drops the traces that are not whole, counts their spans as left, and adds the number of
// traces to the error of the file.
func (o *otlpReader) abandon(err error) error {
	open := 0
	for e := o.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*trace)
		if !t.broken {
			open++
		}
		for range t.spans {
			o.source.counts.leave("of traces that were not whole before a record that could not be used")
		}
		o.drop(t)
	}
	if wrong, ok := errors.AsType[*scenario.Error](err); ok && open > 0 {
		wrong.Detail += fmt.Sprintf("; the traces that were not whole before are not imported: %d", open)
	}
	return err
}

// unread takes back that the spans of traces which nobody wants any more were read.
func (o *otlpReader) unread() {
	for e := o.order.Front(); e != nil; e = e.Next() {
		o.source.counts.Records -= len(e.Value.(*trace).spans)
	}
}

// lose yields an error of the file. It reports whether records come after the error. After an
// object that is not JSON, no trace that is open is known to be whole.
func (o *otlpReader) lose(yield func(scenario.Case, error) bool, err error) bool {
	o.found = true
	if o.source.lost || !o.source.broke {
		err = o.abandon(err)
	}
	return yield(scenario.Case{}, err) && o.source.broke
}

// take sorts the spans of a batch into traces.
func (o *otlpReader) take(rec record, yield func(scenario.Case, error) bool) bool {
	if rec.piece == nil {
		o.batch++
	}
	refuse := func(wrong *scenario.Error) bool {
		o.found = true
		wrong.Field = rec.piece.Field(wrong.Field)
		wrong.File, wrong.Record, wrong.Line = o.source.file, rec.number, rec.line
		return yield(scenario.Case{}, wrong)
	}
	if o.format == LangSmith {
		return o.takeRuns(rec, refuse)
	}
	if spanrow.Is(rec.value) {
		return o.takeRows(rec, refuse)
	}
	if kind := rec.value.Kind(); kind != '{' && kind != 'n' {
		o.source.counts.Records++
		return refuse(scenario.DecodeRecord(rec.value, new(struct{})))
	}
	batch, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(rec.value)
	if err != nil {
		o.source.counts.Records++
		return refuse(scenario.Malformed("", "is not OTLP/JSON: "+scenario.Cut(err.Error(), scenario.ToolMax), "export traces with the file exporter of a collector"))
	}
	if batch.ResourceSpans().Len() == 0 {
		o.source.counts.Records++
		return refuse(scenario.Malformed("/resourceSpans", "is missing or empty", "pass traces: logs and metrics contain no runs"))
	}
	for i, resource := range batch.ResourceSpans().All() {
		service := (&attributes{Map: resource.Resource().Attributes()}).text("service.name")
		for j, scope := range resource.ScopeSpans().All() {
			for k, s := range scope.Spans().All() {
				o.found = true
				o.source.counts.Records++
				if wrong := o.add(rec, s, service, nil); wrong != nil {
					wrong.Field = fmt.Sprintf("/resourceSpans/%d/scopeSpans/%d/spans/%d%s", i, j, k, wrong.Field)
					if !refuse(wrong) {
						return false
					}
				}
			}
		}
	}
	return true
}

// takeRows sorts the spans of a record that is no OTLP into traces.
func (o *otlpReader) takeRows(rec record, refuse func(*scenario.Error) bool) bool {
	o.idle = rowsIdleMax
	rows, page := spanrow.Rows(rec.value)
	for i, row := range rows {
		o.found = true
		o.source.counts.Records++
		s, service, wrong := spanrow.Read(row)
		if wrong == nil {
			wrong = o.add(rec, s, service, nil)
		}
		if wrong != nil {
			if page {
				wrong.Field = fmt.Sprintf("/data/%d%s", i, wrong.Field)
			}
			if !refuse(wrong) {
				return false
			}
		}
	}
	return true
}

// nothing is the error of a file without a span.
func (s *source) nothing() error {
	wrong := scenario.Malformed("/resourceSpans", "hold no span in the whole file", "check that the exporter was given traces")
	wrong.File = s.file
	return wrong
}

// add puts a span into its trace. After an error the rest of the trace is
// skipped. The source is the run of LangSmith that the span was made of, if it was.
func (o *otlpReader) add(rec record, s ptrace.Span, service string, source *foreign.Span) *scenario.Error {
	if rec.piece != nil { // a piece may have one span: spans count as rows
		o.batch, o.idle = o.batch+1, rowsIdleMax
	}
	id := s.TraceID()
	if id.IsEmpty() {
		return scenario.Malformed("/traceId", "is missing", "export each span with its 32 hexadecimal digits")
	}
	e, ok := o.open[id]
	if !ok {
		e = o.order.PushBack(&trace{id: id, rec: record{number: rec.number, line: rec.line}})
		o.open[id] = e
	}
	t := e.Value.(*trace)
	t.last = o.batch
	o.order.MoveToBack(e)
	if t.broken {
		return nil
	}
	one, wrong := newSpan(s, service)
	if source != nil {
		one.of(source)
	}
	if wrong == nil && len(t.spans) == spansMax {
		wrong = tooLarge("split the run into traces", "is over the limit of %d spans in a trace", spansMax)
	}
	if wrong != nil {
		o.drop(t)
		wrong.Detail += fmt.Sprintf("; trace %s is not imported", id)
		return wrong
	}
	one.number, one.line = rec.number, rec.line
	o.hold(t, &one)
	t.spans = append(t.spans, one)
	return nil
}

// drop skips a trace, and the spans that are still to come.
func (o *otlpReader) drop(t *trace) {
	o.held -= t.held
	t.broken, t.spans, t.held = true, nil, 0
}

// hold keeps the input of a span of a trace if inputs are wanted and have room.
func (o *otlpReader) hold(t *trace, one *span) {
	size := len(one.inputText)
	full := o.held+size > inputsMax
	if full && !o.source.counts.NoInputs {
		o.source.counts.Unheld++
	}
	if full || o.source.counts.NoInputs {
		one.inputText = ""
		return
	}
	o.held, t.held = o.held+size, t.held+size
}

// give yields the case of a trace.
func (o *otlpReader) give(e *list.Element, yield func(scenario.Case, error) bool) bool {
	t := o.order.Remove(e).(*trace)
	delete(o.open, t.id)
	o.held -= t.held
	if t.broken {
		return true
	}
	c, wrong := t.toCase(o.format, o.source.file, o.source.counts)
	if wrong != nil && o.format == LangSmith {
		wrong.Field = "/id"
	}
	return o.source.deliver(yield, t.rec, c, wrong)
}

// toCase makes the case of a trace.
func (t *trace) toCase(format Format, file string, counts *Counts) (scenario.Case, *scenario.Error) {
	forest, wrong := grow(t.spans)
	if wrong != nil {
		return scenario.Case{}, wrong
	}
	b := branches{forest: forest, format: format, steps: map[pcommon.SpanID]int{}}
	var outer []int
	for _, root := range forest.roots {
		outer = append(outer, b.visit(root, "")...)
	}
	if len(b.out) > scenario.StepsMax {
		return scenario.Case{}, tooManySteps()
	}
	b.connect(outer)
	b.count(counts)
	id := t.id.String()
	c := scenario.Case{
		ID: id, Workflow: workflowID(format, stem(file), id), Source: string(format),
		Outcome: scenario.NotObserved, Steps: b.out,
	}
	var service string
	for _, root := range forest.roots {
		service = cmp.Or(service, forest.spans[root].agent)
		if len(b.out) > 0 && forest.spans[root].parent.IsEmpty() {
			c.Outcome, c.Verdict = forest.verdict(root)
		}
	}
	c.Agent = principal(format, cmp.Or(service, stem(file)))
	return c, nil
}

// forest has the spans of a trace by their parents. A span with a missing parent stands with the
// roots.
type forest struct {
	spans    []span
	roots    []int
	children [][]int
}

// grow sorts spans by their beginning, those with one beginning by their end, and hangs them below
// their parents.
func grow(spans []span) (*forest, *scenario.Error) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), slices.Compare(a.id[:], b.id[:]))
	})
	dropCopies(spans)
	f := &forest{spans: spans, children: make([][]int, len(spans))}
	at := map[pcommon.SpanID]int{}
	for i, s := range spans {
		if _, ok := at[s.id]; ok {
			what := "span " + s.id.String()
			if s.own != "" {
				what = "run " + s.own
			}
			wrong := scenario.Malformed("/resourceSpans", fmt.Sprintf("hold %s of the trace twice", what), "export each span once")
			wrong.Record, wrong.Line = s.number, s.line
			return nil, wrong
		}
		at[s.id] = i
	}
	for i, s := range spans {
		if parent, ok := at[s.parent]; ok {
			f.children[parent] = append(f.children[parent], i)
		} else {
			f.roots = append(f.roots, i)
		}
	}
	reached := 0
	var walk func(node, depth int) bool
	walk = func(node, depth int) bool {
		reached++
		for _, child := range f.children[node] {
			if depth == spanDepthMax || !walk(child, depth+1) {
				return false
			}
		}
		return true
	}
	for _, root := range f.roots {
		if !walk(root, 1) {
			return nil, tooLarge("link the inner traces instead of nesting them", "holds more than %d spans inside one another", spanDepthMax)
		}
	}
	if reached < len(spans) {
		return nil, scenario.Malformed("/resourceSpans", "hold a span that is inside itself", "export the spans as they were recorded")
	}
	return f, nil
}

// dropCopies takes the failure from spans that answered, and whose only sign of a failure is a
// status with the message of another span that failed: some exporters write the first error of a
// trace into the status of all spans after it.
func dropCopies(spans []span) {
	failures := map[string]bool{}
	for i := range spans {
		if s := &spans[i]; s.failed && !s.bare && s.status != "" {
			failures[s.status] = true
		}
	}
	for i := range spans {
		if s := &spans[i]; s.failed && s.bare && s.output != "" && failures[s.status] {
			s.failed, s.raw, s.evidence = false, scenario.RawError{}, ""
		}
	}
}

// isStep says whether a span is a step by its role alone.
func (p *span) isStep() bool { return p.role == roleModel || p.role == roleTool }

// failedBelow says whether a step below a span failed.
func (f *forest) failedBelow(node int) bool {
	for _, child := range f.children[node] {
		if f.spans[child].isStep() && f.spans[child].failed || f.failedBelow(child) {
			return true
		}
	}
	return false
}

// cause is the error of a span: the innermost error among the span and its parts, without the steps
// below it. Of two such errors the later one counts. An error with a typed cause comes before an
// error without.
func (f *forest) cause(node int) (raw scenario.RawError, failed bool) {
	for _, child := range f.children[node] {
		if f.spans[child].isStep() {
			continue
		}
		if inner, ok := f.cause(child); ok && (!failed || inner.Typed() || !raw.Typed()) {
			raw, failed = inner, true
		}
	}
	if own := &f.spans[node]; own.failed && (!failed || own.raw.Typed() && !raw.Typed()) {
		raw, failed = own.raw, true
	}
	return raw, failed
}

// verdict is the outcome of the whole run, of its outermost span.
func (f *forest) verdict(root int) (scenario.Outcome, *scenario.Failure) {
	if !f.spans[root].failed {
		return scenario.OK, nil
	}
	raw, _ := f.cause(root)
	return scenario.Failed, scenario.NewFailure(entry.EffectNone, raw, f.spans[root].evidence)
}
