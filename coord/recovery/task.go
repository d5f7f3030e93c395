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

// Same reports whether the log says the same about both tasks.
func (t *Task) Same(as *Task) bool {
	return t.Ref == as.Ref && t.Type == as.Type && t.Epoch == as.Epoch && t.MaxRetries == as.MaxRetries && slices.Equal(t.Failures, as.Failures)
}

// The step in the history of a task, and the rule of rungs that no policy chose: a person
// reassigned the task.
const (
	taskStep   = "task"
	rulePerson = "operator"
)

// History returns the history of a task for its holder. The log says that a task was claimed again,
// but not by which rung. History derives the rungs from the failures by the policy, so that every
// reader of the log derives the same history. If the policy's answer is no attempt, a person
// reassigned the task. The case begins with the first failure. StartedAt is 0 if the task never
// failed.
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

// TaskDecision is the policy's decision about a failed task.
type TaskDecision struct {
	Decision           // its action is no wait
	Due         int64  // from when on, Unix milliseconds
	Remediation string // remediation for people; empty: the policy has none
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

// Decisions returns the policy's decision about each failure of a task, as of the time of that
// failure. t.Epoch is that of the claim that ended with the newest failure.
func (t *Task) Decisions(p *Policy) (list []TaskDecision) {
	one := *t
	one.Epoch -= int64(len(t.Failures) - 1)
	for i := range t.Failures {
		one.Failures = t.Failures[: i+1 : i+1]
		list = append(list, one.Decide(p))
		one.Epoch++
	}
	return list
}

// fail adds a failure of the task to its history, behind the rungs that were tried in that claim.
// The log has their number. The policy determines each rung, under the assumption that each attempt
// failed like the last. The failure has no uncertain effects: the effect gate of the task resolves
// them before a new claim.
func (t *Task) fail(h *History, p *Policy, i int, epoch int64) {
	f := &t.Failures[i]
	h.StartedAt, h.Epoch, h.Checkpoint = t.Failures[0].At, epoch, f.Checkpoint
	h.Failure = Failure{Class: f.Class, Code: f.Code, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, Evidence: true}
	for range f.Attempts - 1 {
		d, _ := h.settle(p, f.At)
		if !d.Action.Strategy.Stays() {
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
