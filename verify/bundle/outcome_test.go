package bundle_test

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// logged adds entries behind the newest head, and proves them with the rest.
func logged(log func(w *world), names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		log(w)
		size := len(w.Leaves)
		b.Head, b.Consistency = w.Signed(size), w.Consistency(int(b.From), size).Path
		with(names...)(w, b)
	}
}

// indexedTo has the index of a whole bundle end before an entry, which is the first that
// it does not cover.
func indexedTo(name string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		drop("index", "writer#more", "other signal", "monitor")(w, b)
		x := w.Index(int(w.at[name]))
		w.put("index", "coordinator", x.Entry(w.Header("coordinator")))
		w.show(b, x)
	}
}

// keepMembers leaves all other members out, and their steps.
func keepMembers(refs ...entry.Ref) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		b.Members = slices.DeleteFunc(b.Members, func(m bundle.PlanMember) bool { return !slices.Contains(refs, m.Member.Exec) })
		w.proveScope(b)
	}
}

// keepSteps leaves all other steps out.
func keepSteps(names ...string) func(w *world, b *bundle.Bundle) {
	return func(w *world, b *bundle.Bundle) {
		b.Steps = slices.DeleteFunc(b.Steps, func(s bundle.ChainStep) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return w.at[name] == s.Exec })
		})
	}
}

// inEach changes all entries of an execution.
func inEach(name string, change func(x *entry.Execution)) func(w *world) {
	return func(w *world) {
		for _, entryOf := range []string{name, name + ":started", name + ":confirmed"} {
			hook(entryOf, change)(w)
		}
	}
}

// ends has a member end otherwise than by its compensation.
func ends(result entry.Result) func(o *entry.Outcome) {
	return func(o *entry.Outcome) { o.Result, o.CompExec, o.PostDigest, o.Residual = result, "", "", "it stands" }
}

// both prepares a world twice over.
func both(changes ...func(w *world)) func(w *world) {
	return func(w *world) {
		for _, change := range changes {
			change(w)
		}
	}
}

// ofFirst has an outcome be of the decision that was amended.
func ofFirst(w *world, o *entry.Outcome) { o.Decision = w.refTo("first") }

// outcomeRuleCases are what may be said to have become of a member, by whom and of
// which decision (INC-6).
func outcomeRuleCases() []bundleCase {
	early := func(change func(w *world, o *entry.Outcome)) func(w *world) {
		return before("second signal", func(w *world) {
			hookIn("early", change)(w)
			w.outcome("early", "worker#memo", entry.ResultFailed)
		})
	}
	return []bundleCase{
		{name: "outcome-of-a-later-decision", desc: "the outcome names an entry behind the decision", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Decision.Index++ }), want: "AGT-3 INC-6"},
		{name: "outcome-of-another-leaf", desc: "the outcome names another entry at the index of the decision", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Decision.LeafHash[0] ^= 1 }), want: "AGT-3 INC-6"},
		{name: "good-outcome-of-amended", desc: "a member ended by the decision that was amended", scene: amended,
			prepare: early(ofFirst), change: with("early")},
		{name: "outcome-before-its-decision", desc: "the outcome was logged before the decision that it names", scene: amended,
			prepare: early(func(w *world, o *entry.Outcome) { ofFirst(w, o); o.Decision.Index = uint64(len(w.Leaves)) + 1 }),
			change:  with("early"), want: "AGT-3 INC-6"},
		{name: "outcome-of-itself", desc: "the outcome names itself as its decision", scene: amended,
			prepare: early(func(w *world, o *entry.Outcome) { ofFirst(w, o); o.Decision.Index = uint64(len(w.Leaves)) }),
			change:  with("early"), want: "AGT-3 INC-6"},
		{name: "good-outcome-unknown", desc: "the coordinator says that it does not know what became of a member", scene: automatic,
			prepare: func(w *world) {
				w.signer["outcome"] = w.who["coordinator"]
				w.hooks["outcome"] = func(body entry.Body) {
					issue(body, "coordinator")
					ends(entry.ResultUnknown)(body.(*entry.Outcome)) //nolint:forcetypeassert // a wrong name fails the test
				}
			}},
		{name: "good-outcome-irrevocable", desc: "what cannot be undone ended so", scene: approved,
			prepare: before("charged back", func(w *world) { w.outcome("mailed", "worker#mail", entry.ResultIrrevocable) }), change: with("mailed")},
		{name: "outcome-irrevocable-of-restore", desc: "what is to be restored ended as irrevocable", scene: approved,
			prepare: before("charged back", func(w *world) { w.outcome("stays", "worker#memo", entry.ResultIrrevocable) }), change: with("stays"), want: "AGT-3 INC-6"},
		{name: "good-not-executed", desc: "what did not take place leaves no effect standing", scene: approved,
			prepare: func(w *world) {
				hook("charged back", ends(entry.NotExecuted))(w)
				before("charged back", func(w *world) { w.outcome("not mailed", "worker#mail", entry.NotExecuted) })(w)
			}, change: with("not mailed")},
		{name: "good-whole-outcomes-behind", desc: "of the outcomes behind the index, those of other incidents and members are no matter", scene: whole,
			change: func(w *world, b *bundle.Bundle) {
				hook("other incident", func(o *entry.Outcome) { o.Incident-- })(w)
				w.outcome("charged back", "worker#charge", entry.Compensated)
				w.outcome("other incident", "worker#charge", entry.ResultFailed)
				w.outcome("other member", "worker#draft2", entry.ResultFailed)
				w.show(b, w.Index(int(w.at["index"])))
			}},
		{name: "good-whole-outcome-first-behind", desc: "the first entry that the index does not cover is an outcome of another incident", scene: whole,
			change: func(w *world, b *bundle.Bundle) {
				hook("other incident", func(o *entry.Outcome) { o.Incident-- })(w)
				w.outcome("other incident", "worker#charge", entry.ResultFailed)
				indexedTo("other incident")(w, b)
			}},
		{name: "outcome-of-another-restored", desc: "another agent's execution is to be restored ahead of a compensation", scene: automatic,
			prepare: planned("writer#page", func(m *entry.Member) { m.Method, m.Checkpoint = entry.MethodRestore, "worker#c0" }),
			change:  drop("outcome"), want: "AGT-3 INC-7"},
		{name: "after-of-another", desc: "another agent's compensation is said to wait", scene: automatic,
			prepare: planned("source#read", func(m *entry.Member) { m.Method = entry.MethodCompensate }),
			change: func(w *world, b *bundle.Bundle) {
				place := w.place("source#read")
				b.Members = append(b.Members, bundle.PlanMember{Place: place, Member: w.members[place], After: []uint64{w.place("worker#charge")}})
				w.proveScope(b)
			}, want: "AGT-3 INC-7"},
		{name: "good-standing-elsewhere", desc: "what stands in another workflow is no matter of the line", scene: approved,
			prepare: func(w *world) { elsewhere(w, "worker#mail") }},
		{name: "good-one-approval", desc: "one approval is enough, and what it approves cannot be undone", scene: approved,
			prepare: both(hook("policy", func(p *entry.Policy) { p.Quorum.Approve = 1 }), hook("decision", func(d *entry.Decision) { d.Approvals = d.Approvals[:1] })),
			change:  drop("bert", "bert approves")},
	}
}

// withheldCases are members around an override (INC-6).
func withheldCases() []bundleCase {
	late := func(plan func(w *world, m *entry.Member)) func(w *world) { // what began after the override
		return func(w *world) {
			policy := w.hooks["policy"]
			w.hooks["policy"] = func(body entry.Body) {
				policy(body)
				body.(*entry.Policy).Limits.Incident.Members++ //nolint:forcetypeassert // a wrong name fails the test
			}
			before("source#more", func(w *world) {
				w.exec("worker#late", entry.EffectReversible, entry.Planned, "source#aside")
				w.member("worker#late", entry.MethodCancel, "")
				planned("worker#late", func(m *entry.Member) { plan(w, m) })(w)
			})(w)
		}
	}
	lateShown := all(with("worker#late"), by("worker#late", "override"), func(w *world, b *bundle.Bundle) {
		b.Steps = append(b.Steps, bundle.ChainStep{Exec: w.at["worker#late"], Rule: bundle.RuleDependent, From: w.at["source#aside"]})
	})
	reopened := func(act entry.Act) func(w *world) {
		return before("source#more", func(w *world) {
			w.put("again", "coordinator", w.decision("coordinator", act, 1, "signal", "second signal"))
		})
	}
	return []bundleCase{
		{name: "good-withheld-one", desc: "one member is withheld, and the decision has opened the others", scene: stopped,
			change: all(by("worker#memo", "decision"), by("worker#charge", "decision"), by("worker#later", "decision"))},
		{name: "good-stopped-ended", desc: "a member ended before the override, which withheld the others", scene: stopped,
			prepare: before("override", func(w *world) {
				hookIn("ended", ofFirst)(w)
				w.outcome("ended", "worker#memo", entry.ResultFailed)
			}), change: all(with("ended"), by("worker#memo", ""))},
		{name: "good-stopped-ahead", desc: "another agent's compensation comes before one that is withheld, and says nothing of the override", scene: stopped,
			change: all(with("writer"), func(w *world, b *bundle.Bundle) { w.ahead(b) })},
		{name: "by-left-out-genesis", desc: "whether an override withheld a member is not said, and the genesis is shown", scene: stopped,
			change: all(by("worker#draft", ""), with("policy")), want: "AGT-3 INC-6"},
		{name: "by-enrolment", desc: "a member is withheld by the entry that let the enroller in", scene: stopped, change: by("worker#draft", "enroller"), want: "AGT-3 INC-6"},
		{name: "by-older-than-member", desc: "a member is withheld by an override from before it began", scene: stopped,
			prepare: late(func(*world, *entry.Member) {}), change: lateShown, want: "AGT-3 INC-6"},
		{name: "by-at-member", desc: "a member is withheld by an override that stands where the member is said to", scene: stopped,
			prepare: late(func(w *world, m *entry.Member) { m.Index = w.at["override"] }), change: lateShown, want: "AGT-3 INC-6"},
		{name: "by-later-override", desc: "a member is withheld by an override behind the decision, of a lower epoch", scene: stopped,
			change: all(logged(func(w *world) { w.override("late", 1) }, "late"), by("worker#draft", "late")), want: "AGT-3 INC-6"},
		{name: "good-later-override", desc: "an override behind the decision, of a lower epoch, withholds nothing", scene: stopped,
			change: logged(func(w *world) { w.override("late", 1) }, "late")},
		{name: "override-of-another-incident", desc: "an override of another incident is shown", scene: amended,
			prepare: before("second signal", func(w *world) {
				hook("other", func(d *entry.Decision) { d.Incident-- })(w)
				w.override("other", 1)
			}), change: with("operator", "other"), want: "AGT-3"},
		{name: "by-escalate", desc: "a member is open by a proposal after the override", scene: stopped,
			prepare: reopened(entry.ActEscalate), change: all(with("again"), by("worker#draft", "again")), want: "AGT-3 INC-6"},
		{name: "good-by-authorize", desc: "a member is open by an authorize after the override", scene: stopped,
			prepare: reopened(entry.ActAuthorize), change: all(with("again"), by("worker#draft", "again"))},
		{name: "good-stopped-compromised", desc: "the override stands, though its key was revoked as compromised since before it", scene: stopped,
			prepare: before("second signal", func(w *world) {
				body := w.Agent(w.who["authority"], entry.Revoke, w.who["operator"], entry.RoleOperator)
				body.CompromisedSince = &entry.Compromised{Index: w.at["override"]}
				w.put("revoked operator", "authority", body)
			}), change: with("revoked operator")},
	}
}

// suitCases are members, and methods that suit them or not (SCO-2, SCO-4, SCO-5).
func suitCases() []bundleCase {
	const expiry = 1_790_000_500_000 // Unix milliseconds, after the decision
	expires := func(now int64) func(w *world, b *bundle.Bundle) {
		return func(w *world, _ *bundle.Bundle) { w.now = now }
	}
	expiring := hook("worker#c0", func(c *entry.Checkpoint) { c.ExpiresAt = expiry })
	return []bundleCase{
		{name: "members-ascend-at-first", desc: "the first two members do not descend", scene: automatic,
			prepare: planned("worker#charge", func(m *entry.Member) { m.Index = 99 }), want: "AGT-3 SCO-5"},
		{name: "members-of-one-entry", desc: "two members are of one index", scene: automatic,
			prepare: planned("worker#note", func(m *entry.Member) { m.Index++ }), want: "AGT-3 SCO-5"},
		{name: "index-of-a-checkpoint", desc: "the index is that of a checkpoint", scene: automatic,
			prepare: planned("worker#draft", func(m *entry.Member) { m.Index -= 2 }), want: "worker#draft: AGT-3"},
		{name: "good-none-of-cancelled", desc: "nothing is to be undone of what was cancelled", scene: approved,
			prepare: both(before("signal", func(w *world) {
				w.exec("worker#later:cancelled", entry.EffectReversible, entry.Cancelled, "worker#draft")
			}), planned("worker#later", func(m *entry.Member) { m.Method = entry.MethodNone })), change: with("worker#later:cancelled")},
		{name: "none-of-confirmed-shown", desc: "nothing is to be undone of what is shown to be confirmed", scene: approved,
			prepare: planned("worker#memo", func(m *entry.Member) { m.Method, m.Checkpoint = entry.MethodNone, "" }),
			change:  with("worker#memo:confirmed"), want: "worker#memo: AGT-3 SCO-4"},
		{name: "cancel-of-confirmed-at-once", desc: "cancel of what was confirmed and is not shown to have been started", scene: approved,
			prepare: before("signal", func(w *world) {
				w.exec("worker#later:confirmed", entry.EffectReversible, entry.Confirmed, "worker#draft")
			}), change: with("worker#later:confirmed"), want: "worker#later: AGT-3 SCO-4"},
		{name: "good-residual-of-undeclared", desc: "what has an undeclared effect is given up", scene: approved,
			prepare: inEach("worker#mail", func(x *entry.Execution) { x.Effect = entry.EffectUndeclared })},
		{name: "good-checkpoint-expires-soon", desc: "the checkpoint expires a millisecond from now", scene: approved, prepare: expiring, change: expires(expiry - 1)},
		{name: "checkpoint-expires-now", desc: "the checkpoint expires now", scene: approved, prepare: expiring, change: expires(expiry), want: "worker#memo: AGT-3 SCO-2"},
		{name: "good-restored-further-on", desc: "a member was restored to a newer checkpoint than the one that its line goes back to now", scene: further,
			prepare: planned("worker#draft", func(m *entry.Member) { m.Checkpoint = "worker#c1" }),
			change:  logged(func(w *world) { w.outcome("draft restored", "worker#draft", entry.Restored) }, "draft restored", "worker#c1")},
		{name: "checkpoint-newer-than-line", desc: "the checkpoint was made after a compensable execution of the line began", scene: further,
			prepare: func(w *world) {
				w.planned = func() {
					w.members = slices.DeleteFunc(w.members, func(m entry.Member) bool { return m.Exec == "worker#slow" || m.Exec == "worker#memo" })
					for i := range w.members {
						if w.members[i].Exec == "worker#draft" {
							w.members[i].Checkpoint = "worker#c1"
						}
					}
				}
			},
			change: all(drop("worker#c0", "worker#slow", "worker#slow:started", "worker#slow:confirmed", "worker#memo"), with("worker#c1"),
				keepSteps("source#read", "worker#buy", "worker#draft")), want: "worker#draft: AGT-3 SCO-2"},
		{name: "checkpoint-behind-index", desc: "the checkpoint stands behind what the index covers", scene: whole,
			prepare: planned("worker#memo", func(m *entry.Member) { m.Checkpoint = "worker#c9" }),
			change: func(w *world, b *bundle.Bundle) {
				w.checkpoint("worker#c9", nil)
				indexedTo("worker#c9")(w, b)
			}, want: "worker#memo: AGT-3 SCO-2"},
	}
}

// TestRefusedMembersAreNotCounted tells how many members hold, and how many do not.
func TestRefusedMembersAreNotCounted(t *testing.T) {
	w, b := automatic(t, plain)
	drop("worker#note")(w, b)
	v, err := b.Check(w.state(), w.now)
	must(t, err)
	i := slices.IndexFunc(v.Checked, func(p bundle.Passed) bool { return p.Rule == "leaf_hash" })
	if p := v.Checked[i]; len(v.Commands) != 5 || p.Count != 4 || !strings.HasSuffix(p.Detail, "; 1 refused") {
		t.Errorf("%d commands, %d hold: %s", len(v.Commands), p.Count, p.Detail)
	}
}
