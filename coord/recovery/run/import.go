package run

import (
	"fmt"
	"io"
	"iter"
)

// Format is a form in which others record agent runs.
type Format string

// The formats that Import reads.
const (
	// OpenAIChat is chat transcripts with tool calls: an array of runs, one
	// run a line, or one run; a run is an object with messages (or traj).
	OpenAIChat Format = "openai-chat"
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
	// Ledger is the past incidents of a log, which [Past] reads and Import
	// does not.
	Ledger Format = "ledger"
)

// Import reads the runs of one file. The name stands in errors; its last
// parts give the ids where a file holds one run (toolbench, galaxy) and the
// workflow ids everywhere, so it should be the path below a common folder.
//
// The sequence can be ranged over once. A pair is either a case or an error:
// an [*Error] for what is wrong with the input, another for what the reader
// answers. After an error about one record the sequence goes on with the
// next, so that a caller may skip it; after one about the file it ends.
// Ids are unique within the sequence, not over several files.
func Import(format Format, name string, r io.Reader) iter.Seq2[Case, error] {
	s := newSource(name, r)
	switch format {
	case OpenAIChat:
		return s.cases(func(rec record) (Case, *Error) { return chatCase(name, rec) })
	case Attempts:
		return s.attempts
	case OTLP:
		return s.otlp
	case ToolBench:
		return s.cases(func(rec record) (Case, *Error) { return toolbenchCase(name, rec) })
	case Galaxy:
		return s.cases(func(rec record) (Case, *Error) { return galaxyCase(name, rec) })
	}
	return func(yield func(Case, error) bool) {
		wrong := malformed("", fmt.Sprintf("has the unknown format %q", format),
			fmt.Sprintf("choose %s, %s, %s, %s or %s", OTLP, OpenAIChat, Attempts, ToolBench, Galaxy))
		wrong.File = name
		yield(Case{}, wrong)
	}
}
