// Package runs says in words and tables what the recovery engine found: a sweep, the difference of
// two reports, a replay, the steps of a case and the reasoning behind them. Commands print these
// words, and pages show them, so that both say the same.
package runs

import (
	"fmt"
	"strconv"
	"strings"

	"recoveryledger/api/words"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/scenario"
)

// Table is a finding with a row for each of its parts.
type Table struct {
	Headers []string // in capitals
	Rows    []Row
}

// Row is a part of a finding.
type Row struct {
	Value any // the part itself, as JSON has it
	Cells []string
}

func (t *Table) add(value any, cells ...string) { t.Rows = append(t.Rows, Row{value, cells}) }

// Field is a named part of a finding.
type Field [2]string

// Points returns the results of a sweep, one for each value. A star marks the value of the policy.
func Points(r *engine.SweepReport) *Table {
	t := &Table{Headers: []string{"VALUE", "RECOVERED", "FALLBACK", "ESCALATED", "RECOMMENDATION"}}
	for i := range r.Points {
		p := &r.Points[i]
		value := figure.Exact(r.Param, p.Value)
		if p.Value == r.Pinned {
			value += " *"
		}
		t.add(p, value, fmt.Sprintf("%d/%d", p.AutoRecovered, p.Failing), fmt.Sprint(p.FallbackModelRecoveries), fmt.Sprint(p.Escalated), string(p.Recommendation))
	}
	return t
}

// PointNotes returns the lines below the results of a sweep.
func PointNotes(r *engine.SweepReport) []string {
	notes := []string{fmt.Sprintf("* %s in the policy: %s", r.Param, figure.Exact(r.Param, r.Pinned))}
	notes = append(notes, inPlaceOf(r.MissingStrategies, "")...)
	if r.Simulated {
		notes = append(notes, "simulated: an outcome model drew attempts; none was really made")
	}
	return notes
}

// FlipTitle says between which values of a parameter outcomes change, and how many.
func FlipTitle(param string, f *engine.Flip) string {
	return fmt.Sprintf("flip between %s and %s: %s", figure.Exact(param, f.From), figure.Exact(param, f.To), words.Counted(f.Count, "case"))
}

// FlipCase says how a case ends on both sides of a flip.
func FlipCase(c *engine.FlipCase) string {
	text := fmt.Sprintf("%s: %s, then %s", c.Case, c.From, c.To)
	if c.NotObserved {
		text += " (not observed)"
	}
	return text
}

// FlipGate says how a gate turns.
func FlipGate(g *engine.FlipGates) string {
	return fmt.Sprintf("gate %s: %s, then %s", g.Gate, g.From, g.To)
}

// SweepEnd returns what a sweep concludes: that there is no flip, and that the policy has a value
// next to a flip.
func SweepEnd(r *engine.SweepReport) (lines []string) {
	if len(r.Flips) == 0 {
		lines = append(lines, "no flip in this range")
	}
	if r.Near {
		lines = append(lines, fmt.Sprintf("warning: %s is pinned at %s: one step from there, cases end otherwise", r.Param, figure.Exact(r.Param, r.Pinned)))
	}
	return lines
}

// Changes returns the difference of two reports, one row for each class.
func Changes(d *engine.ReportDiff) *Table {
	t := &Table{Headers: []string{"CLASS", "BEFORE", "AFTER", "CHANGE", "COST PER CASE"}}
	for _, c := range d.Classes {
		rate, cost := "–", "–"
		if c.ChangePPM != nil {
			rate = figure.Change("change_ppm", *c.ChangePPM)
		}
		if c.CostPerCaseChange != nil {
			cost = figure.Change("cost_micro_usd", *c.CostPerCaseChange)
		}
		t.add(c, c.String(), fmt.Sprintf("%d/%d", c.Before.AutoRecovered, c.Before.Failing),
			fmt.Sprintf("%d/%d", c.After.AutoRecovered, c.After.Failing), rate, cost)
	}
	return t
}

// ChangeNotes returns the lines below the difference of two reports.
func ChangeNotes(d *engine.ReportDiff) []string {
	same := strings.Join(d.Same, ", ")
	if same == "" {
		same = "nothing"
	}
	notes := []string{fmt.Sprintf("recommendation: %s, then %s; the same in both: %s", d.Before, d.After, same)}
	notes = append(notes, inPlaceOf(d.MissingBefore, " in the first run")...)
	return append(notes, inPlaceOf(d.MissingAfter, " in the second run")...)
}

// inPlaceOf says that ladders decided in place of strategies; nothing without any.
func inPlaceOf(missing []string, where string) []string {
	if len(missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not registered%s: %s; the ladder decides in their place", where, strings.Join(missing, ", "))}
}

// Why returns the gates that decide against a promotion: those that fail, and those about what was
// not observed.
func Why(r *engine.Report) (lines []string) {
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Verdict == engine.Fail || g.Verdict == engine.Unknown {
			lines = append(lines, fmt.Sprintf("gate %s: %s", g.Gate, g.Text()))
		}
	}
	return lines
}

// Conclusion says why a report does not promote, and gives no sentence where the report does.
func Conclusion(r engine.Recommendation) string {
	switch r {
	case engine.Reject:
		return "the report rejects: a gate of the policy failed"
	case engine.Inconclusive:
		return "the report is inconclusive: too few cases failed, or a gate needs a value that was not observed"
	}
	return ""
}

// Comparison returns the finding of a replay.
func Comparison(c *engine.Comparison) []Field {
	fields := []Field{{"match", string(c.Match)}, {"cases", fmt.Sprint(c.Cases)}}
	if len(c.MissingStrategies) > 0 {
		fields = append(fields, Field{"not registered", strings.Join(c.MissingStrategies, ", ") + "; the ladder decided in their place"})
	}
	if c.Match != engine.Diverged {
		return fields
	}
	if c.Trace != "" {
		fields = append(fields, Field{"trace", string(c.Trace)})
	}
	return append(fields, Field{"file", c.File}, Field{"case", c.Case}, Field{"field", c.Field}, Field{"recorded", c.Recorded}, Field{"recomputed", c.Recomputed})
}

// ReplayEnd says what the finding of a replay means; nothing where the run is the same.
func ReplayEnd(c *engine.Comparison) string {
	switch c.Match {
	case engine.Diverged:
		return "the run does not follow from its scenario and policy"
	case engine.NotComparable:
		return c.Reason
	}
	return ""
}

// Steps returns the actions of a trace.
func Steps(t *engine.Trace) *Table {
	table := &Table{Headers: []string{"STEP", "TRY", "FAILURE", "RULE", "ACTION", "MODEL", "RESULT", "REASON"}}
	for i := range t.Rungs {
		r := &t.Rungs[i]
		table.add(r, r.Step, strconv.FormatInt(r.Attempt, 10), scenario.Label{Class: r.Class, Code: r.Code}.String(), r.Rule,
			phrase(r.Strategy, r.Variant), r.Model, r.Result, r.Reason)
	}
	return table
}

// End says how a case ended: also in which arm of a rollout, and what the candidate of a shadow or
// the other arm of a canary would have done.
func End(t *engine.Trace) string {
	var end strings.Builder
	end.WriteString(phrase(fmt.Sprintf("%s: %s", t.Case, t.Status), t.Reason))
	if t.Arm != "" {
		fmt.Fprintf(&end, ", arm %s of policy %s", t.Arm, t.Policy)
	}
	would(&end, "candidate", t.Shadow)
	would(&end, "other arm", t.Other)
	return end.String()
}

// would says what rules decided that nothing was done about.
func would(end *strings.Builder, who string, s *engine.Shadow) {
	if s == nil {
		return
	}
	for i := range s.Rungs {
		fmt.Fprintf(end, "; the %s would %s (%s)", who, phrase(s.Rungs[i].Strategy, s.Rungs[i].Variant), s.Rungs[i].Rule)
	}
}

// DecisionTitle names a decision on a case.
func DecisionTitle(d *engine.ExplainedDecision) string {
	return fmt.Sprintf("decision %d, step %s", d.Decision, d.Step)
}

// phrase joins a word and another that may be missing.
func phrase(first, second string) string {
	if second == "" {
		return first
	}
	return first + " " + second
}

// Asked says what became of the cases that escalated: how many are entries of the log that a
// decision stands for, how many ask people, of those how many ask for such an entry, and about how
// many nobody is asked. It returns a line for each number but 0.
func Asked(enacted, asked, unsaid, unasked int64) (lines []string) {
	add := func(n int64, format string) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf(format, words.Counted(n, "case")))
		}
	}
	add(enacted, "the decision about %s is an entry of the log: a failure signal, or the cancel of a task")
	add(asked, "people are asked about %s: arl escalation list")
	add(unsaid, "of %s of these the engine could not register what it decided; the question says why")
	add(unasked, "one question is about another %s: read the failures in the report")
	return lines
}
