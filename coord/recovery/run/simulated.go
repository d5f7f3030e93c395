package run

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Simulated is the runtime that draws what a case does not record from an
// outcome model, and marks it as simulated. What is recorded stays as it is.
type Simulated struct {
	model *OutcomeModel
	seed  int64
}

// NewSimulated returns the runtime of an outcome model. The same seed draws
// the same outcomes.
func NewSimulated(model *OutcomeModel, seed int64) *Simulated { return &Simulated{model, seed} }

// OutcomeModel says how likely attempts that nobody made are to succeed.
type OutcomeModel struct {
	// Outcomes are asked in order; the first that fits an attempt draws it.
	// Where none fits, the attempt stays not observed.
	Outcomes []DrawnOutcome `json:"outcomes"`
}

// DrawnOutcome is a line of an outcome model. Empty members fit everything.
type DrawnOutcome struct {
	Class    string `json:"class,omitzero"`
	Code     string `json:"code,omitzero"`
	Strategy string `json:"strategy,omitzero"`
	Variant  string `json:"variant,omitzero"`
	Model    string `json:"model,omitzero"`
	// SuccessPPM is the chance of success in parts per million; a failure is
	// the one before again.
	SuccessPPM int64 `json:"success_ppm"`
	// CostMicroUSD and LatencyMS are those of every such attempt.
	CostMicroUSD *int64 `json:"cost_micro_usd,omitzero"`
	LatencyMS    *int64 `json:"latency_ms,omitzero"`
}

// million is all of something in parts per million.
const million = 1_000_000

// ParseOutcomeModel reads an outcome model in YAML or JSON. The error names the
// file, the line and the fix.
func ParseOutcomeModel(name string, document []byte) (*OutcomeModel, error) {
	wrong := func(field, detail, fix string) error {
		return &Error{Problem: entry.Malformed, File: name, Field: field, Detail: detail, Remedy: fix}
	}
	if len(document) > modelBytesMax {
		return nil, wrong("", fmt.Sprintf("has more than %d bytes", modelBytesMax), "keep an outcome model short")
	}
	for _, t := range lexer.Tokenize(string(document)) {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType: // they can make much of little
			bad := malformed("", fmt.Sprintf("has %q, an anchor, alias or tag", cut(t.Value, codeMax)), "write it out")
			bad.File, bad.Line = name, t.Position.Line
			return nil, bad
		}
	}
	const members = "write outcomes: a list of class, code, strategy, variant, model, success_ppm, cost_micro_usd, latency_ms"
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, wrong("", yaml.FormatError(err, false, false), members)
	}
	var m OutcomeModel
	if err := json.Unmarshal(text, &m, json.RejectUnknownMembers(true)); err != nil {
		bad := notScenario(err)
		return nil, wrong(bad.Field, bad.Detail, members+"; numbers are integers")
	}
	if len(m.Outcomes) == 0 || len(m.Outcomes) > outcomesMax {
		return nil, wrong("/outcomes", fmt.Sprintf("holds %d lines", len(m.Outcomes)), fmt.Sprintf("write 1 to %d", outcomesMax))
	}
	for i := range m.Outcomes {
		if bad := m.Outcomes[i].check(); bad != nil {
			bad.File = name
			return nil, below("/outcomes", i, bad)
		}
	}
	return &m, nil
}

func (d *DrawnOutcome) check() *Error {
	if d.SuccessPPM < 0 || d.SuccessPPM > million {
		return malformed("/success_ppm", fmt.Sprintf("is %d", d.SuccessPPM), "write parts per million, 0 to 1000000")
	}
	return firstOf(checkCount("/cost_micro_usd", d.CostMicroUSD), checkCount("/latency_ms", d.LatencyMS))
}

// Attempt implements [Runtime].
func (s *Simulated) Attempt(ctx context.Context, q Request) (Attempt, error) {
	a, err := Recorded{}.Attempt(ctx, q)
	if err != nil || a.Outcome != NotObserved || q.Failure == nil || q.Way.Strategy == string(recovery.Reconcile) {
		return a, err
	}
	for i := range s.model.Outcomes {
		if d := &s.model.Outcomes[i]; d.fits(q) {
			return s.draw(d, q), nil
		}
	}
	return a, nil
}

func (d *DrawnOutcome) fits(q Request) bool {
	return fits(d.Class, q.Failure.Class) && fits(d.Code, q.Failure.Code) && fits(d.Strategy, q.Way.Strategy) &&
		fits(d.Variant, q.Way.Variant) && fits(d.Model, q.Way.Model)
}

func fits(wanted, is string) bool { return wanted == "" || wanted == is }

func (s *Simulated) draw(d *DrawnOutcome, q Request) Attempt {
	a := Attempt{Way: q.Way, Outcome: OK, Verified: true, CostMicroUSD: d.CostMicroUSD, LatencyMS: d.LatencyMS, Simulated: true}
	purpose := "outcome|" + q.Step.ID + "|" + q.Way.Strategy + "|" + q.Way.Variant + "|" + q.Way.Model
	if recovery.Draw(s.seed, purpose, q.Case.ID, int64(q.Attempt), 0)%million >= uint64(d.SuccessPPM) {
		a.Outcome, a.Verified, a.Failure = Failed, false, q.Failure
	}
	return a
}
