package bundle_test

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// stopped is an incident that an operator has overridden before the worker did
// anything, and that a second one has had amended since: what is new in the plan
// is open, the rest stays withheld.
func stopped(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	hook("policy", func(p *entry.Policy) {
		for _, limit := range []*entry.Cap{&p.Limits.Incident, &p.Limits.Signaler, &p.Limits.Victim} {
			limit.Members++
		}
	})(w)
	before("worker#c0", func(w *world) { w.done("source#aside", entry.EffectNone) })(w)
	before("worker#note", func(w *world) { w.exec("worker#idle", entry.EffectReversible, entry.Planned, "source#aside") })(w)
	hook("worker#later", func(x *entry.Execution) {
		x.Parents = append(x.Parents, entry.Parent{Exec: "source#aside", Dep: entry.Hard})
	})(w)
	prepare(w)
	w.company()
	w.pipeline()
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	w.put("first", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
	w.override("override", 1)
	w.monitored("second signal", "source#aside")
	w.done("source#more", entry.EffectNone) // so that no index of a decision is near another's
	w.member("source#aside", entry.MethodNone, "")
	w.member("worker#idle", entry.MethodCancel, "")
	d := w.decision("coordinator", entry.ActAmend, 2, "signal", "second signal")
	first := w.refTo("first")
	d.Supersedes = &first
	w.put("decision", "coordinator", d)
	w.now = w.At + 1000
	steps := append(w.steps(), bundle.ChainStep{Exec: w.at["source#aside"], Rule: bundle.RuleSeed, From: w.at["second signal"]},
		bundle.ChainStep{Exec: w.at["worker#idle"], Rule: bundle.RuleDependent, From: w.at["source#aside"]})
	shown := slices.DeleteFunc(pipelineEntries(), func(name string) bool { return name == "writer" })
	b := w.bundle("worker", accepted, steps, append(shown, "operator", "monitor", "source#aside", "worker#idle", "override", "second signal")...)
	for i := range b.Members {
		switch m := &b.Members[i]; {
		case m.Member.Method == entry.MethodNone:
		case m.Member.Exec == "worker#idle":
			m.By = w.at["decision"]
		default:
			m.By = w.at["override"]
		}
	}
	return w, b
}

// override logs that the operator stops the incident.
func (w *world) override(name string, epoch int64) {
	w.TB.Helper()
	w.put(name, "operator", &entry.Decision{Header: w.Work("operator"), Incident: w.at["signal"], Act: entry.ActOverride,
		Policy: w.refTo("policy"), Epoch: epoch, Exp: w.At/1000 + 1800, Reason: "stop"})
}

// by has a member say that it is as it is by another entry.
func by(ref entry.Ref, name string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		for i := range b.Members {
			if b.Members[i].Member.Exec == ref {
				b.Members[i].By = w.at[name]
			}
		}
	}
}

func stoppedCases() []bundleCase {
	return []bundleCase{
		{name: "by-left-out", desc: "an override is shown, and not whether it withheld a member", scene: stopped, change: by("worker#draft", ""), want: "AGT-3 INC-6"},
		{name: "by-older-decision", desc: "a member is open by a decision before the override", scene: stopped,
			change: all(by("worker#draft", "first"), with("first")), want: "AGT-3 INC-6"},
		{name: "by-missing", desc: "a member is open by a decision that is not shown", scene: stopped, change: by("worker#draft", "first"), want: "AGT-3 INC-6"},
		{name: "by-signal", desc: "a member is withheld by a signal", scene: stopped, change: by("worker#draft", "signal"), want: "AGT-3 INC-6"},
		{name: "by-another-incident", desc: "a member is withheld by an override of another incident", scene: stopped,
			prepare: before("second signal", func(w *world) {
				w.hooks["other"] = func(body entry.Body) { body.(*entry.Decision).Incident-- }
				w.override("other", 1)
			}), change: all(by("worker#draft", "other"), with("other")), want: "AGT-3 INC-6"},
		{name: "by-without-override", desc: "a member is open by the decision, and nobody has overridden it", scene: amended,
			change: by("worker#draft", "decision"), want: "AGT-3 INC-6"},
		{name: "by-of-none", desc: "there is nothing to undo, and an override is said to have withheld it", scene: stopped,
			change: by("worker#note", "override"), want: "AGT-3 INC-6"},
		{name: "override-dropped", desc: "members are withheld by an override that is not shown", scene: stopped, change: drop("override"), want: "AGT-3 INC-6"},
		{name: "override-by-agent", desc: "an agent overrides", scene: stopped,
			prepare: func(w *world) {
				w.signer["override"] = w.who["worker"]
				w.hooks["override"] = func(body entry.Body) { issue(body, "worker") }
			}, want: "AGT-2 TRU-2"},
	}
}
