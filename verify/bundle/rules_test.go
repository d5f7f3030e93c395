package bundle_test

import (
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

func decisionCases() []bundleCase {
	return []bundleCase{
		{name: "decision-missing", desc: "the decision is not shown", scene: automatic, change: drop("decision"), want: "AGT-2"},
		{name: "decision-is-signal", desc: "what is given as the decision is the signal", scene: automatic,
			change: func(w *world, b *bundle.Bundle) { b.Decision = w.at["signal"] }, want: "AGT-2"},
		{name: "decision-contains", desc: "a contain tells nobody to undo anything", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Act, d.DeadlineAt = entry.ActContain, 0 }), want: "AGT-2"},
		{name: "expired", desc: "exp has passed by the agent's clock", scene: automatic, later: 1_800_000, want: "AGT-2"},
		{name: "deadline-passed", desc: "deadline_at has passed by the agent's clock, though exp has not", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt = d.Exp*1000 - 600_000 }), later: 1_500_000, want: "AGT-2"},
		{name: "exp-behind-deadline", desc: "exp lies behind deadline_at", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt = d.Exp*1000 - 600_000 }), want: "AGT-2 INC-7"},
		{name: "deadline-too-late", desc: "deadline_at lies further ahead than the policy allows", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt += hour }), want: "AGT-2 INC-7"},
		{name: "epoch-lower", desc: "the agent knows a higher epoch of the incident", scene: automatic,
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Epochs = []bundle.Epoch{{Incident: w.at["signal"], Epoch: 1}}
				return a
			}, want: "AGT-2"},
		{name: "epoch-of-another-incident", desc: "a higher epoch of another incident means nothing", scene: automatic,
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Epochs = []bundle.Epoch{{Incident: w.at["signal"] + 1, Epoch: 9}}
				return a
			}},
		{name: "overridden", desc: "an operator has overridden the decision, and the bundle shows it", scene: automatic,
			prepare: before("outcome", func(w *world) {
				_, policy := uint64(0), w.refTo("policy")
				w.put("override", "operator", &entry.Decision{Header: w.Work("operator"), Incident: w.at["signal"], Act: entry.ActOverride,
					Policy: policy, Epoch: 1, Exp: w.At/1000 + 1800, Reason: "stop"})
			}), change: with("override", "operator"), want: "AGT-2"},
		{name: "signal-left-out", desc: "a signal that the decision rests on is not shown", scene: amended, change: drop("second signal"), want: "AGT-2 SCO-3"},
		{name: "signal-too-many", desc: "a signal that the decision does not rest on", scene: automatic,
			prepare: before("decision", func(w *world) { w.signal("late", "source", "source#read", entry.StandingExecutor) }),
			change:  with("late"), want: "AGT-2 SCO-3"},
		{name: "signal-after-pin", desc: "the decision counts a signal that is younger than the pin", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Pin.Size = d.Incident }), want: "AGT-2 SCO-3"},
		{name: "incident-of-another-signal", desc: "the incident is not one that a signal of the decision opened", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Incident-- }), want: "AGT-2 SCO-3"},
		{name: "workflow-other", desc: "the decision is of another workflow than the incident", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Wid = "elsewhere" }), want: "AGT-2"},
		{name: "dismissed-no-signal", desc: "the decision takes out a signal that the decision does not rest on", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Dismissed = []entry.Dismissal{{Index: 3, Reason: "no"}} }), want: "AGT-2 SCO-3"},
		{name: "authorize-supersedes", desc: "an authorize that supersedes something", scene: automatic,
			prepare: func(w *world) {
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					ref := w.refTo("signal")
					d.Supersedes = &ref
				}
			}, want: "AGT-2 INC-6"},
		{name: "impact-not-of-rollback-set", desc: "impact counts fewer members than the rollback set has", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Impact.Members-- }), want: "AGT-2 SCO-5"},
	}
}

func approvalCases() []bundleCase {
	approvals := func(change func(w *world, d *entry.Decision)) func(w *world) {
		return func(w *world) {
			w.hooks["decision"] = func(body entry.Body) {
				if d, ok := body.(*entry.Decision); ok {
					change(w, d)
				}
			}
		}
	}
	var list []bundleCase
	add := func(name, desc string, prepare func(w *world), change func(w *world, b *bundle.Bundle)) {
		list = append(list, bundleCase{name: "approval-" + name, desc: desc, scene: approved, prepare: prepare, change: change, want: "AGT-2 INC-5"})
	}
	add("missing", "an approval is listed, but not shown", nil, drop("bert approves"))
	add("proposal-missing", "the proposal is not shown", nil, drop("proposal"))
	add("too-few", "one approval, two are needed", approvals(func(_ *world, d *entry.Decision) { d.Approvals = d.Approvals[:1] }), nil)
	add("twice", "one approval is listed twice", approvals(func(_ *world, d *entry.Decision) { d.Approvals[1] = d.Approvals[0] }), nil)
	add("same-principal", "one person approves twice, with two keys", func(w *world) {
		second := testlog.NewKey(w.TB, "anna", "anna's second")
		before("policy of both", func(*world) {})(w)
		w.before["source"] = func() {
			w.put("second", "authority", w.Agent(w.who["authority"], entry.Enrol, second, entry.RoleApprover))
		}
		w.signer["bert approves"] = second
		w.hooks["bert approves"] = func(body entry.Body) { issue(body, "anna") }
	}, with("second"))
	add("same-key", "one key approves twice", func(w *world) {
		w.signer["bert approves"] = w.who["anna"]
		w.hooks["bert approves"] = func(body entry.Body) { issue(body, "anna") }
	}, nil)
	add("by-owner", "the agent itself approves", func(w *world) {
		w.before["worker"] = func() {
			w.put("worker approver", "authority", w.Agent(w.who["authority"], entry.Enrol, testlog.NewKey(w.TB, "worker", "approver"), entry.RoleApprover))
		}
		w.signer["worker"] = w.who["authority"]
		w.hooks["worker"] = func(body entry.Body) { issue(body, "authority") }
		w.signer["bert approves"] = testlog.NewKey(w.TB, "worker", "approver")
		w.hooks["bert approves"] = func(body entry.Body) { issue(body, "worker") }
	}, with("worker approver"))
	list[len(list)-1].state = func(w *world) bundle.Accepted {
		a := w.state()
		a.Links = a.Links[:2]
		return a
	}
	add("by-signaler", "who signaled approves", func(w *world) {
		before("proposal", func(w *world) {
			w.signal("second signal", "monitor", "source#read", entry.StandingMonitor)
		})(w)
		both := func(body entry.Body) {
			d, _ := body.(*entry.Decision)
			signals := merkle.HeadOf(hashesOf(w, "signal", "second signal"))
			d.Signals = &signals
			d.Pin.Size = w.at["second signal"] + 1
		}
		w.hooks["proposal"], w.hooks["decision"] = both, both
		w.before["source"] = func() {
			w.put("monitor approver", "authority", w.Agent(w.who["authority"], entry.Enrol, testlog.NewKey(w.TB, "monitor", "approver"), entry.RoleApprover))
		}
		w.signer["bert approves"] = testlog.NewKey(w.TB, "monitor", "approver")
		w.hooks["bert approves"] = func(body entry.Body) { issue(body, "monitor") }
	}, with("monitor", "monitor approver", "second signal"))
	add("by-proposer", "who made the proposal approves it", func(w *world) {
		w.signer["proposal"] = w.who["bert"]
		w.hooks["proposal"] = func(body entry.Body) { issue(body, "bert") }
	}, nil)
	add("enrolled-later", "the approver's key was let in after the incident opened", func(w *world) {
		late := testlog.NewKey(w.TB, "carl", "carl's second")
		w.before["proposal"] = func() { w.put("late", "authority", w.Agent(w.who["authority"], entry.Enrol, late, entry.RoleApprover)) }
		w.signer["bert approves"] = late
		w.hooks["bert approves"] = func(body entry.Body) { issue(body, "carl") }
	}, with("late"))
	add("revoked", "the approver's key was revoked before the decision", before("decision", revoke("bert", nil)), with("revoked bert"))
	add("refuses", "what is listed as an approval is a refusal", hook("bert approves", func(a *entry.Approval) { a.Verdict = "refuse" }), nil)
	add("expired", "the approval had expired before the decision", hook("bert approves", func(a *entry.Approval) { a.Exp = 1790000000 }), nil)
	add("of-another-incident", "the approval is of another incident", hook("bert approves", func(a *entry.Approval) { a.Incident++ }), nil)
	add("of-another-proposal", "the approval answers another proposal", hook("bert approves", func(a *entry.Approval) { a.Proposal.Index-- }), nil)
	add("of-another-leaf", "the approval answers another entry at that index", hook("bert approves", func(a *entry.Approval) { a.Proposal.LeafHash[0] ^= 1 }), nil)
	add("after-decision", "the approval was given after the decision", func(w *world) {
		w.skip["bert approves"] = true
		before("charged back", func(w *world) { w.skip = map[string]bool{}; w.approve("bert approves", "bert") })(w)
		approvals(func(w *world, d *entry.Decision) { d.Approvals[1] = uint64(len(w.Leaves) + 4) })(w) // behind the outcome before
	}, nil)
	add("re-proposed", "a newer proposal voids what was approved", before("decision", func(w *world) {
		again := w.decision("coordinator", entry.ActEscalate, 2, "signal")
		w.put("again", "coordinator", again)
	}), with("again"))
	list[len(list)-1].want = "AGT-2"
	add("is-none", "what is listed as an approval is a signal", approvals(func(_ *world, d *entry.Decision) { d.Approvals[0] = d.Incident }), nil)
	add("is-none-second", "what is listed as the second approval is the proposal", approvals(func(w *world, d *entry.Decision) { d.Approvals[1] = w.at["proposal"] }), nil)
	add("of-compromised-proposal", "the proposal's key was revoked before the decision, as compromised since before the proposal",
		compromisedProposal("decision"), with("carl", "revoked carl"))
	add("proposal-other-rollback-set", "people approved another rollback set", hook("proposal", func(d *entry.Decision) { d.RollbackSet.Root[0] ^= 1 }), nil)
	add("proposal-other-pin", "people approved another state of the log", hook("proposal", func(d *entry.Decision) { d.Pin.Root[0] ^= 1 }), nil)
	add("proposal-other-epoch", "people approved at another epoch", hook("proposal", func(d *entry.Decision) { d.Epoch = 0 }), nil)
	add("proposal-expired", "the proposal had expired before the decision", hook("proposal", func(d *entry.Decision) { d.Exp = 1790000000 }), nil)
	add("quorum-of-opening", "the policy at the opening asked for more approvals than the one in force", func(w *world) {
		w.hooks["policy"] = func(body entry.Body) {
			if p, ok := body.(*entry.Policy); ok && p.Previous == nil {
				p.Quorum.Approve = 3
			}
		}
		before("proposal", func(w *world) {
			p := w.policyOf("authority")
			previous := w.refTo("policy")
			p.Previous = &previous
			w.put("policy", "authority", p)
		})(w)
		cite := func(body entry.Body) {
			d, _ := body.(*entry.Decision)
			d.Policy = w.refTo("policy")
		}
		w.hooks["proposal"], w.hooks["decision"] = cite, cite
	}, with("policy"))
	list[len(list)-1].state = func(w *world) bundle.Accepted {
		a := w.state()
		a.Links[0] = bundle.Leaf{Index: 0, Bytes: w.Leaves[0]}
		return a
	}
	add("two-incidents", "the decision is of another incident than the approvals", approvals(func(_ *world, d *entry.Decision) { d.Incident-- }), nil)
	list[len(list)-1].want = "AGT-2 SCO-3"
	return list
}

func hashesOf(w *world, names ...string) (leaves []merkle.Hash) {
	for _, name := range names {
		leaves = append(leaves, w.leafHash(w.at[name]))
	}
	return leaves
}

func automaticCases() []bundleCase {
	limits := func(change func(limit *entry.Cap)) func(w *world) {
		return hook("policy", func(p *entry.Policy) { change(&p.Limits.Incident) })
	}
	refused := func(name, desc string, prepare func(w *world)) bundleCase {
		return bundleCase{name: "automatic-" + name, desc: desc, scene: automatic, prepare: prepare, want: "AGT-2 INC-2"}
	}
	return []bundleCase{
		refused("members", "more members than the coordinator may undo alone", limits(func(limit *entry.Cap) { limit.Members = 6 })),
		refused("agents", "more agents than the coordinator may touch alone", limits(func(limit *entry.Cap) { limit.Agents = 2 })),
		refused("domains", "two domains", hook("decision", func(d *entry.Decision) { d.Impact.Domains = 2 })),
		refused("irrevocable", "a member that cannot be undone, without approvals", hook("decision", func(d *entry.Decision) { d.Impact.Irrevocable = 1 })),
		refused("undeclared", "a member whose effect is undeclared, without approvals", hook("decision", func(d *entry.Decision) { d.Impact.Undeclared = 1 })),
		refused("monitor-without-evidence", "only a monitor signaled, without evidence", func(w *world) {
			w.signer["signal"] = w.who["monitor"]
			w.hooks["signal"] = func(body entry.Body) {
				issue(body, "monitor")
				s, _ := body.(*entry.Signal)
				s.Standing = entry.StandingMonitor
			}
		}).changed(with("monitor")),
		refused("one-downstream", "one agent downstream signaled, two are needed", func(w *world) {
			w.signer["signal"] = w.who["worker"]
			w.hooks["signal"] = func(body entry.Body) {
				issue(body, "worker")
				s, _ := body.(*entry.Signal)
				s.Standing = entry.StandingDownstream
			}
		}),
		refused("executor-of-another", "an agent signals as executor of what is not its own", func(w *world) {
			w.signer["signal"] = w.who["writer"]
			w.hooks["signal"] = func(body entry.Body) { issue(body, "writer") }
		}),
		{name: "automatic-residual", desc: "a member that cannot be undone hides from impact", scene: wholeLine, prepare: func(w *world) {
			w.hooks["decision"] = func(body entry.Body) {
				d, _ := body.(*entry.Decision)
				d.Approvals, d.Epoch = nil, 1
			}
		}, change: drop("anna approves", "bert approves"), want: "AGT-3 INC-2"},
		{name: "automatic-compensation-by-line", desc: "a compensation that only its line brings in, without approvals", scene: automatic,
			prepare: func(w *world) {
				w.hooks["worker#charge"] = func(body entry.Body) {
					x, _ := body.(*entry.Execution)
					x.Parents = []entry.Parent{}
				}
				w.hooks["worker#charge:confirmed"] = w.hooks["worker#charge"]
			},
			change: step("worker#charge", func(w *world, s *bundle.ChainStep) {
				s.Rule, s.From, s.Checkpoint = bundle.RuleLine, w.at["worker#draft"], w.at["worker#c0"]
			}), want: "AGT-3 INC-2"},
	}
}

// changed adds a change to a case.
func (c bundleCase) changed(change func(w *world, b *bundle.Bundle)) bundleCase {
	c.change = change
	return c
}

func amendCases() []bundleCase {
	return []bundleCase{
		{name: "amend-without-first", desc: "the seed is dismissed, and the decision that believed it is not shown", scene: amended,
			change: drop("first"), want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-epoch", desc: "the amend does not count the epoch up", scene: amended,
			prepare: hook("decision", func(d *entry.Decision) { d.Epoch = 0 }), want: "AGT-2 INC-7"},
		{name: "amend-supersedes-nothing", desc: "the amend names no decision", scene: amended,
			prepare: hook("decision", func(d *entry.Decision) { d.Supersedes = nil }), want: "AGT-2 SCO-5"},
		{name: "amend-supersedes-other-leaf", desc: "the amend names another entry at that index", scene: amended,
			prepare: hook("decision", func(d *entry.Decision) { d.Supersedes.LeafHash[0] ^= 1 }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-supersedes-signal", desc: "the amend names a signal as the decision in force", scene: amended,
			prepare: func(w *world) {
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					ref := w.refTo("second signal")
					d.Supersedes = &ref
				}
			}, want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-of-a-circle", desc: "the decision before says that it amends a later one", scene: amended,
			prepare: func(w *world) {
				w.hooks["first"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Supersedes = &entry.LogRef{Index: 99}
				}
			}, want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-older-decision", desc: "the decision before an amend that the agent knows", scene: amended,
			change: func(w *world, b *bundle.Bundle) {
				b.Decision = w.at["first"]
				drop("second signal", "decision")(w, b)
				b.Steps = w.steps()
			},
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Epochs = []bundle.Epoch{{Incident: w.at["signal"], Epoch: 1}}
				return a
			}, want: "AGT-2"},
		{name: "outcome-of-another-decision", desc: "an outcome of an earlier decision, though none was amended", scene: automatic,
			prepare: hook("outcome", func(o *entry.Outcome) { o.Decision.Index-- }), want: "AGT-3 INC-6"},
	}
}

// TestOneNeighbourIsNoQuorum has one agent signal about its neighbour's work, up or down
// an edge, where two would have to.
func TestOneNeighbourIsNoQuorum(t *testing.T) {
	for _, standing := range []entry.Standing{entry.StandingUpstream, entry.StandingDownstream} {
		c := bundleCase{scene: automatic, prepare: func(w *world) {
			w.signer["signal"] = w.who["worker"]
			w.hooks["signal"] = func(body entry.Body) {
				issue(body, "worker")
				s, _ := body.(*entry.Signal)
				s.Standing = standing
			}
		}}
		_, b, a, now := c.build(t)
		if _, err := b.Check(a, now); err == nil || !strings.Contains(err.Error(), "INC-2") {
			t.Errorf("one signal of standing %s: %v", standing, err)
		}
	}
}
