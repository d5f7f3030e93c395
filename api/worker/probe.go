package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// Bounds on a probe, for each step.
const (
	probeTime  = 30 * time.Second
	probeGrace = 2 * time.Second // after probeTime
	answerMax  = 64              // bytes: a word
)

// reconcile asks the probe about the steps in doubt, and logs the known answers. It notes for
// the policy what is known of all the steps together.
func (w *Worker) reconcile(ctx context.Context, c *Claim, doubt steps) error {
	all := entry.EffectsNone
	for i := range doubt {
		said := w.ask(ctx, c, &doubt[i])
		if said != entry.EffectsUnknown {
			var err error
			if said, err = w.settle(ctx, c, &doubt[i], said); err != nil {
				return err
			}
		}
		if said == entry.EffectsUnknown || all == entry.EffectsNone {
			all = said
		}
	}
	w.history.Probe = all
	if all != entry.EffectsUnknown {
		w.history.Failure.ReplaySafety = entry.ReplaySafe // a repeated step is found done by its key
	}
	return nil
}

// settle logs the final entry of a step, as arl work end does. It returns what the log then
// says about the effects of the step.
func (w *Worker) settle(ctx context.Context, c *Claim, s *Step, said entry.Effects) (entry.Effects, error) {
	w.say("%s: step %s: effects %s, says the probe", c.Task.Task, s.Name, said)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended := *s
	ended.Progress = entry.Confirmed
	if said == entry.EffectsNone {
		ended.Progress = entry.Failed
	}
	if err := endStep(ctx, c, &ended); err != nil {
		return said, err
	}
	switch *s = ended; {
	case s.Progress != entry.Confirmed:
		said = entry.EffectsNone
	case said == entry.EffectsNone:
		said = entry.EffectsComplete
	}
	return said, w.keepStep(s)
}

// logged takes up what the log says about steps that seem to be in doubt, and returns the
// steps that are still in doubt. The end of a step may be in the log and not in the directory
// of the run.
func (w *Worker) logged(ctx context.Context, c *Claim, doubt steps) (steps, error) {
	if len(doubt) == 0 {
		return nil, nil
	}
	all, err := loggedSteps(ctx, c)
	for i := range doubt {
		if err == nil && doubt[i].endedIn(all) {
			err = w.keepStep(&doubt[i])
		}
	}
	return doubt.inDoubt(), err
}

// keepStep notes a step for the program, if the step belongs to this claim.
func (w *Worker) keepStep(s *Step) error {
	if w.dir == "" {
		return nil
	}
	return s.keep(w.dir)
}

// ask asks the probe about one step. Without a valid answer the effects are unknown.
func (w *Worker) ask(ctx context.Context, c *Claim, s *Step) entry.Effects {
	if len(w.Probe) == 0 {
		return entry.EffectsUnknown
	}
	var said probeAnswer
	e := Command{
		Argv: w.Probe, Stdout: &said, Stderr: w.Command.Stderr, Deadline: probeTime, Grace: probeGrace, Sole: w.Command.Sole, Redact: w.Command.Redact,
		Env: append(w.environment(c), "ARL_STEP="+s.Name, "ARL_EXEC="+string(s.Exec), "ARL_EFFECT="+string(s.Effect), "ARL_IDEMPOTENCY_KEY="+s.Key),
	}.Run(ctx)
	answer := entry.Effects(strings.TrimSpace(said.text.String()))
	why := e.Text
	switch {
	case !e.OK():
	case answer == entry.EffectsNone, answer == entry.EffectsComplete:
		return answer
	case answer == entry.EffectsUnknown:
		why = "the probe does not know"
	default:
		why = w.Command.Redact.Text(fmt.Sprintf("the probe answers %.20q: want none, complete or unknown", answer))
	}
	w.say("%s: step %s: nobody knows its effects: %s", c.Task.Task, s.Name, why)
	return entry.EffectsUnknown
}

// probeAnswer collects the output of a probe. Output longer than any answer ends the
// probe.
type probeAnswer struct{ text bytes.Buffer }

var errLong = errors.New("the probe answers more than a word")

// Write implements [io.Writer].
func (w *probeAnswer) Write(p []byte) (int, error) {
	if w.text.Len()+len(p) > answerMax {
		return 0, errLong
	}
	return w.text.Write(p)
}

// effects returns what is known about the effects of the failure under decision.
func (w *Worker) effects() entry.Effects {
	h := &w.history
	if h.Failure.Effects == entry.EffectsNone || h.Probe == "" {
		return h.Failure.Effects
	}
	return h.Probe
}

// statusUnanswered is the status in the snapshot of a claim in which a strategy
// that the policy names did not answer, so that the ladder decided.
const statusUnanswered = "strategy_failed"

// note returns a reason for the log. It adds that a strategy did not answer, if so.
func (w *Worker) note(reason string) string {
	if w.unanswered {
		reason += "; a strategy did not answer, and the ladder decided"
	}
	return reason
}

// reconcileEarlier asks the probe about the steps that an earlier claim of the agent left in
// doubt because its supervisor was killed. No agent gets the task before that. If the effects
// stay unknown, or no retry is left, the agent logs the failure signal that the supervisor
// would have logged (SIG-1).
func (w *Worker) reconcileEarlier(ctx context.Context, t *api.Task) error {
	c := &Claim{Config: w.Config, Task: *t}
	all, err := loggedSteps(ctx, c)
	own := slices.DeleteFunc(all, func(s Step) bool { return s.agent() != c.Agent || s.Effect == entry.EffectNone })
	if err != nil {
		return err
	}
	doubt, effects := own.inDoubt(), entry.EffectsNone
	if len(doubt) > 0 && len(w.Probe) > 0 {
		if err := w.reconcile(ctx, c, doubt); err != nil {
			return err
		}
	}
	if len(doubt.inDoubt()) > 0 {
		effects = entry.EffectsUnknown
	}
	silent := false
	err = insist(ctx, func() (err error) { silent, err = endedSilently(ctx, c); return err })
	if err != nil || !silent || effects == entry.EffectsNone && !t.RetriesSpent() {
		return err
	}
	w.say("%s: the agent sends a signal that its earlier claim could not send: %s, effects %s", t.Task, Lost, effects)
	return c.Lost(ctx, effects)
}

// endedSilently finds the execution that stands for the newest claim of the agent. It reports
// whether the log has no final entry of that execution.
func endedSilently(ctx context.Context, c *Claim) (bool, error) {
	for e, err := range c.Client.Entries(ctx, api.ListQuery{Task: c.Task.Task, Kinds: []entry.Kind{entry.KindExecution}, Newest: true}) {
		if err != nil {
			return false, err
		}
		if x, ok := e.Body.(*entry.Execution); ok && x.Iss == c.Agent && standsForClaim(x) {
			c.Exec = x.Ref()
			return !x.Progress.Final(), nil
		}
	}
	return false, nil
}
