package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/api/worker"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/durable"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
	"recoveryledger/verify"
)

// runOptions are the flags of arl run.
type runOptions struct {
	task, key, agent, secret, strategies string
	probe                                string
	deadline, grace                      time.Duration
	memory                               int64 // MiB
	once                                 bool
}

func (a *app) runCommand() *cobra.Command {
	var t target
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --task T --key FILE -- COMMAND…",
		Short: "Run any program as the agent that holds a task",
		Long: "Run any program as the agent that holds a task: wait until the task is given to the agent, start it, renew its\n" +
			"lease, and say how it ended. The program finds the task and the newest checkpoint in its environment (ARL_TASK,\n" +
			"ARL_EPOCH, ARL_CHECKPOINT …) and declares its steps with arl work. If it crashes, the coordinator is told with a\n" +
			"snapshot, and the policy decides: again here, or by another agent. SIGTERM hands the task back, at no cost.",
		Example: "  arl run --task operator#report-7 --key worker.key -- python3 agent.py",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseTask(o.task)
			if err != nil {
				return err
			}
			return a.withConnection(cmd.Context(), &t, func(c *connection) error { return a.runTask(cmd.Context(), c, ref, args, &o) })
		},
	}
	t.register(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.task, "task", "", "the task, issuer#id (mandatory)")
	flags.StringVar(&o.key, "key", "", "key file of the agent (mandatory)")
	flags.StringVar(&o.agent, "agent", "", "principal (default: whom the key is enrolled for)")
	flags.StringVar(&o.secret, "secret", "", "file of the secret that digests are keyed with, made if it is not there (default: that of --key with .secret behind)")
	flags.StringVar(&o.strategies, "strategies", "", "file that says which program is which strategy that the policy declares (docs/policy.md)")
	flags.StringVar(&o.probe, "probe", "", "command that is asked what became of a step that was begun and not ended: prints none, complete or unknown (docs/tasks.md)")
	flags.DurationVar(&o.deadline, "deadline", 0, "time after which the program is ended (default: none)")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "how long the program may take to end after SIGTERM")
	flags.Int64Var(&o.memory, "memory", 0, "MiB of memory it may have (default: no limit)")
	flags.BoolVar(&o.once, "once", false, "do not wait for the task: end with exit code 6 if it is not given to this agent")
	for _, name := range []string{"task", "key"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

// memoryMax is the most memory that a program may be given, in MiB.
const memoryMax = 1 << 30

// runner is a program as the holder of a task.
type runner struct {
	*app
	*runOptions
	c          *connection
	argv       []string
	policy     *recovery.Policy
	strategies []recovery.RecoveryStrategy
	redact     *redact.Redactor
	dir        string // of this claim
	claim      *worker.Claim
	history    recovery.History
	point      string // file of the task's newest checkpoint; empty: none
	attempt    int
	unanswered bool // a strategy that the policy names did not answer
}

// runTask waits for the task and sees one claim of it to its end.
func (a *app) runTask(ctx context.Context, c *connection, ref entry.Ref, argv []string, o *runOptions) error {
	w := &runner{app: a, runOptions: o, c: c, argv: argv, redact: redact.New(secretValues(os.Environ()))}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	config, err := w.config(ctx)
	if err != nil {
		return err
	}
	config.Stuck = func(ctx context.Context, t *api.Task) error { return w.reconcileEarlier(ctx, config, t) }
	w.claim, err = worker.Wait(ctx, config, ref, o.once)
	began, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime) // what was given is handed back, not left
	defer cancel()
	if ctx.Err() != nil && err != nil {
		if given, late := worker.Wait(began, config, ref, true); late == nil {
			w.claim, err = given, nil
		}
	}
	switch {
	case errors.Is(err, worker.ErrOver), errors.Is(err, worker.ErrNotOurs):
		return withExit(exitConflict, err)
	case err != nil:
		return err
	}
	if w.dir, err = os.MkdirTemp("", "arl-run-"); err != nil {
		return withExit(exitIO, err)
	}
	defer os.RemoveAll(w.dir) //nolint:errcheck // files of a claim that is over
	switch err := w.claim.Start(began); {
	case errors.Is(err, worker.ErrLeaseLost): // or another process of this agent has started it
		return withExit(exitConflict, err)
	case err != nil:
		return err
	}
	return w.work(ctx)
}

// secretValues are the values of variables that secrets have.
func secretValues(environ []string) (values []string) {
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); redact.Sensitive(name) {
			values = append(values, value)
		}
	}
	return values
}

// prepare looks at what can be wrong before there is a claim.
func (w *runner) prepare(ctx context.Context) error {
	if w.deadline < 0 || w.grace < 0 || w.memory < 0 || w.memory > memoryMax {
		return usage("--deadline, --grace, --memory: want nothing negative, and at most %d MiB", memoryMax)
	}
	if w.memory > 0 && !worker.LimitsMemory(runtime.GOOS) {
		return usage("--memory: this system (%s) has no limit on the memory of a program: leave --memory out", runtime.GOOS)
	}
	if argv := w.prober(); argv != nil {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return usage("--probe: %w", err)
		}
	}
	chain, err := w.c.chain(ctx)
	if err != nil {
		return err
	}
	return w.obey(chain)
}

// followTime is how long the policy in force is asked for, when one is known.
const followTime = 5 * time.Second

// follow takes up a policy that has come into force since. Where nobody answers,
// the one that is known decides.
func (w *runner) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	chain, err := w.c.chain(ctx)
	if err != nil {
		fmt.Fprintf(w.err, "arl: the policy known so far decides: %s\n", w.redact.Text(err.Error()))
		return nil
	}
	return w.obey(chain)
}

// obey goes by the policy in force, and by the strategies that it declares.
func (w *runner) obey(chain *verify.Chain) (err error) {
	policy, _ := chain.Policy()
	if w.policy, err = recovery.FromEntry(policy); err != nil {
		return withExit(exitConfig, err)
	}
	w.strategies, err = w.registeredIn(w.runOptions.strategies, w.policy)
	return err
}

func (w *runner) config(ctx context.Context) (*worker.Config, error) {
	signer, err := w.signer(ctx, w.c, signerFlags{key: w.key, principal: w.agent}, "")
	if err != nil {
		return nil, err
	}
	if w.secret == "" {
		w.secret = w.key + ".secret"
	}
	if _, err := os.Stat(w.secret); errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, secretSize)
		_, _ = rand.Read(secret) // never fails
		if err := durable.Write(w.secret, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
			return nil, output(w.secret, err)
		}
	}
	secret, err := readSecret(w.secret)
	return &worker.Config{Client: w.c.client, Origin: w.c.root.Origin, Agent: signer.principal, Signer: signer, Secret: secret, NewID: uuid.NewString,
		Tell: w.tellRenewal}, err
}

// tellRenewal says that renewals fail, or that one has come through again.
func (w *runner) tellRenewal(err error) {
	if err == nil {
		fmt.Fprintf(w.err, "arl: %s: the lease is renewed again\n", w.claim.Task.Task)
		return
	}
	fmt.Fprintf(w.err, "arl: %v\n", err)
}

// endTime is how long it is tried to tell the end of a claim that is over, or is
// to be handed back.
const endTime = 30 * time.Second

// telling is in what it is told how a claim ended: as long as it is held, since
// the coordinator may be away, and a while longer.
func telling(held context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.WithoutCancel(held))
	context.AfterFunc(held, func() { time.AfterFunc(endTime, cancel) })
	return ctx, cancel
}

// work runs the program until it is done, or the claim is over.
func (w *runner) work(ctx context.Context) error {
	held, lost := context.WithCancelCause(ctx)
	kept, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while it is told how it ended
	defer stop()
	go w.claim.Keep(kept, lost)
	told, cancel := telling(held)
	defer cancel()
	err := w.remember(told)
	for err == nil {
		ending := w.run(held)
		again := false
		if err = context.Cause(held); !errors.Is(err, worker.ErrLeaseLost) {
			again, err = w.end(told, held, &ending)
		}
		switch {
		case errors.Is(err, worker.ErrLeaseLost): // also if nobody had noticed before the program ended
			return withExit(exitConflict, fmt.Errorf("%s: the lease is lost: the work goes on elsewhere, or not at all", w.claim.Task.Task))
		case !again:
			return err
		}
	}
	return w.failedRecovery(told, err)
}

// failedRecovery gives the task to a person when recovering it failed itself, so
// that it does not hang. If even that fails, the lease runs out.
func (w *runner) failedRecovery(ctx context.Context, err error) error {
	e := worker.Ending{Failure: worker.Panicked, Started: time.Now(), Ended: time.Now()}
	question := w.redact.Text("recovery failed: " + err.Error())
	return errors.Join(err, w.claim.Block(ctx, question, w.claim.Snapshot(&e, worker.Progress{Status: "recovery_failed"}, []byte(question))))
}

// run runs the program once.
func (w *runner) run(ctx context.Context) worker.Ending {
	w.attempt++
	last := recovery.Rung{}
	if n := len(w.history.Rungs); n > 0 {
		last = w.history.Rungs[n-1]
	}
	return worker.Command{
		Argv: w.argv, Stdin: w.in, Stdout: w.out, Stderr: w.err, Deadline: w.deadline, Grace: max(w.grace, 1), Memory: w.memory << 20, Sole: true, Redact: w.redact,
		Env: append(w.environment(w.claim), "ARL_EXEC="+string(w.claim.Exec), "ARL_ATTEMPT="+strconv.Itoa(w.attempt), "ARL_RUN_DIR="+w.dir,
			"ARL_CHECKPOINT="+w.point, "ARL_STRATEGY="+string(last.Strategy), "ARL_VARIANT="+string(last.Variant), "ARL_RUN_KEY="+w.key),
	}.Run(ctx)
}

// environment is what a program is told of a task that is the agent's.
func (w *runner) environment(c *worker.Claim) []string {
	program, _ := os.Executable()
	return append(os.Environ(), "ARL_TASK="+string(c.Task.Task), "ARL_TASK_TYPE="+c.Task.Type, "ARL_WORKFLOW="+string(c.Task.Wid),
		"ARL_EPOCH="+strconv.FormatInt(c.Task.Epoch, 10), "ARL_AGENT="+string(c.Agent), "ARL_RUN_URL="+w.c.url, "ARL_PROGRAM="+program)
}

// end says how a run of the program ended, and decides what comes next: again
// here, or the end of the claim.
func (w *runner) end(ctx, held context.Context, e *worker.Ending) (again bool, err error) {
	steps, progress, err := readRunDir(w.dir)
	doubt := steps.inDoubt()
	if err == nil {
		doubt, err = w.logged(ctx, w.claim, doubt)
	}
	if e.OK() && err == nil {
		if len(doubt) == 0 {
			return false, w.claim.Complete(ctx, w.note("done"))
		}
		e.Failure, e.Text = worker.Unfinished, w.redact.Text("exit code 0, and begun and not ended: "+doubt.names())
	}
	fmt.Fprintf(w.err, "arl: %s: %s: %s\n", w.claim.Task.Task, e.Failure, e.Text)
	if err == nil {
		err = w.restorePoint(ctx)
	}
	var d recovery.Decision
	if err == nil {
		d, err = w.decide(ctx, held, e, doubt)
	}
	switch {
	case err != nil:
		return false, w.failedRecovery(ctx, err)
	case e.Failure == worker.Unfinished && doubt.confirmed():
		return false, w.claim.Complete(ctx, w.note(fmt.Sprintf("done; %d effects that it left open took place, says the probe", len(doubt))))
	}
	progress.Status = w.redact.Text(progress.Status)
	if w.unanswered {
		progress.Status = statusUnanswered
	}
	s, effects, spent := w.claim.Snapshot(e, progress, e.Output), w.effects(), w.claim.Task.RetryCount >= w.claim.Task.MaxRetries
	if e.Failure == worker.Interrupted {
		return false, w.handBack(ctx, s)
	}
	s.Attempts = int64(min(w.attempt, entry.MaxAttempts))
	fmt.Fprintf(w.err, "arl: %s: %s (%s)\n", w.claim.Task.Task, d.Action, d.Rule)
	switch d.Action.Strategy {
	case recovery.Retry, recovery.RetryAltered, recovery.FallbackModel, recovery.StateReset, recovery.Wait:
		if w.again(held, &d) {
			return true, nil
		}
		if cause := context.Cause(held); errors.Is(cause, worker.ErrLeaseLost) {
			return false, cause
		}
		s.Class, s.Code, s.Attempts = worker.Interrupted.Class, worker.Interrupted.Code, 0 // asked to end before it was tried again
		return false, w.handBack(ctx, s)
	case recovery.Escalate, recovery.Quarantine, recovery.Abort:
		if !spent && effects != entry.EffectsUnknown {
			return false, w.handOver(ctx, e, s, &d)
		}
	default:
	}
	err = w.claim.GiveUp(ctx, s)
	// Whoever hands back without a retry left, or with effects in doubt, signals (SIG-1).
	if err == nil && (effects == entry.EffectsUnknown || spent) {
		err = w.claim.Signal(ctx, e, s, effects)
	}
	return false, errors.Join(err, withExit(exitRejected, fmt.Errorf("%s failed with %s: %s", w.claim.Task.Task, e.Failure, d.Action)))
}

// handBack gives the task back at no cost, since somebody asked for that.
func (w *runner) handBack(ctx context.Context, s *entry.Snapshot) error {
	return errors.Join(w.claim.GiveUp(ctx, s), withExit(exitInterrupted, errors.New("interrupted: the task is handed back")))
}

// decide asks the policy, and what strategy it names. Where that is to reconcile
// first, those who know are asked, and then the policy again: it says so once.
func (w *runner) decide(ctx, held context.Context, e *worker.Ending, doubt steps) (recovery.Decision, error) {
	h := &w.history
	h.Failure = recovery.Failure{Class: e.Failure.Class, Code: e.Failure.Code, Effects: entry.EffectsUnknown, Evidence: true}
	if len(doubt) == 0 {
		h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
	}
	h.Probe = ""
	if e.Failure == worker.Interrupted { // the policy has no say, and what is known helps whoever goes on
		return recovery.Decision{}, w.reconcile(ctx, w.claim, doubt)
	}
	if err := w.follow(held); err != nil {
		return recovery.Decision{}, err
	}
	for {
		now := time.Now().UnixMilli()
		if h.StartedAt == 0 {
			h.StartedAt = now // the case begins with the first failure
		}
		d, err := recovery.Recover(context.WithoutCancel(held), recovery.Case{History: h, ElapsedMS: now - h.StartedAt}, w.policy, now, w.strategies)
		if err == nil && d.Failed != nil {
			w.unanswered = true
			fmt.Fprintf(w.err, "arl: %s: %s: the ladder decides\n", w.claim.Task.Task, w.redact.Text(d.Failed.Error()))
		}
		if err != nil || d.Action.Strategy != recovery.Reconcile {
			return d, err
		}
		fmt.Fprintf(w.err, "arl: %s: %s (%s)\n", w.claim.Task.Task, d.Action, d.Rule)
		h.Rungs = append(h.Rungs, h.Past(d.Action, d.Rule, recovery.ResultOK))
		if err := w.reconcile(held, w.claim, doubt); err != nil || e.Failure == worker.Unfinished && doubt.confirmed() {
			return d, err
		}
	}
}

// again waits for as long as was decided, and notes the rung. It reports false if
// the claim ends meanwhile.
func (w *runner) again(held context.Context, d *recovery.Decision) bool {
	w.history.Rungs = append(w.history.Rungs, w.history.Past(d.Action, d.Rule, recovery.ResultFailed))
	timer := time.NewTimer(time.Duration(d.Action.WaitMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-held.Done():
		return false
	}
}

// remember makes the history of what the log says of the task's past.
func (w *runner) remember(ctx context.Context) error {
	if err := w.follow(ctx); err != nil {
		return err
	}
	t := &w.claim.Task
	past := recovery.Task{Ref: t.Task, Type: t.Type, Epoch: t.Epoch, MaxRetries: t.MaxRetries, Failures: t.Failures}
	w.history = *past.History(w.policy)
	return w.restorePoint(ctx)
}

// restorePoint looks for the newest checkpoint: a run of the program may have made
// one.
func (w *runner) restorePoint(ctx context.Context) (err error) {
	err = worker.Insist(ctx, func() (err error) { w.point, err = w.checkpoint(ctx); return err })
	w.history.Checkpoint = w.point != "" && w.claim.Task.ResumeCount < entry.MaxResumes
	return err
}

// handOver gives the task to a person, where the policy leaves it to one while
// there are retries: as FAILED, it could be claimed again.
func (w *runner) handOver(ctx context.Context, e *worker.Ending, s *entry.Snapshot, d *recovery.Decision) error {
	question := fmt.Sprintf("%s: %s (%s)", e.Failure, d.Action, d.Rule)
	if help := w.policy.RemediationFor(&w.history, time.Now().UnixMilli()); help != "" {
		question += ": " + help
	}
	question = strings.ToValidUTF8(question[:min(len(question), entry.MaxText)], "")
	err := w.claim.Block(ctx, question, s)
	return errors.Join(err, withExit(exitRejected, fmt.Errorf("%s waits for a person: %s", w.claim.Task.Task, question)))
}
