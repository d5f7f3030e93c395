// Package admission holds a ledger to what the Internet-Draft says of its state: which entry it
// registers, which it refuses and why, and what its receipts and heads prove.
//
// The kit plays everybody who writes: agents, approvers, a monitor, an operator and the
// coordinator. It folds the log by the rules of package coord, and checks each receipt. The
// rollback sets of random graphs come from a computation of this package's own.
package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// Ledger is a ledger under test: one for tests alone, which the kit fills.
type Ledger struct {
	URL       string        // the base, without a slash at its end
	Client    *http.Client  // follows no redirect
	Limit     time.Duration // for one answer; above 0
	Authority *keys.Signer  // the key of an authority of the policy in force
	Root      verify.Root   // pinned
	Graphs    int           // random graphs whose rollback sets are compared. 0: 200
}

// Played is a case and what became of it.
type Played struct {
	Name, About         string
	Statements          []string // of the draft
	Failed              bool
	Sent, Expected, Got string // where the case failed
}

// A Fault is what a ledger does wrong in a case.
type Fault struct{ expected, got string }

// Error implements error.
func (f *Fault) Error() string { return "expected " + f.expected + ", got " + f.got }

// Run plays every case, one after the other. The last ones leave the ledger with a policy that
// refuses much. The error is what the kit could not do at all, or that of the context.
func (l *Ledger) Run(ctx context.Context) (list []Played, err error) {
	p, err := newPlay(ctx, l)
	if err != nil {
		if f, is := errors.AsType[*Fault](err); is {
			err = fmt.Errorf("conformance: the ledger takes no principals of the kit: %w", f)
		}
		return nil, err
	}
	cases := slices.Concat(registerCases(), orderCases(), roleCases(), executionCases(), deciding(), fenceCases(), quorumCases(), outcomeCases(), recordCases(),
		tableCases(), scopeCases(cmp.Or(l.Graphs, 200)), logCases())
	for _, c := range cases {
		p.err, p.sent, p.named = nil, "", nil
		if p.broken != "" {
			p.fail("the case is played", "not played: %s", p.broken)
		} else {
			c.play(p)
		}
		if cause := ctx.Err(); cause != nil {
			return nil, cause
		}
		played := Played{Name: c.name, About: c.about, Statements: slices.Concat(c.ids, p.named), Failed: p.err != nil}
		if f, is := errors.AsType[*Fault](p.err); is {
			played.Sent, played.Expected, played.Got = cmp.Or(p.sent, c.about), f.expected, f.got
		} else if p.err != nil {
			played.Sent, played.Expected, played.Got = cmp.Or(p.sent, c.about), "the case can be played", p.err.Error()
		}
		list = append(list, played)
	}
	return list, nil
}

// StatusOf is the status of a problem type.
func StatusOf(problem entry.Problem) int {
	return api.NewProblem(&entry.Refusal{Problem: problem}).Status
}

// MaxTries is how often the kit sends what the ledger puts off.
const MaxTries = 5

// Pause waits as long as a ledger asks, at least 100 ms and at most for a limit.
func Pause(ctx context.Context, asked, limit time.Duration) {
	timer := time.NewTimer(min(max(asked, 100*time.Millisecond), limit))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// shortened is the beginning of what a ledger answered.
func shortened(text string) string { return text[:min(len(text), 300)] }
