package bundle

import (
	"errors"
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
)

// evidence is the bundle's evidence about an execution.
type evidence struct {
	first   *proven // the lowest entry given
	body    *entry.Execution
	started *proven // the lowest that is past planned
	final   *proven
	outcome entry.Progress // of final
}

// evidenceOf collects checkpoints, and executions by reference. Later entries of an execution must
// agree with its first entry (EXE-1).
func (c *checking) evidenceOf() error {
	c.execs = map[entry.Ref]*evidence{}
	for i := range c.entries {
		p := &c.entries[i]
		if p.Kind == entry.KindCheckpoint && p.Index < c.tail {
			c.points = append(c.points, p)
		}
		x, ok := p.Body.(*entry.Execution)
		if !ok {
			continue
		}
		e := c.execs[x.Ref()]
		if e == nil {
			e = &evidence{first: p, body: x}
			c.execs[x.Ref()] = e
		}
		if x.Wid != e.body.Wid || x.Effect != e.body.Effect || !slices.Equal(x.Parents, e.body.Parents) {
			return broken(stepMembers, "EXE-1", entryName(p.Index), "%s is not what entry %d declared", x.Ref(), e.first.Index)
		}
		if e.started == nil && x.Progress != entry.Planned {
			e.started = p
		}
		if e.final == nil && x.Progress.Final() {
			e.final, e.outcome = p, x.Progress
		}
	}
	return nil
}

// execution returns the execution whose first entry stands at an index.
func (c *checking) execution(index uint64) (*evidence, error) {
	p := c.at(index)
	if p == nil {
		return nil, fmt.Errorf("%w: entry %d", ErrMissing, index)
	}
	x, ok := p.Body.(*entry.Execution)
	if !ok {
		return nil, fmt.Errorf("entry %d is of kind %s", index, p.Kind)
	}
	e := c.execs[x.Ref()]
	if e.first.Index != index {
		return nil, fmt.Errorf("entry %d is not the first of %s", index, x.Ref())
	}
	if x.Compensates != nil {
		return nil, fmt.Errorf("%s is a compensation (EXE-4)", x.Ref())
	}
	c.use(e)
	return e, nil
}

// use marks the evidence about an execution as used.
func (c *checking) use(e *evidence) {
	for _, p := range []*proven{e.first, e.started, e.final} {
		if p != nil {
			c.used[p.Index] = true
		}
	}
}

// stepVerdict is the verdict on a step.
type stepVerdict struct {
	*ChainStep
	state  stepState
	err    *RuleError
	direct bool // by SCO-1 alone
	used   bool // it leads to a member
}

type stepState uint8

const (
	stepNew stepState = iota
	stepBegun
	stepDone
)

// chains judges every step.
func (c *checking) chains() {
	c.steps = make(map[uint64]*stepVerdict, len(c.Steps))
	for i := range c.Steps {
		c.steps[c.Steps[i].Exec] = &stepVerdict{ChainStep: &c.Steps[i]}
	}
	for i := range c.Steps {
		c.judgeStep(c.steps[c.Steps[i].Exec])
	}
}

// judgeStep judges a step, after the steps that it rests on.
func (c *checking) judgeStep(s *stepVerdict) {
	if s.state != stepNew {
		return
	}
	s.state = stepBegun
	if err := c.step(s); err != nil {
		s.err = brokenStep(s.ChainStep, err)
	}
	s.state = stepDone
}

// brokenStep names the step that broke first.
func brokenStep(s *ChainStep, err error) *RuleError {
	if first, ok := errors.AsType[*RuleError](err); ok {
		return first
	}
	return &RuleError{Step: stepMembers, Rule: s.Rule, What: fmt.Sprintf("step to %d", s.Exec), Cause: err}
}

func (c *checking) step(s *stepVerdict) error {
	e, err := c.execution(s.Exec)
	if err != nil {
		return err
	}
	if s.Rule == RuleSeed {
		s.direct = true
		return c.seed(s.From, e)
	}
	from, err := c.reached(s.From)
	if err != nil {
		return err
	}
	if s.Rule == RuleDependent {
		s.direct = c.steps[s.From].direct
		return dependent(from, e)
	}
	return c.rolledBack(s, from, e)
}

// reached returns an execution that a step has shown to be undone.
func (c *checking) reached(index uint64) (*evidence, error) {
	s := c.steps[index]
	if s == nil {
		return nil, fmt.Errorf("%w: a step to %d", ErrMissing, index)
	}
	c.judgeStep(s)
	switch {
	case s.state == stepBegun:
		return nil, fmt.Errorf("steps lead from %d to itself", index)
	case s.err != nil:
		return nil, s.err
	}
	return c.execution(index)
}

// seed is SCO-3: a signal of the decision that is believed names the execution,
// its task, or a range that it lies in.
func (c *checking) seed(index uint64, e *evidence) error {
	p, ok := c.signal(index)
	if !ok {
		return fmt.Errorf("entry %d is no signal of the decision", index)
	}
	if !c.isBelieved(index) {
		return fmt.Errorf("the decision lists the signal at %d as dismissed", index)
	}
	signal, _ := p.Body.(*entry.Signal)
	if signal.Subject == e.body.Ref() || signal.Subject == e.body.Task {
		return nil
	}
	if signal.Since == "" {
		return fmt.Errorf("the signal at %d is about %s", index, signal.Subject)
	}
	return c.since(p, signal, e)
}

// isBelieved reports whether the decision, or a decision that it amends, believes a
// signal: members of the plan in force stay in it (SCO-5).
func (c *checking) isBelieved(signal uint64) bool {
	if !dismissed(c.decision, signal) {
		return true
	}
	return slices.ContainsFunc(c.earlier, func(d *entry.Decision) bool { return !dismissed(d, signal) && signal < d.Pin.Size })
}

// since is the range of SCO-3.
func (c *checking) since(p *proven, signal *entry.Signal, e *evidence) error {
	first, subject := c.execs[signal.Since], c.execs[signal.Subject]
	if first == nil || subject == nil {
		return fmt.Errorf("%w: %s or %s", ErrMissing, signal.Since, signal.Subject)
	}
	c.use(first)
	c.use(subject)
	third := signal.Standing == entry.StandingMonitor || signal.Standing == entry.StandingOperator
	most := c.policyBefore(p.Index).Windows.SinceMaxMS
	switch {
	case signal.Standing != entry.StandingExecutor && (!third || len(signal.Evidence) == 0):
		return fmt.Errorf("since of a signal by %s, without evidence or standing, counts for nothing", signal.Iss)
	case signal.Standing == entry.StandingExecutor && signal.Iss != subject.body.Iss:
		return fmt.Errorf("%s is not the executor of %s", signal.Iss, signal.Subject)
	case first.body.Iss != subject.body.Iss || first.body.Wid != subject.body.Wid:
		return fmt.Errorf("%s is not of the agent and workflow of %s", signal.Since, signal.Subject)
	case e.body.Iss != subject.body.Iss || e.body.Wid != subject.body.Wid:
		return fmt.Errorf("%s is not of the agent and workflow of %s", e.body.Ref(), signal.Subject)
	case e.first.Index < first.first.Index || e.first.Index > subject.first.Index:
		return fmt.Errorf("%s lies outside the range from %s to %s", e.body.Ref(), signal.Since, signal.Subject)
	case p.RegisteredAt-first.first.RegisteredAt > most:
		return fmt.Errorf("since reaches back further than the %d ms that the policy allows", most)
	}
	return nil
}

// dependent is SCO-1: an execution depends hard on one that is undone.
func dependent(from, e *evidence) error {
	for _, parent := range e.body.Parents {
		switch {
		case parent.Exec != from.body.Ref():
		case parent.Dep != entry.Hard:
			return fmt.Errorf("%s depends on %s only softly", e.body.Ref(), parent.Exec)
		case from.first.Index >= e.first.Index:
			return fmt.Errorf("%s was logged after %s", from.body.Ref(), e.body.Ref())
		default:
			return nil
		}
	}
	return fmt.Errorf("%s does not depend on %s", e.body.Ref(), from.body.Ref())
}

// rolledBack is SCO-2: the line of two executions goes back, as far as before
// the one that is undone, and with it what it did since.
func (c *checking) rolledBack(s *stepVerdict, from, e *evidence) error {
	if !c.sameLine(from.body, e.body) {
		return fmt.Errorf("%s and %s are not on one line", from.body.Ref(), e.body.Ref())
	}
	by := from
	if s.By != 0 {
		var err error
		if by, err = c.reached(s.By); err != nil {
			return err
		}
	}
	switch {
	case s.By != 0 && from.body.Effect == entry.EffectReversible && from.outcome != entry.Cancelled:
		return fmt.Errorf("%s takes the line back, so that %s need not", from.body.Ref(), by.body.Ref())
	case by.body.Effect != entry.EffectReversible:
		return fmt.Errorf("%s is %s: it takes no line back", by.body.Ref(), by.body.Effect)
	case by.outcome == entry.Cancelled:
		return fmt.Errorf("%s was cancelled", by.body.Ref())
	case !c.sameLine(by.body, e.body):
		return fmt.Errorf("%s and %s are not on one line", by.body.Ref(), e.body.Ref())
	}
	if _, err := by.begun(); err != nil {
		return err
	}
	if s.Checkpoint == 0 {
		return c.checkNoCheckpoint(from)
	}
	return c.checkCheckpoint(s.Checkpoint, from, e)
}

// lineKey names a line (SCO-2): an agent's executions in one workflow, or in all
// of them, where its span is agent.
type lineKey struct {
	agent entry.Principal
	wid   entry.WorkflowID
}

func (c *checking) lineOf(agent entry.Principal, wid entry.WorkflowID) lineKey {
	if c.chain.Span(agent) == entry.SpanAgent {
		wid = ""
	}
	return lineKey{agent, wid}
}

// sameLine reports whether two executions are on one line.
func (c *checking) sameLine(a, b *entry.Execution) bool {
	return c.lineOf(a.Iss, a.Wid) == c.lineOf(b.Iss, b.Wid)
}

// begun returns the index at which an execution began: that of its first entry
// past planned.
func (e *evidence) begun() (uint64, error) {
	if e.started == nil {
		return 0, fmt.Errorf("%w: what shows that %s is past planned", ErrMissing, e.body.Ref())
	}
	x, _ := e.started.Body.(*entry.Execution)
	if x.Progress == entry.Confirmed && x.Effect != entry.EffectNone {
		return 0, fmt.Errorf("%w: the started entry of %s (EXE-2)", ErrMissing, x.Ref())
	}
	return e.started.Index, nil
}

// checkCheckpoint checks that a checkpoint is older than the execution that takes the
// line back, and that it does not cover the execution e on the same line: e began after
// the checkpoint, or ended after what the checkpoint covers had ended, or has not
// ended.
func (c *checking) checkCheckpoint(checkpoint uint64, from, e *evidence) error {
	p, body, err := c.checkpoint(checkpoint)
	if err != nil {
		return err
	}
	if !c.onLine(body, e.body) {
		return fmt.Errorf("checkpoint %d is not of the line of %s", checkpoint, e.body.Ref())
	}
	before, err := from.begun()
	if err != nil {
		return err
	}
	began, err := e.begun()
	switch {
	case err != nil:
		return err
	case p.Index >= before:
		return fmt.Errorf("checkpoint %d was made after %s began", checkpoint, from.body.Ref())
	case e.outcome == entry.Cancelled:
		return fmt.Errorf("%s was cancelled", e.body.Ref())
	case began > p.Index || body.After == nil || e.final == nil:
		return nil
	}
	covered := c.execs[*body.After]
	if covered == nil || covered.final == nil {
		return fmt.Errorf("%w: the final entry of %s", ErrMissing, *body.After)
	}
	c.use(covered)
	if e.final.Index <= covered.final.Index {
		return fmt.Errorf("checkpoint %d covers %s", checkpoint, e.body.Ref())
	}
	return nil
}

// checkNoCheckpoint checks that the bundle shows no checkpoint to which the line could
// go back before an execution began. Without one the whole line is undone. A line that
// an earlier decision restored to a checkpoint keeps it in an amend, even if the
// checkpoint is void by now.
func (c *checking) checkNoCheckpoint(from *evidence) error {
	before, err := from.begun()
	if err != nil {
		return err
	}
	usable := c.decided.RegisteredAt + c.effective.deadlineMaxMS
	for _, p := range c.points {
		point, _ := p.Body.(*entry.Checkpoint)
		if p.Index < before && !c.wentBack(p.Index, point) && c.onLine(point, from.body) && (point.ExpiresAt == 0 || point.ExpiresAt > usable) {
			return fmt.Errorf("the line has a checkpoint at %d to go back to", p.Index)
		}
	}
	return nil
}

// wentBack reports whether an amend shows something that goes back to a
// checkpoint.
func (c *checking) wentBack(index uint64, point *entry.Checkpoint) bool {
	ref := entry.NewRef(point.Iss, point.Checkpoint)
	return c.decision.Act == entry.ActAmend &&
		(slices.ContainsFunc(c.Steps, func(s ChainStep) bool { return s.Checkpoint == index }) ||
			slices.ContainsFunc(c.members, func(m *member) bool { return m.Member.Checkpoint == ref }))
}

// checkpoint returns the checkpoint at an index.
func (c *checking) checkpoint(index uint64) (*proven, *entry.Checkpoint, error) {
	p := c.at(index)
	if p == nil {
		return nil, nil, fmt.Errorf("%w: checkpoint %d", ErrMissing, index)
	}
	body, ok := p.Body.(*entry.Checkpoint)
	if !ok {
		return nil, nil, fmt.Errorf("entry %d is of kind %s", index, p.Kind)
	}
	c.used[index] = true
	return p, body, nil
}

// onLine reports whether a checkpoint is of the line of an execution.
func (c *checking) onLine(point *entry.Checkpoint, x *entry.Execution) bool {
	return c.lineOf(point.Iss, point.Wid) == c.lineOf(x.Iss, x.Wid)
}
