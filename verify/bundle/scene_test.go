package bundle_test

import (
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// accepted is how many entries the worker has accepted before: the company.
const accepted = 11

// work logs what the agents did: the source read something wrong, the worker
// went on from it, and the writer from that.
func (w *world) pipeline() {
	w.TB.Helper()
	w.checkpoint("worker#c0", nil)
	w.done("source#read", entry.EffectNone)
	w.done("worker#draft", entry.EffectReversible, "source#read")
	w.exec("worker#later", entry.EffectReversible, entry.Planned, "worker#draft")
	w.done("worker#note", entry.EffectNone, "worker#draft", "~source#read")
	w.done("worker#memo", entry.EffectReversible)
	w.done("worker#charge", entry.EffectCompensable, "worker#draft")
	w.done("writer#page", entry.EffectCompensable, "worker#charge")
}

// plan is what the rules make of the pipeline.
func (w *world) plan() {
	w.TB.Helper()
	w.member("source#read", entry.MethodNone, "")
	w.member("worker#draft", entry.MethodRestore, "worker#c0")
	w.member("worker#later", entry.MethodCancel, "")
	w.member("worker#note", entry.MethodNone, "")
	w.member("worker#memo", entry.MethodRestore, "worker#c0")
	w.member("worker#charge", entry.MethodCompensate, "")
	w.member("writer#page", entry.MethodCompensate, "")
}

// steps are why the worker's executions are in the plan.
func (w *world) steps() []bundle.ChainStep {
	return []bundle.ChainStep{
		{Exec: w.at["source#read"], Rule: bundle.RuleSeed, From: w.at["signal"]},
		{Exec: w.at["worker#draft"], Rule: bundle.RuleDependent, From: w.at["source#read"]},
		{Exec: w.at["worker#later"], Rule: bundle.RuleDependent, From: w.at["worker#draft"]},
		{Exec: w.at["worker#note"], Rule: bundle.RuleDependent, From: w.at["worker#draft"]},
		{Exec: w.at["worker#memo"], Rule: bundle.RuleLine, From: w.at["worker#draft"], Checkpoint: w.at["worker#c0"]},
		{Exec: w.at["worker#charge"], Rule: bundle.RuleDependent, From: w.at["worker#draft"]},
	}
}

// pipelineEntries are the names of what the bundle shows of the pipeline.
func pipelineEntries() []string {
	return []string{"enroller", "coordinator", "source", "worker", "writer", "worker#c0", "source#read", "worker#draft", "worker#later",
		"worker#note", "worker#memo", "worker#charge", "signal", "decision"}
}

// ahead puts the writer's compensation before the worker's.
func (w *world) ahead(b *bundle.Bundle) {
	w.TB.Helper()
	page, charge := w.place("writer#page"), w.place("worker#charge")
	list := []bundle.PlanMember{{Place: page, Member: w.members[page]}}
	for _, m := range b.Members {
		if m.Place == charge {
			m.After = []uint64{page}
		}
		list = append(list, m)
	}
	b.Members = list
	w.proveScope(b)
}

// automatic is an incident that the coordinator authorizes alone. It returns the
// worker's bundle once the writer has compensated.
func automatic(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.company()
	w.pipeline()
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	w.put("decision", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
	w.outcome("outcome", "writer#page", entry.Compensated)
	w.now = w.At + 1000
	b := w.bundle("worker", accepted, w.steps(), append(pipelineEntries(), "outcome")...)
	w.ahead(b)
	return w, b
}

// approved is an incident with an effect that cannot be undone, so that people
// approve what is done about it. The worker's line is to be restored.
func approved(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.company()
	w.pipeline()
	w.done("worker#mail", entry.EffectIrrevocable, "worker#draft")
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	w.member("worker#mail", entry.MethodResidual, "")
	w.authorize(1)
	w.outcome("paged back", "writer#page", entry.Compensated)
	w.outcome("charged back", "worker#charge", entry.Compensated)
	w.now = w.At + 1000
	steps := append(w.steps(), bundle.ChainStep{Exec: w.at["worker#mail"], Rule: bundle.RuleDependent, From: w.at["worker#draft"]})
	b := w.bundle("worker", accepted, steps, slices.Concat(pipelineEntries(), approvalEntries(),
		[]string{"worker#mail", "charged back"})...)
	return w, b
}

// amended is an incident whose first signal turns out to be dismissed, after a
// second one by the monitor has named the worker's memo: what the first brought
// into the plan stays.
func amended(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.company()
	w.pipeline()
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	w.put("first", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
	w.monitored("second signal", "worker#memo")
	d := w.decision("coordinator", entry.ActAmend, 1, "signal", "second signal")
	first := w.refTo("first")
	d.Supersedes, d.Dismissed = &first, []entry.Dismissal{{Index: w.at["signal"], Reason: "it read the right thing"}}
	w.put("decision", "coordinator", d)
	w.now = w.At + 1000
	steps := w.steps()
	steps[4] = bundle.ChainStep{Exec: w.at["worker#memo"], Rule: bundle.RuleSeed, From: w.at["second signal"]}
	b := w.bundle("worker", accepted, steps, append(pipelineEntries(), "monitor", "second signal", "first")...)
	w.ahead(b)
	return w, b
}

// monitored logs the monitor's signal, with evidence.
func (w *world) monitored(name string, subject entry.Ref) {
	w.TB.Helper()
	w.put(name, "monitor", &entry.Signal{Header: w.Work("monitor"), Subject: subject, Class: "output", Code: "ungrounded",
		Standing: entry.StandingMonitor, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: w.At,
		Evidence: []entry.Evidence{{Digest: ones}}})
}

// restored is the automatic incident with the worker's compensation and one of
// its restores done.
func restored(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w, b := automatic(tb, prepare)
	w.outcome("charged back", "worker#charge", entry.Compensated)
	w.outcome("draft restored", "worker#draft", entry.Restored)
	w.now = w.At + 1000
	again := w.bundle("worker", accepted, b.Steps, append(pipelineEntries(), "outcome", "charged back", "draft restored")...)
	w.ahead(again)
	return w, again
}

// plain changes nothing of a scene.
func plain(*world) {}

// state is what the worker accepted before: the first entries, confirmed.
func (w *world) state() bundle.Accepted {
	w.TB.Helper()
	a := bundle.Accepted{Root: w.Root, Agent: "worker", Head: w.Signed(accepted), Confirmed: true}
	for _, index := range []uint64{0, w.at["enroller"], w.at["worker"]} {
		a.Links = append(a.Links, bundle.Leaf{Index: index, Bytes: w.Leaves[index]})
	}
	return a
}

// fresh is the state of somebody who accepted nothing yet.
func (w *world) fresh() bundle.Accepted { return bundle.Accepted{Root: w.Root, Agent: "worker"} }

// authorize logs proposal, approvals and decision about the plan.
func (w *world) authorize(irrevocable int64) {
	w.TB.Helper()
	proposal := w.decision("coordinator", entry.ActEscalate, 1, "signal")
	proposal.Impact.Irrevocable = irrevocable
	pin, signals, scope, impact := *proposal.Pin, *proposal.Signals, *proposal.RollbackSet, *proposal.Impact // before a hook changes them
	w.put("proposal", "coordinator", proposal)
	w.approve("anna approves", "anna")
	w.approve("bert approves", "bert")
	d := w.decision("coordinator", entry.ActAuthorize, 1, "signal")
	d.Pin, d.Signals, d.RollbackSet, d.Impact, d.Approvals = &pin, &signals, &scope, &impact, []uint64{w.at["anna approves"], w.at["bert approves"]}
	w.put("decision", "coordinator", d)
}

// approvalEntries are the names of what shows that people approved.
func approvalEntries() []string {
	return []string{"proposal", "anna", "bert", "anna approves", "bert approves"}
}

// ranged is an incident whose signal reaches back over a range of the worker's
// executions.
func ranged(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.company()
	w.pipeline()
	w.put("signal", "monitor", &entry.Signal{Header: w.Work("monitor"), Subject: "worker#memo", Since: "worker#draft", Class: "output", Code: "ungrounded",
		Standing: entry.StandingMonitor, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, ObservedAt: w.At,
		Evidence: []entry.Evidence{{Digest: ones}}})
	w.plan()
	w.members = w.members[:len(w.members)-1] // the source is not in it
	w.put("decision", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
	w.now = w.At + 1000
	var steps []bundle.ChainStep
	for _, name := range []string{"worker#draft", "worker#later", "worker#note", "worker#memo"} {
		steps = append(steps, bundle.ChainStep{Exec: w.at[name], Rule: bundle.RuleSeed, From: w.at["signal"]})
	}
	steps = append(steps, bundle.ChainStep{Exec: w.at["worker#charge"], Rule: bundle.RuleDependent, From: w.at["worker#draft"]})
	b := w.bundle("worker", accepted, steps, "enroller", "coordinator", "monitor", "worker", "worker#c0", "worker#draft", "worker#later",
		"worker#note", "worker#memo", "worker#charge", "signal", "decision")
	w.ahead(b)
	return w, b
}

// wholeLine is an incident on a line without any checkpoint.
func wholeLine(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.skip["worker#c0"] = true
	w.company()
	w.pipeline()
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.plan()
	for i := range w.members {
		if w.members[i].Method == entry.MethodRestore {
			w.members[i].Method, w.members[i].Checkpoint = entry.MethodResidual, ""
		}
	}
	w.authorize(0)
	w.now = w.At + 1000
	b := w.bundle("worker", accepted, w.steps(), append(approvalEntries(), "enroller", "coordinator", "source", "worker", "source#read",
		"worker#draft", "worker#later", "worker#note", "worker#memo", "worker#charge", "signal", "decision")...)
	w.ahead(b)
	return w, b
}

// further is an incident in which the line goes further back than the execution
// that takes it back asks for.
func further(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w := newWorld(tb)
	prepare(w)
	w.company()
	w.checkpoint("worker#c0", nil)
	w.done("source#read", entry.EffectNone)
	w.exec("worker#slow", entry.EffectReversible, entry.Planned)
	w.exec("worker#slow:started", entry.EffectReversible, entry.Started)
	w.done("worker#buy", entry.EffectCompensable, "source#read")
	w.done("worker#memo", entry.EffectReversible)
	memo := entry.Ref("worker#memo")
	w.checkpoint("worker#c1", &memo)
	w.done("worker#draft", entry.EffectReversible, "source#read")
	w.exec("worker#slow:confirmed", entry.EffectReversible, entry.Confirmed)
	w.signal("signal", "source", "source#read", entry.StandingExecutor)
	w.member("source#read", entry.MethodNone, "")
	w.member("worker#buy", entry.MethodCompensate, "")
	w.member("worker#slow", entry.MethodRestore, "worker#c0")
	w.member("worker#memo", entry.MethodRestore, "worker#c0")
	w.member("worker#draft", entry.MethodRestore, "worker#c0")
	w.put("decision", "coordinator", w.decision("coordinator", entry.ActAuthorize, 0, "signal"))
	w.now = w.At + 1000
	back := bundle.ChainStep{Rule: bundle.RuleLine, From: w.at["worker#buy"], By: w.at["worker#draft"], Checkpoint: w.at["worker#c0"]}
	memoStep, slow := back, back
	memoStep.Exec, slow.Exec = w.at["worker#memo"], w.at["worker#slow"]
	steps := []bundle.ChainStep{
		{Exec: w.at["source#read"], Rule: bundle.RuleSeed, From: w.at["signal"]},
		{Exec: w.at["worker#buy"], Rule: bundle.RuleDependent, From: w.at["source#read"]},
		{Exec: w.at["worker#draft"], Rule: bundle.RuleDependent, From: w.at["source#read"]},
		memoStep, slow,
	}
	return w, w.bundle("worker", accepted, steps, "enroller", "coordinator", "source", "worker", "worker#c0", "source#read", "worker#slow",
		"worker#slow:started", "worker#slow:confirmed", "worker#buy", "worker#memo", "worker#draft", "signal", "decision")
}
