package conformance

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/ledger/entry"
)

// An Agent is an agent under test. docs/conformance.md says what the kit gives the program, and
// what the program does.
type Agent struct {
	Argv   []string      // the program and its arguments, run without a shell
	Limit  time.Duration // for each thing that the agent has to do; above 0
	NoWork bool          // the agent only undoes: cases in which it works do not apply
	Case   string        // pattern of names, as of [path.Match]; empty: all cases
	// Settle is how long the agent has, after it got an answer, to do what it must not do.
	// 0: 1.2 s.
	Settle time.Duration

	idle atomic.Int64 // cases in which the agent let Limit pass
}

// maxIdle is how many cases may run into the limit before the others are not played.
const maxIdle = 20

// agentCase is one case: its name, the statements of the draft, and how it is played.
type agentCase struct {
	name   string
	ids    []string
	about  string
	policy func(*entry.Policy) // changes the genesis; nil: nothing
	play   func(p *play)
}

// work reports whether the agent does work of its own in the case.
func (c *agentCase) work() bool { return path.Dir(c.name) == "work" }

// agentCases are all cases.
func agentCases() []agentCase {
	return slices.Concat(honestCases(), planCases(), workCases(), distrustCases(), crashCases(), lostCases(), answerCases(), bundleCases(),
		decisionCases(), contentCases(), groundlessCases(), approvalCases(), replayCases())
}

// first is the case without which no other one says anything.
const first = "undo/compensate"

// atOnce is how many cases are played at once: most of their time is waiting.
const atOnce = 6

// Run plays every case with a process of the agent and a ledger of its own. The error is what the
// kit could not do, or that of the context: what the agent does wrong is in the report. When Run
// returns, every process is ended, and every file of the kit is removed.
func (a *Agent) Run(ctx context.Context) (*Report, error) {
	var results []Result
	var todo []agentCase
	obeys := true
	for _, c := range agentCases() {
		is, err := path.Match(a.Case, c.name)
		if err != nil {
			return nil, fmt.Errorf("conformance: the pattern %q of cases: %w", a.Case, err)
		}
		if a.Case != "" && !is && c.name != first {
			continue
		}
		if c.name != first {
			todo = append(todo, c)
			continue
		}
		r, err := a.play(ctx, &c)
		if err != nil {
			return nil, err
		}
		obeys, results = r.Outcome == Passed || r.undid, append(results, r.Result)
	}
	if !obeys {
		for _, c := range todo {
			results = append(results, c.result(Failed, &fault{"the case is played", "not played: the agent failed " + first + ", so that it obeys nothing"}))
		}
		return newReport("agent", results), nil
	}
	rest, err := a.playAll(ctx, todo)
	return newReport("agent", append(results, rest...)), err
}

// played is a result, and whether the agent undid anything in the case.
type played struct {
	Result

	undid bool
}

// playAll plays cases at once, and returns their results in order.
func (a *Agent) playAll(ctx context.Context, todo []agentCase) ([]Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]Result, len(todo))
	places := make(chan int)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for i := range places {
				r, err := a.play(ctx, &todo[i])
				if err != nil {
					cancel(err)
				}
				results[i] = r.Result
			}
		})
	}
	for i := range todo {
		if ctx.Err() != nil {
			break
		}
		places <- i
	}
	close(places)
	group.Wait()
	return results, context.Cause(ctx)
}

// play plays one case.
func (a *Agent) play(ctx context.Context, c *agentCase) (played, error) {
	if a.NoWork && c.work() {
		r := c.result(NotApplicable, nil)
		r.Got = "the agent does no work of its own"
		return played{Result: r}, nil
	}
	if a.idle.Load() >= maxIdle {
		return played{Result: c.result(Failed, &fault{"the case is played", fmt.Sprintf("not played: the agent let the limit of %s pass %d times", a.Limit, maxIdle)})}, nil
	}
	p, err := newPlay(ctx, a, c.policy)
	if err != nil {
		return played{}, fmt.Errorf("conformance: %s: %w", c.name, err)
	}
	defer p.close()
	f, passed, err := p.run(c)
	switch {
	case ctx.Err() != nil:
		return played{}, context.Cause(ctx)
	case err != nil:
		return played{}, fmt.Errorf("conformance: %s: %w", c.name, err)
	case passed:
		return played{Result: c.result(Passed, nil), undid: true}, nil
	}
	return played{c.result(Failed, &f), len(p.world.undone()) > 0}, nil
}

func (c *agentCase) result(outcome Outcome, f *fault) Result {
	r := Result{Case: c.name, Statements: c.ids, About: c.about, Outcome: outcome}
	if f != nil {
		r.Sent, r.Expected, r.Got = c.about, f.expected, f.got
	}
	return r
}
