package recovery

import "recoveryledger/ledger/entry"

// History is everything known of a case when a decision is due: its facts, its current
// failure, and its past actions. Unknown members are zero. A case may have several
// steps; a history is about the step that failed.
type History struct {
	// Case is the id of the case; Seed and Epoch, with it, give jitter.
	Case  string `json:"case"`
	Seed  int64  `json:"seed,omitzero"`  // of the run
	Epoch int64  `json:"epoch,omitzero"` // fencing token of the task

	// What the case is.
	TaskType       string   `json:"task_type,omitzero"`
	Intent         string   `json:"intent,omitzero"`
	Risk           string   `json:"risk,omitzero"`            // low, medium, high, critical
	SafetyCritical bool     `json:"safety_critical,omitzero"` // no result may be accepted automatically
	Benign         bool     `json:"benign,omitzero"`          // the input was judged harmless
	Tags           []string `json:"tags,omitzero"`

	// What the failed step is.
	Step       string       `json:"step,omitzero"`
	Tool       string       `json:"tool,omitzero"`   // empty: the call of a model
	Model      string       `json:"model,omitzero"`  // of the first attempt
	Effect     entry.Effect `json:"effect,omitzero"` // declared; empty counts as undeclared
	Idempotent bool         `json:"idempotent,omitzero"`
	Checkpoint bool         `json:"checkpoint,omitzero"` // an earlier one exists that is verified and usable

	// Failure is the newest failure of the step. Probe is the result of a later reconcile about its
	// effects: none, complete or unknown; empty: no reconcile asked.
	Failure Failure       `json:"failure"`
	Probe   entry.Effects `json:"probe,omitzero"`

	// Rungs are the earlier actions over all steps, the oldest first.
	Rungs []Rung `json:"rungs,omitzero"`

	// The amounts that were spent, on first attempts too, as far as they are known.
	SpentMicroUSD int64 `json:"spent_micro_usd,omitzero"`
	SpentTokens   int64 `json:"spent_tokens,omitzero"`
	// StartedAt is the beginning of the case in Unix milliseconds.
	StartedAt int64 `json:"started_at,omitzero"`

	// Budget is the case's own; with the policy's limits the stricter counts.
	Budget Budget `json:"budget,omitzero"`
	// MaxRetries of the task replaces the number of fail_reassign that a rule
	// allows (TSK-1); nil: the rule's.
	MaxRetries *int64 `json:"max_retries,omitzero"`
}

// Failure is one failure in the words of a signal.
type Failure struct {
	Class        string             `json:"class"`
	Code         string             `json:"code"`
	Effects      entry.Effects      `json:"effects,omitzero"`       // empty counts as unknown
	ReplaySafety entry.ReplaySafety `json:"replay_safety,omitzero"` // empty counts as unknown
	RetryAfterMS *int64             `json:"retry_after_ms,omitzero"`
	Evidence     bool               `json:"evidence,omitzero"` // whether something shows it (SIG-2)
}

// Budget bounds the recovery of one case; nil is no bound of its own.
type Budget struct {
	Attempts     *int64 `json:"attempts,omitzero"` // over all steps, first ones excluded
	CostMicroUSD *int64 `json:"cost_micro_usd,omitzero"`
	Tokens       *int64 `json:"tokens,omitzero"`
	DeadlineMS   *int64 `json:"deadline_ms,omitzero"` // from StartedAt on
}

// Rung is a past action: the decision, the failure that it answered, and its result.
type Rung struct {
	Step     string   `json:"step,omitzero"` // of the case
	Class    string   `json:"class"`         // of the failure it answered, as it was effective
	Code     string   `json:"code"`
	Rule     Rule     `json:"rule"`
	Strategy Strategy `json:"strategy"`
	Variant  Variant  `json:"variant,omitzero"`
	Scope    Scope    `json:"scope,omitzero"`
	Model    string   `json:"model,omitzero"`
	Result   Result   `json:"result"`
}

// RungOf returns the rung that records an action once its result is known. The rung
// takes its class and code from the failure in h, so call RungOf before h changes.
func (h *History) RungOf(a Action, r Rule, result Result) Rung {
	class, code := h.Effective()
	return Rung{Step: h.Step, Class: class, Code: code, Rule: r, Strategy: a.Strategy, Variant: a.Variant, Scope: a.Scope,
		Model: a.Model, Result: result}
}

// Effective returns the failure's class and code as a reader must take them
// (SIG-2).
func (h *History) Effective() (class, code string) {
	return entry.Effective(h.Failure.Class, h.Failure.Code, h.Failure.Evidence)
}
