package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Report is the result of a run; schema/report.json is its JSON Schema. The report does not depend
// on clock, machine or number of workers.
type Report struct {
	V              int64          `json:"v"`
	Engine         string         `json:"engine"`
	Runtime        string         `json:"runtime"`           // recorded, simulated, live
	External       []string       `json:"external,omitzero"` // command line of a strategy that chose actions
	Recommendation Recommendation `json:"recommendation"`
	// Partial says why the run did not reach the end of its scenario. It is empty for a whole run.
	Partial string `json:"partial,omitzero"`
	// Simulated is set if an outcome model took part in a result.
	Simulated bool `json:"simulated"`

	ConfigDigest   entry.Digest `json:"config_digest"` // of config.snapshot.json
	PolicyDigest   entry.Digest `json:"policy_digest"`
	ScenarioDigest entry.Digest `json:"scenario_digest"`
	Seed           int64        `json:"seed"`
	RecordDigest   entry.Digest `json:"record_digest,omitzero"` // of recorded.ndjson, where there is one
	RunRoot        merkle.Hash  `json:"run_root"`               // over the traces in scenario order

	Cases
	// RecoveryRatePPM is the share of failing cases that recovered, in parts per million, rounded
	// down.
	RecoveryRatePPM int64 `json:"recovery_rate_ppm"`
	// Rejected counts the lines of the scenario that could not be used. Rejections has the reasons
	// of the first of them.
	Rejected   int64       `json:"rejected"`
	Rejections []Rejection `json:"rejections,omitzero"`

	Observed   Observed    `json:"observed"`
	Spent      Spent       `json:"spent"`
	Classes    []Class     `json:"classes"`
	Strategies []Strategy  `json:"strategies"`
	Reasons    []Reason    `json:"reasons"` // of escalations
	Slices     []Slice     `json:"slices"`
	Near       []NearLimit `json:"near"`
	// Calibration is nil if no attempt at recovery had a confidence.
	Calibration *Calibration `json:"calibration,omitzero"`
	// MissingStrategies are the strategies that rules of the policy name and that were not
	// registered. The ladders of these rules decided.
	MissingStrategies []string `json:"missing_strategies,omitzero"`

	Gates    []Gate   `json:"gates"`
	Warnings []string `json:"warnings"`
}

// Cases counts cases by how they ended. Failing is the sum of AutoRecovered and
// Escalated, Total that of Failing and NoFailure.
type Cases struct {
	Total                   int64 `json:"total"`
	Failing                 int64 `json:"failing"`
	AutoRecovered           int64 `json:"auto_recovered"`
	FallbackModelRecoveries int64 `json:"fallback_model_recoveries"` // of AutoRecovered: a fallback_model attempt recovered a step
	Escalated               int64 `json:"escalated"`
	NoFailure               int64 `json:"no_failure"`
	// Unsafe counts those of AutoRecovered that the policy forbids to recover without a person.
	Unsafe int64 `json:"unsafe_recoveries,omitzero"`
}

// ratePPM returns the share of failing cases that recovered, in parts per million, rounded down.
func (c *Cases) ratePPM() int64 {
	if c.Failing == 0 {
		return 0
	}
	return c.AutoRecovered * million / c.Failing
}

// Rejection is a line of the scenario that could not be used.
type Rejection struct {
	Line    int    `json:"line"`
	Field   string `json:"field,omitzero"`
	Problem string `json:"problem"`
	Detail  string `json:"detail"`
}

// Observed describes the observations that the results rest on.
type Observed struct {
	StepsOK             int64 `json:"steps_ok"` // at the first attempt
	StepsFailed         int64 `json:"steps_failed"`
	StepsNotObserved    int64 `json:"steps_not_observed"`    // never tried
	StepsSkipped        int64 `json:"steps_skipped"`         // behind an escalation
	Attempts            int64 `json:"attempts"`              // of recovery
	AttemptsNotObserved int64 `json:"attempts_not_observed"` // wanted, but nothing is known of them
	AttemptsSimulated   int64 `json:"attempts_simulated"`
	CasesSimulated      int64 `json:"cases_simulated"` // with such an attempt
	AttemptsWithoutCost int64 `json:"attempts_without_cost"`
	// AttemptsWithoutLatency counts first attempts too, like AttemptsWithoutCost.
	AttemptsWithoutLatency int64 `json:"attempts_without_latency"`
	// RecoveredButFailed counts cases that recovered here by an attempt that an outcome model drew,
	// and that failed according to their source.
	RecoveredButFailed int64 `json:"recovered_but_failed"`
}

// Spent is the known cost and latency of failing cases, first attempts included. Latencies are
// rounded up by less than 0.8 %. A cost or latency is nil if no case has a known one.
type Spent struct {
	CostMicroUSD        *int64 `json:"cost_micro_usd,omitzero"`
	CostPerCaseMicroUSD *int64 `json:"cost_per_case_micro_usd,omitzero"` // rounded up, of the cases with a known cost
	Unpriced            int64  `json:"attempts_unpriced,omitzero"`       // of recovery, made, and nobody knows what they cost
	Tokens              int64  `json:"tokens"`
	LatencyP50MS        *int64 `json:"latency_p50_ms,omitzero"`
	LatencyP95MS        *int64 `json:"latency_p95_ms,omitzero"`
}

// Class has the failing cases whose first failure is of a class and code.
type Class struct {
	scenario.Label
	Cases
	Spent
	Remediation string `json:"remediation,omitzero"`
}

// Slice is the cases with a tag.
type Slice struct {
	Tag string `json:"tag"`
	Cases
	RecoveryRatePPM int64 `json:"recovery_rate_ppm"`
	Spent
}

// Strategy counts the actions of a strategy, and their results.
type Strategy struct {
	Strategy     string       `json:"strategy"`
	Variant      string       `json:"variant,omitzero"`
	PromptDigest entry.Digest `json:"prompt_digest,omitzero"` // of the variant, as the policy names it
	Times        int64        `json:"times"`
	OK           int64        `json:"ok"`
	Decided      int64        `json:"decided"` // decided, and not yet carried out
	NotObserved  int64        `json:"not_observed"`
}

// Reason counts why cases escalated.
type Reason struct {
	Reason string `json:"reason"`
	Cases  int64  `json:"cases"`
}

// NearLimit is a value of a limit, one step from the value in force, with which cases end
// otherwise.
type NearLimit struct {
	Param           string   `json:"param"`
	Value           int64    `json:"value"`
	ToAutoRecovered int64    `json:"to_auto_recovered"`
	ToEscalated     int64    `json:"to_escalated"`
	Cases           []string `json:"cases"` // ids of the first ones
}

// Subject names the run of a report.
type Subject struct {
	Runtime        string
	External       []string
	Policy         *recovery.Policy
	Seed           int64
	ConfigDigest   entry.Digest
	ScenarioDigest entry.Digest
	RecordDigest   entry.Digest
	Partial        string
	Rejected       int64
	Rejections     []Rejection
	Baseline       *Baseline
	Missing        []string // strategies that rules name and nothing implements
}

// reject counts a line that cannot be used.
func (s *Subject) reject(wrong *scenario.Error) {
	if s.Rejected++; len(s.Rejections) < rejectionsMax {
		s.Rejections = append(s.Rejections,
			Rejection{Line: wrong.Line, Field: wrong.Field, Problem: string(wrong.Problem), Detail: scenario.Cut(wrong.Detail, scenario.TextMax)})
	}
}

// Report returns the report of all traces that were added.
func (t *Tally) Report(s Subject) (Report, error) {
	head, err := t.frontier.Head()
	if err != nil {
		return Report{}, fmt.Errorf("engine: root of the traces: %w", err)
	}
	r := Report{
		V: formatVersion, Engine: Engine, Runtime: s.Runtime, External: s.External, Partial: s.Partial, Simulated: t.simulated,
		ConfigDigest: s.ConfigDigest, PolicyDigest: s.Policy.Hash(), ScenarioDigest: s.ScenarioDigest, RecordDigest: s.RecordDigest, Seed: s.Seed, RunRoot: head.Root,
		Cases: t.all.Cases, RecoveryRatePPM: t.all.ratePPM(), Rejected: s.Rejected, Rejections: s.Rejections,
		Observed: t.observed, Spent: t.all.spent(),
		Classes: []Class{}, Strategies: []Strategy{}, Reasons: []Reason{}, Slices: []Slice{}, Near: []NearLimit{}, Warnings: []string{},
		MissingStrategies: s.Missing, Calibration: t.calibration(),
	}
	for _, label := range sortedLabels(t.classes) {
		g := t.classes[label]
		r.Classes = append(r.Classes, Class{Label: label, Cases: g.Cases, Spent: g.spent(), Remediation: s.Policy.Remediation(label.Class, label.Code)})
	}
	for _, tag := range slices.Sorted(maps.Keys(t.slices)) {
		g := t.slices[tag]
		r.Slices = append(r.Slices, Slice{Tag: tag, Cases: g.Cases, RecoveryRatePPM: g.ratePPM(), Spent: g.spent()})
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.strategies), strategyKey.compare) {
		r.Strategies = append(r.Strategies, *t.strategies[key])
	}
	for _, reason := range slices.Sorted(maps.Keys(t.reasons)) {
		r.Reasons = append(r.Reasons, Reason{reason, t.reasons[reason]})
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.near), func(a, b Near) int { return cmp.Or(cmp.Compare(a.Param, b.Param), cmp.Compare(a.Value, b.Value)) }) {
		r.Near = append(r.Near, *t.near[key])
	}
	t.judge(&r, s)
	t.warn(&r, s)
	return r, nil
}

func (k strategyKey) compare(other strategyKey) int {
	return cmp.Or(cmp.Compare(k.strategy, other.strategy), cmp.Compare(k.variant, other.variant))
}

func (g *group) spent() Spent {
	s := Spent{Tokens: g.tokens, Unpriced: g.unpriced, LatencyP50MS: g.latency.quantile(million / 2), LatencyP95MS: g.latency.quantile(million / 100 * 95)}
	if g.costed > 0 {
		cost, perCase := g.cost, (g.cost+g.costed-1)/g.costed
		s.CostMicroUSD, s.CostPerCaseMicroUSD = &cost, &perCase
	}
	return s
}

// warn adds warnings that a reader of the report must see.
func (t *Tally) warn(r *Report, s Subject) {
	add := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if r.Partial != "" {
		add("partial: the run was ended before the end of its scenario (%s)", r.Partial)
	}
	if r.Simulated {
		add("simulated: an outcome model drew %s; none was really made", counted(r.Observed.AttemptsSimulated, "attempt"))
	}
	if len(r.MissingStrategies) > 0 {
		add("not registered: %s; the ladder decided in their place in %s", strings.Join(r.MissingStrategies, ", "), counted(t.stoodCount, "case"))
	}
	if t.undeclared > 0 {
		add("%s escalated in doubt about an effect; %s", counted(t.undeclared, "case"), t.hint)
	}
	if r.Rejected > 0 {
		add("%s of the scenario could not be used", counted(r.Rejected, "line"))
	}
	for _, n := range r.Near {
		pinned, _ := s.Policy.Int(n.Param)
		add("%s is %s: at %s, %s more would recover, and %d more would escalate",
			n.Param, figure.Exact(n.Param, pinned), figure.Exact(n.Param, n.Value), counted(n.ToAutoRecovered, "case"), n.ToEscalated)
	}
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Near {
			add("%s is %s, and the value is %s: one step of the limit decides the gate otherwise", g.Param, figure.Exact(g.Param, g.Limit), figure.Exact(g.Param, *g.Value))
		}
	}
}

// Encode returns the content of report.json.
func (r *Report) Encode() ([]byte, error) {
	text, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("engine: encode report: %w", err)
	}
	return append(text, '\n'), nil
}

// DecodeReport reads a report.json; the name stands in errors.
func DecodeReport(name string, text []byte) (Report, error) {
	var r Report
	if wrong := (scenario.Document{What: "a report"}).DecodeJSON(text, &r); wrong != nil {
		wrong.File, wrong.Remedy = name, "pass a report.json that arl recover wrote"
		return Report{}, wrong
	}
	if r.V != formatVersion {
		wrong := scenario.Malformed("/v", fmt.Sprintf("is %d", r.V), "pass a report of this version of arl")
		wrong.File = name
		return Report{}, wrong
	}
	return r, nil
}
