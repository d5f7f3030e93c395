package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery/figure"
)

// Summary writes the report for people, in Markdown.
func (r *Report) Summary() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Recovery run: %s\n", r.Recommendation)
	if r.Partial != "" {
		line("**Partial**: %s before the end of the scenario.\n", r.Partial)
	}
	line("%s\n", r.Lead())
	line("| | |\n|---|---|")
	line("| run root | `%s` |", r.RunRoot)
	line("| engine, runtime, seed | %s, %s, %d |", r.Engine, r.Runtime, r.Seed)
	if r.External != nil {
		line("| actions chosen by | `%s` |", strings.Join(r.External, " "))
	}
	line("| policy | `%s` |\n| configuration | `%s` |\n| scenario | `%s` |", r.PolicyDigest, r.ConfigDigest, r.ScenarioDigest)
	line("| cost of failing cases | %s, %s each |", dollars(r.Spent.CostMicroUSD), dollars(r.Spent.CostPerCaseMicroUSD))
	line("| latency of failing cases | p50 %s, p95 %s |", duration(r.Spent.LatencyP50MS), duration(r.Spent.LatencyP95MS))
	for _, w := range r.Warnings {
		line("\n> %s", w)
	}
	for _, section := range r.Sections() {
		section.write(line)
	}
	line("\n## What was observed\n\n%s", strings.Join(r.Observations(), "\n"))
	if len(r.Rejections) > 0 {
		line("\n## Lines that could not be used: %d\n", r.Rejected)
		for _, w := range r.Rejections {
			line("* line %d %s: %s (%s)", w.Line, w.Field, cell(w.Detail), w.Problem)
		}
	}
	return b.String()
}

// Lead returns the first sentence of the summary: how the cases ended.
func (r *Report) Lead() string {
	return fmt.Sprintf("%d of %d failing cases recovered automatically (%s), %d of them by a fallback model; %d escalated; %s had no failure.",
		r.AutoRecovered, r.Failing, percent(r.RecoveryRatePPM), r.FallbackModelRecoveries, r.Escalated, counted(r.NoFailure, "case"))
}

// Section is a table of the summary.
type Section struct {
	Title   string
	Headers []string
	Rows    [][]string
}

// Failures is the title of the section whose rows are classes of failures.
const Failures = "Failures"

// Sections returns the tables of the summary.
func (r *Report) Sections() []Section {
	all := []Section{r.gatesSection(), r.failuresSection()}
	if len(r.Slices) > 0 {
		all = append(all, r.slicesSection())
	}
	if r.Calibration != nil {
		all = append(all, r.calibrationSection())
	}
	done := Section{Title: "What was done", Headers: []string{"strategy", "times", "ok", "only decided", "not observed"}}
	for _, s := range r.Strategies {
		done.add(strings.TrimSpace(s.Strategy+" "+s.Variant), s.Times, s.OK, s.Decided, s.NotObserved)
	}
	reasons := Section{Title: "Why cases escalated", Headers: []string{"reason", "cases"}}
	for _, reason := range r.Reasons {
		reasons.add(reason.Reason, reason.Cases)
	}
	return append(all, done, reasons)
}

func (r *Report) gatesSection() Section {
	s := Section{Title: "Gates", Headers: []string{"gate", "verdict", "value", "limit", ""}}
	for i := range r.Gates {
		g := &r.Gates[i]
		value := "–"
		if g.Value != nil {
			value = figure.Exact(g.Param, *g.Value)
		}
		s.add(g.Gate, g.Verdict, value, figure.Exact(g.Param, g.Limit), g.Detail)
	}
	return s
}

// failuresSection lists the most frequent failures first.
func (r *Report) failuresSection() Section {
	s := Section{Title: Failures, Headers: []string{"class", "cases", "recovered", "by fallback", "escalated", "cost", "p50", "p95", "remediation"}}
	rows := slices.Clone(r.Classes)
	slices.SortStableFunc(rows, func(a, b Class) int { return cmp.Compare(b.Failing, a.Failing) })
	for i := range rows {
		c := &rows[i]
		s.add(c.Label, c.Failing, c.AutoRecovered, c.FallbackModelRecoveries, c.Escalated,
			dollars(c.CostMicroUSD), duration(c.LatencyP50MS), duration(c.LatencyP95MS), c.Remediation)
	}
	return s
}

func (r *Report) slicesSection() Section {
	s := Section{Title: "Slices", Headers: []string{"slice", "cases", "failing", "recovered", "rate", "cost", "p95"}}
	for i := range r.Slices {
		c := &r.Slices[i]
		s.add(c.Tag, c.Total, c.Failing, c.AutoRecovered, percent(c.RecoveryRatePPM), dollars(c.CostMicroUSD), duration(c.LatencyP95MS))
	}
	return s
}

func (s *Section) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	s.Rows = append(s.Rows, row)
}

// write writes the section in Markdown.
func (s *Section) write(line func(string, ...any)) {
	line("\n## %s\n\n%s\n|%s", s.Title, strings.ReplaceAll("| "+strings.Join(s.Headers, " | ")+" |", "|  |", "| |"), strings.Repeat("---|", len(s.Headers)))
	for _, row := range s.Rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = cell(row[i])
		}
		line("| %s |", strings.Join(cells, " | "))
	}
}

// Observations returns the sentences about what the results rest on.
func (r *Report) Observations() []string {
	o := &r.Observed
	return []string{
		fmt.Sprintf("Steps: %d ok at once, %d failed, %d not observed, %d not reached. Attempts at recovery: %d, of them %d simulated; %d more were wanted of which nothing is known.",
			o.StepsOK, o.StepsFailed, o.StepsNotObserved, o.StepsSkipped, o.Attempts, o.AttemptsSimulated, o.AttemptsNotObserved),
		fmt.Sprintf("Without cost: %s; without latency: %d. Called failed by their source, and recovered here by an outcome model: %s.",
			counted(o.AttemptsWithoutCost, "attempt"), o.AttemptsWithoutLatency, counted(o.RecoveredButFailed, "case")),
	}
}

// counted writes a number of things.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// percent writes parts per million with one decimal, rounded down.
func percent(ppm int64) string { return fmt.Sprintf("%d.%d %%", ppm/10_000, ppm/1000%10) }

// dollars writes micro-USD.
func dollars(micro *int64) string {
	if micro == nil {
		return "unknown"
	}
	return figure.USD(*micro)
}

func duration(ms *int64) string {
	if ms == nil {
		return "–"
	}
	return fmt.Sprintf("%d ms", *ms)
}

// cell makes a text fit a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace(text)
}
