package histories

import (
	"fmt"
	"strings"

	"recoveryledger/verify/tally"
)

// Counted returns the counts of an agent as lines, indented under the first.
func Counted(c *tally.Counts) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "counts of %s, entries %d to %d\n", c.Agent, c.From, c.Size-1)
	line("executions", "%d", c.Executions)
	for i := range c.Failures {
		f := &c.Failures[i]
		line("failed", "%s.%s: %d, %s; reported by %s%s", f.Class, f.Code, f.Works, verdicts(&f.Verdicts), joined(f.Reporters), by(f.Domains))
	}
	line("signals", "%s", verdicts(&c.Signals))
	line("memberships", "%d", c.Memberships)
	for i := range c.Outcomes {
		o := &c.Outcomes[i]
		line("outcome", "%s: %d, %d in corroborated incidents, %d by its own word; median %d ms after the opening signal", o.Result, o.Members,
			o.Corroborated, o.Own, o.MedianMS)
	}
	line("corrections", "%d", c.Corrections)
	t := &c.Tasks
	line("tasks", "assigned %d, started %d, completed %d, blocked %d, interrupted %d, retried %d, restarted %d, spent on failed claims %d µUSD", t.Assigned, t.Started,
		t.Completed, t.Blocked, t.Interrupted, t.Retries, t.Restarts, t.CostMicroUSD)
	for _, crash := range t.Crashes {
		line("crashed", "%s.%s: %d", crash.Class, crash.Code, crash.Claims)
	}
	line("attempts", "%d", c.Attempts)
	for _, s := range c.Strategies {
		line("strategy", "%s, %s: %d, cost %d µUSD, %d ms", s.Strategy, s.Result, s.Steps, s.CostMicroUSD, s.LatencyMS)
	}
	for _, incident := range c.NotShown {
		line("NOT SHOWN", "incident %d: the dispositions of its signals may be missing", incident)
	}
	b.WriteString("\n")
	return b.String()
}

// verdicts are the verdicts on signals, or on the works of signals, in words.
func verdicts(v *tally.Verdicts) string {
	return fmt.Sprintf("%d corroborated, %d by its own domain alone, %d self-reported, %d inconclusive, %d dismissed, %d open", v.Corroborated, v.OwnDomain,
		v.SelfReported, v.Inconclusive, v.Dismissed, v.Open)
}

// by names the domains that bear out a failure.
func by(domains []string) string {
	if len(domains) == 0 {
		return ""
	}
	return ", borne out by " + joined(domains)
}

func joined[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
