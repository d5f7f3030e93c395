package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/api/client"
	"recoveryledger/api/words"
	"recoveryledger/api/words/runs"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/manual"
	"recoveryledger/cmd/arl/terminal"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/live"
	"recoveryledger/coord/recovery/record"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// engineOptions are the flags that decide what the engine does.
type engineOptions struct {
	policy     string
	simulate   string
	live       string
	strategy   string
	registered strategyOptions
	seed       int64
}

func (o *engineOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.policy, "policy", "", "policy file with the rules (default: the built-in rules)")
	flags.StringVar(&o.simulate, "simulate", "", "outcome model that draws attempts which the scenario does not record")
	flags.StringVar(&o.live, "live", "", "live configuration: tools and models that make the attempts for real (docs/scenario.md)")
	flags.StringVar(&o.strategy, "strategy", "", "command that chooses actions in place of the policy's ladders: a question as JSON in, an action out")
	o.registered.register(flags)
	flags.Int64Var(&o.seed, "seed", 0, "seed of jitter and of simulated outcomes")
}

// engine reads what the flags name and sets the engine up.
func (a *app) engine(o *engineOptions) (*engine.Setup, error) {
	p, err := a.recoveryPolicy(o.policy)
	if err != nil {
		return nil, err
	}
	e := engine.NewSetup(p, o.seed)
	e.Notice = func(err error) { fmt.Fprintf(a.Err, "arl: %v\n", err) }
	if argv := strings.Fields(o.strategy); len(argv) > 0 {
		if err := e.ChooseBy(argv); err != nil {
			return nil, exit.Usagef("--strategy: %w; pass --strategies, which names their programs", err)
		}
	}
	if e.Strategies, err = a.strategies(&o.registered, e.Policy); err != nil {
		return nil, err
	}
	switch {
	case o.live != "" && o.simulate != "":
		return nil, exit.Usagef("--live and --simulate: an attempt is either made or drawn: pass one of them")
	case o.live != "":
		return e, a.makeLive(e, o.live)
	case o.simulate == "":
		return e, nil
	}
	document, err := a.ReadGiven(o.simulate, policyMax)
	if err != nil {
		return nil, err
	}
	model, err := engine.ParseOutcomeModel(o.simulate, document)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	e.Simulate(model)
	return e, nil
}

// makeLive has the tools and models of a live configuration make the attempts.
func (a *app) makeLive(e *engine.Setup, path string) error {
	document, err := a.ReadGiven(path, policyMax)
	if err != nil {
		return err
	}
	config, err := live.DecodeConfig(path, document)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	runtime, err := live.New(config, e.Policy.Models())
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		wrong.File = path
	}
	if err != nil {
		return exit.With(exit.Config, err)
	}
	e.MakeLive(runtime, client.Pause, entry.DigestOf(document))
	return nil
}

// policyMax is the size of a policy file in bytes.
const policyMax = 1 << 20

// recoveryPolicy loads the rules that decide.
func (a *app) recoveryPolicy(path string) (*recovery.Policy, error) {
	if path == "" {
		return recovery.Default(), nil
	}
	document, err := a.ReadGiven(path, policyMax)
	if err != nil {
		return nil, err
	}
	p, err := recovery.Load(path, document)
	return p, exit.With(exit.Config, err)
}

// recoverOptions are the flags of arl recover.
type recoverOptions struct {
	engineOptions
	access.Target           // of a ledger's server
	scenario, out, baseline string
	ledger, key             string
	workers                 int
	keepGoing, resume, ask  bool
}

func (a *app) recoverCommand() *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Decide what to do about the failures in recorded runs, and report",
		Long: "Take every case of a scenario through the policy. Each failure gets an action with a reason, and each action\n" +
			"gets its recorded result, until the case recovered or a person has to decide. The command prints how many cases\n" +
			"recovered and escalated. --out keeps the traces, the report and what arl replay needs. The exit code is 7 if the\n" +
			"report rejects, 14 if it is inconclusive, 2 if a line of the scenario could not be used.",
		Example: "  arl recover --scenario testdata/tool_chain_failures.ndjson --out ./run",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.recover(cmd.Context(), &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.scenario, "scenario", "", "file of cases, one a line; - for standard input (required)")
	flags.StringVar(&o.out, "out", "", "directory for traces and report")
	manual.NameValue(flags, "out", "DIR")
	flags.StringVar(&o.baseline, "baseline", "", "report.json of another run, to compare classes with")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "number of cases at a time; the results do not depend on it")
	flags.StringVar(&o.ledger, "ledger", "", "data directory of a stopped ledger, or URL of a running one, to record the run in")
	flags.StringVar(&o.key, "key", "", "key file of the engine (default: its own in ARL_HOME, which the profile's authority enrols)")
	o.RegisterRoot(flags)
	o.RegisterTLS(flags)
	flags.BoolVar(&o.keepGoing, "keep-going", false, "skip lines that cannot be used, and list them")
	flags.BoolVar(&o.resume, "resume", false, "continue the unfinished run in --out")
	flags.BoolVar(&o.ask, "ask", true, "with --ledger, ask people about cases that escalate (arl escalation list); a simulated run asks nobody, and neither does a run with --baseline and without --live")
	o.register(flags)
	_ = cmd.MarkFlagRequired("scenario") // the flag exists
	cmd.AddCommand(a.recoverOneCommand())
	return cmd
}

func (a *app) recover(ctx context.Context, o *recoverOptions) error {
	if o.workers < 1 || o.workers > workersMax {
		return exit.Usagef("--workers %d: want 1 to %d", o.workers, workersMax)
	}
	if o.resume && o.out == "" {
		return exit.Usagef("--resume continues the run in --out: pass the directory of the run")
	}
	r, clean, err := a.newRun(ctx, o)
	if err != nil {
		return err
	}
	defer clean()
	if o.ledger == "" {
		return a.execute(ctx, r, o, "")
	}
	where := &access.Where{Target: o.Target, Data: o.ledger}
	if strings.Contains(o.ledger, "://") {
		where.URL, where.Data = o.ledger, ""
	}
	return a.machine().WithRegistry(ctx, where, func(reg *access.Recording) error {
		signer, err := a.machine().EngineSigner(ctx, reg, o.key)
		if err != nil {
			return err
		}
		recorder := &record.Recorder{Ledger: reg, Root: reg.Root, Sign: signer.Sign, Issuer: signer.Principal, Run: r.ID}
		if o.resume {
			if err := recorder.Resume(ctx); err != nil {
				return err
			}
		}
		r.Recorder = recorder
		resumed := ""
		if o.resume {
			resumed = o.out
		}
		if err := record.Obey(ctx, reg, r, resumed, func(err error) { fmt.Fprintf(a.Err, "arl: no arm decides: %v\n", err) }); err != nil {
			return err
		}
		recorder.Ask = o.ask && r.Asks()
		recorder.Rules, recorder.Roles = []*recovery.Policy{r.Policy, r.Candidate}, signer.Roles
		err = a.execute(ctx, r, o, reg.Root.Origin)
		for _, line := range runs.Asked(recorder.Enacted, recorder.Asked, recorder.Unsaid, recorder.Unasked) {
			fmt.Fprintln(a.Err, line)
		}
		if o.out == "" || !recorder.Ended() {
			return err
		}
		return errors.Join(recorder.Export(ctx, o.out), err)
	})
}

// execute executes a run and tells its result. The origin is that of the ledger in which
// the run is recorded.
func (a *app) execute(ctx context.Context, r *engine.Run, o *recoverOptions, origin string) error {
	tell, end := a.Progress("recover")
	r.Progress = func(done, total int64) { tell(uint64(done), uint64(total)) }
	report, err := r.Execute(ctx, version, origin, func() int64 { return time.Now().UnixMilli() })
	end()
	switch {
	case errors.Is(err, engine.ErrOtherCases):
		return exit.With(exit.Usage, fmt.Errorf("--baseline %s: %w: take these cases through the policy in force first", o.baseline, err))
	case report == nil: // the run never began
		return err
	case err != nil:
		a.interrupted(report, o.out)
		return err
	}
	a.summarize(report, o.out)
	if err := a.printCounts(report); err != nil {
		return err
	}
	return reportExit(report)
}

// workersMax bounds how many cases are at work at a time.
const workersMax = 1024

// newRun puts a run together; clean removes what it needed for a while, and lets
// others have its directory.
func (a *app) newRun(ctx context.Context, o *recoverOptions) (r *engine.Run, clean func(), err error) {
	e, err := a.engine(&o.engineOptions)
	if err != nil {
		return nil, nil, err
	}
	r = e.NewRun(o.workers)
	r.Scenario, r.KeepGoing = o.scenario, o.keepGoing
	r.Rejected = func(wrong *scenario.Error) { fmt.Fprintf(a.Err, "arl: %v\n", wrong) }
	if o.baseline != "" {
		if r.Baseline, err = a.baseline(o.baseline); err != nil {
			return nil, nil, err
		}
	}
	regular, err := terminal.RegularInput(o.scenario)
	switch {
	case err != nil:
		return nil, nil, err
	case !regular && o.resume:
		return nil, nil, exit.Usagef("--resume reads the scenario again: pass the copy of the scenario in --out")
	}
	var undo []func()
	clean = func() {
		for _, f := range undo {
			f()
		}
	}
	if o.out != "" {
		if err := r.Keep(o.out, o.resume); err != nil {
			return nil, nil, keepError(o, err)
		}
	}
	if r.Dir != nil {
		undo = append(undo, func() { _ = r.Dir.Close() }) // the end of the process closes it, too
	}
	if regular {
		r.Scenario, err = filepath.Abs(o.scenario)
	} else {
		var remove func()
		r.Scenario, remove, err = a.Spool(ctx, o.scenario, o.out)
		undo = append(undo, remove)
	}
	if err != nil {
		clean()
		return nil, nil, err
	}
	return r, clean, nil
}

// keepError gives an error of the run's directory its exit code.
func keepError(o *recoverOptions, err error) error {
	switch {
	case o.resume:
		return err
	case errors.Is(err, engine.ErrUsed):
		return exit.With(exit.Conflict, err)
	}
	return exit.Output(o.out, err)
}

// baseline reads the report that a run is compared with.
func (a *app) baseline(path string) (*engine.Baseline, error) {
	report, text, err := a.readReport(path)
	if err != nil {
		return nil, err
	}
	return engine.NewBaseline(report, entry.DigestOf(text)), nil
}

// readReport reads a report.json, or that of a run's directory.
func (a *app) readReport(path string) (*engine.Report, []byte, error) {
	path = engine.ReportPath(path)
	text, err := a.ReadGiven(path, engine.ReportBytesMax)
	if err != nil {
		return nil, nil, err
	}
	report, err := engine.DecodeReport(path, text)
	return &report, text, err
}

// counts is what arl recover prints.
type counts struct {
	AutoRecovered           int64                 `json:"auto_recovered"`
	Failing                 int64                 `json:"failing"`
	FallbackModelRecoveries int64                 `json:"fallback_model_recoveries"`
	Escalated               int64                 `json:"escalated"`
	NoFailure               int64                 `json:"no_failure"`
	Rejected                int64                 `json:"rejected"`
	Simulated               bool                  `json:"simulated"`
	RunRoot                 string                `json:"run_root"`
	Recommendation          engine.Recommendation `json:"recommendation"`
}

func (a *app) printCounts(r *engine.Report) error {
	if a.JSON() {
		return a.PrintJSON(counts{r.AutoRecovered, r.Failing, r.FallbackModelRecoveries, r.Escalated, r.NoFailure, r.Rejected, r.Simulated,
			r.RunRoot.String(), r.Recommendation})
	}
	text := fmt.Sprintf("[auto_recovered] %d/%d\n[fallback_model_recoveries] %d\n[escalated] %d\n",
		r.AutoRecovered, r.Failing, r.FallbackModelRecoveries, r.Escalated)
	if r.Runtime == engine.ModeSimulated {
		text += fmt.Sprintf("[simulated] %d\n", r.Observed.CasesSimulated)
	}
	return a.PrintText(text)
}

// summarize tells on stderr what the counts leave out.
func (a *app) summarize(r *engine.Report, out string) {
	fmt.Fprintf(a.Err, "%s: %s runtime, %s without failure, run root %s\n", r.Recommendation, r.Runtime, words.Counted(r.NoFailure, "case"), r.RunRoot)
	for _, why := range runs.Why(r) {
		fmt.Fprintln(a.Err, why)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(a.Err, "warning: %s\n", warning)
	}
	if out != "" {
		fmt.Fprintf(a.Err, "report: %s\n", filepath.Join(out, engine.SummaryFile))
	}
}

// interrupted tells how far a run came that did not come to its end.
func (a *app) interrupted(r *engine.Report, out string) {
	fmt.Fprintf(a.Err, "partial: %s after %s, run root so far %s\n", r.Partial, words.Counted(r.Total, "case"), r.RunRoot)
	if out != "" {
		fmt.Fprintf(a.Err, "report: %s; --resume goes on from here\n", filepath.Join(out, engine.SummaryFile))
	}
}

// reportExit turns what a report says into the exit code.
func reportExit(r *engine.Report) error {
	switch {
	case r.Rejected > 0:
		return exit.Usagef("%s of the scenario could not be used; the report lists them", words.Counted(r.Rejected, "line"))
	case r.Recommendation == engine.Reject:
		return exit.With(exit.Rejected, errors.New(runs.Conclusion(r.Recommendation)))
	case r.Recommendation == engine.Inconclusive:
		return exit.With(exit.Inconclusive, errors.New(runs.Conclusion(r.Recommendation)))
	}
	return nil
}

func (a *app) recoverOneCommand() *cobra.Command {
	var o engineOptions
	var file string
	cmd := &cobra.Command{
		Use:     "one",
		Short:   "Decide what to do about one case, and show the trace",
		Long:    "Take one case through the policy and show its trace. The exit code is 0 whether it recovered or escalated.",
		Example: "  arl recover one --case case.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.engine(&o)
			if err != nil {
				return err
			}
			return a.recoverOne(cmd.Context(), e, file)
		},
	}
	cmd.Flags().StringVar(&file, "case", "", "file with one case; - for standard input (required)")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("case") // the flag exists
	return cmd
}

func (a *app) recoverOne(ctx context.Context, e *engine.Setup, file string) error {
	c, err := a.readCase(e, file)
	if err != nil {
		return err
	}
	done, err := e.Recover(ctx, &c)
	if err != nil {
		return err
	}
	t := &done.Trace
	if a.JSON() {
		return a.PrintJSON(t)
	}
	if err := a.printTable(runs.Steps(t)); err != nil {
		return err
	}
	if hint := t.Hint(); hint != "" {
		fmt.Fprintf(a.Err, "%s\n", hint)
	}
	return a.PrintText(runs.End(t) + "\n")
}

// readCase reads the one case of a file that an engine is to decide.
func (a *app) readCase(e *engine.Setup, file string) (c scenario.Case, err error) {
	if _, err := terminal.RegularInput(file); err != nil {
		return c, err
	}
	err = a.WithInput(file, func(in io.Reader) error {
		c, err = e.ReadCase(file, in)
		return err
	})
	return c, err
}
