// Package tried makes cases of what a log says was tried: of attempt entries, and of tasks with
// their claims.
package tried

import (
	"cmp"
	"slices"
	"strconv"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// Past is what a log says was tried. Give it the entries in the order of the log.
type Past struct {
	source string
	cases  []scenario.Case
	ids    map[string]bool
	tasks  map[entry.Ref]*pastTask
}

// New returns the past of a log that is empty so far. Cases name the source.
func New(source string) *Past {
	return &Past{source: source, ids: map[string]bool{}, tasks: map[entry.Ref]*pastTask{}}
}

// pastTask is a task so far. A claim that failed is an attempt, and so is each attempt within it.
type pastTask struct {
	index   uint64 // of the first failure
	ref     entry.Ref
	wid     entry.WorkflowID
	kind    string
	step    scenario.Step
	failed  bool
	holder  entry.Principal    // of the claim; empty: nobody holds the task
	decided scenario.Variation // that the claim carries out, or the next one; empty: nobody said
	begun   scenario.Variation // that the holder decided to try by itself; empty: its result is known
	about   *scenario.Failure  // that the holder answers by begun, or waits about; nil: nothing is open
	within  bool               // the claim has attempts of its own in the log
	first   bool               // the claim made the first attempt of the case
	spent   int64              // micro-USD by the attempts of the claim that the log has
	outcome scenario.Outcome
}

// Attempt takes an attempt entry up. What a candidate decided in the shadow was not done.
func (k *Past) Attempt(index uint64, a *entry.Attempt) {
	if a.Arm == entry.ArmShadow {
		return
	}
	for one := range a.Cases() {
		if one.Facts == nil {
			k.within(index, a, one)
			continue
		}
		c, complete, err := scenario.FromFacts(one.Facts)
		if err != nil || !complete {
			continue // another program's facts, or a case that did not fit
		}
		if c.Source, c.Workflow = k.source, cmp.Or(c.Workflow, a.Wid); k.ids[c.ID] {
			c.ID = scenario.LocalID(c.ID + "-" + strconv.FormatUint(index, 10))
		}
		k.ids[c.ID] = true
		k.cases = append(k.cases, c)
	}
}

// within takes the rungs of a claim of a task up.
func (k *Past) within(index uint64, a *entry.Attempt, one *entry.AttemptCase) {
	t := k.tasks[a.Task]
	if t == nil {
		return
	}
	for i := range one.Rungs {
		r := &one.Rungs[i]
		way := scenario.Variation{Strategy: r.Strategy, Variant: r.Variant, Model: r.Model}
		if r.Result == "decided" {
			t.decide(way, harmless(r.Class, r.Code), a.Iss == t.holder)
			continue
		}
		t.begun, t.about = scenario.Variation{}, nil // this is its result
		t.ended(harmless(r.Class, r.Code))
		if !t.failed {
			t.fail(index, scenario.Attempt{Outcome: scenario.Failed, Failure: harmless(r.Class, r.Code)})
			t.first = true
		}
		t.spent += orZero(r.CostMicroUSD)
		made := scenario.Attempt{Variation: way, Outcome: scenario.OK, CostMicroUSD: r.CostMicroUSD, LatencyMS: r.LatencyMS}
		switch {
		case r.Strategy == "wait":
			continue
		case r.Strategy == "reconcile":
			made.Effects = entry.EffectsNone
		case r.Result != "ok":
			made.Outcome, made.Failure = scenario.Failed, harmless(r.Class, r.Code)
		}
		t.step.Attempts, t.within = append(t.step.Attempts, made), true
	}
	// The last entry of a claim says what all its attempts cost. No rung has the first one.
	if rest := orZero(one.CostMicroUSD) - t.spent; rest > 0 && t.first {
		t.step.CostMicroUSD = &rest
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// decide takes up what is to be tried about a failure. What the router decides, the next claim
// carries out; a strategy that executes nothing leaves the claim to whoever gives the task. What
// the holder of a claim decides is an attempt of the claim if the holder itself makes it: the rest
// is how the claim ends.
func (t *pastTask) decide(way scenario.Variation, about *scenario.Failure, own bool) {
	strategy := recovery.Strategy(way.Strategy)
	switch {
	case !own && strategy.Attempts():
		t.decided = way
	case !own:
		t.decided = scenario.Variation{}
	default:
		t.ended(about)
		t.begun, t.about = scenario.Variation{}, nil
		if strategy.Stays() || strategy == recovery.Wait {
			t.about = about
		}
		if strategy.Stays() {
			t.begun = way
		}
	}
}

// ended notes that the last attempt within the claim, if it failed, ended with the failure that the
// claim answers next.
func (t *pastTask) ended(with *scenario.Failure) {
	if n := len(t.step.Attempts); t.within && t.step.Attempts[n-1].Outcome == scenario.Failed {
		t.step.Attempts[n-1].Failure = with
	}
}

// harmless is a failure of a task: a claim ends only when no effect is in doubt.
func harmless(class, code string) *scenario.Failure {
	return &scenario.Failure{Label: scenario.Label{Class: class, Code: code}, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe}
}

func (t *pastTask) fail(index uint64, first scenario.Attempt) {
	t.index, t.failed, t.step.Attempt = index, true, first
}

// Task takes a transition of a task up.
func (k *Past) Task(index uint64, b *entry.Task) {
	t := k.tasks[b.Task]
	switch {
	case b.Op == entry.TaskCreate:
		t = &pastTask{ref: b.Task, wid: b.Wid, kind: b.Type, step: scenario.Step{ID: "task", Tool: "task", Effect: entry.EffectNone}}
		k.tasks[b.Task] = t
	case t == nil: // created before the instant that is asked about
	case b.Op == entry.TaskStart:
		t.within, t.first, t.spent, t.begun, t.about, t.holder = false, false, 0, scenario.Variation{}, nil, b.Iss
		t.step.Agent = cmp.Or(t.step.Agent, b.Iss)
	case b.Snapshot != nil:
		t.claimFailed(index, b.Snapshot)
	case b.Op == entry.TaskFail: // its lease was lost
		t.claimFailed(index, nil)
	case b.Op == entry.TaskComplete && t.failed:
		if t.outcome = scenario.OK; !t.within {
			t.step.Attempts = append(t.step.Attempts, scenario.Attempt{Variation: t.way(), Outcome: scenario.OK})
		}
	case b.Op == entry.TaskCancel && t.failed:
		t.outcome = scenario.Failed
	}
}

// way is how the claim differs from the one before.
func (t *pastTask) way() scenario.Variation {
	if t.decided != (scenario.Variation{}) {
		return t.decided
	}
	return scenario.Variation{Strategy: "fail_reassign"} // a person gave it to somebody
}

// claimFailed takes up how a claim ended. Without a snapshot, the agent or its machine is gone.
// What the claim had begun to try by itself then, and has no result of, failed with it.
func (t *pastTask) claimFailed(index uint64, s *entry.Snapshot) {
	made := scenario.Attempt{Outcome: scenario.Failed, Failure: harmless("crash", "lost")}
	if s != nil {
		latency := max(s.TakenAt-s.StartedAt, 0)
		made.Failure, made.CostMicroUSD, made.LatencyMS = harmless(s.Class, s.Code), &s.CostMicroUSD, &latency
	}
	// Handed back before the attempt was made, or lost while it waited: the failure before stands.
	if t.about != nil && (s != nil && s.Code == "interrupted" || s == nil && t.begun == (scenario.Variation{})) {
		made.Failure = t.about
	}
	lost := s == nil && t.begun != (scenario.Variation{})
	switch {
	case lost && !t.failed:
		t.fail(index, scenario.Attempt{Outcome: scenario.Failed, Failure: t.about})
	case lost && !t.within: // the claim was an attempt that nobody recorded
		t.step.Attempts = append(t.step.Attempts, scenario.Attempt{Variation: t.way(), Outcome: scenario.Failed, Failure: t.about})
	}
	switch n := len(t.step.Attempts); {
	case !t.failed:
		t.fail(index, made)
	case lost:
		made.Variation = t.begun
		t.step.Attempts = append(t.step.Attempts, made)
	case t.within: // the last attempt within the claim is the one that ended it
		last := &t.step.Attempts[n-1]
		last.Failure, last.Outcome = made.Failure, scenario.Failed
		if s != nil {
			last.CostMicroUSD = made.CostMicroUSD
		}
	default:
		made.Variation = t.way()
		t.step.Attempts = append(t.step.Attempts, made)
	}
	t.decided, t.begun, t.about, t.within, t.holder = scenario.Variation{}, scenario.Variation{}, nil, false, ""
}

// Cases returns the cases: those of attempts in the order of the log, then the tasks that failed,
// by their first failure.
func (k *Past) Cases() []scenario.Case {
	var tasks []*pastTask
	for _, t := range k.tasks {
		if t.failed {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *pastTask) int { return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.ref, b.ref)) })
	all := k.cases
	for _, t := range tasks {
		issuer, _ := t.ref.Split()
		t.step.Agent = cmp.Or(t.step.Agent, issuer)
		all = append(all, scenario.Case{ID: scenario.LocalID("task-" + string(t.ref)), Agent: t.step.Agent, Workflow: t.wid, Source: k.source, TaskType: t.kind,
			Outcome: t.outcome, Steps: []scenario.Step{t.step}})
	}
	return all
}

// Failed reports whether a task failed, and so is a case.
func (k *Past) Failed(task entry.Ref) bool {
	t := k.tasks[task]
	return t != nil && t.failed
}
