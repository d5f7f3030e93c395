// Package worker holds tasks for an agent, runs the agent, and tells how the run ended.
//
// A [Claim] is a task that the agent holds:
//
//	c, err := worker.Wait(ctx, &config, "operator#report-7")
//	err = c.Start(ctx)             // IN_PROGRESS, with an execution of its own
//	go c.Keep(ctx, lost)           // renews the lease; cancels with worker.ErrLeaseLost
//	err = c.Complete(ctx, "done")  // or GiveUp, with how it ended, or Block
//
// A claim is lost when the ledger says so. A claim is also lost when its term ends, by the
// local clock, without an answer. The holder of a lost claim must stop: the ledger refuses
// later entries of the agent (stale-epoch).
//
// No failure of the agent goes unnoticed. A [Function] is an agent in this process:
// its errors, panics, calls of runtime.Goexit and missed deadlines are caught. No
// function can catch what ends the whole process, such as running out of memory or a
// concurrent write to a map. A [Command] is an agent in a process of its own. It tells the
// exit code, the signal that ended the process, and whether the system killed the process
// for lack of memory. An agent on another machine loses its lease when it fails.
//
//	ending, err := worker.Command{Argv: []string{"python3", "agent.py"}, Memory: 1 << 30}.Run(ctx)
//	// ending.Failure is crash.oom, ending.How says by which counter that is known
//
// An [Ending] uses the terms of the failure taxonomy. A redactor removed the secrets from
// the text of an ending. [Snapshot] makes the part of an ending that a log may keep.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

// Signer signs for the agent.
type Signer interface {
	Sign(e *entry.Entry) error
	SignRenewal(r *entry.Renewal) (*entry.SignedRenewal, error)
}

// Config names the agent that holds tasks, and the ledger of the tasks. The claims of one
// Config are renewed together, so a Config must not be copied once it has a claim.
type Config struct {
	Client *client.Client
	Origin string // of the ledger
	Agent  entry.Principal
	Signer Signer
	// Secret keys the digests of snapshots. It outlasts the claim.
	Secret []byte
	NewID  func() string // a new UUID in lower case
	// Tell, if not nil, gets what no call can return as an error. For each claim it gets
	// the error of the first renewal that fails. It gets nil when a later renewal
	// succeeds.
	Tell func(error)

	keeper keeper
}

// Claim is a task that the agent holds.
type Claim struct {
	*Config
	// Task is the state of the task at the claim. Exec is the execution that stands for
	// this claim; Start sets it.
	Task api.Task
	Exec entry.Ref
}

// The errors that end Wait.
var (
	// ErrOver: the task is completed or cancelled.
	ErrOver = errors.New("the task is over")
	// ErrNotOurs: the task is not assigned to this agent.
	ErrNotOurs = errors.New("the task is not assigned to this agent")
)

// pollPause is the pause between two looks at a task, and before a request without an
// answer is repeated.
const pollPause = 250 * time.Millisecond

// Wait waits until the task is assigned to the agent. With once, it looks at the task only
// once. The error wraps [ErrOver] or [ErrNotOurs], or is the client's.
func Wait(ctx context.Context, config *Config, ref entry.Ref, once bool) (*Claim, error) {
	for {
		t, err := config.Client.Task(ctx, ref)
		if c, err := config.claim(ctx, ref, t, err, once); c != nil || err != nil {
			return c, err
		}
	}
}

// claim returns the claim if a look at the task found the task assigned to the agent. If the task
// may still be assigned, claim pauses before the next look, and returns nil.
func (c *Config) claim(ctx context.Context, ref entry.Ref, t *api.Task, err error, once bool) (*Claim, error) {
	switch {
	case err == nil && t.State.Over():
		return nil, fmt.Errorf("worker: %s is %s: %w", ref, t.State, ErrOver)
	case err == nil && t.State == entry.TaskAssigned && t.Agent == c.Agent && t.Lease != nil:
		c.keeper.learn(t.Lease)
		return &Claim{Config: c, Task: *t}, nil
	case err == nil && once:
		return nil, fmt.Errorf("worker: %s is %s, last by %q: %w", ref, t.State, t.Agent, ErrNotOurs)
	case final(err), err != nil && once:
		return nil, fmt.Errorf("worker: look at %s: %w", ref, err)
	}
	if err := client.Pause(ctx, pollPause); err != nil {
		return nil, fmt.Errorf("worker: wait for %s: %w", ref, err)
	}
	return nil, nil
}

// claimPrefix begins the name of every execution that stands for a claim.
const claimPrefix = "run-"

// standsForClaim reports whether an execution stands for a claim. [Claim.Start] makes such
// executions.
func standsForClaim(x *entry.Execution) bool {
	return len(x.Parents) == 0 && strings.HasPrefix(x.Exec, claimPrefix)
}

// Start logs that the work begins, and logs the execution that stands for the claim.
func (c *Claim) Start(ctx context.Context) error {
	if err := c.move(ctx, entry.TaskStart, "begins", nil); err != nil {
		return err
	}
	id := claimPrefix + c.NewID()
	c.Exec = entry.NewRef(c.Agent, id)
	return c.progress(ctx, entry.Started)
}

func (c *Claim) tell(err error) {
	if c.Tell != nil {
		c.Tell(err)
	}
}

// Complete logs that the work is done, with a reason.
func (c *Claim) Complete(ctx context.Context, reason string) error {
	if err := c.progress(ctx, entry.Confirmed); err != nil {
		return err
	}
	return c.move(ctx, entry.TaskComplete, reason, nil)
}

// Block gives the task to a person, with a question (TSK-4).
func (c *Claim) Block(ctx context.Context, question string, s *entry.Snapshot) error {
	if err := c.progress(ctx, entry.Failed); err != nil {
		return err
	}
	return c.move(ctx, entry.TaskBlock, question, s)
}

// GiveUp tells the log and the coordinator how the claim ended. The coordinator then writes
// that the task failed or was interrupted. GiveUp returns when the task is no longer held at
// this epoch. The error wraps [ErrLeaseLost] if the claim was already lost before.
func (c *Claim) GiveUp(ctx context.Context, s *entry.Snapshot) error {
	progress := entry.Failed
	if s.Interrupted() {
		progress = entry.Cancelled
	}
	lease, told := c.renew(ctx, s) // first, since the coordinator looks when the log grows
	if err := c.progress(ctx, progress); err != nil {
		return err
	}
	if problem, refused := errors.AsType[*api.Problem](told); refused && problem.Name() == entry.StaleEpoch {
		return fmt.Errorf("worker: give up %s: %w: %w", c.Task.Task, ErrLeaseLost, problem)
	}
	for {
		t, err := c.Client.Task(ctx, c.Task.Task)
		if err == nil && (t.Epoch != c.Task.Epoch || !t.State.Held()) {
			return nil
		}
		if told != nil || err == nil && t.Lease != nil && t.Lease.Session != lease.Session {
			lease, told = c.renew(ctx, s) // a restarted coordinator does not know that the claim is over
		}
		if err := client.Pause(ctx, pollPause); err != nil {
			return fmt.Errorf("worker: give up %s: %w", c.Task.Task, errors.Join(err, told))
		}
	}
}

// Snapshot makes the snapshot of how the claim ended.
func (c *Claim) Snapshot(e *Ending, p Progress, text []byte) *entry.Snapshot {
	p.Exec = c.Exec
	return Snapshot(e, c.Agent, &p, c.Secret, text)
}

// Signal reports the failure (SIG-1). The digest of the snapshot's context is the evidence; without
// a snapshot there is none.
func (c *Claim) Signal(ctx context.Context, e *Ending, s *entry.Snapshot, effects entry.Effects) error {
	safety := entry.ReplayUnknown
	if effects == entry.EffectsNone {
		safety = entry.ReplaySafe
	}
	signal := &entry.Signal{Subject: c.Exec, Class: e.Failure.Class, Code: e.Failure.Code, Standing: entry.StandingExecutor, Effects: effects,
		ReplaySafety: safety, ObservedAt: e.Ended.UnixMilli(), Detail: e.Text}
	if s != nil {
		signal.Evidence = []entry.Evidence{{Digest: s.ContextDigest}}
	}
	return c.Submit(ctx, signal)
}

// Lost reports that the claim ended without an entry, because its holder was killed. Lost
// logs a failure signal, and then the final entry of the execution. The final entry shows
// that the failure is reported. Another process of the agent may log the same meanwhile.
func (c *Claim) Lost(ctx context.Context, effects entry.Effects) error {
	now := time.Now()
	e := &Ending{Failure: Lost, Text: "the agent's process was killed, and so was its supervisor", Started: now, Ended: now}
	if err := c.Signal(ctx, e, c.Snapshot(e, Progress{}, nil), effects); err != nil {
		return err
	}
	err := c.progress(ctx, entry.Failed)
	if problem, refused := errors.AsType[*api.Problem](err); refused && problem.Name() == entry.StateConflict {
		return nil // another process has logged it
	}
	return err
}

// progress logs the progress of the execution that stands for the claim.
func (c *Claim) progress(ctx context.Context, p entry.Progress) error {
	_, id := c.Exec.Split()
	return c.Submit(ctx, &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: p, Task: c.Task.Task})
}

// move logs the next entry of the task, from where it stands now.
func (c *Claim) move(ctx context.Context, op, reason string, s *entry.Snapshot) error {
	var t *api.Task
	err := insist(ctx, func() (err error) { t, err = c.Client.Task(ctx, c.Task.Task); return err })
	if err != nil {
		return fmt.Errorf("worker: %s %s: %w", op, c.Task.Task, err)
	}
	body, ok := t.Move(op, c.Agent, reason)
	if !ok || t.Epoch != c.Task.Epoch {
		return fmt.Errorf("worker: %s %s: it is %s at epoch %d, and was claimed at %d: %w", op, c.Task.Task, t.State, t.Epoch, c.Task.Epoch, ErrLeaseLost)
	}
	body.Snapshot = s
	return c.Submit(ctx, body)
}

// Submit completes, signs and submits an entry of the task's workflow, until the
// ledger answers or ctx ends.
func (c *Claim) Submit(ctx context.Context, body entry.Body) error {
	h := entry.HeaderOf(body)
	h.V, h.JTI, h.Iss, h.Aud, h.Iat, h.Wid = 1, c.NewID(), c.Agent, c.Origin, time.Now().Unix(), c.Task.Wid
	e, err := entry.New(body)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if err := c.Signer.Sign(e); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if err := insist(ctx, func() error { _, err := c.Client.Submit(ctx, e); return err }); err != nil {
		return fmt.Errorf("worker: submit %s: %w", body.Kind(), err)
	}
	return nil
}

// insist calls ask until the ledger answers, or ctx ends. The ledger may be away for a
// while, and the work of a claim must not be lost for that. The error includes that of ask.
func insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !unanswered(err) {
			return err
		}
		if waited := client.Pause(ctx, pollPause); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

// unanswered reports whether an error means that no server has answered.
func unanswered(err error) bool {
	if _, ok := errors.AsType[*api.Problem](err); ok {
		return !final(err)
	}
	_, network := errors.AsType[net.Error](err) // a deadline is one too
	return network || errors.Is(err, io.ErrUnexpectedEOF)
}
