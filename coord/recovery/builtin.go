package recovery

import (
	"context"

	"recoveryledger/ledger/entry"
)

// builtIn is a strategy that is one of [Strategies]. It looks at the history
// alone.
type builtIn struct {
	name   Strategy
	choose func(*History) Action
}

// builtInVersion is that of all built-in strategies.
const builtInVersion = "1"

// BuiltIn returns the strategies that need no registration, one for each of
// [Strategies]. Each takes its own action as often as the task allows, then
// fail_reassign if that helps, then escalate.
func BuiltIn() []RecoveryStrategy {
	all := make([]RecoveryStrategy, 0, len(Strategies()))
	for _, s := range Strategies() {
		b := builtIn{name: s}
		switch s {
		case FailReassign:
			b.choose = failReassign
		case CheckpointResume:
			b.choose = checkpointResume
		default:
			b.choose = func(h *History) Action { return once(h, s) }
		}
		all = append(all, b)
	}
	return all
}

// About implements [RecoveryStrategy].
func (b builtIn) About() About { return builtInAbout(b.name) }

// Recover implements [RecoveryStrategy].
func (b builtIn) Recover(_ context.Context, c Case) (Action, error) { return b.choose(c.History), nil }

func builtInAbout(s Strategy) About {
	can := []Strategy{s}
	if s == CheckpointResume {
		can = append(can, FailReassign)
	}
	if s != Escalate {
		can = append(can, Escalate)
	}
	return About{Name: string(s), Version: builtInVersion, Capabilities: can}
}

// resumesMax is how often a step is resumed from a checkpoint after a crash
// (TSK-1), retriesDefault how often it is given to another agent where the task
// says nothing.
const (
	resumesMax     = entry.MaxResumes
	retriesDefault = 1
)

// failReassign gives the step to another agent while the task has retries left.
// An interruption costs none.
func failReassign(h *History) Action {
	most := int64(retriesDefault)
	if h.MaxRetries != nil {
		most = *h.MaxRetries
	}
	if interrupted(h.Effective()) || h.timesUsed(FailReassign) < most {
		return Action{Strategy: FailReassign}
	}
	return gaveUp()
}

// checkpointResume goes on from the newest checkpoint, twice at most, and gives
// the step to another agent where there is none.
func checkpointResume(h *History) Action {
	if h.Checkpoint && (interrupted(h.Effective()) || h.timesUsed(CheckpointResume) < resumesMax) {
		return Action{Strategy: CheckpointResume}
	}
	return failReassign(h)
}

// once takes the strategy's own action, and escalates if that did not help.
func once(h *History, s Strategy) Action {
	if h.timesUsed(s) > 0 {
		return gaveUp()
	}
	a := Action{Strategy: s}
	switch s {
	case RetryAltered:
		a.Variant = FreshContext
	case StateReset:
		a.Scope = ScopeContext
		if h.Checkpoint {
			a.Scope = ScopeVerified
		}
	case Wait:
		a.WaitMS = waitDefault
		if asked := h.Failure.RetryAfterMS; asked != nil {
			a.WaitMS = max(a.WaitMS, *asked)
		}
	case Escalate:
		a.Reason = ReasonRule
	default:
	}
	return a
}

// waitDefault is how long the strategy wait waits, in milliseconds, where no
// server asked for more.
const waitDefault = 1000

func gaveUp() Action { return Action{Strategy: Escalate, Reason: ReasonLadderExhausted} }

// timesUsed returns how often a strategy was used for the step. Answers to an
// interruption do not count.
func (h *History) timesUsed(s Strategy) (n int64) {
	for i := range h.Rungs {
		if r := &h.Rungs[i]; r.Step == h.Step && r.Strategy == s && !interrupted(r.Class, r.Code) {
			n++
		}
	}
	return n
}
