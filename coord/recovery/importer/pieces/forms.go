package pieces

// Spans are the objects that hold many spans: OTLP/JSON, and a page of Phoenix.
func Spans() []Form {
	return []Form{{
		{Names: []string{"resourceSpans", "resource_spans"}},
		{Names: []string{"scopeSpans", "scope_spans"}, Keep: []string{"resource"}},
		{Names: []string{"spans"}, Keep: []string{"scope"}},
	}, {{Names: []string{"data"}}}}
}

// Runs are the objects that hold many runs: a page of LangSmith.
func Runs() []Form { return []Form{{{Names: []string{"runs"}}}} }
