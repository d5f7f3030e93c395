// Package importer turns what agents did, as other systems recorded it, into cases:
// which agent did what, in which order, on which inputs, and what came of it.
//
// [Import] reads one file of one [Format] as a stream and yields one case per agent
// run. [FromLog] gives the incidents of a log as cases. [MergeRetries] makes a case
// of either fit for a scenario. An [EntryBuilder] goes the other way: it makes of a
// case the entries that its agents would have logged.
//
// The package is pure: no network, no storage, no clock, no randomness and no
// floating point; the same bytes under the same name give the same cases. It
// promises that
//
//   - nothing is invented: a cost, a latency or an outcome that the source
//     does not hold stays absent;
//   - nothing is dropped silently: what cannot be read is a [*scenario.Error] that
//     names file, record, line, field and remedy;
//   - a step's parents are earlier steps of its own case, so that the steps
//     can be entered into a log in the order in which they stand;
//   - ids and agents fit the grammar of principals and local ids,
//     [A-Za-z0-9._:/@-]{1,128}.
//
// The comment in each importer says what steps, edges, effects and checkpoints of
// its format are taken from: chat.go, attempts.go, toolbench.go, galaxy.go, wfcommons.go, otlp.go,
// spanrow.go, langsmith.go, ect.go, coding.go.
package importer

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"recoveryledger/coord/recovery/scenario"
)

// Format is a form in which others record agent runs.
type Format string

// The formats that Import reads.
const (
	// OpenAIChat is chat transcripts with tool calls: an array of runs, one
	// run a line, or one run; a run is an object with messages (or traj).
	OpenAIChat Format = "openai-chat"
	// OpenAIResponses is conversations in the form of OpenAI's responses, a run a record.
	OpenAIResponses Format = "openai-responses"
	// Anthropic is conversations in the form of Anthropic's messages, a run a record.
	Anthropic Format = "anthropic"
	// GroupChat is chats between agents, as AutoGen and AG2 keep them, a chat a record.
	GroupChat Format = "group-chat"
	// LangSmith is runs that LangSmith exported: a run a line, pages, or nested runs.
	LangSmith Format = "langsmith"
	// WfCommons is executions of workflows as instances of WfCommons, one a record.
	WfCommons Format = "wfcommons"
	// Attempts is one row per attempt in NDJSON, the rows of a case together
	// and in order.
	Attempts Format = "attempts"
	// ToolBench is a search tree of API calls, one a file.
	ToolBench Format = "toolbench"
	// Galaxy is a workflow graph (.ga), one a file.
	Galaxy Format = "galaxy"
	// OTLP is traces in OTLP/JSON with the semantic conventions for
	// generative AI, a batch of spans a line.
	OTLP Format = "otlp"
	// OpenInference is spans with the attributes of OpenInference, as Phoenix, smolagents,
	// LangChain and LlamaIndex write them: a span a line, an array of spans, pages of Phoenix, or
	// OTLP/JSON.
	OpenInference Format = "openinference"
	// SWEAgent is the trajectory of a run of SWE-agent (.traj), one a file.
	SWEAgent Format = "swe-agent"
	// OpenHands is the events of a run of OpenHands, one run a file.
	OpenHands Format = "openhands"
	// ECT is execution context tokens, a compact JWS a line.
	ECT Format = "ect"
	// Ledger is the past incidents of a log, which [FromLog] reads and Import
	// does not.
	Ledger Format = "ledger"
)

// formats are the formats that [Import] reads, in the order in which they are listed to users.
func formats() []Format {
	return []Format{OTLP, OpenInference, LangSmith, OpenAIChat, OpenAIResponses, Anthropic, GroupChat, SWEAgent, OpenHands, ECT, Attempts, ToolBench, Galaxy, WfCommons}
}

// Names is the names of the formats that [Import] reads, with commas between them.
func Names() string {
	var names []string
	for _, format := range formats() {
		names = append(names, string(format))
	}
	return strings.Join(names, ", ")
}

// Import reads the runs of one file, and counts its records. The name stands in errors. Its last
// parts give the ids if a file holds one run (toolbench, galaxy), and the workflow ids of every
// format. So the name should be the path below a common folder.
//
// A caller can range over the sequence once. A pair is either a case or an error: an [*Error] about
// the input, or an error of the reader. After an error about one record the sequence continues with
// the next record, so that a caller may skip the record. After an error about the file the sequence
// ends. Ids are unique within the sequence, and not over several files.
func Import(format Format, name string, r io.Reader, counts *Counts) iter.Seq2[scenario.Case, error] {
	s := newSource(name, r)
	s.counts = counts
	switch format {
	case OpenAIChat, OpenAIResponses, Anthropic, GroupChat:
		return s.cases(func(rec record) (scenario.Case, *scenario.Error) { return s.conversationCase(format, rec) })
	case WfCommons:
		return s.cases(func(rec record) (scenario.Case, *scenario.Error) { return workflowCase(name, rec) })
	case Attempts:
		return s.attempts
	case OTLP, OpenInference, LangSmith:
		return func(yield func(scenario.Case, error) bool) { s.traces(format, yield) }
	case SWEAgent:
		return s.cases(func(rec record) (scenario.Case, *scenario.Error) { return sweCase(name, rec) })
	case OpenHands:
		return s.openHands
	case ToolBench:
		return s.cases(func(rec record) (scenario.Case, *scenario.Error) { return toolbenchCase(name, rec) })
	case ECT:
		return ImportTokens(name, r, nil, counts)
	case Galaxy:
		return s.cases(func(rec record) (scenario.Case, *scenario.Error) { return galaxyCase(name, rec) })
	}
	return func(yield func(scenario.Case, error) bool) {
		wrong := scenario.Malformed("", fmt.Sprintf("has the unknown format %q", format),
			"choose one of "+Names())
		wrong.File = name
		yield(scenario.Case{}, wrong)
	}
}
