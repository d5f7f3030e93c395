// Package run is the engine of recovery runs. This part of it, the importers,
// turns what agents did, as recorded by others, into cases: who did what, in
// which order, on which inputs, and what came of it.
//
// [Import] reads one file of one [Format] as a stream and yields one [Case]
// per agent run. It is pure: no network, no storage, no clock, no randomness
// and no floating point; the same bytes under the same name give the same
// cases. It promises that
//
//   - nothing is invented: a cost, a latency or an outcome that the source
//     does not hold stays absent;
//   - nothing is dropped silently: what cannot be read is an [*Error] that
//     names file, record, line, field and remedy;
//   - a step's parents are earlier steps of its own case, so that the steps
//     can be entered into a log in the order in which they stand;
//   - ids and agents fit the grammar of principals and local ids,
//     [A-Za-z0-9._:/@-]{1,128}.
//
// What each format's steps, edges, effects and checkpoints are taken from is
// written at its importer: chat.go, attempts.go, toolbench.go, galaxy.go. Raw
// errors are put into the failure taxonomy by [Classify].
package run

import "recoveryledger/ledger/entry"

// Case is one agent run.
type Case struct {
	// ID names the run; unique within its file, and a local id.
	ID string
	// Agent is the principal that answers for the run.
	Agent entry.Principal
	// Workflow is the workflow id that all steps of the run share; unique
	// over files of different names.
	Workflow entry.WorkflowID
	// Source is the format the case was read from.
	Source Format
	// Outcome is the source's own verdict on the whole run.
	Outcome Outcome
	// Steps are in the order of their execution, parents first.
	Steps []Step
}

// Step is one execution: a tool call, an attempt, a node of a graph.
type Step struct {
	// ID names the step within its case.
	ID string
	// Agent is the principal that performed the step.
	Agent entry.Principal
	// Parents are the steps that this one depends on, without repetition.
	Parents []Parent
	// Tool is the tool's name as the source writes it.
	Tool string
	// Effect is what the step does to the world, see effects.go.
	Effect entry.Effect
	// Conditional is set where the source lets the step be skipped.
	Conditional bool
	// Checkpoint is set where the source shows a restore point right after
	// the step.
	Checkpoint bool

	// Outcome says how the step ended; Failure is set exactly when it failed.
	Outcome Outcome
	Failure *Failure

	// InputDigest and OutputDigest are "sha256:<hex>" of the raw content, or
	// empty where the source has none. They are not keyed: the content can
	// be guessed from them, so they are no members of a log entry.
	InputDigest, OutputDigest string
	// CostMicroUSD is the cost in micro-USD, rounded half up.
	CostMicroUSD *int64
	// LatencyMS is the time the step took in milliseconds.
	LatencyMS *int64
}

// Parent is an edge to an earlier step of the same case.
type Parent struct {
	Step string
	Dep  entry.Dep
}

// Outcome is how a step or a run ended.
type Outcome string

// NotObserved is the outcome of what the source did not try or record.
const (
	OK          Outcome = "ok"
	Failed      Outcome = "failed"
	NotObserved Outcome = "not_observed"
)

// Failure is what is known of a failed step, in the words of a signal.
type Failure struct {
	// Raw is the error as the source recorded it.
	Raw RawError
	// Label is Raw's place in the taxonomy.
	Label Label
	// Effects says how much of the step's effect took place.
	Effects entry.Effects
	// ReplaySafety says whether the step may be executed again as it was.
	ReplaySafety entry.ReplaySafety
	// Evidence is the digest of what shows the failure: the answer of the
	// tool, or else the record.
	Evidence string
}
