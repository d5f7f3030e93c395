package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/ledger/entry"
)

// RecoveryStrategy chooses the action for a failure. The built-in strategies are pure ([builtIn]).
// Other strategies may ask any party. Their answers are input, which the caller records, see
// [Recover]. The policy binds every choice, see [Admit].
//
//nolint:revive // Strategy is what it is named for; this is what carries one out
type RecoveryStrategy interface {
	// About describes the strategy. The description never changes.
	About() About
	// Recover chooses an action. If it returns an error, the ladder of the rule decides.
	Recover(ctx context.Context, c Case) (Action, error)
}

// About is a strategy's description of itself, or a policy's description of a strategy
// that its rules name.
type About struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Capabilities are the strategies that the actions may have. An action with another strategy is
	// no answer.
	Capabilities []Strategy `json:"capabilities"`
	// TimeoutMS is the time limit of an answer in milliseconds; 0: [AnswerMS].
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
}

// AnswerMS is the time limit of an answer, in milliseconds, of a strategy that declares none.
const AnswerMS = 30_000

// Case is the question to a strategy. It is about the failure with which the history ends.
type Case struct {
	History *History `json:"history"`
	// ElapsedMS is the time since the case began, as it counts for limits.
	ElapsedMS int64 `json:"elapsed_ms"`
}

// askedMax is how often a strategy is asked about a step in one case. After that the ladder
// decides, and every ladder ends.
const askedMax = 64

// Why a strategy that a rule names did not decide.
var (
	// ErrNotRegistered reports that no strategy of the name is registered on this machine.
	ErrNotRegistered = errors.New("no strategy of that name is registered here")
	// ErrIncapable reports an action with a strategy that is not among the declared capabilities.
	ErrIncapable = errors.New("chose an action outside its capabilities")
	// ErrTooOften reports that the strategy was asked too often about one step.
	ErrTooOften = errors.New("was asked too often about one step")
	// ErrPanicked: it panicked.
	ErrPanicked = errors.New("panicked")
)

// Decision is an action with its origin.
type Decision struct {
	Action Action
	Rule   Rule
	// Asked is the strategy that was asked; empty: none was.
	Asked string
	// Answer is the choice of the strategy, before the policy bound it.
	Answer Action
	// Failed is why its answer does not count, so that the ladder decided.
	Failed error
}

// EntryRung returns the rung of an attempt entry about a decision. attempt is how many actions or
// claims came before, as the writer of the entry counts them. class and code are those of the
// failure that the decision answers, as they are effective.
func (d *Decision) EntryRung(attempt int64, class, code string, result Result) entry.Rung {
	r := entry.Rung{Attempt: attempt, Class: class, Code: code, Rule: d.Rule.ID, Strategy: string(d.Action.Strategy),
		Variant: d.Action.Variation(), Model: d.Action.Model, Result: string(result), Reason: string(d.Action.Reason)}
	if d.Action.WaitMS > 0 {
		r.WaitMS = new(d.Action.WaitMS)
	}
	return r
}

// Recover decides like [Decide], but asks the strategy that the first matching rule names, if the
// rule names one. Effect gate and guards come first. If the strategy does not answer, the rule's
// ladder decides, with [ReasonStrategyFailed] as the reason, or [ReasonStrategyMissing] if no
// strategy of the name is registered. registered are the strategies that are not built in. The
// error is the error of the context.
func Recover(ctx context.Context, c Case, p *Policy, now int64, registered []RecoveryStrategy) (Decision, error) {
	if action, rule, settled := Settled(c.History, p, now); settled {
		return Decision{Action: action, Rule: rule}, nil
	}
	about := p.Asks(c.History, now)
	if about == nil {
		action, rule := Decide(c.History, p, now)
		return Decision{Action: action, Rule: rule}, nil
	}
	answer, failed := Ask(ctx, c, about, registered)
	if ctx.Err() != nil {
		return Decision{}, fmt.Errorf("recovery: ask %s: %w", about.Name, ctx.Err())
	}
	d := Decision{Asked: about.Name, Answer: answer, Failed: failed}
	d.Answered(c.History, p, now)
	return d, nil
}

// Choose decides like [Recover] without asking a strategy: it is as pure as [Decide].
// If a rule names a strategy that is not built in, the rule's ladder decides.
func Choose(h *History, p *Policy, now int64) Decision {
	about := p.Asks(h, now)
	if about == nil || !slices.Contains(Strategies(), Strategy(about.Name)) {
		action, rule := Decide(h, p, now)
		return Decision{Action: action, Rule: rule}
	}
	d, _ := Recover(context.Background(), Case{History: h}, p, now, nil) // built-in strategies look at the history alone
	return d
}

// Asks returns the strategy that the first matching rule names; nil if it names
// none.
func (p *Policy) Asks(h *History, now int64) *About {
	if !p.named {
		return nil
	}
	if r := p.ruleOf(h, now); r != nil {
		return r.asks
	}
	return nil
}

// RemediationFor returns the first matching rule's advice to people about the failure
// with which a history ends; empty if the rule gives none.
func (p *Policy) RemediationFor(h *History, now int64) string {
	if r := p.ruleOf(h, now); r != nil {
		return r.Remediation
	}
	return ""
}

// ruleOf returns the first matching rule. It returns nil if a condition cannot be evaluated; the
// ladder escalates then.
func (p *Policy) ruleOf(h *History, now int64) *rule {
	d := newDecider(h, p, now)
	for i := range p.rules {
		matches, err := p.rules[i].when.holds(d)
		switch {
		case err != nil:
			return nil
		case matches:
			return &p.rules[i]
		}
	}
	return nil
}

// Unregistered is a rule that names a strategy without an implementation on this machine.
type Unregistered struct {
	// Strategy is the name that the policy declares.
	Strategy string
	// Problem says where the rule names the strategy. Its remedy is the caller's:
	// it depends on how strategies are registered there.
	Problem
}

// Missing returns the rules, in their order, that name a strategy which is neither
// built in nor registered. The ladders of these rules decide in place of the
// strategies, so the result of a scenario says nothing about the policy with its
// strategies.
func (p *Policy) Missing(registered []RecoveryStrategy) []Unregistered {
	var all []Unregistered
	for i := range p.rules {
		r := &p.rules[i]
		if r.asks == nil || isRegistered(r.asks.Name, registered) {
			continue
		}
		m := Unregistered{Strategy: r.asks.Name, Problem: r.place}
		m.What = fmt.Sprintf("strategy %.80q is not registered here", m.Strategy)
		all = append(all, m)
	}
	return all
}

// isRegistered reports whether something implements the strategy of a name.
func isRegistered(name string, registered []RecoveryStrategy) bool {
	return slices.Contains(Strategies(), Strategy(name)) ||
		slices.ContainsFunc(registered, func(s RecoveryStrategy) bool { return s.About().Name == name })
}

// Names reports whether rules name strategies.
func (p *Policy) Names() bool { return p.named }

// Strategies returns the strategies that the policy declares.
func (p *Policy) Strategies() []About { return slices.Clone(p.doc.Strategies) }

// Ask asks the strategy of that name about a case, and accepts a valid answer ([Action.Check]).
func Ask(ctx context.Context, c Case, about *About, registered []RecoveryStrategy) (Action, error) {
	asked := 0
	for i := range c.History.Rungs {
		if r := &c.History.Rungs[i]; r.Step == c.History.Step && r.Rule.ID == about.Name && r.Rule.Rung < 0 {
			asked++
		}
	}
	if asked >= askedMax {
		return Action{}, fmt.Errorf("recovery: strategy %s: %w", about.Name, ErrTooOften)
	}
	all := slices.Concat(registered, builtIns())
	at := slices.IndexFunc(all, func(s RecoveryStrategy) bool { return s.About().Name == about.Name })
	if at < 0 {
		return Action{}, fmt.Errorf("recovery: strategy %s: %w", about.Name, ErrNotRegistered)
	}
	a, err := answer(ctx, all[at], c)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return Action{}, fmt.Errorf("recovery: strategy %s: %w", about.Name, err)
	}
	if !slices.Contains(about.Capabilities, a.Strategy) {
		return Action{}, fmt.Errorf("recovery: strategy %s: %w: %q", about.Name, ErrIncapable, a.Strategy)
	}
	return a, nil
}

// answer asks a strategy. If the strategy panics, the panic becomes an error and does not end the
// process.
func answer(ctx context.Context, s RecoveryStrategy, c Case) (a Action, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v", ErrPanicked, panicked)
		}
	}()
	return s.Recover(ctx, c)
}

// Answered fills in action and rule after a strategy was asked: the choice as the
// policy admits it, or the ladder's action if the strategy failed.
func (d *Decision) Answered(h *History, p *Policy, now int64) {
	if d.Failed == nil {
		d.Action, d.Rule = admitted(h, p, now, d.Asked, d.Answer)
		return
	}
	d.Action, d.Rule = Decide(h, p, now)
	switch d.Action.Reason {
	case ReasonLadder, ReasonRule, ReasonLadderExhausted:
		d.Action.Reason = ReasonStrategyFailed
		if errors.Is(d.Failed, ErrNotRegistered) {
			d.Action.Reason = ReasonStrategyMissing
		}
	default: // a guard or a limit holds whichever strategy is asked
	}
}
