package bundle_test

import (
	"fmt"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify/bundle"
)

// boundaryCases are what just holds and what just does not: at limits, at times,
// and where one of two things that say the same is another.
func boundaryCases() []bundleCase {
	var list []bundleCase
	for _, group := range [][]bundleCase{boundaryHeadCases(), boundaryTimeCases(), boundaryDecisionCases(), boundaryApprovalCases(), stricterCases()} {
		list = append(list, group...)
	}
	return list
}

func boundaryHeadCases() []bundleCase {
	witnessed := hook("policy", func(p *entry.Policy) { p.Witnesses = testlog.WitnessPolicy() })
	first := func(w *world, b *bundle.Bundle) {
		b.From, b.Consistency = 0, nil
		with("policy")(w, b)
	}
	return []bundleCase{
		{name: "good-witnessed-ahead", desc: "the witnesses' clocks are as far ahead as may be", scene: automatic, prepare: witnessed, change: cosign(-300, "w1", "w2")},
		{name: "witnesses-ahead", desc: "the witnesses' clocks are further ahead than may be", scene: automatic, prepare: witnessed, change: cosign(-301, "w1", "w2"), want: "AGT-1"},
		{name: "good-witnessed-long-ago", desc: "the quorum cosigned as long ago as the policy allows", scene: automatic, prepare: witnessed, change: cosign(600, "w1", "w2")},
		{name: "witnesses-unreadable", desc: "the policy names witnesses that nobody can read", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) { p.Witnesses = "hello" }), want: "AGT-1"},
		{name: "genesis-other-witnessed", desc: "the log begins with another policy than the pinned one, which names witnesses", scene: automatic,
			prepare: witnessed, change: first, state: func(w *world) bundle.Accepted {
				a := w.fresh()
				a.Root.Genesis[0] ^= 1
				return a
			}, want: "AGT-2 TRU-1"},
		{name: "genesis-no-entry", desc: "what is pinned as the genesis is no entry", scene: automatic,
			change: all(first, func(_ *world, b *bundle.Bundle) { b.Entries[0].Bytes = []byte(`{}`) }),
			state: func(w *world) bundle.Accepted {
				a := w.fresh()
				a.Root.Genesis = merkle.HashLeaf([]byte(`{}`))
				return a
			}, want: "AGT-1"},
		{name: "entry-malformed", desc: "what is shown as an entry is none", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.Entries[3].Bytes = []byte(`{}`) }, want: "AGT-1"},
		{name: "times-run-backwards-at-first", desc: "registered_at falls from the first entry shown to the second", scene: automatic,
			prepare: before("coordinator", func(w *world) { w.At -= 100_000 }), want: "AGT-1"},
		{name: "good-times-stand-still", desc: "two entries are registered at one time", scene: automatic,
			prepare: before("outcome", func(w *world) { w.At -= 2000 })}, // which logging two entries puts back
		{name: "head-size-from-nothing", desc: "proven from a size, and nothing was accepted before", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.From, b.Consistency = 1, nil }, state: (*world).fresh, want: "AGT-1"},
		{name: "head-proof-from-nothing", desc: "a hash as a proof from no size, and nothing was accepted before", scene: automatic,
			change: func(_ *world, b *bundle.Bundle) { b.From, b.Consistency = 0, make([]merkle.Hash, 1) }, state: (*world).fresh, want: "AGT-1"},
		{name: "good-onlooker", desc: "nobody in particular checks the worker's bundle", scene: automatic,
			state: func(w *world) bundle.Accepted {
				a := w.state()
				a.Agent = ""
				return a
			}},
	}
}

func boundaryTimeCases() []bundleCase {
	const left = 1_796_000 // milliseconds until exp, in the automatic scene
	sooner := hook("decision", func(d *entry.Decision) { d.DeadlineAt = d.Exp*1000 - 600_000 })
	return []bundleCase{
		{name: "good-expires-soon", desc: "a millisecond is left until exp", scene: automatic, later: left - 1},
		{name: "expires-now", desc: "it is exp by the agent's clock", scene: automatic, later: left, want: "AGT-2"},
		{name: "deadline-now", desc: "it is deadline_at by the agent's clock", scene: automatic, prepare: sooner, later: left - 600_000, want: "AGT-2"},
		{name: "good-deadline-at-exp", desc: "deadline_at is exp", scene: automatic, prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt = d.Exp * 1000 })},
		{name: "good-deadline-latest", desc: "deadline_at lies as far ahead as the policy allows", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt += 1000 })}, // until it is registered
		{name: "deadline-later", desc: "deadline_at lies a millisecond further ahead than the policy allows", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.DeadlineAt += 1001 }), want: "AGT-2 INC-7"},
	}
}

func boundaryDecisionCases() []bundleCase {
	dismiss := func(order ...string) func(w *world) {
		return func(w *world) {
			w.hooks["decision"] = func(body entry.Body) {
				d, _ := body.(*entry.Decision)
				d.Dismissed = nil
				for _, name := range order {
					d.Dismissed = append(d.Dismissed, entry.Dismissal{Index: w.at[name], Reason: "no"})
				}
			}
		}
	}
	supersedes := func(ref func(w *world) entry.LogRef) func(w *world) {
		return func(w *world) {
			w.hooks["decision"] = func(body entry.Body) {
				d, _ := body.(*entry.Decision)
				r := ref(w)
				d.Supersedes = &r
			}
		}
	}
	return []bundleCase{
		{name: "incident-before-any-policy", desc: "the incident is the genesis, before which no policy was in force", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Incident = 0 }), want: "AGT-2 INC-3"},
		{name: "incident-is-the-decision", desc: "the incident is the decision itself", scene: automatic,
			prepare: func(w *world) {
				w.hooks["decision"] = func(body entry.Body) { body.(*entry.Decision).Incident = uint64(len(w.Leaves)) } //nolint:forcetypeassert // a wrong name fails the test
			}, want: "AGT-2 INC-3"},
		{name: "good-two-dismissed", desc: "two of four signals are dismissed", scene: abroad,
			prepare: func(w *world) {
				w.hooks["domains"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					d.Impact.Domains = 1
					d.Dismissed = []entry.Dismissal{{Index: w.at["monitor signals"], Reason: "no"}, {Index: w.at["worker signals"], Reason: "no"}}
				}
			}},
		{name: "good-amended-twice", desc: "an amend of an amend keeps members whose seed the first of the three believed", scene: amended,
			prepare: func(w *world) {
				before("decision", func(w *world) {
					d := w.decision("coordinator", entry.ActAmend, 1, "signal", "second signal")
					first := w.refTo("first")
					d.Supersedes = &first
					w.put("between", "coordinator", d)
				})(w)
				w.hooks["decision"] = func(body entry.Body) {
					d, _ := body.(*entry.Decision)
					between := w.refTo("between")
					d.Supersedes, d.Epoch = &between, 2
				}
			}, change: with("between")},
		{name: "pin-ahead", desc: "the pin has the decision in it", scene: automatic, prepare: hook("decision", func(d *entry.Decision) { d.Pin.Size++ }), want: "AGT-2 SCO-5"},
		{name: "dismissed-out-of-order", desc: "the dismissed signals do not ascend", scene: amended, prepare: dismiss("second signal", "signal"), want: "AGT-2 SCO-3"},
		{name: "dismissed-twice", desc: "one signal is dismissed twice", scene: amended, prepare: dismiss("signal", "signal"), want: "AGT-2 SCO-3"},
		{name: "amend-supersedes-itself", desc: "the amend names its own index", scene: amended,
			prepare: supersedes(func(w *world) entry.LogRef { return entry.LogRef{Index: uint64(len(w.Leaves))} }), want: "AGT-2 SCO-5"},
		{name: "amend-supersedes-opening", desc: "the amend names the signal that opened the incident", scene: amended,
			prepare: supersedes(func(w *world) entry.LogRef { return w.refTo("signal") }), want: "AGT-2 SCO-5"},
		{name: "amend-of-another-incident", desc: "the decision before is of another incident", scene: amended,
			prepare: hook("first", func(d *entry.Decision) { d.Incident-- }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "amend-of-a-contain", desc: "the decision before has told nobody to undo anything", scene: amended,
			prepare: hook("first", func(d *entry.Decision) { d.Act, d.DeadlineAt = entry.ActContain, 0 }), want: "worker#charge: AGT-3 SCO-3"},
		{name: "good-at-the-limits", desc: "as many members, agents and domains as the coordinator may undo alone", scene: automatic,
			prepare: hook("policy", func(p *entry.Policy) {
				p.Limits.Incident = entry.Cap{Members: 7, Agents: 3, Domains: 1, FencedMS: hour}
			})},
		{name: "automatic-both", desc: "a member that cannot be undone, and one whose effect is undeclared, without approvals", scene: automatic,
			prepare: hook("decision", func(d *entry.Decision) { d.Impact.Irrevocable, d.Impact.Undeclared = 1, 1 }), want: "AGT-2 INC-2"},
		{name: "good-upstream-and-downstream", desc: "no executor signals, but two others about one subject", scene: abroad, prepare: overEdges("worker", "writer")},
		{name: "automatic-one-twice", desc: "no executor signals, and one other about one subject, again and again", scene: abroad,
			prepare: overEdges("worker", "worker"), want: "AGT-2 INC-2"},
		{name: "automatic-operator-without-evidence", desc: "only an operator signaled, without evidence", scene: automatic,
			prepare: func(w *world) {
				w.signer["signal"] = w.who["operator"]
				w.hooks["signal"] = func(body entry.Body) {
					issue(body, "operator")
					s, _ := body.(*entry.Signal)
					s.Standing = entry.StandingOperator
				}
			}, change: with("operator"), want: "AGT-2 INC-2"},
	}
}

// overEdges has two agents signal what the source read, over an edge, instead of who
// executed it; the plan is then of one domain.
func overEdges(first, second string) func(w *world) {
	return func(w *world) {
		for name, who := range map[string]string{"signal": first, "monitor signals": first, "worker signals": second, "writer signals": second} {
			w.signer[name] = w.who[who]
			w.hooks[name] = func(body entry.Body) {
				issue(body, w.who[who].Principal)
				s, _ := body.(*entry.Signal)
				s.Subject, s.Standing, s.Evidence = "source#read", entry.StandingDownstream, nil
				if who == "writer" {
					s.Standing = entry.StandingUpstream
				}
			}
		}
		hook("domains", func(d *entry.Decision) { d.Impact.Domains = 1 })(w)
	}
}

func boundaryApprovalCases() []bundleCase {
	refused := func(name, desc string, prepare func(w *world)) bundleCase {
		return bundleCase{name: "approval-" + name, desc: desc, scene: approved, prepare: prepare, want: "AGT-2 INC-5"}
	}
	const decided = 1790000030 // Unix seconds: when the approved scene registers its decision
	list := []bundleCase{
		refused("proposal-other-incident", "people approved what is proposed for another incident", hook("proposal", func(d *entry.Decision) { d.Incident-- })),
		refused("proposal-other-signals", "people approved what rests on other signals", hook("proposal", func(d *entry.Decision) { d.Signals.Root[0] ^= 1 })),
		refused("proposal-other-dismissed", "people approved what believes other signals", hook("proposal", func(d *entry.Decision) {
			d.Dismissed = []entry.Dismissal{{Index: d.Incident, Reason: "no"}}
		})),
		refused("proposal-other-signal-dismissed", "people approved what dismisses another signal", func(w *world) {
			hook("proposal", func(d *entry.Decision) { d.Dismissed = []entry.Dismissal{{Index: d.Incident - 1, Reason: "no"}} })(w)
			hook("decision", func(d *entry.Decision) { d.Dismissed = []entry.Dismissal{{Index: d.Incident, Reason: "no"}} })(w)
		}),
		refused("proposal-is-contain", "what people approved was no proposal", hook("proposal", func(d *entry.Decision) { d.Act = entry.ActContain })),
		refused("proposal-expires-then", "the proposal expired when the decision was registered", hook("proposal", func(d *entry.Decision) { d.Exp = decided })),
		refused("expires-then", "the approval expired when the decision was registered", hook("bert approves", func(a *entry.Approval) { a.Exp = decided })),
		refused("first-of-another-leaf", "the first approval answers another entry at the index of the proposal",
			hook("anna approves", func(a *entry.Approval) { a.Proposal.LeafHash[0] ^= 1 })),
		refused("proposal-is-signal", "the first approval answers the signal", func(w *world) {
			w.hooks["anna approves"] = func(body entry.Body) { body.(*entry.Approval).Proposal = w.refTo("signal") } //nolint:forcetypeassert // a wrong name fails the test
		}),
		refused("before-proposal", "the approval was given before the proposal, by somebody who knew what it would be", foreknown),
		{name: "approval-first-missing", desc: "the first approval is listed, but not shown", scene: approved, change: drop("anna approves"), want: "AGT-2 INC-5"},
		{name: "good-approved-in-time", desc: "proposal and approval expire a second after the decision was registered", scene: approved,
			prepare: func(w *world) {
				hook("proposal", func(d *entry.Decision) { d.Exp = decided + 1 })(w)
				hook("bert approves", func(a *entry.Approval) { a.Exp = decided + 1 })(w)
			}},
	}
	return list
}

// foreknown has bert approve a proposal that is logged only then.
func foreknown(w *world) {
	w.hooks["proposal"] = func(body entry.Body) {
		leaf := w.who["coordinator"].Sign(w.TB, body).AppendLeaf(nil, w.At+2000)
		ref := entry.LogRef{Index: uint64(len(w.Leaves)) + 1, LeafHash: merkle.HashLeaf(leaf)}
		w.put("early", "bert", &entry.Approval{Header: w.Work("bert"), Incident: w.at["signal"], Proposal: ref,
			Verdict: "approve", Exp: w.At/1000 + 1800, Reason: "recomputed"})
	}
	w.skip["bert approves"] = true
	w.hooks["decision"] = func(body entry.Body) {
		d, _ := body.(*entry.Decision)
		d.Approvals[1] = w.at["early"]
		w.at["bert approves"] = w.at["early"]
	}
}

// stricterCases have a policy follow the opening of the incident, and each limit be
// broken by one of the two alone (INC-3).
func stricterCases() (list []bundleCase) {
	for _, c := range []struct {
		name, rule string
		scene      func(tb testing.TB, prepare func(w *world)) (*world, *bundle.Bundle)
		strict     func(p *entry.Policy)
	}{
		{"members", "INC-2", automatic, func(p *entry.Policy) { p.Limits.Incident.Members = 6 }},
		{"agents", "INC-2", automatic, func(p *entry.Policy) { p.Limits.Incident.Agents = 2 }},
		{"domains", "INC-2", abroad, func(p *entry.Policy) { p.Limits.Incident.Domains = 1 }},
		{"signalers", "INC-2", abroad, func(p *entry.Policy) { p.Quorum.Signalers = 3 }},
		{"deadline", "INC-7", automatic, func(p *entry.Policy) { p.Windows.DeadlineMaxMS = hour / 2 }},
		{"approve", "INC-5", approved, func(p *entry.Policy) { p.Quorum.Approve = 3 }},
	} {
		for _, opening := range []bool{true, false} {
			when := map[bool]string{true: "opening", false: "decision"}[opening]
			list = append(list, bundleCase{name: fmt.Sprintf("stricter-%s-at-%s", c.name, when), scene: c.scene, want: "AGT-2 " + c.rule, change: with("policy"),
				desc:    fmt.Sprintf("the policy at the %s is stricter about %s than the other one", when, c.name),
				prepare: func(w *world) { w.twoPolicies(opening, c.strict) }})
		}
	}
	return list
}

// twoPolicies has a policy follow the signal that opens the incident; what is decided
// then cites it. One of the two, that at the opening or the later one, is changed.
func (w *world) twoPolicies(opening bool, change func(p *entry.Policy)) {
	earlier := w.hooks["policy"]
	w.hooks["policy"] = func(body entry.Body) {
		if earlier != nil {
			earlier(body)
		}
		if p, ok := body.(*entry.Policy); ok && (p.Previous == nil) == opening {
			change(p)
		}
	}
	follow := func(w *world) {
		p := w.policyOf("authority")
		previous := w.refTo("policy")
		p.Previous = &previous
		w.put("policy", "authority", p)
	}
	for _, name := range []string{"contain", "proposal", "decision"} {
		w.before[name] = func() {
			for _, other := range []string{"contain", "proposal", "decision"} {
				delete(w.before, other)
			}
			follow(w)
		}
		w.hooks[name] = func(body entry.Body) {
			if d, ok := body.(*entry.Decision); ok {
				d.Policy = w.refTo("policy")
			}
		}
	}
}
