package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Summary writes the report for people, in Markdown.
func (r *Report) Summary() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Recovery run: %s\n", r.Recommendation)
	if r.Partial != "" {
		line("**Partial**: %s before the end of the scenario.\n", r.Partial)
	}
	line("%d of %d failing cases recovered automatically (%s), %d of them by a fallback model; %d escalated; %s had no failure.\n",
		r.AutoRecovered, r.Failing, percent(r.RecoveryRatePPM), r.FallbackModelRecoveries, r.Escalated, counted(r.NoFailure, "case"))
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
	r.summarizeGates(line)
	r.summarizeClasses(line)
	r.summarizeActions(line)
	if len(r.Rejections) > 0 {
		line("\n## Lines that could not be used: %d\n", r.Rejected)
		for _, w := range r.Rejections {
			line("* line %d %s: %s (%s)", w.Line, w.Field, cell(w.Detail), w.Problem)
		}
	}
	return b.String()
}

func (r *Report) summarizeGates(line func(string, ...any)) {
	line("\n## Gates\n\n| gate | verdict | value | limit | |\n|---|---|---|---|---|")
	for i := range r.Gates {
		g := &r.Gates[i]
		value := "–"
		if g.Value != nil {
			value = Figure(g.Param, *g.Value)
		}
		line("| %s | %s | %s | %s | %s |", g.Gate, g.Verdict, value, Figure(g.Param, g.Limit), cell(g.Detail))
	}
}

// summarizeClasses lists the most frequent failures first.
func (r *Report) summarizeClasses(line func(string, ...any)) {
	line("\n## Failures\n\n| class | cases | recovered | by fallback | escalated | cost | p50 | p95 | remediation |\n|---|---|---|---|---|---|---|---|---|")
	rows := slices.Clone(r.Classes)
	slices.SortStableFunc(rows, func(a, b Class) int { return cmp.Compare(b.Failing, a.Failing) })
	for i := range rows {
		c := &rows[i]
		line("| %s | %d | %d | %d | %d | %s | %s | %s | %s |", c.Label, c.Failing, c.AutoRecovered, c.FallbackModelRecoveries, c.Escalated,
			dollars(c.CostMicroUSD), duration(c.LatencyP50MS), duration(c.LatencyP95MS), cell(c.Remediation))
	}
	if len(r.Slices) == 0 {
		return
	}
	line("\n## Slices\n\n| slice | cases | failing | recovered | rate | cost | p95 |\n|---|---|---|---|---|---|---|")
	for i := range r.Slices {
		s := &r.Slices[i]
		line("| %s | %d | %d | %d | %s | %s | %s |", s.Tag, s.Total, s.Failing, s.AutoRecovered, percent(s.RecoveryRatePPM), dollars(s.CostMicroUSD), duration(s.LatencyP95MS))
	}
}

func (r *Report) summarizeActions(line func(string, ...any)) {
	line("\n## What was done\n\n| strategy | times | ok | only decided | not observed |\n|---|---|---|---|---|")
	for _, s := range r.Strategies {
		line("| %s | %d | %d | %d | %d |", strings.TrimSpace(s.Strategy+" "+s.Variant), s.Times, s.OK, s.Decided, s.NotObserved)
	}
	line("\n## Why cases escalated\n\n| reason | cases |\n|---|---|")
	for _, reason := range r.Reasons {
		line("| %s | %d |", reason.Reason, reason.Cases)
	}
	o := &r.Observed
	line("\n## What was observed\n")
	line("Steps: %d ok at once, %d failed, %d not observed, %d not reached. Attempts at recovery: %d, of them %d simulated; %d more were wanted of which nothing is known.",
		o.StepsOK, o.StepsFailed, o.StepsNotObserved, o.StepsSkipped, o.Attempts, o.AttemptsSimulated, o.AttemptsNotObserved)
	line("Without cost: %s; without latency: %d. Called failed by their source, and recovered here by an outcome model: %s.",
		counted(o.AttemptsWithoutCost, "attempt"), o.AttemptsWithoutLatency, counted(o.RecoveredButFailed, "case"))
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
	return usd(*micro)
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
