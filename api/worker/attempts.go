package worker

import (
	"context"
	"time"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// attempts are what a claim has tried since the last entry about it. An attempt here is logged
// before it is made, as decided, and again with its result: a worker that is killed meanwhile
// leaves the first entry.
type attempts struct {
	rungs   []entry.Rung
	pending bool         // the result of the last rung is not known
	policy  entry.Digest // of the rules that decided
	arm     entry.Arm    // that they decided for
	spent   spent        // by all attempts of the claim, as far as the program noted it
}

// spent is money and tokens. 0 is not known.
type spent struct{ costMicroUSD, tokens int64 }

// ofAttempt is what an attempt spent by its progress.
func ofAttempt(p *Progress) spent { return spent{count(p.CostMicroUSD), count(p.Tokens)} }

// known is a number of an entry.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// tried notes an action about the failure in h.
func (a *attempts) tried(h *recovery.History, d *recovery.Decision, result recovery.Result) {
	class, code := h.Effective()
	a.rungs, a.pending = append(a.rungs, d.EntryRung(int64(len(h.Rungs)), class, code, result)), result == ""
}

// ended notes how the attempt under way ended, and what it spent.
func (a *attempts) ended(e *Ending, by spent) {
	a.spent.costMicroUSD, a.spent.tokens = count(a.spent.costMicroUSD+by.costMicroUSD), count(a.spent.tokens+by.tokens)
	if !a.pending {
		return
	}
	last := &a.rungs[len(a.rungs)-1]
	switch {
	case e.OK():
		last.Result = string(recovery.ResultOK)
	case e.Failure == Interrupted: // says nothing about the attempt
		last.Result = Interrupted.Code
	default:
		last.Result = string(recovery.ResultFailed)
	}
	last.CostMicroUSD, last.Tokens = known(by.costMicroUSD), known(by.tokens)
	last.LatencyMS = new(max(e.Ended.Sub(e.Started), 0).Milliseconds())
	a.pending = false
}

// begin closes the list of rungs for an entry. An attempt that is about to be made is decided in
// this entry, and stands in the next one with its result. begin returns it for that one.
func (a *attempts) begin() (next []entry.Rung) {
	if !a.pending {
		return nil
	}
	last := len(a.rungs) - 1
	next = []entry.Rung{a.rungs[last]}
	a.rungs[last].Result = string(recovery.ResultDecided)
	return next
}

// drop forgets the attempt that was about to be made: the claim ends before. The entry before says
// that it was decided.
func (a *attempts) drop() { a.rungs, a.pending = a.rungs[:len(a.rungs)-1], false }

// logDropped logs what the claim spent, if anything, when it ends before an attempt.
func (w *Worker) logDropped(ctx context.Context) {
	if w.attempts.drop(); w.attempts.spent != (spent{}) {
		w.logEntry(ctx, entry.StatusPassedOn, w.attempts.spent)
	}
}

// logLast logs what was tried since at the end of the claim, with what all attempts of the claim
// spent. Other entries of the claim leave that out, so that sums over entries count it once.
func (w *Worker) logLast(ctx context.Context, status entry.CaseStatus) {
	w.logSpent(ctx, status, w.attempts.spent)
}

// logAttempts logs what was tried since, and what the candidate of a shadow decided about it. The
// claim goes on without an entry that the ledger refuses.
func (w *Worker) logAttempts(ctx context.Context, status entry.CaseStatus) {
	w.logSpent(ctx, status, spent{})
}

func (w *Worker) logSpent(ctx context.Context, status entry.CaseStatus, by spent) {
	if len(w.attempts.rungs) > 0 {
		w.logEntry(ctx, status, by)
	}
}

func (w *Worker) logEntry(ctx context.Context, status entry.CaseStatus, by spent) {
	t := &w.claim.Task
	a := &entry.Attempt{Agent: w.claim.Agent, Task: t.Task, Policy: w.attempts.policy, Arm: w.attempts.arm,
		AttemptCase: entry.AttemptCase{Case: w.id, Rungs: w.attempts.rungs, Status: status,
			CostMicroUSD: known(by.costMicroUSD), Tokens: known(by.tokens)}}
	if w.history.StartedAt > 0 {
		a.ElapsedMS = new(max(time.Now().UnixMilli()-w.history.StartedAt, 0))
	}
	w.attempts.rungs = w.attempts.begin()
	w.submitAttempt(ctx, a)
	if rungs := w.shadow.rungs; len(rungs) > 0 {
		w.shadow.rungs = nil
		w.submitAttempt(ctx, &entry.Attempt{Agent: w.claim.Agent, Task: t.Task, Policy: w.arms.Beside.Hash(), Arm: entry.ArmShadow,
			AttemptCase: entry.AttemptCase{Case: w.id, Rungs: rungs, Status: recovery.Strategy(rungs[len(rungs)-1].Strategy).CaseStatus()}})
	}
}

func (w *Worker) submitAttempt(ctx context.Context, a *entry.Attempt) {
	if err := w.claim.Submit(ctx, a); err != nil {
		w.say("%s: the attempt is not logged: %s", a.Task, w.Command.Redact.Text(err.Error()))
	}
}

// tried notes an action that was decided for the arm of the task. What other rules decided before
// is logged first.
func (w *Worker) tried(ctx context.Context, d *recovery.Decision, result recovery.Result) {
	if by := w.arms.Rules.Hash(); w.attempts.policy != by || w.attempts.arm != w.arms.Arm {
		w.logAttempts(ctx, entry.StatusPassedOn)
		w.attempts.policy, w.attempts.arm = by, w.arms.Arm
	}
	w.attempts.tried(&w.history, d, result)
}

// takeUp notes the attempt that the claim itself is, if the task failed before. The router's entry
// about the newest failure says which attempt, and by which rules and arm: a rollout may have begun
// or grown since, and what these rules decided is no evidence about others. Without such an entry
// the rules known here say which attempt it is, for no arm. The claim's end, or its first failure,
// logs the result. If a person gave the task to the agent against the rules, the claim is no
// attempt of theirs.
func (w *Worker) takeUp(ctx context.Context, past *recovery.Task) {
	if len(past.Failures) == 0 {
		return
	}
	d, last := past.Decide(w.arms.Rules), past.Failures[len(past.Failures)-1]
	rung := d.EntryRung(int64(len(past.Failures)), last.Class, last.Code, "")
	by, arm := w.arms.Rules.Hash(), entry.Arm("")
	if routed := w.routed(ctx, past); routed != nil {
		arm = routed.Arm
		if said := routed.Rungs[0]; routed.Policy != by || said.Strategy != rung.Strategy {
			by, rung = routed.Policy, said
		}
	}
	rung.Result, rung.WaitMS = "", nil // the router's entry says how long the task waited
	if !recovery.Strategy(rung.Strategy).Attempts() {
		return
	}
	w.attempts.policy, w.attempts.arm, w.attempts.rungs, w.attempts.pending = by, arm, []entry.Rung{rung}, true
}

// routed returns what the router decided last about the newest failure of a task; nil if the log
// has no such entry, or the ledger does not answer.
func (w *Worker) routed(ctx context.Context, past *recovery.Task) *entry.Attempt {
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	for e, err := range w.Config.Client.Entries(ctx, api.ListQuery{Kinds: []entry.Kind{entry.KindAttempt}, Task: past.Ref, Newest: true}) {
		if err != nil {
			w.say("%s: nobody says which rules gave the task: %s", past.Ref, w.Command.Redact.Text(err.Error()))
			return nil
		}
		a, ok := e.Body.(*entry.Attempt)
		if !ok || a.Iss == a.Of() || a.Arm == entry.ArmShadow || len(a.Rungs) == 0 {
			continue
		}
		if a.Rungs[0].Attempt != int64(len(past.Failures)) {
			return nil
		}
		return a
	}
	return nil
}

// logEnd logs the action that ends the claim.
func (w *Worker) logEnd(ctx context.Context, d *recovery.Decision) {
	w.tried(ctx, d, recovery.ResultDecided)
	w.logLast(ctx, d.Action.Strategy.CaseStatus())
}
