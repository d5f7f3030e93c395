// Package worker holds tasks for an agent, runs the agent, and tells how it ended.
//
// A [Claim] is a task that the agent holds:
//
//	c, err := worker.Wait(ctx, &config, "operator#report-7")
//	err = c.Start(ctx)             // IN_PROGRESS, with an execution of its own
//	go c.Keep(ctx, lost)           // renews the lease; cancels with worker.ErrLeaseLost
//	err = c.Complete(ctx, "done")  // or GiveUp, with how it ended, or Block
//
// A claim is lost when the ledger says so, or when its term is over by the clock of
// this machine without an answer. Whoever holds a lost claim must stop: the ledger
// refuses what the agent writes after that (stale-epoch).
//
// No failure of the agent goes unnoticed. A [Function] is an agent in this process:
// its errors, panics, calls of runtime.Goexit and missed deadlines are caught. No
// function can catch what ends the whole process, such as running out of memory or a
// concurrent write to a map. A [Command] is an agent in a process of its own: it tells
// the exit code, the signal that ended the process, and whether the system killed the
// process for want of memory. Failures of agents on other machines are noticed by the
// lease that they lose.
//
//	ending, err := worker.Command{Argv: []string{"python3", "agent.py"}, Memory: 1 << 30}.Run(ctx)
//	// ending.Failure is crash.oom, ending.How says by which counter that is known
//
// An [Ending] is in the words of the failure taxonomy. Nothing in an ending is a
// secret: its text passed a redactor. [Snapshot] makes of it what a log may keep.
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

// Config says who holds tasks, of which ledger. Claims of one Config are renewed
// together: it must not be copied once there are some.
type Config struct {
	Client *client.Client
	Origin string // of the ledger
	Agent  entry.Principal
	Signer Signer
	// Secret keys the digests of snapshots. It outlasts the claim.
	Secret []byte
	NewID  func() string // a new UUID in lower case
	// Tell is told what cannot be answered with an error: of each claim, the first
	// renewal that failed, and with nil that one has come through again. nil: nobody
	// is told.
	Tell func(error)
	// Stuck is called while the task is waited for, once for each claim that the
	// agent held last and after which nobody gets the task: its effects are in
	// doubt, or its retries spent. What became of it can be logged then. An error
	// ends waiting. nil: nothing is.
	Stuck func(ctx context.Context, t *api.Task) error

	keeper keeper
}

// Claim is a task that the agent holds.
type Claim struct {
	*Config
	// Task is how it stood when it was claimed, and Exec the execution that stands
	// for this claim, once it is started.
	Task api.Task
	Exec entry.Ref
}

// What ends waiting.
var (
	// ErrOver: the task is completed or cancelled.
	ErrOver = errors.New("the task is over")
	// ErrNotOurs: it is not assigned to this agent.
	ErrNotOurs = errors.New("the task is not assigned to this agent")
)

// pollPause is how often a task is looked at, and a request repeated that had no
// answer.
const pollPause = 250 * time.Millisecond

// Wait waits until the task is assigned to the agent. With once it looks only
// once. The error wraps [ErrOver] or [ErrNotOurs], or is the client's.
func Wait(ctx context.Context, config *Config, ref entry.Ref, once bool) (*Claim, error) {
	for asked := int64(0); ; {
		t, err := config.Client.Task(ctx, ref)
		if err == nil && config.Stuck != nil && stuck(t) && t.Agent == config.Agent && t.Epoch > asked {
			asked = t.Epoch
			if err := config.Stuck(ctx, t); err != nil {
				return nil, fmt.Errorf("worker: reconcile %s: %w", ref, err)
			}
		}
		switch {
		case err == nil && t.State.Over():
			return nil, fmt.Errorf("worker: %s is %s: %w", ref, t.State, ErrOver)
		case err == nil && t.State == entry.TaskAssigned && t.Agent == config.Agent && t.Lease != nil:
			config.keeper.learn(t.Lease)
			return &Claim{Config: config, Task: *t}, nil
		case err == nil && once:
			return nil, fmt.Errorf("worker: %s is %s, last by %q: %w", ref, t.State, t.Agent, ErrNotOurs)
		case final(err), err != nil && once:
			return nil, fmt.Errorf("worker: look at %s: %w", ref, err)
		}
		if err := pause(ctx, pollPause); err != nil {
			return nil, fmt.Errorf("worker: wait for %s: %w", ref, err)
		}
	}
}

// stuck reports whether nobody gets a task that nobody holds, without a word of
// who held it, or of a person.
func stuck(t *api.Task) bool {
	return t.GivenBy == entry.TaskRelease && t.State != entry.TaskBlocked
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// claimPrefix begins the name of every execution that stands for a claim.
const claimPrefix = "run-"

// StandsForClaim reports whether an execution stands for a claim, as [Claim.Start]
// makes it.
func StandsForClaim(x *entry.Execution) bool {
	return len(x.Parents) == 0 && strings.HasPrefix(x.Exec, claimPrefix)
}

// Start says that the work begins, and makes the execution that stands for it.
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

// Complete says that the work is done, with a reason for the log.
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

// GiveUp says how the claim ended, in the log and to the coordinator, which then
// writes that the task failed, or was interrupted. It returns when the task is
// not held at this epoch any more. The error wraps [ErrLeaseLost] if it
// was not before.
func (c *Claim) GiveUp(ctx context.Context, s *entry.Snapshot) error {
	progress := entry.Failed
	if s.Interrupted() {
		progress = entry.Cancelled
	}
	lease, told := c.renew(ctx, s) // before the log grows, which is when the coordinator looks
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
			lease, told = c.renew(ctx, s) // a coordinator that has started again has not heard of it
		}
		if err := pause(ctx, pollPause); err != nil {
			return fmt.Errorf("worker: give up %s: %w", c.Task.Task, errors.Join(err, told))
		}
	}
}

// Snapshot makes the snapshot of how the claim ended.
func (c *Claim) Snapshot(e *Ending, p Progress, text []byte) *entry.Snapshot {
	p.Exec = c.Exec
	return Snapshot(e, c.Agent, &p, c.Secret, text)
}

// Signal reports the failure (SIG-1).
func (c *Claim) Signal(ctx context.Context, e *Ending, s *entry.Snapshot, effects entry.Effects) error {
	safety := entry.ReplayUnknown
	if effects == entry.EffectsNone {
		safety = entry.ReplaySafe
	}
	return c.Submit(ctx, &entry.Signal{Subject: c.Exec, Class: e.Failure.Class, Code: e.Failure.Code, Standing: entry.StandingExecutor, Effects: effects,
		ReplaySafety: safety, ObservedAt: e.Ended.UnixMilli(), Evidence: []entry.Evidence{{Digest: s.ContextDigest}}, Detail: e.Text})
}

// Lost reports that the claim came to an end without a word, because whoever held
// it was killed: as Signal does, and with the final entry of its execution, by
// which it is known that this was said. Another process of the agent may say the
// same meanwhile.
func (c *Claim) Lost(ctx context.Context, effects entry.Effects) error {
	now := time.Now()
	e := &Ending{Failure: Lost, Text: "its process was killed, and so was its supervisor", Started: now, Ended: now}
	if err := c.Signal(ctx, e, c.Snapshot(e, Progress{}, nil), effects); err != nil {
		return err
	}
	err := c.progress(ctx, entry.Failed)
	if problem, refused := errors.AsType[*api.Problem](err); refused && problem.Name() == entry.StateConflict {
		return nil // it has
	}
	return err
}

// progress logs how far the execution is that stands for the claim.
func (c *Claim) progress(ctx context.Context, p entry.Progress) error {
	_, id := c.Exec.Split()
	return c.Submit(ctx, &entry.Execution{Exec: id, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: p, Task: c.Task.Task})
}

// move logs the next entry of the task, from where it stands now.
func (c *Claim) move(ctx context.Context, op, reason string, s *entry.Snapshot) error {
	var t *api.Task
	err := Insist(ctx, func() (err error) { t, err = c.Client.Task(ctx, c.Task.Task); return err })
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
	if err := Insist(ctx, func() error { _, err := c.Client.Submit(ctx, e); return err }); err != nil {
		return fmt.Errorf("worker: submit %s: %w", body.Kind(), err)
	}
	return nil
}

// Insist asks the ledger until it answers, or ctx ends: it may be away for a while,
// and what a claim has done is not to be lost for that. The error is that of ask.
func Insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !unanswered(err) {
			return err
		}
		if waited := pause(ctx, pollPause); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

// unanswered reports whether an error means that no server has answered.
func unanswered(err error) bool {
	if _, ok := errors.AsType[*api.Problem](err); ok {
		return !final(err)
	}
	_, network := errors.AsType[net.Error](err) // be it a deadline
	return network || errors.Is(err, io.ErrUnexpectedEOF)
}
