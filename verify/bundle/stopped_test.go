package bundle_test

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// stopped is an incident that an operator has overridden before the worker did
// anything, and that two approvers have had amended since, on a second signal: what is new in the
// plan is open, the rest stays withheld.
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
	d := w.decision("coordinator", entry.ActEscalate, 2, "signal", "second signal")
	w.put("proposal", "coordinator", d)
	w.approve("anna approves", "anna")
	w.approve("bert approves", "bert")
	pin := d.Pin
	d = w.decision("coordinator", entry.ActAmend, 3, "signal", "second signal")
	first := w.refTo("first")
	d.Supersedes, d.Pin, d.Approvals = &first, pin, []uint64{w.at["anna approves"], w.at["bert approves"]}
	w.put("decision", "coordinator", d)
	w.now = w.At + 1000
	steps := append(w.steps(), bundle.ChainStep{Exec: w.at["source#aside"], Rule: bundle.RuleSeed, From: w.at["second signal"]},
		bundle.ChainStep{Exec: w.at["worker#idle"], Rule: bundle.RuleDependent, From: w.at["source#aside"]})
	shown := slices.DeleteFunc(pipelineEntries(), func(name string) bool { return name == "writer" })
	b := w.bundle("worker", accepted, steps, append(append(shown, approvalEntries()...), "operator", "monitor", "source#aside", "worker#idle", "override", "second signal")...)
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

// stoppedAloneCases are amends after an override without approvals (OVR-3). A member that only a
// vote stands before says that the amend opened it.
func stoppedAloneCases() []bundleCase {
	alone := hook("decision", func(d *entry.Decision) { d.Approvals = nil })
	votes := func(names ...string) func(w *world) {
		return func(w *world) {
			alone(w)
			for i, name := range names {
				at := "override"
				if i > 0 {
					at += " " + name
				}
				w.hooks[at] = func(body entry.Body) { issue(body, entry.Principal(name)) }
				w.signer[at] = w.who[name]
			}
			before("second signal", func(w *world) {
				for i, name := range names[1:] {
					w.override("override "+name, int64(i)+2)
				}
			})(w)
		}
	}
	opened := func(w *world, b *bundle.Bundle) {
		for _, ref := range []entry.Ref{"worker#draft", "worker#memo", "worker#charge", "worker#later"} {
			by(ref, "decision")(w, b)
		}
		drop("proposal", "bert", "anna approves", "bert approves")(w, b)
	}
	taken := func(name string) func(w *world) { // once the votes are cast
		return func(w *world) {
			vote := w.before["second signal"]
			before("second signal", func(w *world) {
				vote()
				w.put("taken "+name, "authority", w.Agent(w.who["authority"], entry.Revoke, w.who[name], entry.RoleApprover))
			})(w)
		}
	}
	return []bundleCase{
		{name: "stopped-alone", desc: "the coordinator amends alone what an operator stopped", scene: stopped, prepare: alone, want: "AGT-2 OVR-3"},
		{name: "stopped-alone-by-approvers", desc: "the coordinator amends alone what two approvers stopped", scene: stopped,
			prepare: votes("anna", "bert"), change: all(opened, with("bert", "override bert")), want: "AGT-2 OVR-3"},
		{name: "stopped-alone-by-three", desc: "three votes stopped it, and one of the keys has been revoked since", scene: stopped,
			prepare: both(votes("anna", "bert", "carl"), taken("anna")), change: all(opened, with("bert", "carl", "override bert", "override carl", "taken anna")), want: "AGT-2 OVR-3"},
		{name: "good-stopped-by-none", desc: "one approver alone stops nothing: the coordinator amends without approvals", scene: stopped,
			prepare: votes("anna"), change: opened},
		{name: "good-stopped-by-one-twice", desc: "one approver votes twice, which stops nothing", scene: stopped,
			prepare: votes("anna", "anna"), change: all(opened, with("override anna"))},
		{name: "good-stopped-by-revoked", desc: "of two votes one is by a key that was revoked, which leaves one", scene: stopped,
			prepare: both(votes("anna", "bert"), taken("bert")), change: all(opened, with("bert", "override bert", "taken bert"))},
	}
}
