package bundle_test

import (
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// planned changes a member, or all that are restored, before the scope is committed to.
func planned(ref string, change func(m *entry.Member)) func(w *world) {
	return func(w *world) {
		w.planned = func() {
			for i := range w.members {
				m := &w.members[i]
				if string(m.Exec) == ref || ref == "" && m.Method == entry.MethodRestore {
					change(m)
				}
			}
		}
	}
}

func memberCases() []bundleCase {
	return []bundleCase{
		{name: "bundle-for-another-agent", desc: "the bundle is for another agent", scene: automatic, change: func(_ *world, b *bundle.Bundle) { b.Agent = "writer" }, want: "AGT-3"},
		{name: "members-of-nobody", desc: "the bundle says that it is for an agent that has no member in it, and nobody in particular checks it", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Agent = "reader" },
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Agent = ""
				return a
			}, want: "AGT-3"},
		{name: "membership-proof-cut", desc: "the proof of the members is cut", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Membership = b.Membership[:len(b.Membership)-1] }, want: "AGT-3 SCO-5"},
		{name: "member-not-in-rollback-set", desc: "a member with another method than the decision commits to", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Members[2].Member.Method = entry.MethodNone }, want: "AGT-3 SCO-5"},
		{name: "member-misplaced", desc: "a member at another place", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Members[len(b.Members)-1].Place++ }, want: "AGT-3 SCO-5"},
		{name: "members-ascend", desc: "a decision commits to members in the wrong order", scene: automatic, prepare: planned("worker#draft", func(m *entry.Member) { m.Index = 99 }), want: "AGT-3 SCO-5"},
		{name: "member-twice", desc: "a decision commits to two members of one execution", scene: automatic,
			prepare: planned("worker#note", func(m *entry.Member) { m.Exec = "worker#memo" }), want: "AGT-3 SCO-5"},
		{name: "leaf-hash-other", desc: "the leaf hash is that of another entry", scene: automatic,
			prepare: planned("worker#note", func(m *entry.Member) { m.LeafHash[0] ^= 1 }), want: "worker#note: AGT-3"},
		{name: "index-of-a-later-entry", desc: "the index is that of a later entry of the execution", scene: automatic,
			prepare: planned("worker#memo", func(m *entry.Member) { m.Index++ }), change: with("worker#memo:confirmed"), want: "worker#memo: AGT-3"},
		{name: "exec-of-another-agent", desc: "the agent is told to undo what is another's", scene: automatic,
			prepare: planned("source#read", func(m *entry.Member) { m.Agent = "worker" }), want: "AGT-3"},
		{name: "member-entry-missing", desc: "the entry of a member is not shown", scene: automatic, change: drop("worker#note"), want: "worker#note: AGT-3"},
		{name: "member-without-chain", desc: "no chain leads to a member", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Steps = append(b.Steps[:3:3], b.Steps[4:]...) }, want: "worker#note: AGT-3"},
		{name: "entry-without-place", desc: "an entry on which nothing rests", scene: automatic,
			prepare: before("signal", func(w *world) { w.done("source#more", entry.EffectNone) }), change: with("source#more"), want: "AGT-3"},
		{name: "step-without-place", desc: "a step that leads to no member", scene: automatic,
			prepare: before("signal", func(w *world) { w.done("writer#more", entry.EffectNone, "worker#note") }),
			change: all(with("writer#more"), func(w *world, b *bundle.Bundle) {
				b.Steps = append(b.Steps, bundle.ChainStep{Exec: w.at["writer#more"], Rule: bundle.RuleDependent, From: w.at["worker#note"]})
			}), want: "AGT-3"},
		{name: "member-of-another-without-place", desc: "a member of another agent that nothing waits for", scene: automatic,
			change: all(drop("outcome"), func(_ *world, b *bundle.Bundle) { b.Members[1].After = nil }), want: "AGT-3"},
		{name: "outcome-of-another-incident", desc: "the outcome is of another incident", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Incident-- }), want: "AGT-3 INC-6"},
		{name: "outcome-of-no-member", desc: "the outcome is of an execution that is no member shown", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Exec = "writer#other" }), want: "AGT-3 INC-6"},
		{name: "outcome-by-another", desc: "another than the agent says what became of a member", scene: automatic,
			prepare: func(w *world) {
				w.signer["outcome"] = w.who["worker"]
				w.hooks["outcome"] = func(body entry.Body) { issue(body, "worker") }
			}, want: "AGT-3 INC-6"},
		{name: "outcome-does-not-fit", desc: "a compensation that ends restored", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Result, o.PostDigest = entry.Restored, zero }), want: "AGT-3 INC-6"},
		{name: "outcome-of-another-checkpoint", desc: "restored, but to another state than the checkpoint's", scene: restored,
			prepare: hook("draft restored", func(o *entry.Outcome) { o.PostDigest = ones }), want: "worker#draft: AGT-3 SCO-2"},
		{name: "outcome-twice", desc: "two outcomes of one member", scene: automatic,
			prepare: before("outcome", func(w *world) { w.outcome("outcome before", "writer#page", entry.ResultFailed) }),
			change:  with("outcome before"), want: "AGT-3 INC-6"},
		{name: "after-no-compensation", desc: "a compensation that is to wait for what is none", scene: approved,
			change: func(w *world, b *bundle.Bundle) {
				for i := range b.Members {
					if b.Members[i].Member.Exec == "worker#charge" {
						b.Members[i].After = []uint64{w.place("worker#mail")}
					}
				}
			}, want: "AGT-3 INC-7"},
		{name: "after-not-shown", desc: "a compensation that is to wait for a member that is not shown", scene: approved,
			change: func(w *world, b *bundle.Bundle) {
				for i := range b.Members {
					if b.Members[i].Member.Exec == "worker#charge" {
						b.Members[i].After = []uint64{w.place("writer#page")}
					}
				}
			}, want: "AGT-3 INC-7"},
		{name: "after-of-a-restore", desc: "a restore that is to wait for another's compensation", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Members[len(b.Members)-1].After = []uint64{0} }, want: "AGT-3 INC-7"},
	}
}

func methodCases() []bundleCase {
	method := func(name, desc, ref string, m entry.Method, checkpoint entry.Ref, want string) bundleCase {
		return bundleCase{name: "method-" + name, desc: desc, scene: approved, want: want,
			prepare: planned(ref, func(member *entry.Member) { member.Method, member.Checkpoint = m, checkpoint })}
	}
	return []bundleCase{
		method("restore-of-none", "restore of what has no effect", "worker#note", entry.MethodRestore, "worker#c0", "worker#note: AGT-3 SCO-4"),
		method("compensate-of-reversible", "compensation of what is reversible", "worker#memo", entry.MethodCompensate, "", "worker#memo: AGT-3 SCO-4"),
		method("residual-of-compensable", "what is compensable is given up", "worker#charge", entry.MethodResidual, "", "AGT-3 INC-6"),
		method("none-of-confirmed", "nothing is to be undone of what is confirmed", "worker#memo", entry.MethodNone, "", "worker#memo: AGT-3 SCO-4"),
		method("cancel-of-confirmed", "cancel of what was done", "worker#memo", entry.MethodCancel, "", "worker#memo: AGT-3 SCO-4"),
		method("unknown", "a method that nobody knows", "worker#memo", "forget", "", "worker#memo: AGT-3 SCO-4"),
		method("restore-without-checkpoint", "restore to nowhere", "worker#memo", entry.MethodRestore, "", "worker#memo: AGT-3 SCO-4"),
		method("checkpoint-without-restore", "a checkpoint to cancel", "worker#later", entry.MethodCancel, "worker#c0", "worker#later: AGT-3 SCO-4"),
		method("checkpoint-unknown", "restore to a checkpoint that is not shown", "worker#memo", entry.MethodRestore, "worker#c9", "worker#memo: AGT-3 SCO-2"),
		{name: "restore-of-planned", desc: "restore of what never began", scene: approved,
			prepare: planned("worker#later", func(m *entry.Member) { m.Method, m.Checkpoint = entry.MethodRestore, "worker#c0" }), want: "worker#later: AGT-3 SCO-2"},
		{name: "member-is-compensation", desc: "a compensation is to be undone", scene: approved,
			prepare: hook("worker#note", func(x *entry.Execution) {
				x.Parents = []entry.Parent{}
				x.Compensates = &entry.Compensates{Exec: "worker#memo"}
			}), want: "worker#note: AGT-3"},
		{name: "checkpoint-expired", desc: "the checkpoint has expired by the agent's clock", scene: approved,
			prepare: hook("worker#c0", func(c *entry.Checkpoint) { c.ExpiresAt = 1790000000000 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "checkpoint-expired-since", desc: "the checkpoint has expired by the agent's clock, after one of the line was restored", scene: restored,
			prepare: hook("worker#c0", func(c *entry.Checkpoint) { c.ExpiresAt = 1790000000000 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "checkpoint-of-another-workflow", desc: "the checkpoint is of another line", scene: approved,
			prepare: hook("worker#c0", func(c *entry.Checkpoint) { c.Wid = "elsewhere" }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "checkpoint-too-new", desc: "the checkpoint was made after what it is to undo began", scene: further,
			prepare: planned("", func(m *entry.Member) { m.Checkpoint = "worker#c1" }), change: with("worker#c1"), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-goes-back-twice", desc: "one line, two checkpoints", scene: further,
			prepare: planned("worker#draft", func(m *entry.Member) { m.Checkpoint = "worker#c1" }), change: with("worker#c1"), want: "worker#draft: AGT-3 SCO-2"},
		{name: "cancel-began", desc: "cancel of what the bundle shows to have begun", scene: approved,
			prepare: before("signal", func(w *world) {
				w.exec("worker#later:started", entry.EffectReversible, entry.Started, "worker#draft")
			}), change: with("worker#later:started"), want: "worker#later: AGT-3 SCO-4"},
	}
}

func stepCases() []bundleCase {
	body := func(name string, change func(x *entry.Execution)) func(w *world) {
		return func(w *world) {
			h := func(body entry.Body) {
				x, _ := body.(*entry.Execution)
				change(x)
			}
			w.hooks[name], w.hooks[name+":confirmed"] = h, h
		}
	}
	return []bundleCase{
		{name: "chain-skips-an-edge", desc: "a chain leaves out the execution between two others", scene: automatic,
			change: step("worker#note", func(w *world, s *bundle.ChainStep) { s.From = w.at["source#read"] }), want: "worker#note: AGT-3 SCO-1"},
		{name: "soft-edge", desc: "a soft dependency is passed off as a hard one", scene: automatic,
			prepare: body("worker#draft", func(x *entry.Execution) { x.Parents[0].Dep = entry.Soft }), want: "worker#charge: AGT-3 SCO-1"},
		{name: "chain-against-time", desc: "the parent is younger than its child", scene: ranged,
			prepare: body("worker#draft", func(x *entry.Execution) { x.Parents[0].Exec = "worker#memo" }),
			change: func(w *world, b *bundle.Bundle) {
				b.Steps[0].Rule, b.Steps[0].From = bundle.RuleDependent, w.at["worker#memo"]
			}, want: "worker#draft: AGT-3 SCO-1"},
		{name: "chain-in-a-circle", desc: "a step rests on one that comes later", scene: automatic,
			change: step("worker#draft", func(w *world, s *bundle.ChainStep) { s.From = w.at["worker#note"] }), want: "worker#charge: AGT-3 SCO-1"},
		{name: "seed-of-no-signal", desc: "a seed by an entry that is no signal", scene: automatic,
			change: step("source#read", func(w *world, s *bundle.ChainStep) { s.From = w.at["decision"] }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "seed-of-another-execution", desc: "a seed by a signal about something else", scene: automatic,
			change: step("worker#note", func(w *world, s *bundle.ChainStep) { s.Rule, s.From = bundle.RuleSeed, w.at["signal"] }), want: "worker#note: AGT-3 SCO-3"},
		{name: "seed-dismissed", desc: "a seed by a signal that the decision does not believe", scene: approved,
			prepare: func(w *world) {
				h := func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Dismissed = []entry.Dismissal{{Index: d.Incident, Reason: "it is fine"}}
				}
				w.hooks["proposal"], w.hooks["decision"] = h, h
			}, want: "worker#draft: AGT-3 SCO-3"},
		{name: "since-without-evidence", desc: "a range by a monitor without evidence", scene: ranged,
			prepare: hook("signal", func(s *entry.Signal) { s.Evidence = nil }), want: "AGT-2 INC-2"},
		{name: "since-too-far", desc: "a range that reaches back further than the policy allows", scene: ranged,
			prepare: hook("policy", func(p *entry.Policy) { p.Windows.SinceMaxMS = 5000 }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-outside", desc: "an execution younger than the subject, as part of the range", scene: ranged,
			change: step("worker#charge", func(w *world, s *bundle.ChainStep) { s.Rule, s.From = bundle.RuleSeed, w.at["signal"] }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-of-executor", desc: "a range by an agent that is not the executor", scene: ranged,
			prepare: func(w *world) {
				w.signer["signal"] = w.who["writer"]
				w.hooks["signal"] = func(body entry.Body) {
					issue(body, "writer")
					s, _ := body.(*entry.Signal)
					s.Standing = entry.StandingDownstream
				}
				w.hooks["policy"] = func(body entry.Body) {
					p, _ := body.(*entry.Policy)
					p.Quorum.Signalers = 1
				}
			}, change: all(with("writer"), drop("monitor")), want: "worker#charge: AGT-3 SCO-3"},
		{name: "since-not-shown", desc: "where the range begins is not shown", scene: ranged,
			change: func(w *world, b *bundle.Bundle) {
				b.Members = b.Members[:len(b.Members)-2] // without draft and later
				w.proveScope(b)
				drop("worker#draft", "worker#later")(w, b)
				b.Steps = b.Steps[2:4]
			}, want: "worker#note: AGT-3 SCO-3"},
		{name: "since-executor-of-another", desc: "a range by who says that it executed what another did", scene: ranged,
			prepare: func(w *world) {
				w.signer["signal"] = w.who["writer"]
				w.hooks["signal"] = func(body entry.Body) {
					issue(body, "writer")
					s, _ := body.(*entry.Signal)
					s.Standing = entry.StandingExecutor
				}
				w.hooks["policy"] = func(body entry.Body) {
					p, _ := body.(*entry.Policy)
					p.Quorum.Signalers = 1
				}
			}, change: all(with("writer"), drop("monitor")), want: "AGT-2 INC-2"},
		{name: "since-of-another-agent", desc: "a range that begins at another agent's execution", scene: ranged,
			prepare: hook("signal", func(s *entry.Signal) { s.Since = "source#read" }), change: with("source", "source#read"), want: "worker#draft: AGT-3 SCO-3"},
		{name: "since-over-another-workflow", desc: "an execution of another workflow within the range", scene: ranged,
			prepare: func(w *world) { elsewhere(w, "worker#note") }, want: "worker#note: AGT-3 SCO-3"},
		{name: "line-by-cancelled", desc: "what is said to take the line back was cancelled", scene: further,
			prepare: hook("worker#draft:confirmed", func(x *entry.Execution) { x.Progress = entry.Cancelled }), change: with("worker#draft:confirmed"),
			want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-by-another-line", desc: "what is said to take the line back is on another", scene: further,
			prepare: func(w *world) { elsewhere(w, "worker#draft") }, want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-without-started", desc: "when an execution began is not shown", scene: further, change: drop("worker#slow:started"), want: "worker#slow: AGT-3 SCO-2"},
		{name: "line-by-no-checkpoint", desc: "what is given as the checkpoint is none", scene: automatic,
			change: step("worker#memo", func(w *world, s *bundle.ChainStep) { s.Checkpoint = w.at["source#read"] }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-by-checkpoint-of-another", desc: "the checkpoint is another agent's", scene: automatic,
			prepare: before("source#read", func(w *world) { w.checkpoint("source#c0", nil) }),
			change:  all(with("source#c0"), step("worker#memo", func(w *world, s *bundle.ChainStep) { s.Checkpoint = w.at["source#c0"] })),
			want:    "worker#memo: AGT-3 SCO-2"},
		{name: "line-with-planned", desc: "what never began is said to go back with its line", scene: automatic,
			change: step("worker#later", func(w *world, s *bundle.ChainStep) {
				s.Rule, s.Checkpoint = bundle.RuleLine, w.at["worker#c0"]
			}), want: "worker#later: AGT-3 SCO-2"},
		{name: "line-with-cancelled", desc: "what was cancelled is said to go back with its line", scene: automatic,
			prepare: hook("worker#memo:confirmed", func(x *entry.Execution) { x.Progress = entry.Cancelled }), change: with("worker#memo:confirmed"),
			want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-covered-unshown", desc: "what the checkpoint covers is not shown to have ended", scene: further,
			change: all(with("worker#c1"), step("worker#slow", func(w *world, s *bundle.ChainStep) {
				s.From, s.By, s.Checkpoint = w.at["worker#draft"], 0, w.at["worker#c1"]
			})), want: "worker#slow: AGT-3 SCO-2"},
		{name: "line-by-newer-checkpoint", desc: "the step is by a newer checkpoint than the one that the line goes back to", scene: further,
			change: all(with("worker#c1", "worker#memo:confirmed"), step("worker#slow", func(w *world, s *bundle.ChainStep) {
				s.From, s.By, s.Checkpoint = w.at["worker#draft"], 0, w.at["worker#c1"]
			})), want: "worker#draft: AGT-3 SCO-2"},
		{name: "line-from-planned", desc: "what never began is said to take the line back", scene: wholeLine,
			change: step("worker#memo", func(w *world, s *bundle.ChainStep) { s.From, s.By = w.at["worker#later"], 0 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-of-another-agent", desc: "a line goes back because another agent's does", scene: automatic,
			change: step("worker#memo", func(w *world, s *bundle.ChainStep) { s.From = w.at["source#read"] }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-of-another-workflow", desc: "an execution of another workflow, by an agent whose span is the workflow", scene: automatic,
			prepare: body("worker#memo", func(x *entry.Execution) { x.Wid = "elsewhere" }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-without-reversible", desc: "nothing on the line is there to be restored", scene: further,
			change: step("worker#memo", func(_ *world, s *bundle.ChainStep) { s.By = 0 }), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-covered", desc: "the checkpoint covers the execution that is said to go back", scene: further,
			change: all(with("worker#c1", "worker#memo:confirmed"), step("worker#memo", func(w *world, s *bundle.ChainStep) {
				s.From, s.By, s.Checkpoint = w.at["worker#draft"], 0, w.at["worker#c1"]
			})), want: "worker#memo: AGT-3 SCO-2"},
		{name: "line-checkpoint-too-new", desc: "the checkpoint was made after what takes the line back began", scene: further,
			change: all(with("worker#c1"), step("worker#memo", func(w *world, s *bundle.ChainStep) { s.Checkpoint = w.at["worker#c1"] })),
			want:   "worker#memo: AGT-3 SCO-2"},
		{name: "declares-another-effect", desc: "a later entry declares another effect", scene: further,
			prepare: func(w *world) {
				w.hooks["worker#slow:confirmed"] = func(body entry.Body) {
					x, _ := body.(*entry.Execution)
					x.Effect = entry.EffectNone
				}
			}, want: "AGT-3 EXE-1"},
	}
}
