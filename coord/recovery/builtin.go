package recovery

import (
	"context"

	"recoveryledger/ledger/entry"
)

// builtIn is one of [Strategies] as a [RecoveryStrategy]. It depends on the history alone.
type builtIn struct {
	name   Strategy
	choose func(*History) Action
}

// builtInVersion is that of all built-in strategies.
const builtInVersion = "1"

// builtIns returns the strategies that need no registration, one for each of [Strategies]. Each
// takes its own action as often as the task allows. Then it takes fail_reassign if that can help,
// and then escalate.
func builtIns() []RecoveryStrategy {
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

// resumesMax is how often a step is resumed from a checkpoint after a crash (TSK-1). retriesDefault
// is how often a step is given to another agent if the task does not say it.
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

// checkpointResume continues from the newest checkpoint, twice at most. Without a checkpoint it
// gives the step to another agent.
func checkpointResume(h *History) Action {
	if h.Checkpoint && (interrupted(h.Effective()) || h.timesUsed(CheckpointResume) < resumesMax) {
		return Action{Strategy: CheckpointResume}
	}
	return failReassign(h)
}

// once takes the strategy's own action. If the action did not help, once escalates.
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

// waitDefault is the pause of the strategy wait, in milliseconds, if no server asked for a longer
// one.
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
