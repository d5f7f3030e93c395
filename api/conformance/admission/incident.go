package admission

import (
	"recoveryledger/api/conformance/stage"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// executionCases are those of executions, checkpoints and signals.
func executionCases() []kitCase {
	return []kitCase{
		{"execution/parent", []string{"EXE-5"}, "a parent that is not in the log", func(l *play) {
			l.refuses(l.name("a"), stage.Execution(l.fresh("a"), entry.EffectNone, entry.Confirmed, "nobody#nothing"), entry.UnknownSubject)
		}},
		{"execution/back", []string{"EXE-1"}, "started after confirmed", func(l *play) {
			l.refuses(l.name("a"), stage.Execution(l.did("a", entry.EffectCompensable), entry.EffectCompensable, entry.Started), entry.StateConflict)
		}},
		{"execution/effect", []string{"EXE-1"}, "another effect in a later entry", func(l *play) {
			x := l.fresh("a")
			l.step(x, entry.EffectCompensable, entry.Started)
			l.refuses(l.name("a"), stage.Execution(x, entry.EffectIrrevocable, entry.Confirmed), entry.StateConflict)
		}},
		{"execution/parents", []string{"EXE-1"}, "another parent in a later entry", func(l *play) {
			x, parent := l.fresh("a"), l.did("b", entry.EffectNone)
			l.step(x, entry.EffectCompensable, entry.Started)
			l.refuses(l.name("a"), stage.Execution(x, entry.EffectCompensable, entry.Confirmed, parent), entry.StateConflict)
		}},
		{"execution/compensation-of-nothing", []string{"EXE-4a"}, "a compensation without a decision", func(l *play) {
			x := l.did("a", entry.EffectCompensable)
			incident := l.opens(x)
			l.refuses(l.name("a"), compensation(x, "none", entry.Planned, incident, entry.LogRef{Index: incident}), entry.UnknownSubject, entry.StateConflict)
		}},
		{"checkpoint/open", []string{"CHK-1a"}, "a checkpoint after an execution that is not final", func(l *play) {
			x := l.fresh("a")
			l.step(x, entry.EffectReversible, entry.Started)
			l.refuses(l.name("a"), &entry.Checkpoint{Checkpoint: "c1-" + string(x[len(x)-3:]), After: &x, Digest: stage.ZeroDigest}, entry.StateConflict)
		}},
		{"checkpoint/unknown", []string{"CHK-1a"}, "a checkpoint after an execution that is not in the log", func(l *play) {
			x := l.fresh("a")
			l.refuses(l.name("a"), &entry.Checkpoint{Checkpoint: "c2", After: &x, Digest: stage.ZeroDigest}, entry.UnknownSubject)
		}},
		{"checkpoint/back", []string{"CHK-1b"}, "a checkpoint after an earlier execution than the one before", func(l *play) {
			older, newer := l.did("a", entry.EffectReversible), l.did("a", entry.EffectReversible)
			l.write(l.name("a"), &entry.Checkpoint{Checkpoint: "c3", After: &newer, Digest: stage.ZeroDigest})
			l.refuses(l.name("a"), &entry.Checkpoint{Checkpoint: "c4", After: &older, Digest: stage.ZeroDigest}, entry.StateConflict)
		}},
		{"signal/executor", []string{"SIG-3"}, "another agent signals as the executor", func(l *play) {
			l.refuses(l.name("b"), stage.Signal(l.did("a", entry.EffectCompensable), entry.StandingExecutor, l.now()), entry.NoStanding)
		}},
		{"signal/upstream", []string{"SIG-3"}, "an agent signals as upstream, and there is no edge", func(l *play) {
			l.refuses(l.name("b"), stage.Signal(l.did("a", entry.EffectCompensable), entry.StandingUpstream, l.now()), entry.NoStanding)
		}},
		{"signal/downstream", []string{"SIG-3"}, "an agent signals as downstream, and there is no edge", func(l *play) {
			l.refuses(l.name("b"), stage.Signal(l.did("a", entry.EffectCompensable), entry.StandingDownstream, l.now()), entry.NoStanding)
		}},
		{"signal/monitor", []string{"SIG-3"}, "an agent signals as a monitor", func(l *play) {
			l.refuses(l.name("b"), stage.Signal(l.did("a", entry.EffectCompensable), entry.StandingMonitor, l.now()), entry.NoStanding, entry.UnauthorizedRole)
		}},
		{"signal/unknown-class", []string{"SIG-2"}, "a signal of a class that no list has, which counts as unknown", func(l *play) {
			x := l.did("a", entry.EffectCompensable)
			s := stage.Signal(x, entry.StandingExecutor, l.now())
			s.Class, s.Code = "conformance", "new"
			l.write(l.name("a"), s)
		}},
		{"signal/unknown", []string{"SIG-3"}, "a signal about an execution that is not in the log", func(l *play) {
			l.refuses(l.name("a"), stage.Signal(l.fresh("a"), entry.StandingExecutor, l.now()), entry.UnknownSubject)
		}},
		{"signal/along-an-edge", []string{"SIG-3"}, "the agent of a dependent execution signals as downstream, and that of a parent as upstream", func(l *play) {
			above := l.did("b", entry.EffectNone)
			x := l.did("a", entry.EffectCompensable, above)
			l.did("c", entry.EffectNone, x)
			l.write(l.name("c"), stage.Signal(x, entry.StandingDownstream, l.now()))
			l.write(l.name("b"), stage.Signal(x, entry.StandingUpstream, l.now()))
		}},
	}
}

// wrongly is a case of a decision that is right but for one member.
func wrongly(name, about string, ids []string, want entry.Problem, change func(l *play, d *entry.Decision)) kitCase {
	return kitCase{"decision/" + name, ids, about, func(l *play) {
		d := l.drafts(l.opens(l.did("a", entry.EffectCompensable)), entry.ActAuthorize)
		if l.err == nil {
			change(l, d)
			l.refuses(l.name("coordinator"), d, want)
		}
	}}
}

// deciding are the cases of decisions.
func deciding() []kitCase {
	return []kitCase{
		{"decision/automatic", []string{"INC-2a", "SCO-0"}, "the coordinator authorizes alone what an executor reports", func(l *play) { l.charged() }},
		wrongly("set", "another root of the rollback set", []string{"SCO-5b"}, entry.ScopeMismatch, func(_ *play, d *entry.Decision) { d.RollbackSet.Root[0] ^= 1 }),
		wrongly("set-size", "another size of the rollback set", []string{"SCO-5b"}, entry.ScopeMismatch, func(_ *play, d *entry.Decision) { d.RollbackSet.Size++ }),
		wrongly("pin", "another root of the pinned log", []string{"SCO-5b"}, entry.ScopeMismatch, func(_ *play, d *entry.Decision) { d.Pin.Root[0] ^= 1 }),
		wrongly("signals", "other signals", []string{"SCO-5b"}, entry.ScopeMismatch, func(_ *play, d *entry.Decision) { d.Signals.Root[0] ^= 1 }),
		wrongly("no-signals", "no signal at all", []string{"SCO-5b"}, entry.ScopeMismatch, func(_ *play, d *entry.Decision) {
			none := merkle.HeadOf(nil)
			d.Signals = &none
		}),
		wrongly("epoch", "the next epoch in an authorize", []string{"INC-7d"}, entry.StaleEpoch, func(_ *play, d *entry.Decision) { d.Epoch++ }),
		wrongly("policy", "another policy", []string{"INC-3"}, entry.PolicySuperseded, func(l *play, d *entry.Decision) { d.Policy = l.genesis() }),
		wrongly("deadline", "deadline_at further ahead than the policy allows", []string{"INC-7b"}, entry.ScopeExceedsPolicy, func(_ *play, d *entry.Decision) {
			d.DeadlineAt += 30 * 86_400_000
		}),
		wrongly("exp", "exp behind deadline_at", []string{"INC-7b"}, entry.StateConflict, func(_ *play, d *entry.Decision) { d.Exp = d.DeadlineAt/1000 + 60 }),
		wrongly("incident", "an incident that does not exist", []string{"REG-9"}, entry.UnknownSubject, func(_ *play, d *entry.Decision) { d.Incident = 1 }),
		{"decision/irrevocable", []string{"INC-2a"}, "the coordinator authorizes alone what nothing undoes", func(l *play) {
			l.refuses(l.name("coordinator"), l.drafts(l.opens(l.did("a", entry.EffectIrrevocable)), entry.ActAuthorize), entry.ScopeExceedsPolicy)
		}},
		{"decision/undeclared", []string{"INC-2a", "EXE-3"}, "the coordinator authorizes alone where an effect is undeclared", func(l *play) {
			l.refuses(l.name("coordinator"), l.drafts(l.opens(l.did("a", entry.EffectUndeclared)), entry.ActAuthorize), entry.ScopeExceedsPolicy)
		}},
		{"decision/third-party", []string{"INC-2a"}, "the coordinator authorizes alone on the word of one dependent agent", func(l *play) {
			x := l.did("a", entry.EffectCompensable)
			l.did("c", entry.EffectNone, x)
			ref := l.write(l.name("c"), stage.Signal(x, entry.StandingDownstream, l.now()))
			l.refuses(l.name("coordinator"), l.drafts(ref.Index, entry.ActAuthorize), entry.ScopeExceedsPolicy)
		}},
	}
}

// genesis is where the first policy stands.
func (l *play) genesis() entry.LogRef {
	return entry.LogRef{Index: 0, LeafHash: l.at.Root.Genesis}
}

// fenceCases are those of a containment.
func fenceCases() []kitCase {
	contained := func(l *play, effect entry.Effect, progress entry.Progress) (entry.Ref, uint64) {
		x := l.fresh("a")
		l.step(x, effect, progress)
		incident := l.opens(x)
		l.decides(incident, entry.ActContain)
		return x, incident
	}
	return []kitCase{
		{"fence/dependent", []string{"INC-1a", "INC-4a", "ERR-2"}, "an execution that names a fenced member as its parent", func(l *play) {
			x, incident := contained(l, entry.EffectCompensable, entry.Started)
			a := l.refuses(l.name("b"), stage.Execution(l.fresh("b"), entry.EffectNone, entry.Confirmed, x), entry.FencedDependency)
			if l.err == nil && (a.problem.Incident != incident || a.problem.WaitsFor == "") {
				l.fail("the problem names the incident, and what the incident waits for (ERR-2)", "%s", a.text)
			}
		}},
		{"fence/started", []string{"INC-4a"}, "started of a fenced execution", func(l *play) {
			x, _ := contained(l, entry.EffectCompensable, entry.Planned)
			l.refuses(l.name("a"), stage.Execution(x, entry.EffectCompensable, entry.Started), entry.FencedDependency)
		}},
		{"fence/final", []string{"INC-4b"}, "the end of an execution that was started before the fence", func(l *play) {
			x, _ := contained(l, entry.EffectCompensable, entry.Started)
			l.step(x, entry.EffectCompensable, entry.Confirmed)
		}},
		{"fence/after-the-record", []string{"INC-4d"}, "a compensated execution stays fenced after the record", func(l *play) {
			x, incident, _ := l.undone()
			l.write(l.name("coordinator"), l.record(incident))
			l.refuses(l.name("b"), stage.Execution(l.fresh("b"), entry.EffectNone, entry.Confirmed, x), entry.FencedDependency)
		}},
		{"fence/dismissed", []string{"INC-4d"}, "after a deny the fence is gone", func(l *play) {
			x, incident, proposal := l.proposed()
			l.answers("ann", incident, proposal, "refuse")
			l.write(l.name("ann"), l.drafts(incident, entry.ActDeny))
			l.step(l.fresh("b"), entry.EffectNone, entry.Confirmed, x)
		}},
	}
}

// quorumCases are those of approvals.
func quorumCases() []kitCase {
	return []kitCase{
		{"quorum/two", []string{"INC-5"}, "two approvers approve, and the coordinator authorizes", func(l *play) {
			_, incident, proposal := l.proposed()
			l.answers("ann", incident, proposal, "approve")
			l.answers("bob", incident, proposal, "approve")
			l.decides(incident, entry.ActAuthorize)
		}},
		{"quorum/one", []string{"INC-5"}, "one approval of two", func(l *play) {
			_, incident, proposal := l.proposed()
			first := l.answers("ann", incident, proposal, "approve")
			d := l.carries(incident, proposal, first)
			l.refuses(l.name("coordinator"), d, entry.StateConflict, entry.ScopeExceedsPolicy)
		}},
		{"quorum/refused", []string{"INC-5"}, "one approves, one refuses", func(l *play) {
			_, incident, proposal := l.proposed()
			first, other := l.answers("ann", incident, proposal, "approve"), l.answers("bob", incident, proposal, "refuse")
			d := l.carries(incident, proposal, first, other)
			l.refuses(l.name("coordinator"), d, entry.StateConflict, entry.ScopeExceedsPolicy)
		}},
		{"quorum/other-proposal", []string{"INC-5b"}, "approvals of a proposal that another one replaced", func(l *play) {
			_, incident, proposal := l.proposed()
			first, other := l.answers("ann", incident, proposal, "approve"), l.answers("bob", incident, proposal, "approve")
			d := l.carries(incident, l.decides(incident, entry.ActEscalate), first, other)
			l.refuses(l.name("coordinator"), d, entry.StateConflict, entry.ScopeExceedsPolicy)
		}},
		{"quorum/answers-the-old-one", []string{"INC-5b"}, "an approval of a proposal that another one replaced", func(l *play) {
			_, incident, proposal := l.proposed()
			l.decides(incident, entry.ActEscalate)
			l.refuses(l.name("ann"), l.answerTo(incident, proposal, "approve"), entry.StateConflict)
		}},
		{"quorum/late", []string{"INC-5"}, "the second approver was enrolled after the incident opened", func(l *play) {
			_, incident, proposal := l.proposed()
			l.enrol("late", entry.RoleApprover)
			l.answers("ann", incident, proposal, "approve")
			l.refuses(l.name("late"), l.answerTo(incident, proposal, "approve"), entry.NoStanding, entry.UnauthorizedRole, entry.StateConflict)
		}},
		{"quorum/owner", []string{"INC-5a"}, "the second approver owns the member", func(l *play) {
			l.enrol("both", entry.RoleAgent, entry.RoleApprover)
			incident := l.opens(l.did("both", entry.EffectIrrevocable))
			proposal := l.decides(incident, entry.ActEscalate)
			l.answers("ann", incident, proposal, "approve")
			l.refuses(l.name("both"), l.answerTo(incident, proposal, "approve"), entry.NoStanding, entry.UnauthorizedRole, entry.StateConflict)
		}},
		{"quorum/set", []string{"INC-5d", "SCO-5b"}, "a quorum approved, and the set is another", func(l *play) {
			_, incident, proposal := l.proposed()
			l.answers("ann", incident, proposal, "approve")
			l.answers("bob", incident, proposal, "approve")
			d := l.drafts(incident, entry.ActAuthorize)
			if l.err == nil {
				d.RollbackSet.Root[0] ^= 1
			}
			l.refuses(l.name("coordinator"), d, entry.ScopeMismatch)
		}},
	}
}

// carries is a decision that carries a proposal out by some approvals.
func (l *play) carries(incident uint64, proposal entry.LogRef, approvals ...entry.LogRef) *entry.Decision {
	d := l.drafts(incident, entry.ActAuthorize)
	if proposed := l.decisions[proposal.Index]; proposed != nil {
		d.Pin, d.Signals, d.RollbackSet, d.Impact, d.Dismissed, d.Epoch = proposed.Pin, proposed.Signals, proposed.RollbackSet, proposed.Impact, proposed.Dismissed, proposed.Epoch
	}
	d.Approvals = nil
	for _, ref := range approvals {
		d.Approvals = append(d.Approvals, ref.Index)
	}
	return d
}

// outcomeCases are those of outcomes.
func outcomeCases() []kitCase {
	fits := func(name, about, id string, result entry.Result, want entry.Problem) kitCase {
		return kitCase{"outcome/" + name, []string{id}, about, func(l *play) {
			x, incident, decision := l.charged()
			o := l.outcome(x, incident, decision, result)
			if result == entry.Compensated {
				o.CompExec = x
			}
			l.refuses(l.name("a"), o, want)
		}}
	}
	return []kitCase{
		fits("restored", "restored, where the method is compensate", "INC-6c", entry.Restored, entry.StateConflict),
		fits("irrevocable", "irrevocable, where the method is compensate", "INC-6c", entry.ResultIrrevocable, entry.StateConflict),
		fits("without-compensation", "compensated by an execution that compensates nothing", "INC-6c", entry.Compensated, entry.StateConflict),
		{"outcome/of-another", []string{"INC-6b"}, "another agent reports the outcome", func(l *play) {
			x, incident, decision := l.charged()
			l.refuses(l.name("b"), l.outcome(x, incident, decision, entry.ResultFailed), entry.NoStanding, entry.UnauthorizedRole, entry.StateConflict)
		}},
		{"outcome/other-decision", []string{"INC-6b"}, "the outcome names the signal as the decision", func(l *play) {
			x, incident, decision := l.charged()
			decision.LeafHash[0] ^= 1
			l.refuses(l.name("a"), l.outcome(x, incident, decision, entry.ResultFailed), entry.UnknownSubject, entry.StateConflict)
		}},
		{"outcome/order", []string{"INC-7a"}, "a compensation before the compensation that depends on it has an outcome", func(l *play) {
			x := l.did("a", entry.EffectCompensable)
			l.did("b", entry.EffectCompensable, x)
			incident := l.opens(x)
			decision := l.decides(incident, entry.ActAuthorize)
			l.refuses(l.name("a"), compensation(x, "early", entry.Planned, incident, decision), entry.StateConflict)
		}},
		{"outcome/worse", []string{"INC-6d"}, "a correction to the worse", func(l *play) {
			x, incident, before := l.undone()
			o := l.outcome(x, incident, l.decisionOf(incident), entry.ResultFailed)
			o.Supersedes = &before
			l.write(l.name("a"), o)
		}},
		{"outcome/better", []string{"INC-6d"}, "a correction to the better", func(l *play) {
			x, incident, decision := l.charged()
			by := l.compensates(x, incident, decision)
			before := l.write(l.name("a"), l.outcome(x, incident, decision, entry.ResultFailed))
			o := l.outcome(x, incident, decision, entry.Compensated)
			o.CompExec, o.Supersedes = by, &before
			l.refuses(l.name("a"), o, entry.StateConflict)
		}},
		{"outcome/unknown-too-early", []string{"INC-7c"}, "another party reports unknown before the time is over", func(l *play) {
			x, incident, decision := l.charged()
			l.refuses(l.name("coordinator"), l.outcome(x, incident, decision, entry.ResultUnknown), entry.StateConflict)
		}},
	}
}

// recordCases are those of records and overrides.
func recordCases() []kitCase {
	return []kitCase{
		{"record/right", []string{"REC-1", "REC-2"}, "the record that follows from the results", func(l *play) {
			_, incident, _ := l.undone()
			l.write(l.name("coordinator"), l.record(incident))
		}},
		{"record/state", []string{"REC-2"}, "a record with another state", func(l *play) {
			_, incident, _ := l.undone()
			r := l.record(incident)
			r.State = entry.IncidentPartial
			l.refuses(l.name("coordinator"), r, entry.StateConflict, entry.ScopeMismatch)
		}},
		{"record/tally", []string{"REC-1"}, "a record with another tally", func(l *play) {
			_, incident, _ := l.undone()
			r := l.record(incident)
			if l.err != nil {
				return
			}
			r.Tally[entry.Compensated]++
			l.refuses(l.name("coordinator"), r, entry.StateConflict, entry.ScopeMismatch, entry.Malformed)
		}},
		{"record/undisposed", []string{"INC-8"}, "a record that disposes of no signal", func(l *play) {
			_, incident, _ := l.undone()
			r := l.record(incident)
			r.Dispositions = []entry.Disposition{}
			l.refuses(l.name("coordinator"), r, entry.StateConflict, entry.ScopeMismatch, entry.Malformed)
		}},
		{"record/own-word", []string{"INC-8a"}, "the executor's own word confirms its signal", func(l *play) {
			_, incident, _ := l.undone()
			r := l.record(incident)
			r.Dispositions = []entry.Disposition{{Index: incident, Disposition: entry.Corroborated, Domains: []string{"kit"}}}
			l.refuses(l.name("coordinator"), r, entry.StateConflict, entry.ScopeMismatch, entry.Malformed)
		}},
		{"record/twice", []string{"REG-9"}, "a second record", func(l *play) {
			_, incident, _ := l.undone()
			r := l.record(incident)
			again := *r
			l.write(l.name("coordinator"), r)
			l.refuses(l.name("coordinator"), &again, entry.StateConflict)
		}},
		{"override/operator", []string{"OVR-1"}, "an operator overrides, and the member is withheld", func(l *play) {
			_, incident, _ := l.charged()
			l.write(l.name("operator"), l.drafts(incident, entry.ActOverride))
		}},
		{"override/amend-alone", []string{"OVR-3"}, "the coordinator amends alone after an override", func(l *play) {
			_, incident, _ := l.charged()
			l.write(l.name("operator"), l.drafts(incident, entry.ActOverride))
			l.refuses(l.name("coordinator"), l.drafts(incident, entry.ActAmend), entry.ScopeExceedsPolicy)
		}},
		{"override/compensation-after", []string{"OVR-1", "EXE-4a"}, "a compensation begins after an override", func(l *play) {
			x, incident, decision := l.charged()
			l.write(l.name("operator"), l.drafts(incident, entry.ActOverride))
			l.refuses(l.name("a"), compensation(x, "late", entry.Planned, incident, decision), entry.StateConflict)
		}},
	}
}

// decisionOf is the decision in force.
func (l *play) decisionOf(incident uint64) (ref entry.LogRef) {
	if l.err == nil {
		if view, ok := l.state.PlanInForce(incident, l.now()); ok {
			ref = entry.LogRef{Index: view.Decision, LeafHash: l.leaves[view.Decision]}
		}
	}
	return ref
}

// tableCases are cells of the incident table: an act that a state does not take.
func tableCases() []kitCase {
	states := map[string]func(l *play) uint64{
		"authorized": func(l *play) uint64 { _, incident, _ := l.charged(); return incident },
		"dismissed": func(l *play) uint64 {
			_, incident, _ := l.proposed()
			l.write(l.name("ann"), l.drafts(incident, entry.ActDeny))
			return incident
		},
		"recorded": func(l *play) uint64 {
			_, incident, _ := l.undone()
			l.write(l.name("coordinator"), l.record(incident))
			return incident
		},
		"reported":  func(l *play) uint64 { return l.opens(l.did("a", entry.EffectCompensable)) },
		"escalated": func(l *play) uint64 { _, incident, _ := l.proposed(); return incident },
	}
	var cases []kitCase
	for _, c := range []struct {
		state string
		acts  []entry.Act
	}{
		{"reported", []entry.Act{entry.ActAmend, entry.ActOverride, entry.ActRelease}},
		{"escalated", []entry.Act{entry.ActAmend, entry.ActOverride, entry.ActRelease}},
		{"authorized", []entry.Act{entry.ActContain, entry.ActAuthorize}},
		{"dismissed", []entry.Act{entry.ActContain, entry.ActAuthorize, entry.ActEscalate, entry.ActAmend, entry.ActOverride, entry.ActRelease}},
		{"recorded", []entry.Act{entry.ActContain, entry.ActAuthorize, entry.ActEscalate, entry.ActAmend, entry.ActOverride}},
	} {
		for _, act := range c.acts {
			cases = append(cases, kitCase{"table/" + c.state + "-" + string(act), []string{"REG-9"}, string(act) + " of an incident that is " + c.state, func(l *play) {
				incident := states[c.state](l)
				by := map[entry.Act]string{entry.ActOverride: "operator", entry.ActRelease: "ann"}[act]
				if by == "" {
					by = "coordinator"
				}
				d := l.drafts(incident, act, func(o *coord.Order) {
					if act == entry.ActRelease {
						o.Members = []entry.Ref{l.did("a", entry.EffectNone)}
					}
				})
				if act == entry.ActAmend && d.Supersedes == nil && l.err == nil {
					before := l.genesis()
					d.Supersedes = &before
				}
				l.refuses(l.name(by), d, entry.StateConflict)
			}})
		}
	}
	return cases
}
