package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"recoveryledger/api/client"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// Worker runs a program as the holder of a task: it waits until the task is given to
// the agent, starts the task, runs the program, renews the lease, and logs how the
// program ended. When the program fails, the rules of the policy in force decide: another
// attempt here, or the end of the claim. If the worker cannot read the policy in force then,
// the policy known so far decides.
//
//	w := worker.Worker{
//		Config:  &worker.Config{Client: c, Origin: origin, Agent: "ann", Signer: key, Secret: secret, NewID: uuid.NewString},
//		Command: worker.Command{Argv: []string{"python3", "agent.py"}},
//	}
//	err := w.Run(ctx, "operator#report-7")
//
// A Worker runs once.
type Worker struct {
	// Config names the agent that holds the task, and the ledger. The worker sets Tell in it.
	Config *Config
	// Command is the program. The worker adds [Variables] to its environment. If
	// Redact is nil, the worker takes the secrets in that environment out of texts.
	Command Command
	// Probe is the command line of a program that says whether the effects of a step in
	// doubt took place; empty: there is no probe.
	Probe []string
	// Strategies returns the implementations of the strategies that the rules of a policy
	// name; nil: there are none, and the ladders decide.
	Strategies func(p *recovery.Policy) ([]recovery.RecoveryStrategy, error)
	// URL of the ledger, Key file of the agent, and Executable, the path of arl. The
	// program gets them in its environment.
	URL, Key, Executable string
	// Once looks at the task once, and does not wait for it.
	Once bool
	// Say, if not nil, gets a line about each thing that happens.
	Say func(line string)

	arms       arms
	strategies []recovery.RecoveryStrategy
	dir        string // of this claim
	id         string // of the case: the local id of the task
	claim      *Claim
	history    recovery.History
	point      string // file of the task's newest checkpoint; empty: none
	attempt    int
	attempts   attempts
	shadow     attempts // what the candidate of a shadow decided
	unanswered bool     // a strategy that the policy names did not answer
}

func (w *Worker) say(format string, args ...any) {
	if w.Say != nil {
		w.Say(fmt.Sprintf(format, args...))
	}
}

// Run waits for the task and carries one claim of the task to its end. It returns nil when
// the task is completed. An error of the worker itself is an [*Error], whose reason says how
// the claim ended. Run returns errors of the client and of Strategies as they are.
func (w *Worker) Run(ctx context.Context, ref entry.Ref) error {
	if w.Command.Env == nil {
		w.Command.Env = os.Environ()
	}
	if w.Command.Redact == nil {
		w.Command.Redact = redact.New(secretValues(w.Command.Env))
	}
	_, w.id = ref.Split()
	policy, err := w.inForce(ctx)
	if err != nil {
		return err
	}
	if err := w.obey(policy); err != nil {
		return err
	}
	began, cancel, err := w.wait(ctx, ref)
	defer cancel()
	if err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "arl-run-"); err != nil {
		return &Error{ReasonFile, err}
	}
	defer os.RemoveAll(w.dir) //nolint:errcheck // files of a claim that is over
	switch err := w.claim.Start(began); {
	case errors.Is(err, ErrLeaseLost): // or another process of this agent has started it
		return &Error{ReasonConflict, err}
	case err != nil:
		return err
	}
	return w.work(ctx)
}

// wait waits for the task. If the coordinator assigned the task while ctx ended, wait claims
// the task all the same, to hand it back. began is the context in which the claim begins.
func (w *Worker) wait(ctx context.Context, ref entry.Ref) (began context.Context, cancel context.CancelFunc, err error) {
	w.Config.Tell = w.tellRenewal
	w.claim, err = w.look(ctx, ref)
	began, cancel = context.WithTimeout(context.WithoutCancel(ctx), endTime)
	if ctx.Err() != nil && err != nil {
		if given, late := Wait(began, w.Config, ref, true); late == nil {
			w.claim, err = given, nil
		}
	}
	if errors.Is(err, ErrOver) || errors.Is(err, ErrNotOurs) {
		err = &Error{ReasonConflict, err}
	}
	return began, cancel, err
}

// look waits for the task as [Wait] does. Where an earlier claim of the agent holds the task up,
// look reconciles that claim first, once a claim.
func (w *Worker) look(ctx context.Context, ref entry.Ref) (*Claim, error) {
	for reconciled := int64(0); ; {
		t, err := w.Config.Client.Task(ctx, ref)
		if err == nil && t.Agent == w.Config.Agent && t.HeldUp() && t.Epoch > reconciled {
			reconciled = t.Epoch
			if err := w.reconcileEarlier(ctx, t); err != nil {
				return nil, fmt.Errorf("worker: reconcile %s: %w", ref, err)
			}
		}
		if c, err := w.Config.claim(ctx, ref, t, err, w.Once); c != nil || err != nil {
			return c, err
		}
	}
}

// secretValues returns the values of the variables whose names are names of secrets.
func secretValues(environ []string) (values []string) {
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); redact.Sensitive(name) {
			values = append(values, value)
		}
	}
	return values
}

// followTime is the longest wait for the policy in force, if a policy is known already.
const followTime = 5 * time.Second

// follow takes up a policy that has come into force since, and the arm of the task if a rollout is
// under way. Without an answer, the policy known so far decides, for no arm. If an arm has decided,
// its rules decide until the claim ends.
func (w *Worker) follow(ctx context.Context) error {
	if w.arms.fixed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	policy, err := w.inForce(ctx)
	if err != nil {
		w.say("the policy known so far decides: %s", w.Command.Redact.Text(err.Error()))
		w.arms.rollouts.Lose()
		return w.choose(w.arms.rollouts.Of(w.arms.inForce, w.id))
	}
	return w.obey(policy)
}

// inForce returns the policy in force from the verified chain of policies, and reads the rollouts.
func (w *Worker) inForce(ctx context.Context) (*entry.Policy, error) {
	if err := w.Config.Client.CatchUp(ctx); err != nil {
		return nil, err
	}
	chain, err := w.Config.Client.Chain(ctx)
	if err != nil {
		return nil, err
	}
	policy, _ := chain.Policy()
	if policy == nil {
		return nil, failed(ReasonPolicy, "the ledger has no genesis policy yet")
	}
	return policy, w.arms.follow(ctx, w.Config)
}

// obey takes up the policy in force, or the rules of the task's arm, and the strategies for them.
func (w *Worker) obey(policy *entry.Policy) error {
	w.arms.inForce = recovery.InForce(policy)
	return w.choose(w.arms.rollouts.Of(w.arms.inForce, w.id))
}

// tellRenewal says that renewals fail, or that renewals succeed again.
func (w *Worker) tellRenewal(err error) {
	if err == nil {
		w.say("%s: the coordinator renews the lease again", w.claim.Task.Task)
		return
	}
	w.say("%v", err)
}

// endTime is how long the worker tries to report the end of a claim that is over, or that it
// hands back.
const endTime = 30 * time.Second

// reportContext returns the context for reporting how a claim ended. It lasts as long
// as the claim is held, since the coordinator may be away, and endTime longer.
func reportContext(held context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.WithoutCancel(held))
	context.AfterFunc(held, func() { time.AfterFunc(endTime, cancel) })
	return ctx, cancel
}

// work runs the program until it is done, or the claim is over.
func (w *Worker) work(ctx context.Context) error {
	held, lost := context.WithCancelCause(ctx)
	kept, stop := context.WithCancel(context.WithoutCancel(ctx)) // also during the report of the end
	defer stop()
	go w.claim.Keep(kept, lost)
	told, cancel := reportContext(held)
	defer cancel()
	err := w.remember(told)
	for err == nil {
		ending := w.run(held)
		again := false
		if err = context.Cause(held); !errors.Is(err, ErrLeaseLost) {
			again, err = w.end(told, held, &ending)
		}
		switch {
		case errors.Is(err, ErrLeaseLost): // also if nobody had noticed before the program ended
			return failed(ReasonConflict, "%s: the lease is lost: another worker may now hold the task", w.claim.Task.Task)
		case !again:
			return err
		}
	}
	return w.failedRecovery(told, err)
}

// failedRecovery gives the task to a person when the recovery itself failed, so that the task
// does not hang. If that fails too, the lease runs out.
func (w *Worker) failedRecovery(ctx context.Context, err error) error {
	e := Ending{Failure: Panicked, Started: time.Now(), Ended: time.Now()}
	question := w.Command.Redact.Text("recovery failed: " + err.Error())
	return errors.Join(err, w.claim.Block(ctx, question, w.claim.Snapshot(&e, Progress{Status: "recovery_failed"}, []byte(question))))
}

// run runs the program once.
func (w *Worker) run(ctx context.Context) Ending {
	w.attempt++
	last := recovery.Rung{}
	if n := len(w.history.Rungs); n > 0 {
		last = w.history.Rungs[n-1]
	}
	c := w.Command
	c.Env = append(w.environment(w.claim), "ARL_EXEC="+string(w.claim.Exec), "ARL_ATTEMPT="+strconv.Itoa(w.attempt), "ARL_RUN_DIR="+w.dir,
		"ARL_CHECKPOINT="+w.point, "ARL_STRATEGY="+string(last.Strategy), "ARL_VARIANT="+string(last.Variant), "ARL_RUN_KEY="+w.Key)
	return c.Run(ctx)
}

// environment returns the variables that tell a program about a task of the agent.
func (w *Worker) environment(c *Claim) []string {
	return append(slices.Clip(w.Command.Env), "ARL_TASK="+string(c.Task.Task), "ARL_TASK_TYPE="+c.Task.Type, "ARL_WORKFLOW="+string(c.Task.Wid),
		"ARL_EPOCH="+strconv.FormatInt(c.Task.Epoch, 10), "ARL_AGENT="+string(c.Agent), "ARL_RUN_URL="+w.URL, "ARL_PROGRAM="+w.Executable)
}

// end reports how a run of the program ended, and decides what comes next: another attempt
// here, or the end of the claim.
func (w *Worker) end(ctx, held context.Context, e *Ending) (again bool, err error) {
	steps, progress, err := w.attempted(e)
	doubt := steps.inDoubt()
	if err == nil {
		doubt, err = w.logged(ctx, w.claim, doubt)
	}
	if e.OK() && err == nil {
		if len(doubt) == 0 {
			w.logLast(ctx, entry.StatusRecovered)
			return false, w.claim.Complete(ctx, w.note("done"))
		}
		e.Failure, e.Text = Unfinished, w.Command.Redact.Text("exit code 0, but steps began and did not end: "+doubt.names())
	}
	w.say("%s: %s: %s", w.claim.Task.Task, e.Failure, e.Text)
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
	case e.Failure == Unfinished && doubt.confirmed():
		w.logLast(ctx, entry.StatusRecovered)
		return false, w.claim.Complete(ctx, w.note(fmt.Sprintf("done; the probe says that %d of the open steps took place", len(doubt))))
	}
	progress.Status = w.Command.Redact.Text(progress.Status)
	if w.unanswered {
		progress.Status = statusUnanswered
	}
	s, effects, spent := w.claim.Snapshot(e, progress, e.Output), w.effects(), w.claim.Task.RetriesSpent()
	if e.Failure == Interrupted {
		w.logLast(ctx, entry.StatusPassedOn)
		return false, w.handBack(ctx, s)
	}
	s.Attempts = int64(min(w.attempt, entry.MaxAttempts))
	w.say("%s: %s (%s)", w.claim.Task.Task, d.Action, d.Rule)
	switch d.Action.Strategy {
	case recovery.Retry, recovery.RetryAltered, recovery.FallbackModel, recovery.StateReset, recovery.Wait:
		if w.again(ctx, held, &d) {
			return true, nil
		}
		if cause := context.Cause(held); errors.Is(cause, ErrLeaseLost) {
			return false, cause
		}
		w.logDropped(ctx)
		s.Class, s.Code, s.Attempts = Interrupted.Class, Interrupted.Code, 0 // asked to end before the next attempt
		return false, w.handBack(ctx, s)
	case recovery.Escalate, recovery.Quarantine, recovery.Abort:
		if !spent && effects != entry.EffectsUnknown {
			w.logEnd(ctx, &d)
			return false, w.handOver(ctx, e, s, &d)
		}
	default:
	}
	w.logEnd(ctx, &d)
	err = w.claim.GiveUp(ctx, s)
	// Without a retry left, with effects in doubt (SIG-1), or for a rollback, the agent signals.
	if err == nil && (effects == entry.EffectsUnknown || spent || d.Action.Strategy == recovery.Rollback) {
		err = w.claim.Signal(ctx, e, s, effects)
	}
	return false, errors.Join(err, failed(ReasonRejected, "%s failed with %s: %s", w.claim.Task.Task, e.Failure, d.Action))
}

// attempted reads what the program said, and notes how the attempt ended. The next attempt begins
// without progress, so that the progress is that of one attempt.
func (w *Worker) attempted(e *Ending) (steps, Progress, error) {
	steps, progress, err := readRunDir(w.dir)
	if err == nil {
		if err = os.Remove(progressFile(w.dir)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	w.attempts.ended(e, ofAttempt(&progress))
	w.history.SpentMicroUSD, w.history.SpentTokens = w.attempts.spent.costMicroUSD, w.attempts.spent.tokens
	return steps, progress, err
}

// handBack gives the task back at no cost, since the worker was asked to end.
func (w *Worker) handBack(ctx context.Context, s *entry.Snapshot) error {
	if err := w.claim.GiveUp(ctx, s); err != nil {
		return errors.Join(err, failed(ReasonInterrupted, "interrupted: the task is not handed back, and waits for the end of its lease"))
	}
	return failed(ReasonInterrupted, "interrupted: the task is handed back")
}

// decide asks the policy, and the strategies that the policy names. If the decision is to
// reconcile first, decide asks the probe and then the policy again. The policy decides to
// reconcile only once.
func (w *Worker) decide(ctx, held context.Context, e *Ending, doubt steps) (recovery.Decision, error) {
	h := &w.history
	h.Failure = recovery.Failure{Class: e.Failure.Class, Code: e.Failure.Code, Effects: entry.EffectsUnknown, Evidence: true}
	if len(doubt) == 0 {
		h.Failure.Effects, h.Failure.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
	}
	h.Probe = ""
	if e.Failure == Interrupted { // the policy has no say; the answers help the next holder
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
		d, err := recovery.Recover(context.WithoutCancel(held), recovery.Case{History: h, ElapsedMS: now - h.StartedAt}, w.arms.Rules, now, w.strategies)
		if err == nil {
			w.decided(h, now)
		}
		if err == nil && d.Failed != nil {
			w.unanswered = true
			w.say("%s: %s: the ladder decides", w.claim.Task.Task, w.Command.Redact.Text(d.Failed.Error()))
		}
		if err != nil || d.Action.Strategy != recovery.Reconcile {
			return d, err
		}
		w.say("%s: %s (%s)", w.claim.Task.Task, d.Action, d.Rule)
		w.tried(ctx, &d, recovery.ResultOK)
		h.Rungs = append(h.Rungs, h.RungOf(d.Action, d.Rule, recovery.ResultOK))
		if err := w.reconcile(held, w.claim, doubt); err != nil || e.Failure == Unfinished && doubt.confirmed() {
			return d, err
		}
	}
}

// again notes and logs the rung, and waits for the time that was decided. It reports false if the
// claim ends meanwhile.
func (w *Worker) again(ctx, held context.Context, d *recovery.Decision) bool {
	w.tried(ctx, d, "")
	w.logAttempts(ctx, entry.StatusPassedOn)
	w.history.Rungs = append(w.history.Rungs, w.history.RungOf(d.Action, d.Rule, recovery.ResultFailed))
	return client.Pause(held, time.Duration(d.Action.WaitMS)*time.Millisecond) == nil
}

// remember makes the history from what the log says about the task's past.
func (w *Worker) remember(ctx context.Context) error {
	if err := w.follow(ctx); err != nil {
		return err
	}
	t := &w.claim.Task
	past := recovery.Task{Ref: t.Task, Type: t.Type, Epoch: t.Epoch, MaxRetries: t.MaxRetries, Failures: t.Failures}
	w.history = *past.History(w.arms.Rules)
	w.takeUp(ctx, &past)
	return w.restorePoint(ctx)
}

// restorePoint looks for the newest checkpoint, since a run of the program may have made
// one.
func (w *Worker) restorePoint(ctx context.Context) (err error) {
	err = insist(ctx, func() (err error) { w.point, err = w.claim.checkpoint(ctx); return err })
	w.history.Checkpoint = w.point != "" && w.claim.Task.ResumeCount < entry.MaxResumes
	return err
}

// handOver gives the task to a person when the policy decides so while retries are left. A
// task in FAILED could be claimed again.
func (w *Worker) handOver(ctx context.Context, e *Ending, s *entry.Snapshot, d *recovery.Decision) error {
	question := fmt.Sprintf("%s: %s (%s)", e.Failure, d.Action, d.Rule)
	if help := w.arms.Rules.RemediationFor(&w.history, time.Now().UnixMilli()); help != "" {
		question += ": " + help
	}
	question = strings.ToValidUTF8(question[:min(len(question), entry.MaxText)], "")
	var err error
	if d.Action.Strategy == recovery.Quarantine { // without evidence, so that people decide
		err = w.claim.Signal(ctx, e, nil, w.effects())
	}
	err = errors.Join(err, w.claim.Block(ctx, question, s))
	return errors.Join(err, failed(ReasonRejected, "%s waits for a person: %s", w.claim.Task.Task, question))
}
