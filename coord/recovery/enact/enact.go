// Package enact registers what decisions of an engine stand for. An engine decides to roll back, to
// quarantine or to abort, and carries nothing out: the log does. A rollback is a failure signal
// about the step, with the digest of the trace as evidence. A quarantine is the same signal without
// evidence, so that the coordinator fences and people decide. An abort cancels the task that the
// step works at.
//
// Signals need the role monitor, and cancels the role operator (protocol.md, section 3). An engine
// that lacks the role enacts nothing, and people are asked (package question).
package enact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Log is a ledger as an engine sees it.
type Log interface {
	// Execution returns an entry of an execution; nil: the log has none.
	Execution(ctx context.Context, ref entry.Ref) (*entry.Execution, error)
	// Task returns the newest entry about a task; nil: the log has none.
	Task(ctx context.Context, ref entry.Ref) (*entry.Task, error)
	// Register registers an entry. The error of a ledger that refuses the entry is a
	// [*entry.Refusal], or has the problem's name as an [*api.Problem] has it.
	Register(ctx context.Context, entries []*entry.Entry) error
}

// Engine signs what its decisions stand for. Sign and Roles are those of its key as of now.
type Engine struct {
	Log    Log
	Origin string // of the log
	Sign   func(*entry.Entry) error
	Roles  func() []entry.Role
}

// Case enacts what was decided at the end of a case of an attempt entry that the log has. Done says
// that the log has all of it, from now or from before. Otherwise why says what the log does not
// have; empty: nothing was decided that an entry stands for. The same case again makes no second
// entry. The error is that of a ledger that cannot be asked.
func (e *Engine) Case(ctx context.Context, a *entry.Attempt, c *entry.AttemptCase) (done bool, why string, err error) {
	if c.Status != entry.StatusEscalated || a.Arm == entry.ArmShadow {
		return false, "", nil
	}
	for rung := range enacted(c) {
		of := decision{a, c, rung, stepOf(a, c, rung.Step)}
		act := e.signal
		if recovery.Strategy(rung.Strategy) == recovery.Abort {
			act = e.cancel
		}
		lacks, err := act(ctx, &of)
		if err != nil {
			return false, "", err
		}
		if done = true; lacks != "" {
			why = rung.Strategy + " not carried out: " + lacks
		}
	}
	return done && why == "", why, nil
}

// Wants reports whether a case that escalated ends with a decision that an entry stands for.
func Wants(c *entry.AttemptCase) bool {
	for range enacted(c) {
		return true
	}
	return false
}

// enacted yields the decisions at the end of a case that entries stand for, the last one first.
func enacted(c *entry.AttemptCase) iter.Seq[*entry.Rung] {
	return func(yield func(*entry.Rung) bool) {
		for i := len(c.Rungs) - 1; i >= 0 && c.Rungs[i].Result == string(recovery.ResultDecided); i-- {
			switch recovery.Strategy(c.Rungs[i].Strategy) {
			case recovery.Rollback, recovery.Quarantine, recovery.Abort:
				if !yield(&c.Rungs[i]) {
					return
				}
			default:
			}
		}
	}
}

// decision is a rung at the end of a case, with its step.
type decision struct {
	attempt *entry.Attempt
	of      *entry.AttemptCase
	rung    *entry.Rung
	step    step
}

// step is the step of a decision as the log may know it.
type step struct {
	ref     entry.Ref
	effects entry.Effects
	safety  entry.ReplaySafety
}

// stepOf finds the step of a case in the facts. Without facts the step is one of the case's agent.
// Effects that failures of the step tell differently are unknown.
func stepOf(a *entry.Attempt, c *entry.AttemptCase, id string) step {
	s := step{effects: entry.EffectsUnknown, safety: entry.ReplayUnknown}
	if id == "" {
		return s
	}
	s.ref = entry.NewRef(a.Of(), id)
	facts, complete, err := scenario.FromFacts(c.Facts)
	if err != nil || !complete {
		return s
	}
	for i := range facts.Steps {
		of := &facts.Steps[i]
		if of.ID != id {
			continue
		}
		if of.Agent != "" {
			s.ref = entry.NewRef(of.Agent, id)
		}
		first := true
		for _, tried := range append([]scenario.Attempt{of.Attempt}, of.Attempts...) {
			f := tried.Failure
			switch {
			case f == nil:
			case first:
				s.effects, s.safety, first = f.Effects, f.ReplaySafety, false
			case s.effects != f.Effects, s.safety != f.ReplaySafety:
				s.effects, s.safety = entry.EffectsUnknown, entry.ReplayUnknown
			}
		}
	}
	return s
}

// find returns the execution of the step; nil with the reason why nothing can be done about it.
func (e *Engine) find(ctx context.Context, of *decision, role entry.Role) (x *entry.Execution, lacks string, err error) {
	switch {
	case !slices.Contains(e.Roles(), role):
		return nil, fmt.Sprintf("%s lacks the role %s", of.attempt.Iss, role), nil
	case of.step.ref == "":
		return nil, "the case names no step", nil
	}
	if x, err = e.Log.Execution(ctx, of.step.ref); err == nil && x == nil {
		lacks = fmt.Sprintf("the log has no execution %s", of.step.ref)
	}
	return x, lacks, err
}

// signal reports the failure of the step.
func (e *Engine) signal(ctx context.Context, of *decision) (lacks string, err error) {
	x, lacks, err := e.find(ctx, of, entry.RoleMonitor)
	if x == nil {
		return lacks, err
	}
	s := &entry.Signal{Header: e.header(of, x.Wid), Subject: of.step.ref, Class: of.rung.Class, Code: of.rung.Code, Standing: entry.StandingMonitor,
		Effects: of.step.effects, ReplaySafety: of.step.safety, Attempt: &of.rung.Attempt, Detail: of.text()}
	s.ObservedAt = s.Iat * 1000
	if of.rung.Strategy == string(recovery.Rollback) && of.of.TraceDigest != "" {
		s.Evidence = []entry.Evidence{{Digest: of.of.TraceDigest}}
	}
	return e.register(ctx, s)
}

// cancel cancels the task that the step works at.
func (e *Engine) cancel(ctx context.Context, of *decision) (lacks string, err error) {
	x, lacks, err := e.find(ctx, of, entry.RoleOperator)
	switch {
	case x == nil:
		return lacks, err
	case x.Task == "":
		return fmt.Sprintf("%s works at no task", of.step.ref), nil
	}
	t, err := e.Log.Task(ctx, x.Task)
	switch {
	case err != nil:
		return "", err
	case t == nil:
		return fmt.Sprintf("the log has no task %s", x.Task), nil
	case t.To == entry.TaskCancelled:
		return "", nil
	}
	move, ok := t.Standing().Move(entry.TaskCancel, "", false)
	if !ok {
		return fmt.Sprintf("task %s is %s", x.Task, t.To), nil
	}
	move.Header, move.Task, move.Reason = e.header(of, t.Wid), x.Task, of.text()
	return e.register(ctx, &move)
}

// register signs and registers an entry. An id that is taken is the same decision from before.
func (e *Engine) register(ctx context.Context, body entry.Body) (lacks string, err error) {
	made, err := entry.New(body)
	if err == nil {
		err = e.Sign(made)
	}
	if err == nil {
		err = e.Log.Register(ctx, []*entry.Entry{made})
	}
	switch problem, detail := problemOf(err); problem {
	case entry.IDConflict:
		return "", nil
	case "", entry.NotReady, entry.InsufficientStorage:
		return "", err
	default:
		return detail, nil
	}
}

// named is the error of a server that refuses an entry.
type named interface {
	error
	Name() entry.Problem
}

// problemOf returns the problem of a refusal, and what it says.
func problemOf(err error) (entry.Problem, string) {
	if r, ok := errors.AsType[*entry.Refusal](err); ok {
		return r.Problem, r.Detail
	}
	if told, ok := errors.AsType[named](err); ok {
		return told.Name(), told.Error()
	}
	return "", ""
}

// header is that of the entry that a decision stands for. Its id follows from the decision, so that
// the same decision is the same entry.
func (e *Engine) header(of *decision, wid entry.WorkflowID) entry.Header {
	const version = 8                                                                                                          // RFC 9562: made as its maker likes
	id := strings.Join([]string{"enact", string(of.step.ref), of.of.Case, of.rung.Class, of.rung.Code, of.rung.Strategy}, "|") // no name has a bar
	return entry.Header{V: 1, JTI: uuid.NewHash(sha256.New(), uuid.Nil, []byte(id), version).String(), Iss: of.attempt.Iss, Aud: e.Origin, Iat: time.Now().Unix(), Wid: wid}
}

// text says which decision it is.
func (of *decision) text() string {
	text := fmt.Sprintf("%s: %s", of.rung.Strategy, of.rung.Reason)
	if of.rung.Rule != "" {
		text += " (" + of.rung.Rule + ")"
	}
	text += "; case " + of.of.Case
	return strings.ToValidUTF8(text[:min(len(text), entry.MaxText)], "")
}
