package agent

import (
	"context"
	"slices"

	"recoveryledger/ledger/entry"
)

// Hook names what an agent can do about its own work.
type Hook string

// The hooks.
const (
	Drain      Hook = "drain"      // bring an execution in flight to an end
	Restore    Hook = "restore"    // take a line back to a checkpoint
	Compensate Hook = "compensate" // undo by a compensation
	Cancel     Hook = "cancel"     // do not start a planned execution
	Probe      Hook = "probe"      // find out how the call of another hook ended
)

// Hooks are what the agent can do. A nil hook is missing. Without Drain, started executions
// count as ended. Without Cancel, the fence alone keeps planned work from starting. A member
// that needs another missing hook is withheld.
//
// A hook that returns an error may have done anything, or nothing: the agent reconciles it as
// after a crash. Only after [ErrNotBegun] the hook begins again, and so does Probe, until the
// decision's time is over.
type Hooks struct {
	Drain, Restore, Compensate, Cancel Func
	// Probe tells what happened to a call that was started and has no noted end. It changes
	// nothing.
	Probe Func
	// Idempotent are the hooks that may run again with the same call, to the same effect as
	// once. For other hooks the agent asks Probe, or the call ends as unknown.
	Idempotent []Hook
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

func (h *Hooks) repeatable(hook Hook) bool { return slices.Contains(h.Idempotent, hook) }

// Call is the task of a hook. All of it is verified. It is the same in every call for one
// attempt.
type Call struct {
	V          int             `json:"v"`            // 1
	Hook       Hook            `json:"hook"`         // what is asked for
	Of         Hook            `json:"of,omitempty"` // with probe: what was started
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
	// Keys are, with a probe of compensate, those of every attempt that may have
	// been made: more than one if the store was lost.
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

// The statuses. With Probe they are what became of the call it is asked about.
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
	// Progress is, with drain and done, what the execution ended as, to be
	// logged; empty if its final entry is in the log.
	Progress entry.Progress   `json:"progress,omitempty"`
	Residual string           `json:"residual,omitempty"` // what is left, at most 1 KiB; required with failed
	Evidence []entry.Evidence `json:"evidence,omitempty"`
}
