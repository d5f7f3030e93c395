package rollouts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery/drift"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
)

// driftOptions are the flags of arl report drift.
type driftOptions struct {
	baseline, window, export, metrics string
}

// DriftCommand returns arl report drift.
func DriftCommand(t *terminal.Terminal, machine func() *access.Machine) *cobra.Command {
	c := &commands{t, machine}
	var o driftOptions
	var w access.Where
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "Compare what the log recorded lately with a report",
		Long: "Compare the attempts and incidents of a window of time with a report: how frequent each class and code is, how many\n" +
			"cases recover, what a case costs, and whether confidences are right. The exit code is 7 if something drifted, and 14\n" +
			"if there are too few failing cases. In a log without any drift, about one comparison in a hundred finds one.",
		Example: "  arl report drift --baseline ./baseline --window 7d",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.drift(cmd.Context(), &w, &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.baseline, "baseline", "", "report.json of a run, or the directory of the run (required)")
	_ = cmd.MarkFlagRequired("baseline") // the flag exists
	flags.StringVar(&o.window, "window", "7d", "what was registered in this time, such as 7d or 12h, or since an instant (RFC 3339)")
	flags.StringVar(&o.export, "export", "", "directory of an export of the log (arl log export), in place of the ledger")
	flags.StringVar(&o.metrics, "metrics", "", "file to write the findings to, for the textfile collector of Prometheus")
	w.Register(flags)
	w.RegisterInPlace(flags)
	return cmd
}

func (c *commands) drift(ctx context.Context, w *access.Where, o *driftOptions) error {
	since, err := instant("window", o.window, time.Now())
	if err != nil {
		return err
	}
	path := engine.ReportPath(o.baseline)
	text, err := c.ReadGiven(path, engine.ReportBytesMax)
	if err != nil {
		return err
	}
	before, err := engine.DecodeReport(path, text)
	if err != nil {
		return err
	}
	window, nothing := c.windowReport(ctx, w, o.export, since)
	if nothing != nil && !errors.Is(nothing, errNothing) {
		return nothing
	}
	r := drift.Compare(&before, window)
	if o.metrics != "" {
		if err := exit.Output(o.metrics, terminal.WriteFile(o.metrics, []byte(exposition(&r)))); err != nil {
			return err
		}
	}
	if err := c.printDrift(&r); err != nil {
		return err
	}
	switch {
	case nothing != nil: // the metrics say it, too: those of an earlier window would stay
		return nothing
	case !r.Enough:
		return exit.With(exit.Inconclusive, fmt.Errorf("too few failing cases to compare: the report has %d and the window %d, and both need %d", r.Before, r.Window, drift.CasesMin))
	case r.Drifted:
		return exit.With(exit.Rejected, errors.New("the failures of the window differ from those of the report"))
	}
	return nil
}

// windowReport reports what the log recorded since an instant, under the policy in force. If that
// is nothing, the report is empty and the error [errNothing].
func (c *commands) windowReport(ctx context.Context, w *access.Where, export string, since int64) (*engine.Report, error) {
	past, err := os.CreateTemp("", "arl-drift-*.ndjson")
	if err != nil {
		return nil, exit.With(exit.IO, err)
	}
	defer os.Remove(past.Name()) //nolint:errcheck // the system removes it, too
	inForce, err := c.past(ctx, w, export, past, since)
	if err := errors.Join(err, exit.With(exit.IO, past.Close())); err != nil {
		return &engine.Report{}, err
	}
	run := engine.NewSetup(inForce, 0).NewRun(runtime.GOMAXPROCS(0))
	run.Scenario = past.Name()
	report, err := run.Do(ctx)
	return &report, err
}

func (c *commands) printDrift(r *drift.Result) error {
	if c.JSON() {
		return c.PrintJSON(r)
	}
	l := c.NewList("TEST", "WAS", "IS", "CHANCE", "LIMIT", "DRIFTED")
	for i := range r.Findings {
		f := &r.Findings[i]
		was, is, chance, limit, drifted := figure.Exact("share_ppm", f.Was), figure.Exact("share_ppm", f.Is), "–", "–", "no"
		switch f.Test {
		case "cost":
			was, is = figure.Exact("cost_micro_usd", f.Was), figure.Exact("cost_micro_usd", f.Is)
		case "codes":
			was, is = "–", "–"
		}
		if f.PPPM != nil {
			chance, limit = figure.Exact("p_ppm", *f.PPPM), figure.Exact("p_ppm", *f.LimitPPM)
		}
		if f.Drifted {
			drifted = "yes"
		}
		if err := l.Add(f, strings.TrimSpace(f.Test+" "+f.Class), was, is, chance, limit, drifted); err != nil {
			return err
		}
	}
	return l.Close()
}

// exposition writes the findings in the text format of Prometheus.
func exposition(r *drift.Result) string {
	number := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	var b strings.Builder
	b.WriteString("# HELP arl_drift Whether the failures of the window differ from those of the report.\n# TYPE arl_drift gauge\n")
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "arl_drift{test=%q,class=%q} %d\n", f.Test, f.Class, number(f.Drifted))
	}
	fmt.Fprintf(&b, "# HELP arl_drift_cases Failing cases that were compared.\n# TYPE arl_drift_cases gauge\narl_drift_cases{side=\"report\"} "+
		"%d\narl_drift_cases{side=\"window\"} %d\n", r.Before, r.Window)
	return b.String()
}
