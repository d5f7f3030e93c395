package engine

import (
	"context"
	"fmt"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Simulated is a runtime that draws the attempts that a case does not record from an outcome model,
// and marks them as simulated. Recorded attempts stay as they are.
type Simulated struct {
	model *OutcomeModel
	seed  int64
}

// newSimulated returns the runtime of an outcome model. The same seed draws
// the same outcomes.
func newSimulated(model *OutcomeModel, seed int64) *Simulated { return &Simulated{model, seed} }

// OutcomeModel has the chances of success of attempts that were never made.
type OutcomeModel struct {
	// Outcomes are tried in order. The first one that fits an attempt draws its result. An attempt
	// that none fits stays not observed.
	Outcomes []DrawnOutcome `json:"outcomes"`
}

// DrawnOutcome is a line of an outcome model. Empty members fit everything.
type DrawnOutcome struct {
	Class    string `json:"class,omitzero"`
	Code     string `json:"code,omitzero"`
	Strategy string `json:"strategy,omitzero"`
	Variant  string `json:"variant,omitzero"`
	Model    string `json:"model,omitzero"`
	// SuccessPPM is the chance of success in parts per million. If the attempt fails, it fails like
	// the attempt before it.
	SuccessPPM int64 `json:"success_ppm"`
	// CostMicroUSD and LatencyMS are the cost and the latency of every such attempt.
	CostMicroUSD *int64 `json:"cost_micro_usd,omitzero"`
	LatencyMS    *int64 `json:"latency_ms,omitzero"`
}

// ParseOutcomeModel reads an outcome model in YAML or JSON. The error is an
// [*Error] with the name of the file, and the line where one is known.
func ParseOutcomeModel(name string, document []byte) (*OutcomeModel, error) {
	m, wrong := parseOutcomeModel(document)
	if wrong == nil {
		return m, nil
	}
	if wrong.File = name; wrong.Line == 0 && wrong.Field != "" {
		wrong.Line = scenario.LineInYAML(document, wrong.Field)
	}
	return nil, wrong
}

func parseOutcomeModel(document []byte) (*OutcomeModel, *scenario.Error) {
	const members = "an outcome model has outcomes: a list of class, code, strategy, variant, model, success_ppm, cost_micro_usd, latency_ms"
	var m OutcomeModel
	if wrong := (scenario.Document{What: "an outcome model", Help: members, BytesMax: modelBytesMax}).DecodeYAML(document, &m); wrong != nil {
		return nil, wrong
	}
	if len(m.Outcomes) == 0 || len(m.Outcomes) > outcomesMax {
		return nil, scenario.Malformed("/outcomes", fmt.Sprintf("holds %d outcomes", len(m.Outcomes)), fmt.Sprintf("write 1 to %d; %s", outcomesMax, members))
	}
	for i := range m.Outcomes {
		if wrong := m.Outcomes[i].check(); wrong != nil {
			return nil, scenario.Below("/outcomes", i, wrong)
		}
	}
	return &m, nil
}

// check refuses an outcome that fits no attempt: a word that no attempt at recovery has.
func (d *DrawnOutcome) check() *scenario.Error {
	if d.SuccessPPM < 0 || d.SuccessPPM > million {
		return scenario.Malformed("/success_ppm", fmt.Sprintf("is %d", d.SuccessPPM), "write parts per million, 0 to 1000000")
	}
	var strategies, variants []string
	for _, s := range recovery.Strategies() {
		if s.Attempts() {
			strategies = append(strategies, string(s))
		}
	}
	if d.Strategy != string(recovery.StateReset) {
		variants = wordsOf(recovery.Variants())
	}
	if d.Strategy != string(recovery.RetryAltered) {
		variants = append(variants, wordsOf(recovery.Scopes())...)
	}
	return scenario.FirstOf(scenario.Optional("/class", d.Class, scenario.OneOf(entry.Classes()...)), scenario.Optional("/code", d.Code, scenario.CheckWord),
		scenario.Optional("/strategy", d.Strategy, scenario.OneOf(strategies...)), scenario.Optional("/variant", d.Variant, scenario.OneOf(variants...)),
		scenario.Optional("/model", d.Model, scenario.CheckName), scenario.CheckCount("/cost_micro_usd", d.CostMicroUSD), scenario.CheckCount("/latency_ms", d.LatencyMS))
}

func wordsOf[T ~string](all []T) (words []string) {
	for _, word := range all {
		words = append(words, string(word))
	}
	return words
}

// Attempt implements [Runtime].
func (s *Simulated) Attempt(ctx context.Context, q scenario.Request) (scenario.Attempt, error) {
	a, err := Recorded{}.Attempt(ctx, q)
	if err != nil || a.Outcome != scenario.NotObserved || q.Failure == nil || q.Variation.Strategy == string(recovery.Reconcile) {
		return a, err
	}
	for i := range s.model.Outcomes {
		if d := &s.model.Outcomes[i]; d.fits(q) {
			return s.draw(d, q), nil
		}
	}
	return a, nil
}

func (d *DrawnOutcome) fits(q scenario.Request) bool {
	return fits(d.Class, q.Failure.Class) && fits(d.Code, q.Failure.Code) && fits(d.Strategy, q.Variation.Strategy) &&
		fits(d.Variant, q.Variation.Variant) && fits(d.Model, q.Variation.Model)
}

func fits(wanted, is string) bool { return wanted == "" || wanted == is }

func (s *Simulated) draw(d *DrawnOutcome, q scenario.Request) scenario.Attempt {
	a := scenario.Attempt{Variation: q.Variation, Outcome: scenario.OK, Verified: true, CostMicroUSD: d.CostMicroUSD, LatencyMS: d.LatencyMS, Simulated: true}
	purpose := "outcome|" + q.Step.ID + "|" + q.Variation.Strategy + "|" + q.Variation.Variant + "|" + q.Variation.Model
	if recovery.Draw(s.seed, purpose, q.Case.ID, int64(q.Attempt), 0)%million >= uint64(d.SuccessPPM) {
		a.Outcome, a.Verified, a.Failure = scenario.Failed, false, q.Failure
	}
	return a
}
