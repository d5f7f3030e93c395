package agent

import (
	"context"
	"errors"
	"fmt"

	"recoveryledger/ledger/entry"
)

// ErrReport reports an invalid report of a hook. An invalid report never counts, least of all as
// done.
var ErrReport = errors.New("agent: not a report")

// ErrNotBegun reports a hook that could not begin. The hook certainly did nothing.
var ErrNotBegun = errors.New("agent: the hook did not begin")

// check checks the rules of every report; of is the hook of the report.
func (r *Report) check(of Hook) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrReport, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Status != Done && r.Status != NoEffect && r.Status != Failed && r.Status != Unknown:
		return refuse("status %.40q, want done, no_effect, failed or unknown", r.Status)
	case r.Status == Failed && r.Residual == "":
		return refuse("failed without a residual: say what is left")
	case len(r.Residual) > entry.MaxText:
		return refuse("a residual of %d bytes, the limit is %d", len(r.Residual), entry.MaxText)
	case of == Restore && r.Status == Done && r.Digest == "":
		return refuse("restored without the digest of the state afterwards")
	case r.Digest != "" && (of != Restore || r.Status != Done):
		return refuse("a digest, which only a restore that is done has")
	case r.Progress != "" && (of != Drain || r.Status != Done || !r.Progress.Final()):
		return refuse("progress %.40q: a drain that is done may have confirmed, failed or cancelled", r.Progress)
	case len(r.Evidence) > MaxEvidence:
		return refuse("%d pieces of evidence, the limit is %d", len(r.Evidence), MaxEvidence)
	}
	return nil
}

// run calls a hook, or Probe about the hook, and takes its report.
func (a *Agent) run(ctx context.Context, w *work, hook Hook, now int64) error {
	call, f := a.call(w), a.cfg.Hooks.of(hook)
	if hook == Probe {
		call, f = a.probe(w), a.cfg.Hooks.Probe
		w.mem.probes++
	}
	report, begun := a.report(ctx, w, f, call)
	switch {
	case !begun && w.mem.fresh:
		return a.startLater(w, now)
	case !begun && now < w.ExpiresAt && now < w.DeadlineAt:
		w.mem.probes-- // the question was not asked: the result is still unknown
		w.pause(now, 0)
		return nil
	case report == nil:
		w.pause(now, 0)
		return nil
	}
	a.cfg.Tell(Event{Kind: EventEnded, Incident: w.Incident, Exec: w.Members[0].Exec, Text: string(hook) + " " + string(report.Status)})
	if report.Status == NoEffect && hook != Probe {
		w.Vain++
	}
	if report.Status == Unknown {
		switch {
		case hook == Probe && a.repeatable(w):
			return a.rerun(ctx, w, now)
		case hook != Probe && a.cfg.Hooks.Probe != nil:
			w.pause(now, 0)
			return nil
		}
	}
	return a.finish(w, report, now)
}

// startLater marks an undertaking that had no effect as to be started again, for as
// long as the decision stands.
func (a *Agent) startLater(w *work, now int64) error {
	w.Phase, w.mem.pauses = noted, w.mem.vain
	w.mem.vain++
	w.pause(now, 0)
	return a.save(w.Name, w)
}

// report calls a hook. r is nil if the hook did not report: a hook that has begun may then have
// done anything.
func (a *Agent) report(ctx context.Context, w *work, f Func, call *Call) (r *Report, begun bool) {
	report, err := f(ctx, call)
	switch {
	case err == nil && report == nil:
		err = ErrReport
	case err == nil:
		err = report.check(w.Hook)
	}
	if err != nil {
		a.cfg.Tell(Event{Kind: EventRetry, Incident: w.Incident, Exec: w.Members[0].Exec, Text: string(call.Hook), Err: err})
		return nil, !errors.Is(err, ErrNotBegun)
	}
	return report, true
}

// reconcile finds out the result of an undertaking that was started and has not ended. It asks
// Probe, or runs an idempotent hook again. Otherwise the result is unknown.
func (a *Agent) reconcile(ctx context.Context, now int64) (bool, int64, error) {
	wake := int64(0)
	for _, w := range a.works {
		if w.Phase != started {
			continue
		}
		if w.mem.waitTill > now {
			wake = earlier(wake, w.mem.waitTill)
			continue
		}
		switch {
		case a.cfg.Hooks.Probe != nil && w.mem.probes < probesMax:
			return true, 0, a.run(ctx, w, Probe, now)
		case a.cfg.Hooks.Probe == nil && a.repeatable(w):
			if now < w.ExpiresAt && now < w.DeadlineAt && a.inForce(w.Incident, now) == nil && a.ended(w.Incident, w.order(), now) == "" {
				wake = earlier(wake, min(w.ExpiresAt, w.DeadlineAt))
				continue // until the decision is seen again
			}
			return true, 0, a.rerun(ctx, w, now)
		}
		return true, 0, a.finish(w, &Report{Status: Unknown}, now)
	}
	return false, wake, nil
}

// findable reports whether the agent can find out the result of an undertaking.
func (a *Agent) findable(w *work) bool { return a.cfg.Hooks.Probe != nil || a.repeatable(w) }

// repeatable reports whether the hook of an undertaking may run again. With a compensation, the
// last attempt may not be known.
func (a *Agent) repeatable(w *work) bool {
	return a.cfg.Hooks.of(w.Hook) != nil && (!w.Lost || w.Hook != Compensate) && a.cfg.Hooks.repeatable(a.call(w))
}

// order returns the part of its order that an undertaking stores.
func (w *work) order() *order {
	o := &order{}
	o.verdict.Decision, o.verdict.ExpiresAt, o.verdict.DeadlineAt = w.Decision, w.ExpiresAt, w.DeadlineAt
	return o
}

// rerun runs a repeatable hook again, if the decision still stands.
func (a *Agent) rerun(ctx context.Context, w *work, now int64) error {
	o := a.inForce(w.Incident, now)
	if o == nil || now >= w.DeadlineAt || w.mem.probes >= 2*probesMax || a.cfg.Hooks.of(w.Hook) == nil {
		return a.finish(w, &Report{Status: Unknown}, now)
	}
	for i := range w.Members {
		m := &w.Members[i]
		c := o.command(m.Exec)
		if c == nil || c.Refused != nil || c.Result != "" || c.Method != m.Method || w.Hook == Restore && c.Checkpoint != w.Checkpoint {
			return a.finish(w, &Report{Status: Unknown}, now)
		}
	}
	if v := &o.verdict; v.Decision != w.Decision { // amended meanwhile: the undertaking runs by the present decision
		w.Decision, w.Epoch, w.ExpiresAt, w.DeadlineAt = v.Decision, v.Epoch, v.ExpiresAt, v.DeadlineAt
		if err := a.saveWork(w); err != nil {
			return err
		}
	}
	w.mem.probes++
	return a.run(ctx, w, w.Hook, now)
}

// finish notes how a hook ended, with the entries that report it.
func (a *Agent) finish(w *work, r *Report, now int64) error {
	w.Phase, w.Status, w.Outbox, w.mem = done, r.Status, nil, memory{}
	say := func(result entry.Result, why string) error {
		for i := range w.Members {
			if err := a.outcome(w, &w.Members[i], result, Report{Residual: why, Evidence: r.Evidence}, now); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	switch {
	case w.Hook == Compensate:
		err = a.compensated(w, r, say, now)
	case w.Hook == Drain && r.Status == Done:
		if w.Progress = r.Progress; r.Progress != "" {
			err = a.final(w, r.Progress, now)
		}
		if err == nil && len(w.Outbox) == 0 {
			w.Phase = closed
		}
	case r.Status == Unknown:
		err = say(entry.ResultUnknown, unknownText(w, r))
	case r.Status == Failed:
		err = say(entry.ResultFailed, r.Residual)
	case r.Status == NoEffect:
		return a.tryAgain(w, r, say, now)
	case w.Hook == Restore && r.Digest != w.Digest:
		err = say(entry.ResultFailed, fmt.Sprintf("the state afterwards has digest %s, the checkpoint %s", r.Digest, w.Digest))
	case w.Hook == Restore:
		err = say(entry.Restored, "")
	default:
		err = say(entry.NotExecuted, "")
	}
	if err != nil {
		return err
	}
	return a.save(w.Name, w)
}

func unknownText(w *work, r *Report) string {
	if r.Residual != "" {
		return r.Residual
	}
	return fmt.Sprintf("%s was started and did not end: its effect is unknown", w.Hook)
}

// tryAgain begins an undertaking without effect again, up to the number of attempts; begin looks
// whether the decision still stands.
func (a *Agent) tryAgain(w *work, r *Report, say func(entry.Result, string) error, now int64) error {
	w.Lost = false
	if a.spent(w) {
		if err := say(entry.ResultFailed, inVain(r)); err != nil {
			return err
		}
		return a.save(w.Name, w)
	}
	w.Attempt++
	w.Phase, w.mem.pauses = noted, w.Attempt-1
	w.pause(now, 0)
	return a.save(w.Name, w)
}

// spent reports whether something that had no effect is not tried again: so often,
// or, crashes counted, that much more often. Attempts after a loss are counted anew.
func (a *Agent) spent(w *work) bool {
	begun := w.Attempt%keysLost + 1
	return w.Vain >= a.cfg.Attempts || begun >= min(crashFactor*a.cfg.Attempts, keysLost)
}

func inVain(r *Report) string {
	if r.Residual != "" {
		return r.Residual
	}
	return "no attempt had an effect"
}

// compensated notes how a compensation ended: its execution and the outcome.
func (a *Agent) compensated(w *work, r *Report, say func(entry.Result, string) error, now int64) error {
	if w.Lost && r.Status == Done { // the log may lack the entry before
		for _, progress := range []entry.Progress{entry.Planned, entry.Started} {
			if err := a.compensation(w, progress, true, now); err != nil {
				return err
			}
		}
	}
	switch r.Status {
	case Done:
		if err := a.compensation(w, entry.Confirmed, true, now); err != nil {
			return err
		}
		return say(entry.Compensated, "")
	case Unknown:
		return say(entry.ResultUnknown, unknownText(w, r))
	case Failed:
		if err := a.compensation(w, entry.Failed, true, now); err != nil {
			return err
		}
		return say(entry.ResultFailed, r.Residual)
	}
	return a.attemptAgain(w, r, say, now)
}

// attemptAgain prepares another attempt to compensate under the next key. Authoritative
// state has shown that the attempt before had no effect (EXE-4).
func (a *Agent) attemptAgain(w *work, r *Report, say func(entry.Result, string) error, now int64) error {
	if !w.Lost { // by which executions there were attempts then, only the log knows
		if err := a.compensation(w, entry.Failed, true, now); err != nil {
			return err
		}
	}
	switch {
	case w.Lost && w.Attempt+1 < keysMax: // the probe was about every attempt that there may have been
		w.Lost = false
		w.Attempt = max(w.Attempt, keysLost-1)
		w.Vain = a.cfg.Attempts - 1 // one more, and that is all
	case w.Lost || a.spent(w):
		return say(entry.ResultFailed, inVain(r))
	}
	w.Attempt++
	w.Phase, w.mem.pauses = noted, 0
	w.pause(now, 0)
	w.CompExec = ""
	return a.prepare(w, now)
}
