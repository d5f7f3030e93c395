package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/live"
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
	flags.StringVar(&o.policy, "policy", "", "policy file whose rules decide (default: the one built in)")
	flags.StringVar(&o.simulate, "simulate", "", "outcome model that draws attempts which the scenario does not record")
	flags.StringVar(&o.live, "live", "", "live configuration: tools and models that make the attempts for real (docs/scenario.md)")
	flags.StringVar(&o.strategy, "strategy", "", "command that chooses actions in place of the policy's ladders: a question as JSON in, an action out")
	o.registered.register(flags)
	flags.Int64Var(&o.seed, "seed", 0, "seed of jitter and of simulated outcomes")
}

// engineChoice is what the flags ask for.
type engineChoice struct {
	engine.Config
	mode     string
	outcomes *engine.OutcomeModel
	live     entry.Digest // digest of the live configuration
	strategy []string     // command line of an external strategy
}

func (a *app) engine(o *engineOptions) (engineChoice, error) {
	e := engineChoice{Config: engine.Config{Seed: o.seed, Runtime: engine.Recorded{}}, mode: engine.ModeRecorded}
	var err error
	if e.Policy, err = a.recoveryPolicy(o.policy); err != nil {
		return e, err
	}
	e.Notice = func(err error) { fmt.Fprintf(a.err, "arl: %v\n", err) }
	if argv := strings.Fields(o.strategy); len(argv) > 0 {
		e.strategy, e.External = argv, &engine.Command{Argv: argv, Is: recovery.About{Name: recovery.RuleExternal, Capabilities: recovery.Strategies()}}
	}
	if e.Strategies, err = a.strategies(o, e.Policy); err != nil {
		return e, err
	}
	switch {
	case o.live != "" && o.simulate != "":
		return e, usage("--live and --simulate: an attempt is made or drawn, not both")
	case o.live != "":
		return e, a.makeLive(&e, o.live)
	case o.simulate == "":
		return e, nil
	}
	document, err := a.readGiven(o.simulate, policyMax)
	if err != nil {
		return e, err
	}
	if e.outcomes, err = engine.ParseOutcomeModel(o.simulate, document); err != nil {
		return e, withExit(exitConfig, err)
	}
	e.mode, e.Runtime = engine.ModeSimulated, engine.NewSimulated(e.outcomes, o.seed)
	return e, nil
}

// makeLive has the attempts made for real, and waits be waited for. The policy
// has the prices of models.
func (a *app) makeLive(e *engineChoice, path string) error {
	document, err := a.readGiven(path, policyMax)
	if err != nil {
		return err
	}
	config, err := live.DecodeConfig(path, document)
	if err != nil {
		return withExit(exitConfig, err)
	}
	runtime, err := live.New(config, e.Policy.Models())
	if wrong, ok := errors.AsType[*scenario.Error](err); ok {
		wrong.File = path
	}
	if err != nil {
		return withExit(exitConfig, err)
	}
	e.mode, e.Runtime, e.Pause, e.live = engine.ModeLive, runtime, pause, entry.DigestOf(document)
	e.Instance = uuid.Must(uuid.NewV7()).String()
	return nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// policyMax is the size of a policy file in bytes.
const policyMax = 1 << 20

// recoveryPolicy loads the rules that decide.
func (a *app) recoveryPolicy(path string) (*recovery.Policy, error) {
	if path == "" {
		return recovery.Default(), nil
	}
	document, err := a.readGiven(path, policyMax)
	if err != nil {
		return nil, err
	}
	p, err := recovery.Load(path, document)
	return p, withExit(exitConfig, err)
}

// recoverOptions are the flags of arl recover.
type recoverOptions struct {
	engineOptions
	target                  // of a ledger's server
	scenario, out, baseline string
	ledger, key             string
	workers                 int
	keepGoing, resume       bool
}

func (a *app) recoverCommand() *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Decide what to do about the failures in recorded runs, and report",
		Long: "Take every case of a scenario through the policy: each failure gets an action with a reason, each action the\n" +
			"recorded result, until the case recovered or a person has to decide. Prints how many recovered and escalated;\n" +
			"--out keeps traces, report and what arl replay needs. The exit code is 7 if the report rejects, 14 if it is\n" +
			"inconclusive, 2 if a line of the scenario could not be used.",
		Example: "  arl recover --scenario testdata/tool_chain_failures.ndjson --out ./run",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.recover(cmd.Context(), &o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.scenario, "scenario", "", "file of cases, one a line; - for standard input (mandatory)")
	flags.StringVar(&o.out, "out", "", "directory for traces and report")
	nameValue(flags, "out", "DIR")
	flags.StringVar(&o.baseline, "baseline", "", "report.json of another run, to compare classes with")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "cases at work at a time; the results do not depend on it")
	flags.StringVar(&o.ledger, "ledger", "", "data directory of a stopped ledger, or URL of a running one, to record the run in")
	flags.StringVar(&o.key, "key", "", "key file of the engine (default: its own in ARL_HOME, which the profile's authority enrols)")
	o.registerRoot(flags)
	o.registerTLS(flags)
	flags.BoolVar(&o.keepGoing, "keep-going", false, "pass over lines that cannot be used, and list them")
	flags.BoolVar(&o.resume, "resume", false, "go on with the run in --out that did not come to its end")
	o.engineOptions.register(flags)
	_ = cmd.MarkFlagRequired("scenario") // the flag exists
	cmd.AddCommand(a.recoverOneCommand())
	return cmd
}

func (a *app) recover(ctx context.Context, o *recoverOptions) error {
	if o.workers < 1 || o.workers > workersMax {
		return usage("--workers %d: want 1 to %d", o.workers, workersMax)
	}
	if o.resume && o.out == "" {
		return usage("--resume goes on with the run in --out: pass its directory")
	}
	r, clean, err := a.newRun(ctx, o)
	if err != nil {
		return err
	}
	defer clean()
	if o.ledger == "" {
		return a.execute(ctx, r, o, "")
	}
	return a.withRegistry(ctx, o, func(reg *openRegistry) error {
		recorder, err := a.newRecorder(ctx, reg, o, r.ID)
		if err != nil {
			return err
		}
		r.Recorder = recorder
		err = a.execute(ctx, r, o, reg.root.Origin)
		if o.out == "" || !recorder.Ended() {
			return err
		}
		return errors.Join(recorder.Export(ctx, o.out), err)
	})
}

// execute runs a run and tells what came of it. The origin is that of the ledger
// it is recorded in.
func (a *app) execute(ctx context.Context, r *engine.Run, o *recoverOptions, origin string) error {
	info := engine.Info{Run: r.ID, Scenario: r.Scenario, Workers: o.workers, Build: version, StartedAt: time.Now().UnixMilli(), Ledger: origin}
	if r.Dir != nil {
		if err := r.Dir.WriteInfo(info); err != nil {
			return err
		}
	}
	tell, end := a.progress("recover")
	r.Progress = func(done, total int64) { tell(uint64(done), uint64(total)) }
	report, err := r.Do(ctx)
	end()
	if report.V == 0 { // the run never began
		return err
	}
	if r.Dir != nil {
		info.EndedAt, info.Partial = time.Now().UnixMilli(), report.Partial
		err = errors.Join(err, r.Dir.WriteInfo(info))
	}
	if err != nil {
		a.interrupted(&report, o.out)
		return err
	}
	a.summarize(&report, o.out)
	if err := a.printCounts(&report); err != nil {
		return err
	}
	return reportExit(&report)
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
	r = &engine.Run{
		Batch:    engine.Batch{Config: e.Config, Workers: o.workers, Neighbours: engine.Neighbours(e.Policy)},
		Scenario: o.scenario, Mode: e.mode, Outcomes: e.outcomes, LiveDigest: e.live, Strategy: e.strategy, KeepGoing: o.keepGoing, ID: uuid.Must(uuid.NewV7()).String(),
		Rejected: func(wrong *scenario.Error) { fmt.Fprintf(a.err, "arl: %v\n", wrong) },
	}
	if o.baseline != "" {
		if r.Baseline, err = a.baseline(o.baseline); err != nil {
			return nil, nil, err
		}
	}
	regular, err := regularInput(o.scenario)
	switch {
	case err != nil:
		return nil, nil, err
	case !regular && o.resume:
		return nil, nil, usage("--resume reads the scenario again: pass the file in --out that it was kept in")
	}
	var undo []func()
	clean = func() {
		for _, f := range undo {
			f()
		}
	}
	if err := a.openDir(r, o); err != nil {
		return nil, nil, err
	}
	if r.Dir != nil {
		undo = append(undo, func() { _ = r.Dir.Close() }) // the end of the process closes it, too
	}
	if regular {
		r.Scenario, err = filepath.Abs(o.scenario)
	} else {
		var remove func()
		r.Scenario, remove, err = a.spool(ctx, o)
		undo = append(undo, remove)
	}
	if err != nil {
		clean()
		return nil, nil, err
	}
	if e.mode == engine.ModeLive {
		r.Instance = r.ID // so that a run that goes on repeats no effect
	}
	return r, clean, nil
}

// openDir makes the directory of the run, or opens that of the run to resume.
func (a *app) openDir(r *engine.Run, o *recoverOptions) (err error) {
	if o.out == "" {
		return nil
	}
	if !o.resume {
		if r.Dir, err = engine.CreateDir(o.out); errors.Is(err, engine.ErrUsed) {
			return withExit(exitConflict, err)
		}
		return output(o.out, err)
	}
	if r.Dir, err = engine.ResumeDir(o.out); err != nil {
		return err
	}
	before, err := r.Dir.Info()
	if r.ID = before.Run; err != nil {
		err = errors.Join(err, r.Dir.Close())
	}
	return err
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
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, engine.ReportFile)
	}
	text, err := a.readGiven(path, engine.ReportBytesMax)
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
	if a.settings.output == outputJSON {
		return a.printJSON(counts{r.AutoRecovered, r.Failing, r.FallbackModelRecoveries, r.Escalated, r.NoFailure, r.Rejected, r.Simulated,
			r.RunRoot.String(), r.Recommendation})
	}
	text := fmt.Sprintf("[auto_recovered] %d/%d\n[fallback_model_recoveries] %d\n[escalated] %d\n",
		r.AutoRecovered, r.Failing, r.FallbackModelRecoveries, r.Escalated)
	if r.Runtime == engine.ModeSimulated {
		text += fmt.Sprintf("[simulated] %d\n", r.Observed.CasesSimulated)
	}
	return a.printText(text)
}

// summarize tells on stderr what the counts leave out.
func (a *app) summarize(r *engine.Report, out string) {
	fmt.Fprintf(a.err, "%s: %s runtime, %s without failure, run root %s\n", r.Recommendation, r.Runtime, counted(r.NoFailure, "case"), r.RunRoot)
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Verdict == engine.Fail || g.Verdict == engine.Unknown {
			fmt.Fprintf(a.err, "gate %s: %s\n", g.Gate, g.Text())
		}
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(a.err, "warning: %s\n", warning)
	}
	if out != "" {
		fmt.Fprintf(a.err, "report: %s\n", filepath.Join(out, engine.SummaryFile))
	}
}

// interrupted tells how far a run came that did not come to its end.
func (a *app) interrupted(r *engine.Report, out string) {
	fmt.Fprintf(a.err, "partial: %s after %s, run root so far %s\n", r.Partial, counted(r.Total, "case"), r.RunRoot)
	if out != "" {
		fmt.Fprintf(a.err, "report: %s; --resume goes on from here\n", filepath.Join(out, engine.SummaryFile))
	}
}

// reportExit turns what a report says into the exit code.
func reportExit(r *engine.Report) error {
	switch {
	case r.Rejected > 0:
		return usage("%s of the scenario could not be used; the report lists them", counted(r.Rejected, "line"))
	case r.Recommendation == engine.Reject:
		return withExit(exitRejected, errors.New("the report rejects: a gate of the policy failed"))
	case r.Recommendation == engine.Inconclusive:
		return withExit(exitInconclusive, errors.New("the report is inconclusive: too few failing cases, or a gate could not be asked"))
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
			return a.recoverOne(cmd.Context(), &e, file)
		},
	}
	cmd.Flags().StringVar(&file, "case", "", "file with one case; - for standard input (mandatory)")
	o.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("case") // the flag exists
	return cmd
}

func (a *app) recoverOne(ctx context.Context, e *engineChoice, file string) error {
	c, err := a.readCase(e, file)
	if err != nil {
		return err
	}
	done, err := e.Recover(ctx, &c)
	if err != nil {
		return err
	}
	t := &done.Trace
	if a.settings.output == outputJSON {
		return a.printJSON(t)
	}
	l := a.newList("STEP", "TRY", "FAILURE", "RULE", "ACTION", "MODEL", "RESULT", "REASON")
	for i := range t.Rungs {
		r := &t.Rungs[i]
		err := l.add(r, r.Step, decimal(uint64(r.Attempt)), scenario.Label{Class: r.Class, Code: r.Code}.String(), r.Rule,
			words(r.Strategy, r.Variant), r.Model, r.Result, r.Reason)
		if err != nil {
			return err
		}
	}
	if err := l.close(); err != nil {
		return err
	}
	if hint := t.Hint(); hint != "" {
		fmt.Fprintf(a.err, "%s\n", hint)
	}
	return a.printText(words(fmt.Sprintf("%s: %s", t.Case, t.Status), t.Reason) + "\n")
}

// words joins a word and another that may be missing.
func words(first, second string) string {
	if second == "" {
		return first
	}
	return first + " " + second
}
