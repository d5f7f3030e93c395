package recovery

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// Task is the part of a task's log that its recovery depends on. The coordinator and
// the holder of the task derive the same history from it.
type Task struct {
	Ref        entry.Ref
	Type       string
	Epoch      int64 // of the newest claim
	MaxRetries int64
	Failures   []entry.TaskFailure
}

// Same reports whether the log says the same of both.
func (t *Task) Same(as *Task) bool {
	return t.Ref == as.Ref && t.Type == as.Type && t.Epoch == as.Epoch && t.MaxRetries == as.MaxRetries && slices.Equal(t.Failures, as.Failures)
}

// The step that a history of a task is about, and where its rungs come from that
// no policy has chosen: a person gave the task on.
const (
	taskStep   = "task"
	rulePerson = "operator"
)

// History returns the history of a task for who holds it: each failure was
// answered by a claim, as the policy answers it. The log says that a task was
// claimed again, and not by which rung; what follows from the failures in turn is
// the same for everybody. Where the policy answers with no attempt, a person has.
// The case begins with the first failure; StartedAt is 0 if there was none.
func (t *Task) History(p *Policy) *History {
	h := &History{Case: string(t.Ref), TaskType: t.Type, Step: taskStep, Effect: entry.EffectUndeclared, MaxRetries: &t.MaxRetries}
	for i := range t.Failures {
		t.fail(h, p, i, t.Epoch-int64(len(t.Failures)-i))
		d, _ := h.settle(p, t.Failures[i].At)
		if !d.Action.Strategy.Attempts() {
			d.Action, d.Rule = Action{Strategy: FailReassign}, Rule{rulePerson, -1}
		}
		h.Rungs = append(h.Rungs, h.RungOf(d.Action, d.Rule, ResultFailed))
	}
	h.Epoch, h.Checkpoint = t.Epoch, false
	return h
}

// TaskDecision is the policy's decision about a task that failed.
type TaskDecision struct {
	Decision           // its action is no wait
	Due         int64  // from when on, Unix milliseconds
	Remediation string // what people can do; empty: the policy does not say
}

// Decide returns the policy's decision about the newest failure of a task, as of the
// time of that failure. The task must have a failure. No strategy is asked, see
// [Choose].
func (t *Task) Decide(p *Policy) (d TaskDecision) {
	newest := len(t.Failures) - 1
	before := *t
	before.Failures = t.Failures[:newest]
	h := before.History(p)
	t.fail(h, p, newest, t.Epoch)
	d.Remediation = p.RemediationFor(h, t.Failures[newest].At)
	d.Decision, d.Due = h.settle(p, t.Failures[newest].At)
	return d
}

// fail puts a failure of the task into its history, behind the rungs that were
// tried in that claim: the log says how many there were, and which follows from
// the policy, as if each attempt had failed like the last. Effects in doubt are
// the business of the task's own effect gate: a failure that gets past it has none.
func (t *Task) fail(h *History, p *Policy, i int, epoch int64) {
	f := &t.Failures[i]
	h.StartedAt, h.Epoch, h.Checkpoint = t.Failures[0].At, epoch, f.Checkpoint
	h.Failure = Failure{Class: f.Class, Code: f.Code, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, Evidence: true}
	for range f.Attempts - 1 {
		d, _ := h.settle(p, f.At)
		if !d.Action.Strategy.stays() {
			return // those were failures of other classes, or the policy was another
		}
		h.Rungs = append(h.Rungs, h.RungOf(d.Action, d.Rule, ResultFailed))
	}
}

// settle decides, and lets the pauses before the final action pass.
func (h *History) settle(p *Policy, at int64) (d Decision, due int64) {
	for {
		d = Choose(h, p, at)
		at += d.Action.WaitMS
		if d.Action.Strategy != Wait {
			return d, at
		}
		h.Rungs = append(h.Rungs, h.RungOf(d.Action, d.Rule, ResultOK))
	}
}
