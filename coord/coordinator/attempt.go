package coordinator

import (
	"context"
	"errors"
	"fmt"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// decision is what the router decided about the newest failure of a task: its attempt entry, and
// in a shadow also that of what the candidate would have decided.
type decision struct {
	task    entry.Ref
	entries []entry.Body
}

// id names a decision: the same decision about the same failure has the same id, also in another
// process. The jti of each entry derives from what the entry says, so that the log has each one
// once (REG-2).
func (d *decision) id() (id string) {
	for _, body := range d.entries {
		id += entry.HeaderOf(body).JTI + " "
	}
	return id
}

// decisions remembers what was decided about the tasks that wait, by task. It saves signatures. A
// coordinator that has just started remembers nothing, and the log refuses what it knows.
type decisions map[entry.Ref]remembered

type remembered struct {
	changed uint64           // index of the task's newest entry then
	rules   *recovery.Policy // that were in force
	rollout uint64           // index of the newest entry of the rollout under way
	id      string           // of the decision
}

// stage returns the newest entry of the rollout under way; 0: none is.
func stage(s *coord.State) uint64 {
	if now := s.Rollouts().Current(); now != nil {
		return now.Moved
	}
	return 0
}

// of returns the decision behind a claim; nil if the claim rests on no failure, or if the log has
// the decision. The coordinator submits both at once, the claim first: the claim stands also if the
// ledger refuses an attempt.
func (k decisions) of(s *coord.State, body entry.Body, now int64, rules *coord.Rules) *decision {
	claim, ok := body.(*entry.Task)
	if !ok || claim.Op != entry.TaskAssign {
		return nil
	}
	d := decide(s, claim.Task, now, rules)
	if d == nil || k[claim.Task].id == d.id() {
		return nil
	}
	return d
}

// open returns what was decided about the tasks that failed and that no claim of todo gives to an
// agent: to wait, or to leave the task to people. It forgets the tasks that wait no more.
func (k decisions) open(s *coord.State, todo []entry.Body, now int64, rules *coord.Rules) (all []*decision) {
	claimed, waiting := map[entry.Ref]bool{}, map[entry.Ref]bool{}
	for _, body := range todo {
		if t, ok := body.(*entry.Task); ok {
			claimed[t.Task] = true
		}
	}
	var inForce *recovery.Policy // the empty log has none, and no task
	rollout := stage(s)
	for task, changed := range s.Failed() {
		if inForce == nil {
			inForce = rules.Of(s)
		}
		waiting[task] = true
		if known, ok := k[task]; claimed[task] || ok && known.changed == changed && known.rules == inForce && known.rollout == rollout || len(all) == openMax {
			continue
		}
		d := decide(s, task, now, rules)
		if d == nil {
			continue
		}
		if k[task].id != d.id() {
			all = append(all, d)
		}
		k[task] = remembered{changed, inForce, rollout, d.id()}
	}
	for task := range k {
		if !waiting[task] {
			delete(k, task)
		}
	}
	return all
}

// openMax bounds the decisions that are submitted at a time.
const openMax = 64

// decide returns what the router decides about the newest failure of a task, about the work of the
// agent that had the task before. It is nil if there is no failure.
func decide(s *coord.State, task entry.Ref, now int64, rules *coord.Rules) *decision {
	v, ok := s.Task(task)
	if !ok || len(v.Failures) == 0 || v.Agent == "" {
		return nil
	}
	_, id := task.Split()
	arms := s.Rollouts().Of(rules.Of(s), id)
	decided, asked := s.Decision(task, now, arms.Rules)
	d := &decision{task, []entry.Body{attemptOf(&v, arms.Rules, arms.Arm, &decided)}}
	if asked && arms.Beside != nil {
		decided, _ = s.Decision(task, now, arms.Beside)
		d.entries = append(d.entries, attemptOf(&v, arms.Beside, entry.ArmShadow, &decided))
	}
	return d
}

// attemptOf returns the entry of a decision. Its pause is the whole one before the next claim.
func attemptOf(v *api.Task, policy *recovery.Policy, arm entry.Arm, d *recovery.TaskDecision) *entry.Attempt {
	last := &v.Failures[len(v.Failures)-1]
	rung := d.EntryRung(int64(len(v.Failures)), last.Class, last.Code, recovery.ResultDecided)
	rung.WaitMS = new(max(d.Due-last.At, 0))
	status := d.Action.Strategy.CaseStatus()
	if d.Action.Strategy == recovery.Reconcile { // no agent holds the task, and a probe runs where one does
		status = entry.StatusEscalated
	}
	_, id := v.Task.Split()
	a := &entry.Attempt{Header: entry.Header{V: 1, Wid: v.Wid}, Agent: v.Agent, Task: v.Task, Policy: policy.Hash(), Arm: arm,
		AttemptCase: entry.AttemptCase{Case: id, Status: status, Rungs: []entry.Rung{rung}}}
	id = fmt.Sprint(v.Epoch, "|", rung.Rule, "|", rung.Strategy, "|", rung.Reason, "|", a.Policy, "|", arm)
	if rung.Variant != "" || rung.Model != "" {
		id += "|" + rung.Variant + "|" + rung.Model
	}
	a.JTI = entry.AttemptJTI(string(v.Task), id)
	return a
}

// has reports whether the log has an entry that is about to be signed.
func (k *Coordinator) has(body entry.Body) (bool, error) {
	if k.Has == nil {
		return false, nil
	}
	h := *entry.HeaderOf(body)
	h.Iss = k.Principal
	return k.Has(&h)
}

// record submits the decisions that the log lacks, each signed once. recorded says that the log has
// one of them, be it from before. refused says that the ledger refused one: it is tried again.
func (k *Coordinator) record(ctx context.Context, now int64, all []*decision, size uint64) (recorded, refused bool, err error) {
	var bodies []entry.Body
	for _, d := range all {
		for _, body := range d.entries {
			switch has, err := k.has(body); {
			case err != nil:
				return false, false, err
			case has:
				recorded = true
			default:
				bodies = append(bodies, body)
			}
		}
	}
	batch, err := k.sealed(now, bodies)
	if err != nil {
		return recorded, false, err
	}
	for next := 0; next < len(batch); next++ {
		done, err := k.submit(ctx, batch[next:])
		recorded, next = recorded || done > 0, next+done
		if err == nil {
			break
		}
		refusal, ok := errors.AsType[*entry.Refusal](err)
		if !ok {
			return recorded, refused, err
		}
		refused = true
		if a, ok := batch[next].Body.(*entry.Attempt); ok {
			delete(k.decided, a.Task)
		}
		if k.Refused != nil && (recorded || k.Replica.View().Size == size) {
			k.Refused(batch[next].Body, refusal)
		}
	}
	return recorded, refused, nil
}
