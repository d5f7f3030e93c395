package agent

import (
	"context"
	"slices"

	"recoveryledger/ledger/entry"
)

// Hook names an action that an agent can take on its own work.
type Hook string

// The hooks.
const (
	Drain      Hook = "drain"      // bring an execution in flight to an end
	Restore    Hook = "restore"    // take a line back to a checkpoint
	Compensate Hook = "compensate" // undo by a compensation
	Cancel     Hook = "cancel"     // do not start a planned execution
	Probe      Hook = "probe"      // find out how the call of another hook ended
)

// Hooks are the actions of the agent. A nil hook is missing. Without Drain, started executions
// count as ended. Without Cancel, only the fence keeps planned work from starting. A member that
// needs another missing hook is withheld.
//
// After an error of a hook, the effect of the hook is not known: the agent reconciles as after a
// crash. Only after [ErrNotBegun] the hook begins again, and so does Probe, until the time of the
// decision is over.
type Hooks struct {
	Drain, Restore, Compensate, Cancel Func
	// Probe finds out what happened to a call that was started and has no noted end. It changes
	// nothing.
	Probe Func
	// Idempotent are the hooks that may run again with the same call, to the same effect as
	// once. For other hooks the agent asks Probe, or the call ends as unknown.
	Idempotent []Hook
	// Repeatable says of a call of another hook whether the hook may run again with the call, to
	// the same effect as once. Nil: it may not.
	Repeatable func(c *Call) bool
}

// Func is a hook. It ends when ctx does.
type Func func(ctx context.Context, c *Call) (*Report, error)

func (h *Hooks) of(hook Hook) Func {
	switch hook {
	case Drain:
		return h.Drain
	case Restore:
		return h.Restore
	case Compensate:
		return h.Compensate
	case Cancel:
		return h.Cancel
	}
	return nil
}

func (h *Hooks) repeatable(c *Call) bool {
	return slices.Contains(h.Idempotent, c.Hook) || h.Repeatable != nil && h.Repeatable(c)
}

// Call is the task of a hook. Every part is verified. The Call is the same in every run of one
// attempt.
type Call struct {
	V          int             `json:"v"`            // 1
	Hook       Hook            `json:"hook"`         // what is asked for
	Of         Hook            `json:"of,omitempty"` // with probe: the hook that was started
	Agent      entry.Principal `json:"agent"`
	Incident   uint64          `json:"incident"`
	Decision   entry.LogRef    `json:"decision"`
	Epoch      int64           `json:"epoch"`
	ExpiresAt  int64           `json:"expires_at"`  // of the decision, Unix milliseconds
	DeadlineAt int64           `json:"deadline_at"` // of the incident, Unix milliseconds
	// Members are the executions to undo: the members of one line that go back together, or
	// else one member.
	Members    []CallMember `json:"members"`
	Checkpoint entry.Ref    `json:"checkpoint,omitempty"` // with restore: where the line goes back to
	Digest     entry.Digest `json:"digest,omitempty"`     // with restore: of the state there
	Standing   []entry.Ref  `json:"standing"`             // with restore: executions of the line whose effects stand (AGT-5)
	Attempt    int          `json:"attempt"`              // from 0; grows only when the one before had no effect
	Key        string       `json:"key,omitempty"`        // with compensate: idempotency key of the attempt
	// Keys are, with a probe of compensate, the keys of every possible attempt. There is more than
	// one if the store was lost.
	Keys     []string  `json:"keys,omitempty"`
	CompExec entry.Ref `json:"comp_exec,omitempty"` // with compensate: the compensation's execution
}

// CallMember is an execution of the agent that must be undone.
type CallMember struct {
	Exec   entry.Ref        `json:"exec"`
	Index  uint64           `json:"index"` // of its first entry
	Wid    entry.WorkflowID `json:"wid"`
	Effect entry.Effect     `json:"effect"`
	Method entry.Method     `json:"method"`
}

// Status is how a hook ended.
type Status string

// The statuses. With Probe a status is the result of the call that the question is about.
const (
	Done     Status = "done"      // it had its effect
	NoEffect Status = "no_effect" // no effect now or later, for certain: it may be tried again
	Failed   Status = "failed"    // it failed, and something may be left
	Unknown  Status = "unknown"   // its effect is not known
)

// Report is a hook's report of its end.
type Report struct {
	Status Status `json:"status"`
	// Digest is, with restore and done, that of the state afterwards. Unless it
	// is the call's the restore counts as failed.
	Digest entry.Digest `json:"digest,omitempty"`
	// Progress is, with drain and done, the final progress of the execution, which the agent logs;
	// empty if the final entry is in the log.
	Progress entry.Progress   `json:"progress,omitempty"`
	Residual string           `json:"residual,omitempty"` // the effect that is left, at most 1 KiB; required with failed
	Evidence []entry.Evidence `json:"evidence,omitempty"`
}
