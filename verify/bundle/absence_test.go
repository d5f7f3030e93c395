package bundle_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// whole is the automatic incident under a policy that wants bundles to leave nothing
// out. Behind the index entry stand an execution and a signal of another incident.
func whole(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle) {
	tb.Helper()
	w, b := automatic(tb, func(w *world) {
		hook("policy", func(p *entry.Policy) { p.Index = &entry.IndexPolicy{Required: true} })(w)
		prepare(w)
	})
	if before := w.before["index"]; before != nil { // what the ledger hides
		delete(w.before, "index")
		before()
	}
	x := w.Index(len(w.Leaves))
	w.put("index", "coordinator", x.Entry(w.Header("coordinator")))
	w.behind(b)
	w.show(b, x)
	return w, b
}

// behind logs what the index does not cover.
func (w *world) behind(b *bundle.Bundle) {
	w.TB.Helper()
	w.done("writer#more", entry.EffectNone)
	w.monitored("other signal", "writer#more")
	w.now = w.At + 1000
	w.prove(b, append(indexesOf(b), w.at["monitor"], w.at["index"]))
}

// propose logs a proposal to amend that expires after some seconds.
func (w *world) propose(seconds int64) {
	w.TB.Helper()
	d := w.decision("coordinator", entry.ActEscalate, 1, "signal")
	d.Exp = w.At/1000 + seconds
	w.put("proposal", "coordinator", d)
}

func indexesOf(b *bundle.Bundle) (indexes []uint64) {
	for _, leaf := range b.Entries {
		indexes = append(indexes, leaf.Index)
	}
	return indexes
}

// show has a bundle prove by an index, under the newest head, that it leaves nothing
// out: as a ledger does that has nothing to hide.
func (w *world) show(b *bundle.Bundle, x *testlog.Index) {
	w.TB.Helper()
	size := len(w.Leaves)
	b.Head, b.Consistency = w.Signed(size), w.Consistency(int(b.From), size).Path
	b.Index = w.at["index"]
	b.Indexed = x.Prove(w.subjects()...)
	indexes := indexesOf(b)
	for index := x.Size; index < uint64(size); index++ {
		indexes = append(indexes, index)
	}
	w.prove(b, indexes)
}

func (w *world) subjects() []entry.Subject {
	return []entry.Subject{
		{Type: entry.SubjectIncident, Value: entry.IncidentValue(w.at["signal"])}, {Type: entry.SubjectLog},
		{Type: entry.SubjectAgent, Value: "coordinator"}, {Type: entry.SubjectAgent, Value: "source"},
	}
}

// hidden logs entries before the index, which the bundle does not show.
func hidden(log func(w *world)) func(w *world) {
	return func(w *world) { w.before["index"] = func() { log(w) } }
}

// without takes a subject out of the proof, and proves the others.
func without(kind entry.SubjectType, value string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		x, subjects := w.Index(int(w.at["index"])), w.subjects()
		b.Indexed = x.Prove(slices.DeleteFunc(subjects, func(s entry.Subject) bool { return s.Type == kind && (value == "" || s.Value == value) })...)
	}
}

// subject changes what is shown of a subject.
func subject(kind entry.SubjectType, change func(s *verify.SubjectProof)) func(w *world, b *bundle.Bundle) {
	return func(_ *world, b *bundle.Bundle) {
		for i := range b.Subjects {
			if b.Subjects[i].Type == kind {
				change(&b.Subjects[i])
			}
		}
	}
}

// stale has the index be that of a smaller log, and shows nothing of what came since:
// what a ledger tries that hides an override.
func stale(size func(w *world) uint64) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		x := w.Index(int(size(w)))
		delete(w.at, "index")
		w.put("index", "coordinator", x.Entry(w.Header("coordinator")))
		keep := indexesOf(b)
		w.show(b, x)
		w.prove(b, append(keep, w.at["index"]))
	}
}

// absenceCases are ABS-1 to ABS-4: what a ledger tries that hides an entry behind what
// it shows.
func absenceCases() []bundleCase {
	override := func(w *world) { w.override("override", 1) }
	revoke := func(w *world) {
		a := w.Agent(w.who["authority"], entry.Revoke, w.who["coordinator"], entry.RoleCoordinator)
		a.CompromisedSince = &entry.Compromised{Index: w.at["decision"]}
		w.put("revocation", "authority", a)
		w.who["coordinator"] = testlog.NewKey(w.TB, "coordinator", "second")
		w.put("again", "authority", w.Agent(w.who["authority"], entry.Enrol, w.who["coordinator"], entry.RoleCoordinator))
	}
	policy := func(w *world) {
		p := w.policyOf("authority")
		previous := w.refTo("policy")
		p.Previous = &previous
		w.put("newer policy", "authority", p)
	}
	return []bundleCase{
		{name: "good-whole", desc: "nothing stands behind what is cited, up to the head", scene: whole},
		{name: "good-whole-unasked", desc: "the policy does not want the proof, and it holds", scene: whole,
			prepare: hook("policy", func(p *entry.Policy) { p.Index = nil })},
		{name: "whole-none", desc: "the policy wants the proof, and there is none", scene: whole,
			change: all(func(_ *world, b *bundle.Bundle) { b.Index, b.Indexed = 0, verify.Indexed{} }, drop("index", "writer#more", "other signal", "monitor")), want: "AGT-2 ABS-1"},
		{name: "whole-override-hidden", desc: "an override is in the log and not in the bundle", scene: whole, prepare: hidden(override), want: "AGT-2 ABS-2"},
		{name: "whole-override-list-cut", desc: "and its list is not shown", scene: whole, prepare: hidden(override),
			change: subject(entry.SubjectIncident, func(s *verify.SubjectProof) {
				s.Lists = slices.DeleteFunc(s.Lists, func(l verify.ListRun) bool { return l.Label == "decision/override" })
			}), want: "AGT-2 ABS-2"},
		{name: "whole-override-row-cut", desc: "and its row is left out too", scene: whole, prepare: hidden(override),
			change: subject(entry.SubjectIncident, func(s *verify.SubjectProof) {
				s.Lists = slices.DeleteFunc(s.Lists, func(l verify.ListRun) bool { return l.Label == "decision/override" })
				i := slices.IndexFunc(s.Rows, func(r merkle.Row) bool { return r.Label == "decision/override" })
				s.Rows = slices.Delete(s.Rows, i, i+1)
			}), want: "AGT-2 ABS-1"},
		{name: "whole-override-shown", desc: "it is shown, and so the decision is not the newest", scene: whole, prepare: hidden(override),
			change: with("operator", "override"), want: "AGT-2"},
		{name: "whole-override-behind", desc: "an override stands behind the index, and is left out", scene: whole,
			change: func(w *world, b *bundle.Bundle) {
				w.override("override", 1)
				w.show(b, w.Index(int(w.at["index"])))
				drop("override")(w, b)
			}, want: "AGT-2 ABS-1"},
		{name: "whole-stale", desc: "the index is of the log before the override", scene: whole, prepare: hidden(override),
			change: stale(func(w *world) uint64 { return w.at["override"] }), want: "AGT-2 ABS-1"},
		{name: "whole-stale-decision", desc: "the index is of the log before the decision", scene: whole,
			change: stale(func(w *world) uint64 { return w.at["decision"] }), want: "AGT-2 ABS-1"},
		{name: "whole-escalate-hidden", desc: "a proposal to amend is in the log and not in the bundle", scene: whole,
			prepare: hidden(func(w *world) {
				w.put("proposal", "coordinator", w.decision("coordinator", entry.ActEscalate, 1, "signal"))
			}), want: "AGT-2 ABS-2"},
		{name: "whole-escalate-shown", desc: "it is shown and has not expired: a member is not undone while its plan is being changed", scene: whole,
			prepare: hidden(func(w *world) { w.propose(3600) }), change: with("proposal"), want: "AGT-2"},
		{name: "good-whole-escalate-expired", desc: "it is shown, nobody carried it out before it expired, and the plan goes on", scene: whole,
			prepare: hidden(func(w *world) { w.propose(0) }), change: with("proposal")},
		{name: "whole-revocation-hidden", desc: "the coordinator's key was revoked as compromised", scene: whole,
			prepare: hidden(revoke), change: with("again"), want: "AGT-2 ABS-3"},
		{name: "whole-revocation-shown", desc: "and that is shown", scene: whole,
			prepare: hidden(revoke), change: with("again", "revocation"), want: "AGT-2 TRU-4"},
		{name: "whole-signaler-revoked", desc: "a key of who signaled was revoked, and that is not in the bundle", scene: whole,
			prepare: hidden(func(w *world) {
				w.put("revocation", "enroller", w.Agent(w.who["enroller"], entry.Revoke, w.who["source"], entry.RoleAgent))
			}), want: "AGT-2 ABS-3"},
		{name: "whole-policy-hidden", desc: "a newer policy is in the log and not in the bundle", scene: whole, prepare: hidden(policy), want: "AGT-2 ABS-4"},
		{name: "good-whole-policy-shown", desc: "it is in the bundle: the decision cites the one that was in force", scene: whole, prepare: hidden(policy), change: with("newer policy")},
		{name: "whole-incident-missing", desc: "nothing is shown about the incident", scene: whole, change: without(entry.SubjectIncident, ""), want: "AGT-2 ABS-2"},
		{name: "whole-signer-missing", desc: "nothing is shown about who signaled", scene: whole, change: without(entry.SubjectAgent, "source"), want: "AGT-2 ABS-3"},
		{name: "whole-log-missing", desc: "nothing is shown about policies", scene: whole, change: without(entry.SubjectLog, ""), want: "AGT-2 ABS-4"},
		{name: "whole-subject-unneeded", desc: "something is shown about whom nothing rests on", scene: whole, change: func(w *world, b *bundle.Bundle) {
			b.Indexed = w.Index(int(w.at["index"])).Prove(append(w.subjects(), entry.Subject{Type: entry.SubjectAgent, Value: "writer"})...)
		}, want: "AGT-2 ABS-1"},
		{name: "whole-prefix-left-over", desc: "a hash of the prefix is left over", scene: whole,
			change: func(_ *world, b *bundle.Bundle) { b.Prefix = append(b.Prefix, verify.Sibling{}) }, want: "AGT-2 ABS-1"},
		{name: "whole-index-is-none", desc: "the entry named is no index", scene: whole,
			change: func(w *world, b *bundle.Bundle) { b.Index = w.at["writer#more"] }, want: "AGT-2 ABS-1"},
		{name: "whole-index-missing", desc: "the index entry is left out", scene: whole, change: drop("index"), want: "AGT-2 ABS-1"},
		{name: "whole-index-ahead", desc: "the index covers more than stands before it", scene: whole,
			prepare: hook("index", func(x *entry.LogIndex) { x.Size += 2 }), want: "AGT-2 ABS-1"},
		{name: "whole-index-by-operator", desc: "an operator signs the index", scene: whole,
			prepare: func(w *world) {
				hook("index", func(x *entry.LogIndex) { x.Iss = "operator" })(w)
				w.signer["index"] = w.who["operator"]
			}, change: with("operator"), want: "AGT-2 TRU-2"},
		{name: "whole-root-false", desc: "the index has another root", scene: whole,
			prepare: hook("index", func(x *entry.LogIndex) { x.Root[0] ^= 1 }), want: "AGT-2 ABS-1"},
	}
}

// TestWholeSaysWhatItChecked: what was listed as not checked is checked.
func TestWholeSaysWhatItChecked(t *testing.T) {
	c := bundleCase{scene: whole}
	_, b, a, now := c.build(t)
	v, err := b.Check(a, now)
	must(t, err)
	var checked []string
	for _, p := range v.Checked {
		checked = append(checked, p.Rule)
	}
	for _, rule := range []string{"ABS-1", "ABS-2", "ABS-3", "ABS-4"} {
		if !slices.Contains(checked, rule) {
			t.Errorf("%s is not among %q", rule, checked)
		}
	}
	if text := strings.Join(v.NotChecked, "\n"); strings.Contains(text, "a later policy") || !strings.Contains(text, "root of the index") {
		t.Errorf("not checked: %s", text)
	}
}

// TestBundleWithoutIndexForm: an index and its subjects stand together, with a decision.
func TestBundleWithoutIndexForm(t *testing.T) {
	c := bundleCase{scene: whole}
	for name, change := range map[string]func(b *bundle.Bundle){
		"no index":    func(b *bundle.Bundle) { b.Index = 0 },
		"no subjects": func(b *bundle.Bundle) { b.Indexed = verify.Indexed{} },
		"no decision": func(b *bundle.Bundle) { b.Decision, b.Members, b.Steps, b.Membership = 0, nil, nil, nil },
		"many":        func(b *bundle.Bundle) { b.Subjects = make([]verify.SubjectProof, verify.MaxSubjects+1) },
	} {
		_, b, _, _ := c.build(t)
		change(b)
		if _, err := b.Encode(); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}

// TestTheSignerOfTheIndexIsAskedFor has a second coordinator sign the index, who signed
// nothing else: the proof has to show that no key of that signer was taken back.
func TestTheSignerOfTheIndexIsAskedFor(t *testing.T) {
	deputy := entry.Subject{Type: entry.SubjectAgent, Value: "deputy"}
	c := bundleCase{scene: whole, prepare: func(w *world) {
		w.who["deputy"] = testlog.NewKey(w.TB, "deputy", "first")
		hidden(func(w *world) {
			w.put("deputy", "authority", w.Agent(w.who["authority"], entry.Enrol, w.who["deputy"], entry.RoleCoordinator))
		})(w)
		hook("index", func(x *entry.LogIndex) { x.Iss = "deputy" })(w)
		w.signer["index"] = w.who["deputy"]
	}, change: with("deputy")}
	_, b, a, now := c.build(t)
	if _, err := b.Check(a, now); err == nil || !strings.Contains(err.Error(), "ABS-3") || !errors.Is(err, bundle.ErrMissing) {
		t.Errorf("nothing is shown about the signer of the index: %v", err)
	}
	w, b, a, now := c.build(t)
	b.Indexed = w.Index(int(w.at["index"])).Prove(append(w.subjects(), deputy)...)
	v, err := b.Check(a, now)
	must(t, err)
	if i := slices.IndexFunc(v.Checked, func(p bundle.Passed) bool { return p.Rule == "ABS-3" }); i < 0 || v.Checked[i].Count != 3 {
		t.Errorf("three signed, checked are %+v", v.Checked)
	}
}
