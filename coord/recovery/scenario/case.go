// Package scenario reads and writes cases. A [Case] is one agent run: its steps, the
// attempts at each step, and what came of them. A scenario is a file of cases, one
// JSON object a line ([Encode], [Decode]). A [Pipeline] takes the cases of a scenario
// through a function, several at a time and in order.
//
// Reading fails closed: an unknown member, a reference to a step that does not stand
// before, anything over a limit is an [*Error] with place and remedy. The same error
// serves every document that the rooms above read ([Document]).
//
// [Classify] puts a raw error into the failure taxonomy, typed causes first.
// [Expect] compares an output with what a step demands.
//
// The package does no I/O of its own, and has no clock, randomness or floating point.
package scenario

import (
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Case is one agent run: what importers make of the records of others, and
// one line of a scenario (scenario.go). Members that nothing is known of are
// left out.
type Case struct {
	// ID names the run; unique within its file, and a local id.
	ID string `json:"id"`
	// Agent is the principal that answers for the run.
	Agent entry.Principal `json:"agent"`
	// Workflow is the workflow id that all steps of the run share; unique
	// over files of different names.
	Workflow entry.WorkflowID `json:"workflow"`
	// Source is the format the case was read from; empty for a case that was
	// written by hand.
	Source string `json:"source,omitzero"`
	// TaskType says in a word what kind of task the run is, Intent what it is
	// for, such as refund.booking.
	TaskType string `json:"task_type,omitzero"`
	Intent   string `json:"intent,omitzero"`
	// Risk is what is at stake.
	Risk Risk `json:"risk,omitzero"`
	// ContextDigest is the digest of the context bundle the run began with.
	ContextDigest entry.Digest `json:"context_digest,omitzero"`
	// Keep are the parts of answers that traces of the case may have: payload, citations. Without
	// them a trace has digests alone.
	Keep []string `json:"keep,omitzero"`
	// Tags put the case into slices of the report: adversarial for a case that was made to break
	// the recovery, holdout for one that no policy was tuned on, or any other word.
	Tags []string `json:"tags,omitzero"`
	// Budget bounds what recovering this case may cost, beside the policy's
	// own limits; the stricter of the two counts.
	Budget recovery.Budget `json:"budget,omitzero"`
	// Answers are what an external strategy chose about the case's failures, in
	// order; nil: the policy's ladders decide.
	Answers []recovery.Action `json:"answers,omitzero"`
	// Outcome is the source's own verdict on the whole run.
	Outcome Outcome `json:"outcome,omitzero"`
	// Verdict is why the run failed, where the source says so of the whole of
	// it. The importer makes a step of it; it is part of no file.
	Verdict *Failure `json:"-"`
	// Steps are in the order of their execution, parents first.
	Steps []Step `json:"steps"`
}

// What [Case.Keep] may name.
const (
	KeepPayload   = "payload"
	KeepCitations = "citations"
)

// Risk is what is at stake in a case.
type Risk struct {
	// Level is low, medium, high or critical; empty: not known.
	Level string `json:"level,omitzero"`
	// SafetyCritical marks a case whose result may never be accepted
	// automatically.
	SafetyCritical bool `json:"safety_critical,omitzero"`
	// Benign says that the input was judged harmless.
	Benign bool `json:"benign,omitzero"`
}

// Step is one execution: a tool call, a call of a model, a node of a graph.
type Step struct {
	// ID names the step within its case.
	ID string `json:"id"`
	// Agent is the principal that performed the step.
	Agent entry.Principal `json:"agent"`
	// Parents are the steps that this one depends on, without repetition.
	Parents []Parent `json:"parents,omitzero"`
	// Read are the steps whose results the agent had read when it made this step, without those
	// that another one of them had read before. Nil: the source does not say. It is part of no
	// file.
	Read []string `json:"-"`
	// Tool is the tool's name as the source writes it; empty for a step that
	// is a call of a model.
	Tool string `json:"tool,omitzero"`
	// Effect is what the step does to the world, see effects.go.
	Effect entry.Effect `json:"effect"`
	// Idempotent says that the step may be executed again without a second
	// effect.
	Idempotent bool `json:"idempotent,omitzero"`
	// RetryOf names the earlier step that this one tries again, in the Variation of
	// its attempt. The importer makes an attempt of it; it is part of no file.
	RetryOf string `json:"-"`
	// Conditional is set where the source lets the step be skipped.
	Conditional bool `json:"conditional,omitzero"`
	// Checkpoint is set where the source shows a restore point right after
	// the step.
	Checkpoint bool `json:"checkpoint,omitzero"`
	// InputDigest is "sha256:<hex>" of the raw input, or empty. It is not
	// keyed: the content can be guessed from it, so it is no member of a log
	// entry.
	InputDigest entry.Digest `json:"input_digest,omitzero"`
	// InputText is the raw input. The importer makes Input of it; it is part of no file.
	InputText string `json:"-"`
	// Input is what a live run gives to the tool or model.
	Input jsontext.Value `json:"input,omitzero"`
	// Expect is what a live run demands of the output.
	Expect *Expect `json:"expect,omitzero"`

	// Attempt is the first attempt of the step. Its strategy is empty, and its
	// outcome not_observed or absent where the source did not try it.
	Attempt
	// Attempts are what else was tried after the first attempt failed, in
	// order.
	Attempts []Attempt `json:"attempts,omitzero"`
}

// Attempt is one try at a step and what came of it: what a source recorded,
// and what a runtime answers.
type Attempt struct {
	Variation
	// Outcome says how the attempt ended; Failure is set exactly when it
	// failed.
	Outcome Outcome  `json:"outcome,omitzero"`
	Failure *Failure `json:"failure,omitzero"`
	// Effects is what a reconcile that ended ok found out about the step's
	// effect: none, complete or unknown. It stands with no other attempt.
	Effects entry.Effects `json:"effects,omitzero"`
	// Reason is a code for why the attempt ended so, in a word, where more is
	// known than class and code of the failure say.
	Reason string `json:"reason,omitzero"`
	// OutputDigest is "sha256:<hex>" of the raw output, or empty; not keyed,
	// like InputDigest.
	OutputDigest entry.Digest `json:"output_digest,omitzero"`
	// Payload is the raw output that OutputDigest is of, where the case lets it be kept; at most
	// [PayloadMax] bytes.
	Payload string `json:"payload,omitzero"`
	// Verified says that a check of the output passed: tests, a grader, a look
	// at its citations.
	Verified bool `json:"verified,omitzero"`
	// ConfidencePPM is how sure the checks are of the output, in parts per
	// million.
	ConfidencePPM *int64 `json:"confidence_ppm,omitzero"`
	// Citations are what the output rests on: digests or URIs, never fetched.
	Citations []string `json:"citations,omitzero"`
	// TokensIn and TokensOut are those a model read and wrote.
	TokensIn  *int64 `json:"tokens_in,omitzero"`
	TokensOut *int64 `json:"tokens_out,omitzero"`
	// CostMicroUSD is the cost in micro-USD, rounded half up.
	CostMicroUSD *int64 `json:"cost_micro_usd,omitzero"`
	// LatencyMS is the time the attempt took in milliseconds.
	LatencyMS *int64 `json:"latency_ms,omitzero"`

	// Output is what a live attempt gave to the steps that depend on it. It is
	// part of no file.
	Output jsontext.Value `json:"-"`
	// Simulated marks an attempt that an outcome model drew.
	Simulated bool `json:"simulated,omitzero"`
}

// Variation is how an attempt differs from the first one, in the words of the
// policy.
type Variation struct {
	// Strategy is the rung, for example retry_altered; empty for a first attempt.
	Strategy string `json:"strategy,omitzero"`
	// Variant is the variant of retry_altered, for example reflect, or the scope of a state_reset.
	Variant string `json:"variant,omitzero"`
	// Model is the model that it ran on, where a model took part.
	Model string `json:"model,omitzero"`
}

// Parent is an edge to an earlier step of the same case.
type Parent struct {
	Step string    `json:"step"`
	Dep  entry.Dep `json:"dep"`
}

// Outcome is how a step or a run ended.
type Outcome string

// NotObserved is the outcome of an attempt that the source did not make or record.
const (
	OK          Outcome = "ok"
	Failed      Outcome = "failed"
	NotObserved Outcome = "not_observed"
)

// Failure has the known facts of a failed step, in the words of a signal.
type Failure struct {
	// Raw is the error as the source recorded it.
	Raw RawError `json:"raw,omitzero"`
	// Label is Raw's place in the taxonomy. If a scenario leaves Label out, Classify gives it from
	// Raw.
	Label
	// Effects says how much of the step's effect took place.
	Effects entry.Effects `json:"effects"`
	// ReplaySafety says whether the step may be executed again as it was.
	ReplaySafety entry.ReplaySafety `json:"replay_safety"`
	// Evidence is the digest of the answer of the tool that shows the failure, or otherwise of the
	// record.
	Evidence entry.Digest `json:"evidence,omitzero"`
}

// Final is the final outcome of the step.
func (s *Step) Final() *Attempt {
	if n := len(s.Attempts); n > 0 {
		return &s.Attempts[n-1]
	}
	return &s.Attempt
}
