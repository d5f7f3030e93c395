package foreign

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Span is one run of LangSmith: a call of a model or a tool, or a chain that holds such calls.
type Span struct {
	// Field is the JSON pointer of the span in its record.
	Field string
	// ID, Trace and Parent are UUIDs as the document writes them; Parent is empty at a root.
	ID, Trace, Parent string
	// Name is what ran, Kind its type: llm, embedding, tool, retriever, chain, prompt or parser.
	Name, Kind string
	// Start and End are the instants as the document writes them; End is empty where the run did
	// not end.
	Start, End string
	// Project is the name of the project; empty: not known.
	Project string
	// Model, Cost, Input and Output are as recorded; empty: not known. Cost is in USD.
	Model, Cost, Input, Output string
	// TokensIn and TokensOut are those of a model; nil: not known.
	TokensIn, TokensOut *int64
	// Failed says that the run ended with an error, Error what it says, Type the name of the
	// exception.
	Failed      bool
	Error, Type string
}

type smithRun struct {
	ID         jsontext.Value   `json:"id"`
	TraceID    jsontext.Value   `json:"trace_id"`
	ParentID   jsontext.Value   `json:"parent_run_id"`
	Dotted     string           `json:"dotted_order"`
	Name       string           `json:"name"`
	Kind       string           `json:"run_type"`
	Start      jsontext.Value   `json:"start_time"`
	End        jsontext.Value   `json:"end_time"`
	Status     string           `json:"status"`
	Error      jsontext.Value   `json:"error"`
	Inputs     jsontext.Value   `json:"inputs"`
	Outputs    jsontext.Value   `json:"outputs"`
	Project    string           `json:"session_name"`
	Prompt     jsontext.Value   `json:"prompt_tokens"`
	Completion jsontext.Value   `json:"completion_tokens"`
	Cost       jsontext.Value   `json:"total_cost"`
	Extra      jsontext.Value   `json:"extra"`
	Children   []jsontext.Value `json:"child_runs"`
}

// nestedMax is how deep runs stand inside one another in a record.
const nestedMax = 100

// Spans reads a record of an export of LangSmith: a run, a run with the runs inside it, or a page
// of runs. No more than limit runs are read.
func Spans(value jsontext.Value, limit int) ([]Span, *scenario.Error) {
	var page struct {
		Runs []jsontext.Value `json:"runs"`
	}
	if wrong := scenario.DecodeRecord(value, &page); wrong != nil {
		return nil, wrong
	}
	r := smithReader{limit: limit}
	if page.Runs == nil {
		if wrong := r.read(value, "", nil, 1); wrong != nil {
			return nil, wrong
		}
		return r.out, nil
	}
	for i, run := range page.Runs {
		if wrong := r.read(run, at("/runs", i), nil, 1); wrong != nil {
			return nil, wrong
		}
	}
	return r.out, nil
}

type smithReader struct {
	limit int
	out   []Span
}

// read appends a run and those inside it.
func (r *smithReader) read(value jsontext.Value, field string, parent *Span, depth int) *scenario.Error {
	if len(r.out) == r.limit || depth > nestedMax {
		return &scenario.Error{Problem: entry.TooLarge, Field: field, Detail: fmt.Sprintf("is past %d runs of a record, or more than %d deep", r.limit, nestedMax), Remedy: "export one run a line"}
	}
	var run smithRun
	if wrong := scenario.DecodeRecord(value, &run); wrong != nil {
		return within(field, wrong)
	}
	s, wrong := run.span(field, parent)
	if wrong != nil {
		return wrong
	}
	r.out = append(r.out, s)
	for i, child := range run.Children {
		if wrong := r.read(child, at(field+"/child_runs", i), &s, depth+1); wrong != nil {
			return wrong
		}
	}
	return nil
}

// span is the run itself, inside of a parent if that is known.
func (run *smithRun) span(field string, parent *Span) (Span, *scenario.Error) {
	s := Span{Field: field, Name: run.Name, Kind: strings.ToLower(run.Kind), Project: run.Project}
	for _, v := range []struct {
		name  string
		value jsontext.Value
		into  *string
	}{
		{"/id", run.ID, &s.ID}, {"/trace_id", run.TraceID, &s.Trace}, {"/parent_run_id", run.ParentID, &s.Parent},
		{"/start_time", run.Start, &s.Start}, {"/end_time", run.End, &s.End}, {"/error", run.Error, &s.Error}, {"/total_cost", run.Cost, &s.Cost},
	} {
		text, wrong := scalar(field+v.name, v.value)
		if wrong != nil {
			return Span{}, wrong
		}
		*v.into = text
	}
	if parent != nil {
		s.Parent, s.Trace, s.Project = cmp.Or(s.Parent, parent.ID), cmp.Or(s.Trace, parent.Trace), cmp.Or(s.Project, parent.Project)
	}
	if s.Trace == "" { // older exports have the trace in the order alone
		root, _, _ := strings.Cut(run.Dotted, ".")
		if at := strings.LastIndexByte(root, 'Z'); at >= 0 {
			s.Trace = root[at+1:]
		}
	}
	if s.Trace == "" && s.Parent == "" {
		s.Trace = s.ID
	}
	switch {
	case s.ID == "":
		return Span{}, scenario.Malformed(field+"/id", "is missing", "export each run with its id")
	case s.Trace == "":
		return Span{}, scenario.Malformed(field+"/trace_id", "is missing", "export each run with its trace_id")
	case s.Kind == "":
		return Span{}, scenario.Malformed(field+"/run_type", "is missing", "export each run with its run_type")
	}
	run.content(&s)
	return s, nil
}

// content takes what went in and came out, and how the run ended.
func (run *smithRun) content(s *Span) {
	s.Input, s.Output = onlyMember(run.Inputs, "input"), onlyMember(run.Outputs, "output")
	s.Failed = s.Error != "" || run.Status == "error"
	s.Type = exceptionOf(s.Error)
	var answer struct {
		Output struct {
			Content jsontext.Value `json:"content"`
			Status  string         `json:"status"`
		} `json:"output"`
		Usage struct {
			In  jsontext.Value `json:"input_tokens"`
			Out jsontext.Value `json:"output_tokens"`
		} `json:"usage_metadata"`
	}
	if json.Unmarshal(run.Outputs, &answer) == nil {
		if text := scenario.ContentText(answer.Output.Content); text != "" {
			s.Output = text
		}
		if answer.Output.Status == "error" && !s.Failed {
			s.Failed, s.Error = true, s.Output
		}
	}
	if s.Kind == "llm" || s.Kind == "embedding" {
		s.TokensIn, s.TokensOut = count(first(run.Prompt, answer.Usage.In)), count(first(run.Completion, answer.Usage.Out))
	}
	var extra struct {
		Metadata struct {
			Model string `json:"ls_model_name"`
		} `json:"metadata"`
		Params struct {
			Model string `json:"model"`
			Name  string `json:"model_name"`
		} `json:"invocation_params"`
	}
	if json.Unmarshal(run.Extra, &extra) == nil {
		s.Model = cmp.Or(extra.Metadata.Model, extra.Params.Model, extra.Params.Name)
	}
}

// exceptionOf is the name of the exception that an error begins with, as Name('message') or
// Name: message.
func exceptionOf(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && r != '.' && (r < 'A' || r > 'Z' && r < 'a' || r > 'z') })
	if end <= 0 || text[end] != '(' && text[end] != ':' {
		return ""
	}
	return text[:end]
}

// onlyMember is the text of the only member of an object, if that is its name; otherwise the value
// as it stands.
func onlyMember(value jsontext.Value, name string) string {
	var members map[string]jsontext.Value
	if value.Kind() == '{' && json.Unmarshal(value, &members) == nil && len(members) == 1 && members[name] != nil {
		return scenario.ContentText(members[name])
	}
	return scenario.ContentText(value)
}
