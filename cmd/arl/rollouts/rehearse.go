package rollouts

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"recoveryledger/api/words"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/coord/audit"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/figure"
	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/coord/recovery/rehearse"
	"recoveryledger/ledger/entry"
)

// rehearseOptions are the flags of arl rollout rehearse.
type rehearseOptions struct {
	policy, since, export, out, key string
	record                          bool
}

func (c *commands) rehearse(w *access.Where) *cobra.Command {
	var o rehearseOptions
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Take what the log recorded through a candidate policy, and compare it with the policy in force",
		Long: "Take the incidents and attempts of the log through the policy in force and through a candidate, and compare. Nothing\n" +
			"is executed. An attempt that nobody made has no result: each number has a lower and an upper bound, and the output\n" +
			"names what was not observed. The exit code is 0 if the candidate passes all gates even if every attempt of its own\n" +
			"that nobody made fails, 7 if it fails a gate even if they all succeed, and 14 otherwise. --out keeps the cases, the\n" +
			"traces and the report of the worst case. --record also registers the run, unless the exit code is 14: its report is\n" +
			"one that arl rollout promote --full accepts (ROL-4).",
		Example: "  arl rollout rehearse --since 30d --policy candidate.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.runRehearsal(cmd.Context(), w, &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.policy, "policy", "", "policy file of the candidate (required)")
	_ = cmd.MarkFlagRequired("policy") // the flag exists
	flags.StringVar(&o.since, "since", "", "what was registered in this time, such as 30d or 12h, or since an instant (RFC 3339; default: the whole log)")
	flags.StringVar(&o.export, "export", "", "directory of an export of the log (arl log export), in place of the ledger")
	flags.StringVar(&o.out, "out", "", "directory for cases, traces and report")
	manual.NameValue(flags, "out", "DIR")
	flags.BoolVar(&o.record, "record", false, "register the run and its report in the ledger")
	flags.StringVar(&o.key, "key", "", "with --record: key file of the engine (default: its own in ARL_HOME)")
	w.RegisterInPlace(flags)
	return cmd
}

// instant reads the value of a flag: a time that is over, such as 30d, or an instant. It returns
// Unix milliseconds; 0 of an empty text.
func instant(flag, text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UnixMilli(), nil
	}
	if count, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseUint(count, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(days)).UnixMilli(), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UnixMilli(), nil
	}
	return 0, exit.Usagef("--%s %s: want a time such as 30d or 12h, or an instant such as 2026-11-01T00:00:00Z", flag, text)
}

func (c *commands) runRehearsal(ctx context.Context, w *access.Where, o *rehearseOptions) error {
	since, err := instant("since", o.since, time.Now())
	if err != nil {
		return err
	}
	document, err := c.ReadInput(o.policy, policyfile.Max)
	if err != nil {
		return err
	}
	candidate, err := recovery.Load(o.policy, document)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	past, err := os.CreateTemp("", "arl-rehearse-*.ndjson")
	if err != nil {
		return exit.With(exit.IO, err)
	}
	defer os.Remove(past.Name()) //nolint:errcheck // the system removes it, too
	baseline, err := c.past(ctx, w, o.export, past, since)
	if err := errors.Join(err, exit.With(exit.IO, past.Close())); err != nil {
		return err
	}
	if baseline.Hash() == candidate.Hash() {
		return exit.With(exit.Conflict, errors.New("the candidate is the policy in force: pass a policy with other rules"))
	}
	r, against, err := rehearse.Rehearse(ctx, past.Name(), baseline, candidate, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	made := rehearsed{Rehearsal: r, Recorded: o.record && r.Recommendation != engine.Inconclusive}
	if o.out != "" || made.Recorded {
		run := engine.NewSetup(candidate, 0).NewRun(runtime.GOMAXPROCS(0))
		run.Scenario, run.Baseline = past.Name(), against
		if made.Report, err = c.keep(ctx, w, &keptRun{run, o.out, o.key, made.Recorded}); err != nil {
			return err
		}
	}
	if err := c.printRehearsal(&made); err != nil {
		return err
	}
	return rehearsalExit(r.Recommendation)
}

// rehearsed is the output of arl rollout rehearse.
type rehearsed struct {
	*rehearse.Rehearsal
	Report   entry.Digest `json:"report_digest,omitzero"` // of the kept or recorded report
	Recorded bool         `json:"recorded"`
}

var errNothing = errors.New("the log has no incident and no attempt of that time: the log does not decide")

// past writes the cases of a log to a file, and returns the rules in force at its end.
func (c *commands) past(ctx context.Context, w *access.Where, export string, to *os.File, since int64) (*recovery.Policy, error) {
	write := func(origin string, leaves iter.Seq2[[]byte, error]) (*recovery.Policy, error) {
		out, p := bufio.NewWriter(to), recovery.Default()
		cases := importer.FromLog(origin, audit.NoteRules(leaves, &p), since)
		w := &importer.Writer{Out: out}
		err := errors.Join(w.All(ctx, origin, cases, func() {}), exit.With(exit.IO, out.Flush()))
		if n, _ := w.Count(); err == nil && n == 0 {
			err = exit.With(exit.Inconclusive, errNothing)
		}
		return p, err
	}
	if export == "" {
		var p *recovery.Policy
		err := c.machine().WithLog(ctx, w, func(l *access.Log) error {
			head, err := l.Head(ctx)
			if err != nil {
				return err
			}
			tell, end := c.Progress("import")
			defer end()
			p, err = write(l.Root.Origin, audit.CheckedLeaves(ctx, l, head, tell))
			return err
		})
		return p, err
	}
	root, err := c.machine().PinnedRoot(&w.Target)
	if err != nil {
		return nil, err
	}
	dir := audit.Dir{Files: os.DirFS(export)}
	head, err := dir.Head(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", export, err)
	}
	tell, end := c.Progress("import")
	defer end()
	return write(root.Origin, audit.CheckedLeaves(ctx, dir, head, tell))
}

// keptRun is a run of the candidate over the cases that a rehearsal took.
type keptRun struct {
	run     *engine.Run
	out     string
	key     string
	records bool
}

// keep runs the candidate over the cases, against what the policy in force may have recovered at
// most. It keeps the run, and registers it. It returns the digest of the report.
func (c *commands) keep(ctx context.Context, w *access.Where, k *keptRun) (digest entry.Digest, err error) {
	if k.out != "" {
		if err := k.run.Keep(k.out, false); err != nil {
			return "", exit.Output(k.out, err)
		}
		defer k.run.Dir.Close() //nolint:errcheck // the end of the process closes it, too
		if k.run.Scenario, _, err = c.Spool(ctx, k.run.Scenario, k.out); err != nil {
			return "", err
		}
	}
	do := func(origin string) error {
		report, err := k.run.Execute(ctx, "", origin, func() int64 { return time.Now().UnixMilli() })
		if err != nil {
			return err
		}
		text, err := report.Encode()
		digest = entry.DigestOf(text)
		return err
	}
	if !k.records {
		err = do("")
		return digest, err
	}
	err = c.machine().WithRegistry(ctx, w, func(reg *access.Recording) error {
		signer, err := c.machine().EngineSigner(ctx, reg, k.key)
		if err != nil {
			return err
		}
		k.run.Recorder = record.Alone{Recorder: &record.Recorder{Ledger: reg, Root: reg.Root, Sign: signer.Sign, Issuer: signer.Principal, Run: k.run.ID}}
		return do(reg.Root.Origin)
	})
	return digest, err
}

func rehearsalExit(r engine.Recommendation) error {
	switch r {
	case engine.Reject:
		return exit.With(exit.Rejected, errors.New("the candidate fails a gate, whatever the attempts that nobody made would give"))
	case engine.Inconclusive:
		return exit.With(exit.Inconclusive, errors.New("the log does not decide: too few cases failed, or the result depends on attempts that nobody made"))
	}
	return nil
}

func (c *commands) printRehearsal(r *rehearsed) error {
	if c.JSON() {
		return c.PrintJSON(r)
	}
	l := c.NewList("CLASS", "CASES", "IN FORCE", "CANDIDATE", "CHANGE")
	for i := range r.Classes {
		k := &r.Classes[i]
		if err := l.Add(k, k.Class, strconv.FormatInt(k.Failing, 10), boundsText("%d", k.Baseline), boundsText("%d", k.Candidate), boundsText("%+d", k.Change)); err != nil {
			return err
		}
	}
	if err := l.Add(r, "all", strconv.FormatInt(r.Failing, 10), boundsText("%d", r.Baseline.Recovered), boundsText("%d", r.Candidate.Recovered), boundsText("%+d", r.Change)); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	return c.PrintText(r.notes())
}

// notes are the lines below the table.
func (r *rehearsed) notes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cost    %s in force, %s the candidate, over the %s that both observed\n",
		figure.Exact("cost_micro_usd", r.Baseline.CostMicroUSD), figure.Exact("cost_micro_usd", r.Candidate.CostMicroUSD), words.Counted(r.Settled, "case"))
	fmt.Fprintf(&b, "time    %s in force, %s the candidate\n", figure.Exact("elapsed_ms", r.Baseline.ElapsedMS), figure.Exact("elapsed_ms", r.Candidate.ElapsedMS))
	for i := range r.NotObserved {
		u := &r.NotObserved[i]
		what := cmp.Or(strings.Join(strings.Fields(u.Strategy+" "+u.Variant+" "+u.Model), " "), "a later step")
		fmt.Fprintf(&b, "not observed  %s: %s after %s, %s: %s\n", u.Policy, what, u.Label, words.Counted(u.Cases, "case"), strings.Join(u.First, ", "))
	}
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Verdict == engine.Fail || g.Verdict == engine.Unknown {
			fmt.Fprintf(&b, "at worst, gate %s: %s\n", g.Gate, g.Text())
		}
	}
	fmt.Fprintf(&b, "at worst %s, at best %s: %s\n", r.Worst, r.Best, r.Recommendation)
	if r.Report != "" {
		registered := "kept"
		if r.Recorded {
			registered = "in the log"
		}
		fmt.Fprintf(&b, "report  %s, %s\n", r.Report, registered)
	}
	return b.String()
}

// boundsText writes bounds as one number if they are equal.
func boundsText(format string, b rehearse.Bounds) string {
	if b.Least == b.Most {
		return fmt.Sprintf(format, b.Least)
	}
	return fmt.Sprintf(format+" to "+format, b.Least, b.Most)
}
