package recovery

import (
	_ "embed"

	"recoveryledger/ledger/entry"
)

//go:embed default.yaml
var defaultDocument string

// defaultText are the rules of the default policy as [Policy.JSON] (TestDefaultRules): most
// processes that load a policy load this one, and YAML with its schema takes most of a load.
//
//go:embed default.json
var defaultText []byte

// schemaText is the JSON Schema (2020-12) of a policy file's member recovery. [Lint] also finds the
// mistakes that a schema cannot express.
//
//go:embed schema.json
var schemaText string

// DefaultDocument returns the file of the default policy, verbatim.
func DefaultDocument() []byte { return []byte(defaultDocument) }

// document is the rules as they are written.
type document struct {
	Limits     Limits    `json:"limits"`
	Models     []Model   `json:"models,omitzero"`
	Strategies []About   `json:"strategies,omitzero"`
	Patterns   []Pattern `json:"patterns,omitzero"`
	// Variants has the digest of the prompt of variants, and of the first attempt.
	Variants   map[string]entry.Digest `json:"variants,omitzero"`
	Guards     []guardDoc              `json:"guards,omitzero"`
	Rules      []ruleDoc               `json:"rules"`
	Thresholds Thresholds              `json:"thresholds"`
}

// Limits are hard caps of one case.
type Limits struct {
	Attempts     int64 `json:"attempts"`       // of recovery, over all steps; first attempts excluded
	CostMicroUSD int64 `json:"cost_micro_usd"` // after which no attempt is made
	Tokens       int64 `json:"tokens"`         // read and written, after which no attempt is made
	DeadlineMS   int64 `json:"deadline_ms"`    // from the case's beginning
}

// Model is a link of the chain that fallback_model goes down. Prices are in
// micro-USD for a million tokens.
type Model struct {
	Name          string `json:"name"`
	Account       string `json:"account"`        // the account that pays; quotas are per account
	ContextTokens int64  `json:"context_tokens"` // the longest context
	InputPrice    int64  `json:"input_micro_usd_per_mtok"`
	OutputPrice   int64  `json:"output_micro_usd_per_mtok"`
}

// Thresholds are the gates that a run must pass to be promoted. The baseline is
// the report of an earlier run.
type Thresholds struct {
	CasesMin               int64 `json:"cases_min"` // failing cases; with fewer a run is inconclusive
	RecoveryRateMinPPM     int64 `json:"recovery_rate_min_ppm"`
	CostPerCaseMaxMicroUSD int64 `json:"cost_per_case_max_micro_usd"` // mean over failing cases
	LatencyP95MaxMS        int64 `json:"latency_p95_max_ms"`          // of failing cases
	// NeverAutoRecover lists failures, class or class.code: a case with one of
	// them that recovered by itself rejects the run.
	NeverAutoRecover []string `json:"never_auto_recover,omitzero"`
	// TolerancePPM is the allowed loss of a class against the baseline, in parts per million.
	// ClassTolerancePPM has other values for single classes.
	TolerancePPM      int64            `json:"tolerance_ppm"`
	ClassTolerancePPM map[string]int64 `json:"class_tolerance_ppm,omitzero"`
	// CostTolerancePPM and LatencyTolerancePPM are by how much a case may cost more, and the
	// 95th percentile of latencies may be longer, than in the baseline, in parts per million. Zero
	// of the first means TolerancePPM. Zero of the second means that latencies are not compared.
	CostTolerancePPM    int64 `json:"cost_tolerance_ppm,omitzero"`
	LatencyTolerancePPM int64 `json:"latency_tolerance_ppm,omitzero"`
	// CalibrationErrorMaxPPM is the greatest difference between the confidences of attempts and
	// their outcomes, as the expected calibration error in parts per million. Zero: not asked for.
	CalibrationErrorMaxPPM int64 `json:"calibration_error_max_ppm,omitzero"`
	// MissingAllowed lists classes and slices of the baseline that a run may lack.
	MissingAllowed []string `json:"missing_allowed,omitzero"`
	// Slices are tags that are reported and judged on their own.
	Slices []string `json:"slices,omitzero"`
	// SliceRecoveryRateMinPPM has the smallest recovery rate of single slices, in parts per
	// million. Of another slice, RecoveryRateMinPPM must not be missed by more than chance
	// explains.
	SliceRecoveryRateMinPPM map[string]int64 `json:"slice_recovery_rate_min_ppm,omitzero"`
}

// CostTolerance returns by how much a case may cost more than in the baseline, in parts per
// million.
func (t *Thresholds) CostTolerance() int64 {
	if t.CostTolerancePPM != 0 {
		return t.CostTolerancePPM
	}
	return t.TolerancePPM
}

// Tolerance returns the allowed loss of a class against the baseline, in parts per million of its
// cases.
func (t *Thresholds) Tolerance(class string) int64 {
	if ppm, ok := t.ClassTolerancePPM[class]; ok {
		return ppm
	}
	return t.TolerancePPM
}

// Never reports whether a case with such a failure must not recover automatically.
func (t *Thresholds) Never(class, code string) bool {
	for _, never := range t.NeverAutoRecover {
		if never == class || never == class+"."+code {
			return true
		}
	}
	return false
}

type guardDoc struct {
	ID       string         `json:"id"`
	When     string         `json:"when"`
	Then     Strategy       `json:"then"`
	Severity entry.Severity `json:"severity,omitzero"`
}

type ruleDoc struct {
	ID          string    `json:"id"`
	When        string    `json:"when"`
	Verify      bool      `json:"verify,omitzero"`
	Strategy    string    `json:"strategy,omitzero"` // asked before the ladder
	Ladder      []rungDoc `json:"ladder"`
	Remediation string    `json:"remediation,omitzero"`
}

// rungDoc is one rung of a ladder. The strategy of the rung determines its members.
type rungDoc struct {
	Strategy Strategy       `json:"strategy"`
	Max      int64          `json:"max,omitzero"` // times in a row; absent: once
	When     string         `json:"when,omitzero"`
	Enabled  *bool          `json:"enabled,omitzero"`
	Variant  Variant        `json:"variant,omitzero"`
	Scope    Scope          `json:"scope,omitzero"`
	Account  string         `json:"account,omitzero"` // other
	Context  string         `json:"context,omitzero"` // larger
	Backoff  *backoffDoc    `json:"backoff,omitzero"`
	MinMS    int64          `json:"min_ms,omitzero"`
	MaxMS    int64          `json:"max_ms,omitzero"`
	Severity entry.Severity `json:"severity,omitzero"`
	Question bool           `json:"question,omitzero"`
}

// backoffDoc is an exponential pause: base·factor^k, at most max, less a random
// part of at most jitter.
type backoffDoc struct {
	BaseMS    int64 `json:"base_ms"`
	Factor    int64 `json:"factor"`
	MaxMS     int64 `json:"max_ms"`
	JitterPPM int64 `json:"jitter_ppm,omitzero"`
}
