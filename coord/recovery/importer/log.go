package importer

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"recoveryledger/coord/recovery/importer/tried"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// FromLog gives what a log knows of failures as cases: those that were signalled
// at or after an instant, in Unix milliseconds.
//
//   - A case is a subject that somebody signalled: an execution or a task. Its
//     id is incident-INDEX, of its first signal since then.
//   - The steps are the executions that the subject depends on, in log order,
//     and the subject itself, last. What failed on the way and was not
//     signalled is left out: nobody says how.
//   - The failure is that of the signal: class, code, effects, replay safety,
//     evidence. Raw errors do not stand in a log.
//   - A later signal that supersedes it and knows the effects, and an outcome
//     that tells whether they took place, are what a reconcile found out.
//   - Before those come the cases of attempt entries, from their facts: what was
//     decided, tried and found out stands there, with the outcome, costs and
//     latencies. A case that stands in the log twice has its index in its id.
//     What a candidate decided in the shadow is left out.
//   - Then come the tasks that failed: each claim is an attempt, and so is each
//     attempt within a claim. A signal about such a claim makes no further case.
//   - Of other subjects nothing else is known of what was tried; costs and
//     latencies are those of the executions.
//
// Leaves are those of a log from its first entry on, in order; whether they
// belong to it is for the caller to check. All executions are held in memory,
// as a later signal may ask for any of them. After an error the sequence ends.
func FromLog(name string, leaves iter.Seq2[[]byte, error], since int64) iter.Seq2[scenario.Case, error] {
	return func(yield func(scenario.Case, error) bool) {
		p := past{execs: map[entry.Ref]*pastExec{}, subjects: map[entry.Ref]*subject{}, signals: map[uint64]entry.Ref{}, since: since,
			tried: tried.New(string(Ledger))}
		index := uint64(0)
		for leaf, err := range leaves {
			if err == nil {
				err = p.add(name, index, leaf)
			}
			if err != nil {
				yield(scenario.Case{}, err)
				return
			}
			index++
		}
		for _, c := range p.tried.Cases() {
			if !yield(c, nil) {
				return
			}
		}
		for _, s := range slices.SortedFunc(maps.Values(p.subjects), func(a, b *subject) int { return cmp.Compare(a.index, b.index) }) {
			if p.ofTask(s) {
				continue
			}
			c, wrong := p.toCase(s)
			if wrong != nil {
				wrong.File, wrong.Record = name, int(s.index)+1
				if !yield(scenario.Case{}, wrong) {
					return
				}
				continue
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// past is the log so far.
type past struct {
	execs    map[entry.Ref]*pastExec
	subjects map[entry.Ref]*subject
	signals  map[uint64]entry.Ref // the subject of each signal since then
	since    int64
	tried    *tried.Past
}

// ofTask reports whether a subject is a claim of a task that is a case itself.
func (p *past) ofTask(s *subject) bool {
	of := s.ref
	if x := p.execs[s.ref]; x != nil {
		of = x.task
	}
	return p.tried.Failed(of)
}

// pastExec has the values of an execution that a step needs.
type pastExec struct {
	index           uint64 // of the first entry
	ref, task       entry.Ref
	parents         []entry.Parent
	effect          entry.Effect
	progress        entry.Progress
	inHash, outHash entry.Digest
	cost, latency   *int64
}

// subject is the subject of a signal.
type subject struct {
	index    uint64 // of the first signal since then
	ref      entry.Ref
	workflow entry.WorkflowID
	first    *entry.Signal
	known    entry.Effects // of its effects, later; empty: nothing more
}

// add takes the next entry.
func (p *past) add(name string, index uint64, leaf []byte) error {
	e, at, err := entry.DecodeLeaf(leaf)
	if err != nil {
		wrong := scenario.Malformed("", "is no entry: "+scenario.Cut(err.Error(), scenario.ToolMax), "read the log from its own ledger; arl log audit says more")
		wrong.File, wrong.Record = name, int(index)+1
		return wrong
	}
	switch body := e.Body.(type) {
	case *entry.Execution:
		if len(p.execs) == executionsMax {
			return &scenario.Error{Problem: entry.TooLarge, File: name, Record: int(index) + 1,
				Detail: fmt.Sprintf("is over the limit of %d executions", executionsMax), Remedy: "import from a ledger that has fewer executions"}
		}
		p.execution(index, body)
	case *entry.Signal:
		if at >= p.since {
			p.signal(index, body)
		}
	case *entry.Attempt:
		if at >= p.since {
			p.tried.Attempt(index, body)
		}
	case *entry.Task:
		if at >= p.since {
			p.tried.Task(index, body)
		}
	case *entry.Outcome:
		if s := p.subjects[body.Exec]; s != nil {
			s.known = cmp.Or(left(body.Result), s.known)
		}
	}
	return nil
}

// execution records an entry of an execution. The first entry creates the execution (EXE-1).
func (p *past) execution(index uint64, x *entry.Execution) {
	known := p.execs[x.Ref()]
	if known == nil {
		known = &pastExec{index: index, ref: x.Ref(), task: x.Task, parents: x.Parents, effect: x.Effect}
		p.execs[known.ref] = known
	}
	known.progress = x.Progress
	known.inHash, known.outHash = cmp.Or(x.InpHash, known.inHash), cmp.Or(x.OutHash, known.outHash)
	known.cost, known.latency = cmp.Or(x.CostMicroUSD, known.cost), cmp.Or(x.LatencyMS, known.latency)
}

// signal records a signal. A signal that supersedes another one about the same subject may know
// more about its effects.
func (p *past) signal(index uint64, s *entry.Signal) {
	p.signals[index] = s.Subject
	known := p.subjects[s.Subject]
	if known == nil {
		p.subjects[s.Subject] = &subject{index: index, ref: s.Subject, workflow: s.Wid, first: s}
		return
	}
	supersedes := s.Supersedes != nil && p.signals[s.Supersedes.Index] == s.Subject
	if supersedes && (s.Effects == entry.EffectsNone || s.Effects == entry.EffectsComplete) {
		known.known = s.Effects
	}
}

// left returns the effects that remain after an outcome.
func left(r entry.Result) entry.Effects {
	switch r {
	case entry.NotExecuted:
		return entry.EffectsNone
	case entry.Restored, entry.Compensated, entry.ResultIrrevocable:
		return entry.EffectsComplete
	}
	return ""
}

// toCase makes the case of a subject.
func (p *past) toCase(s *subject) (scenario.Case, *scenario.Error) {
	agent, _ := s.ref.Split()
	c := scenario.Case{
		ID: "incident-" + strconv.FormatUint(s.index, 10), Agent: agent, Workflow: s.workflow, Source: string(Ledger), Outcome: scenario.Failed,
	}
	var ancestors []*pastExec
	own := p.execs[s.ref]
	if own != nil {
		ancestors = p.ancestors(own)
	}
	if len(ancestors) >= scenario.StepsMax {
		return scenario.Case{}, tooManySteps()
	}
	among := map[entry.Ref]bool{}
	for _, x := range ancestors {
		c.Steps = append(c.Steps, p.step(x, among))
		among[x.ref] = true
	}
	last := scenario.Step{ID: stepOf(s.ref), Agent: agent, Tool: "task", Effect: entry.EffectUndeclared}
	if own != nil {
		last = p.step(own, among)
	}
	p.fail(&last, s)
	c.Steps = append(c.Steps, last)
	for i := range c.Steps {
		if wrong := checkStep(c.Steps[i]); wrong != nil {
			return scenario.Case{}, wrong
		}
	}
	return c, nil
}

// fail gives the last step its failure, and the later findings about that failure.
func (p *past) fail(step *scenario.Step, s *subject) {
	failure := &scenario.Failure{
		Label: scenario.Label{Class: s.first.Class, Code: s.first.Code}, Effects: s.first.Effects, ReplaySafety: s.first.ReplaySafety,
		Raw: scenario.RawError{RetryAfterMS: s.first.RetryAfterMS},
	}
	if len(s.first.Evidence) > 0 {
		failure.Evidence = s.first.Evidence[0].Digest
	}
	step.Outcome, step.Failure = scenario.Failed, failure
	if s.known != "" {
		step.Attempts = []scenario.Attempt{{Variation: scenario.Variation{Strategy: "reconcile"}, Outcome: scenario.OK, Effects: s.known}}
	}
}

// ancestors are the executions that an execution depends on, the oldest first. The parents of a
// failed execution are left out.
func (p *past) ancestors(of *pastExec) []*pastExec {
	seen := map[entry.Ref]bool{of.ref: true}
	var all []*pastExec
	for queue := []*pastExec{of}; len(queue) > 0 && len(all) < scenario.StepsMax; queue = queue[1:] {
		for _, parent := range queue[0].parents {
			x := p.execs[parent.Exec]
			if x == nil || seen[x.ref] || x.progress == entry.Failed {
				continue
			}
			seen[x.ref] = true
			all, queue = append(all, x), append(queue, x)
		}
	}
	slices.SortFunc(all, func(a, b *pastExec) int { return cmp.Compare(a.index, b.index) })
	return all
}

// step is the step of an execution, with its edges to those among others.
func (p *past) step(x *pastExec, among map[entry.Ref]bool) scenario.Step {
	agent, _ := x.ref.Split()
	step := scenario.Step{
		ID: stepOf(x.ref), Agent: agent, Tool: "execution", Effect: x.effect, InputDigest: x.inHash,
		Attempt: scenario.Attempt{Outcome: scenario.NotObserved, OutputDigest: x.outHash, CostMicroUSD: x.cost, LatencyMS: x.latency},
	}
	if x.progress == entry.Confirmed {
		step.Outcome = scenario.OK
	}
	for _, parent := range x.parents {
		repeated := slices.ContainsFunc(step.Parents, func(q scenario.Parent) bool { return q.Step == stepOf(parent.Exec) })
		if among[parent.Exec] && !repeated {
			step.Parents = append(step.Parents, scenario.Parent{Step: stepOf(parent.Exec), Dep: parent.Dep})
		}
	}
	return step
}

// stepOf is the step's id of an execution or task.
func stepOf(ref entry.Ref) string { return scenario.LocalID(string(ref)) }
