package bundle_test

import (
	"fmt"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// declared has an agent's later entry declare otherwise.
func declared(name string, change func(x *entry.Execution)) bundleCase {
	return bundleCase{scene: further, prepare: hook(name, change), change: with(name), want: "AGT-3 EXE-1"}
}

// seedCases are what makes an execution a seed, and what follows from it (SCO-1, SCO-3).
func seedCases() []bundleCase {
	parents, wid := declared("worker#draft:confirmed", func(x *entry.Execution) { x.Parents = nil }), declared("worker#slow:confirmed", func(x *entry.Execution) { x.Wid = "elsewhere" })
	parents.name, parents.desc = "declares-other-parents", "a later entry declares other parents"
	wid.name, wid.desc = "declares-another-workflow", "a later entry declares another workflow"
	dismiss := func(decision, signal string) func(w *world) {
		return hookIn(decision, func(w *world, d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: w.at[signal], Reason: "no"}}
		})
	}
	return []bundleCase{
		parents, wid,
		{name: "final-twice", desc: "an execution was confirmed, and then said to have been cancelled", scene: further,
			prepare: before("signal", func(w *world) {
				w.exec("worker#draft:cancelled", entry.EffectReversible, entry.Cancelled, "source#read")
			}), change: with("worker#draft:confirmed", "worker#draft:cancelled"), want: "AGT-3"},
		{name: "seed-not-shown", desc: "the execution of a seed is not shown", scene: automatic, change: drop("source#read"), want: "worker#draft: AGT-3 SCO-3"},
		{name: "chain-from-nowhere", desc: "a chain begins at an execution to which no step leads", scene: automatic,
			change: step("worker#note", func(_ *world, s *bundle.ChainStep) { s.From = 999 }), want: "worker#note: AGT-3 SCO-1"},
		{name: "chain-without-an-edge", desc: "an execution does not depend on the one that its step comes from", scene: automatic,
			change: step("worker#charge", func(w *world, s *bundle.ChainStep) { s.From = w.at["source#read"] }), want: "worker#charge: AGT-3 SCO-1"},
		{name: "good-seed-by-task", desc: "the signal is about the task of an execution", scene: automatic,
			prepare: both(inEach("source#read", func(x *entry.Execution) { x.Task = "source#job" }), hook("signal", func(s *entry.Signal) { s.Subject = "source#job" }))},
		{name: "amend-of-a-dismissal", desc: "the decision that was amended dismissed the signal too", scene: amended,
			prepare: dismiss("first", "signal"), want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-dismisses-its-own", desc: "an amend dismisses a signal that came after the pin of the decision before", scene: amended,
			prepare: both(dismiss("decision", "second signal"), hook("first", func(d *entry.Decision) { d.Pin.Size++ })), want: "worker#memo: AGT-3 SCO-3"},
	}
}

// rangeCases are signals about a range of executions (SCO-3).
func rangeCases() []bundleCase {
	spoken := func(w *world) { // another signal speaks for the decision
		before("decision", func(w *world) { w.signal("second signal", "source", "source#read", entry.StandingExecutor) })(w)
		hookIn("decision", func(w *world, d *entry.Decision) {
			signals := merkle.HeadOf(hashesOf(w, "signal", "second signal"))
			d.Signals, d.Pin.Size = &signals, w.at["second signal"]+1
		})(w)
	}
	signaledBy := func(who string, standing entry.Standing, evidence bool) func(w *world) {
		return func(w *world) {
			w.signer["signal"] = w.who[who]
			hook("signal", func(s *entry.Signal) {
				issue(s, entry.Principal(who))
				s.Standing = standing
				if !evidence {
					s.Evidence = nil
				}
			})(w)
		}
	}
	within := func(most int64) func(w *world) {
		return hook("policy", func(p *entry.Policy) { p.Windows.SinceMaxMS = most })
	}
	return []bundleCase{
		{name: "good-since-executor", desc: "who executed them signals the range, without evidence", scene: ranged,
			prepare: signaledBy("worker", entry.StandingExecutor, false), change: drop("monitor")},
		{name: "good-since-operator", desc: "an operator signals the range, with evidence", scene: ranged,
			prepare: signaledBy("operator", entry.StandingOperator, true), change: all(with("operator"), drop("monitor"))},
		{name: "good-since-part", desc: "neither the first of the range nor its last is a member shown", scene: ranged,
			change: all(keepMembers("worker#note", "worker#later"), keepSteps("worker#note", "worker#later"), drop("worker#c0", "worker#charge"))},
		{name: "since-subject-not-shown", desc: "where the range ends is not shown", scene: ranged,
			change: all(keepMembers("writer#page", "worker#charge", "worker#note", "worker#later", "worker#draft"), keepSteps("worker#draft", "worker#later", "worker#note", "worker#charge"),
				drop("worker#memo")), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-by-monitor-alone", desc: "a range by a monitor without evidence, where another signal speaks for the decision", scene: ranged,
			prepare: both(spoken, signaledBy("monitor", entry.StandingMonitor, false)), change: with("source", "second signal"), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-by-false-executor", desc: "a range by who says that it executed what another did, where another signal speaks for the decision", scene: ranged,
			prepare: both(spoken, signaledBy("writer", entry.StandingExecutor, true)), change: all(with("source", "writer", "second signal"), drop("monitor")),
			want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-from-another-workflow", desc: "the range begins in another workflow of the agent", scene: ranged,
			prepare: func(w *world) { elsewhere(w, "worker#draft") }, want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-before", desc: "an execution older than the range, as part of it", scene: ranged,
			prepare: hook("signal", func(s *entry.Signal) { s.Since = "worker#later" }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-over-another-agent", desc: "another agent's execution within the range", scene: ranged,
			prepare: both(before("worker#note", func(w *world) { w.done("writer#mid", entry.EffectNone) }), inEach("worker#note", func(x *entry.Execution) {
				x.Parents = append(x.Parents, entry.Parent{Exec: "writer#mid", Dep: entry.Hard})
			})),
			change: all(with("writer", "writer#mid"), step("worker#note", func(w *world, s *bundle.ChainStep) { s.Rule, s.From = bundle.RuleDependent, w.at["writer#mid"] }),
				func(w *world, b *bundle.Bundle) {
					i := slices.IndexFunc(b.Steps, func(s bundle.ChainStep) bool { return s.Exec == w.at["worker#note"] })
					b.Steps = slices.Insert(b.Steps, i, bundle.ChainStep{Exec: w.at["writer#mid"], Rule: bundle.RuleSeed, From: w.at["signal"]})
				}), want: "worker#note: AGT-3 SCO-3"},
		{name: "good-since-oldest", desc: "the range reaches back as far as the policy allows", scene: ranged, prepare: within(10_000)},
		{name: "since-too-old", desc: "the range reaches back a millisecond further than the policy allows", scene: ranged, prepare: within(9_999), want: "worker#charge: AGT-3 SCO-3"},
	}
}

// backCases are lines that go back to a checkpoint (SCO-2).
func backCases() []bundleCase {
	memo := func(change func(w *world, s *bundle.ChainStep)) func(w *world, b *bundle.Bundle) {
		return step("worker#memo", change)
	}
	slowToNewer := step("worker#slow", func(w *world, s *bundle.ChainStep) {
		s.From, s.By, s.Checkpoint = w.at["worker#draft"], 0, w.at["worker#c1"]
	})
	planned1 := inEach("worker#buy", func(x *entry.Execution) { x.Progress = entry.Planned })
	return []bundleCase{
		{name: "line-by-unreached", desc: "nothing shows that what is said to take the line back must be undone", scene: further,
			change: memo(func(_ *world, s *bundle.ChainStep) { s.By = 999 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "good-by-of-cancelled", desc: "what the line goes back for is reversible and was cancelled, so that another takes it back", scene: further,
			prepare: both(inEach("worker#buy", func(x *entry.Execution) { x.Effect, x.IdempotencyKey = entry.EffectReversible, "" }),
				hook("worker#buy:confirmed", func(x *entry.Execution) {
					x.Effect, x.IdempotencyKey, x.Progress = entry.EffectReversible, "", entry.Cancelled
				}),
				planned("worker#buy", func(m *entry.Member) { m.Method = entry.MethodNone })), change: with("worker#buy:confirmed")},
		{name: "good-by-alone", desc: "what takes the line back is no member shown", scene: further, change: keepMembers("worker#slow", "worker#memo", "worker#buy")},
		{name: "line-from-unbegun", desc: "what never began is said to take the line back by another", scene: further, prepare: planned1, want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-from-unbegun-to-nothing", desc: "and the line has no checkpoint", scene: further, prepare: planned1,
			change: memo(func(_ *world, s *bundle.ChainStep) { s.Checkpoint = 0 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-by-missing-checkpoint", desc: "the checkpoint of a step is not shown", scene: automatic,
			change: memo(func(_ *world, s *bundle.ChainStep) { s.Checkpoint = 999 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "good-line-of-none", desc: "what has no effect goes back with its line", scene: automatic,
			change: step("worker#note", func(w *world, s *bundle.ChainStep) {
				s.Rule, s.Checkpoint = bundle.RuleLine, w.at["worker#c0"]
			})},
		{name: "line-open-at-checkpoint", desc: "an execution that has not ended goes back to a newer checkpoint than its line", scene: further,
			change: all(drop("worker#slow:confirmed"), with("worker#c1"), slowToNewer), want: "worker#draft: AGT-3 SCO-2"},
		{name: "line-checkpoint-of-nothing", desc: "an execution goes back to a newer checkpoint than its line, one that covers nothing", scene: further,
			prepare: hook("worker#c1", func(c *entry.Checkpoint) { c.After = nil }), change: all(with("worker#c1"), slowToNewer), want: "worker#draft: AGT-3 SCO-2"},
		{name: "line-covered-by-nobody", desc: "the checkpoint covers an execution of which nothing is shown", scene: further,
			prepare: hook("worker#c1", func(c *entry.Checkpoint) { ghost := entry.Ref("worker#ghost"); c.After = &ghost }),
			change:  all(with("worker#c1"), slowToNewer), want: "worker#slow: AGT-3 SCO-2"},
		{name: "good-line-uncovered", desc: "an execution without effect ended after what the checkpoint covers, and goes back with its line", scene: further,
			prepare: both(inEach("worker#slow", func(x *entry.Execution) { x.Effect = entry.EffectNone }),
				planned("worker#slow", func(m *entry.Member) { m.Method, m.Checkpoint = entry.MethodNone, "" })),
			change: all(keepMembers("worker#slow"), keepSteps("source#read", "worker#draft", "worker#slow"), slowToNewer,
				drop("worker#c0", "worker#buy"), with("worker#c1", "worker#memo:confirmed"))},
		{name: "good-line-begun-later", desc: "an execution that began after the checkpoint goes back, and what the checkpoint covers is no matter", scene: further,
			prepare: both(before("worker#slow:confirmed", func(w *world) { w.done("worker#extra", entry.EffectNone) }),
				before("signal", func(w *world) { w.member("worker#extra", entry.MethodNone, "") })),
			change: all(with("worker#extra", "worker#c1"), keepMembers("worker#extra"), func(w *world, b *bundle.Bundle) {
				b.Steps = append(b.Steps, bundle.ChainStep{Exec: w.at["worker#extra"], Rule: bundle.RuleLine, From: w.at["worker#draft"], Checkpoint: w.at["worker#c1"]})
			}, keepSteps("source#read", "worker#draft", "worker#extra"),
				drop("worker#c0", "worker#buy", "worker#memo", "worker#slow", "worker#slow:started", "worker#slow:confirmed"))},
	}
}

// nowhereCases are lines that are said to have no checkpoint to go back to (SCO-2).
func nowhereCases() []bundleCase {
	const decided = 1_790_000_028_000 // Unix milliseconds: when the decision of wholeLine is registered
	point := func(ahead string, change func(c *entry.Checkpoint)) func(w *world) {
		return both(before(ahead, func(w *world) { w.checkpoint("worker#c9", nil) }), hook("worker#c9", change))
	}
	expires := func(at int64) func(c *entry.Checkpoint) { return func(c *entry.Checkpoint) { c.ExpiresAt = at } }
	whole := func(name, desc string, prepare func(w *world), want string) bundleCase {
		return bundleCase{name: name, desc: desc, scene: wholeLine, prepare: prepare, change: with("worker#c9"), want: want}
	}
	ended := func(names ...string) func(w *world) {
		return func(w *world) {
			for _, name := range names {
				hookIn(name, ofFirst)(w)
				w.outcome(name, "worker#"+name, entry.Restored)
			}
		}
	}
	back := before("second signal", ended("draft", "memo"))
	nowhere := all(with("draft", "memo"), step("worker#note", func(_ *world, s *bundle.ChainStep) { s.Rule = bundle.RuleLine }))
	const refused = "worker#memo: AGT-3 SCO-2"
	return []bundleCase{
		whole("nowhere-but-a-checkpoint", "the line has a checkpoint", point("source#read", expires(0)), refused),
		whole("nowhere-but-long-enough", "the line has a checkpoint that expires a millisecond after the latest deadline", point("source#read", expires(decided+hour+1)), refused),
		whole("nowhere-expires", "the only checkpoint expires at the latest deadline: nothing rests on it", point("source#read", expires(decided+hour)), "AGT-3"),
		whole("nowhere-elsewhere", "the only checkpoint is of another workflow: nothing rests on it",
			point("source#read", func(c *entry.Checkpoint) { c.Wid = "elsewhere" }), "AGT-3"),
		whole("nowhere-too-new", "the only checkpoint was made after the line has to go back: nothing rests on it", point("worker#memo", expires(0)), "AGT-3"),
		{name: "good-amend-went-back", desc: "members were restored to the checkpoint by the decision before: the amend need not go back to it", scene: amended, prepare: back, change: nowhere},
		{name: "amend-another-checkpoint", desc: "and the line has another checkpoint", scene: amended,
			prepare: both(back, point("source#read", expires(0))), change: all(nowhere, with("worker#c9")), want: "worker#note: AGT-3 SCO-2"},
		{name: "good-amend-step-went-back", desc: "and a step goes back to that one", scene: amended,
			prepare: both(back, point("source#read", expires(0))), change: all(nowhere, with("worker#c9"),
				step("worker#memo", func(w *world, s *bundle.ChainStep) {
					s.Rule, s.From, s.Checkpoint = bundle.RuleLine, w.at["worker#draft"], w.at["worker#c9"]
				}))},
		{name: "nowhere-without-amend", desc: "a member was restored to the checkpoint, and the decision is no amend", scene: restored,
			change: step("worker#note", func(_ *world, s *bundle.ChainStep) { s.Rule = bundle.RuleLine }), want: "worker#note: AGT-3 SCO-2"},
	}
}

// TestLongWayBack has each step of a line rest on two, and each of these on the same two
// before: a check that goes each way anew never ends.
func TestLongWayBack(t *testing.T) {
	const length = 48
	w := newWorld(t)
	w.company()
	w.done("source#read", entry.EffectNone)
	var entries []string
	var steps []bundle.ChainStep
	for i := range length {
		buy, draft := fmt.Sprintf("worker#buy%d", i), fmt.Sprintf("worker#draft%d", i)
		var parents []string
		if i == 0 {
			parents = []string{"source#read"}
		}
		w.done(buy, entry.EffectCompensable, parents...)
		w.done(draft, entry.EffectReversible, parents...)
		entries = append(entries, buy, draft)
		for _, name := range []string{buy, draft} {
			s := bundle.ChainStep{Exec: w.at[name], Rule: bundle.RuleDependent, From: w.at["source#read"]}
			if i > 0 {
				s.Rule, s.From, s.By = bundle.RuleLine, w.at[entries[2*i-2]], w.at[entries[2*i-1]]
			}
			steps = append(steps, s)
		}
	}
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	for _, name := range entries {
		method := entry.MethodCompensate
		if w.at[name]%4 == w.at[entries[1]]%4 {
			method = entry.MethodResidual
		}
		w.member(name, method, "")
	}
	w.authorize(0)
	w.now = w.At + 1000
	steps = append(steps, bundle.ChainStep{Exec: w.at["source#read"], Rule: bundle.RuleSeed, From: w.at["signal"]})
	b := w.bundle("worker", accepted, steps, append(append(entries, approvalEntries()...), "enroller", "coordinator", "source", "worker", "source#read", "signal", "decision")...)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	if len(v.Commands) != 2*length || len(v.Commands[0].Chain) != length+1 {
		t.Errorf("%d commands, a chain of %d", len(v.Commands), len(v.Commands[0].Chain))
	}
}
