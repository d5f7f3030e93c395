package conformance

import (
	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/verify/bundle"
)

// inTheLog is a case in which the log itself holds a decision that the rules do not admit: the
// ledger conspires. Nothing is undone.
func inTheLog(name, about string, ids []string, change func(p *play, d *entry.Decision)) agentCase {
	return agentCase{name: "decision/" + name, ids: ids, about: about, play: func(p *play) {
		p.charged()
		p.authorized(p.decided(func(d *entry.Decision) { change(p, d) }))
		p.start()
		p.idle()
	}}
}

// bySomeone is a case in which somebody else signs the decision.
func bySomeone(name, about string, who entry.Principal, ids ...string) agentCase {
	return agentCase{name: "decision/" + name, ids: ids, about: about, play: func(p *play) {
		p.charged()
		p.authorized(p.signed(who, nil))
		p.start()
		p.idle()
	}}
}

// decisionCases are those of a log that holds a decision which must not be obeyed.
func decisionCases() []agentCase {
	return []agentCase{
		{name: "decision/signature", ids: []string{"AGT-0", "ENV-8"}, about: "the signature of the decision is no signature of its payload", play: func(p *play) {
			p.charged()
			p.authorized(p.sealed(func(e *entry.Entry, d *entry.Decision) error {
				other := *d
				other.Reason = "another payload"
				signed, err := entry.New(&other)
				if err == nil {
					err = p.stage.Signer(stage.Coordinator).Sign(signed)
				}
				if err == nil {
					e.Seal(signed.KeyID, signed.Sig)
				}
				return err
			}))
			p.start()
			p.idle()
		}},
		{name: "decision/key-of-another", ids: []string{"ENV-3", "TRU-2"}, about: "the coordinator's name stands over a signature by the key of an agent", play: func(p *play) {
			p.charged()
			p.authorized(p.sealed(func(e *entry.Entry, _ *entry.Decision) error { return p.stage.Signer(stage.Writer).Sign(e) }))
			p.start()
			p.idle()
		}},
		{name: "decision/key-never-enrolled", ids: []string{"ENV-3", "TRU-2"}, about: "the coordinator's name stands over a signature by a key that nobody enrolled", play: func(p *play) {
			p.charged()
			p.authorized(p.sealed(func(e *entry.Entry, _ *entry.Decision) error { return p.stage.Signer("nobody").Sign(e) }))
			p.start()
			p.idle()
		}},
		bySomeone("by-an-agent", "an agent signs the decision as itself", stage.Writer, "TRU-2", "AGT-0"),
		bySomeone("by-the-agent", "the decision is signed with the agent's own key, as itself", stage.Agent, "TRU-2", "AGT-0"),
		bySomeone("by-a-monitor", "a monitor signs the decision as itself", stage.Monitor, "TRU-2", "AGT-0"),
		bySomeone("by-a-stranger", "a principal that was never enrolled signs the decision", "stranger", "TRU-2", "AGT-0"),
	}
}

// contentCases are those of decisions by the coordinator, one member of which is wrong.
func contentCases() []agentCase {
	return []agentCase{
		inTheLog("audience", "the decision is for another ledger", []string{"RPL-1", "REG-3a"}, func(_ *play, d *entry.Decision) { d.Aud = "elsewhere.example/ledger" }),
		inTheLog("expired", "exp has passed", []string{"RPL-1"}, func(p *play, d *entry.Decision) { d.Exp = p.stage.Now()/1000 - 60 }),
		inTheLog("deadline-passed", "exp and deadline_at have passed", []string{"RPL-1"}, func(p *play, d *entry.Decision) {
			d.Exp, d.DeadlineAt = p.stage.Now()/1000-61, p.stage.Now()-60_000
		}),
		inTheLog("exp-behind-deadline", "exp lies behind deadline_at", []string{"INC-7b"}, func(_ *play, d *entry.Decision) { d.Exp = d.DeadlineAt/1000 + 60 }),
		inTheLog("deadline-too-far", "deadline_at lies further ahead than the policy allows", []string{"INC-7b"}, func(_ *play, d *entry.Decision) { d.DeadlineAt += 30 * 86_400_000 }),
		inTheLog("set", "the decision commits to another rollback set", []string{"SCO-5a", "AGT-7"}, func(_ *play, d *entry.Decision) {
			set := *d.RollbackSet
			set.Root[0] ^= 1
			d.RollbackSet = &set
		}),
		inTheLog("signals", "the decision commits to other signals", []string{"AGT-7"}, func(_ *play, d *entry.Decision) {
			signals := *d.Signals
			signals.Root[0] ^= 1
			d.Signals = &signals
		}),
		inTheLog("no-signal", "the decision commits to no signal", []string{"AGT-7"}, func(_ *play, d *entry.Decision) {
			none := merkle.HeadOf(nil)
			d.Signals = &none
		}),
		inTheLog("policy", "the decision cites a policy that is not there", []string{"TRU-3"}, func(_ *play, d *entry.Decision) { d.Policy.LeafHash[0] ^= 1 }),
		inTheLog("incident", "the decision is about another incident", []string{"AGT-7"}, func(_ *play, d *entry.Decision) { d.Incident-- }),
		inTheLog("act", "the entry only contains: it is no decision to undo anything", []string{"AGT-7"}, func(_ *play, d *entry.Decision) {
			d.Act, d.DeadlineAt = entry.ActContain, 0
		}),
	}
}

// groundlessCases are those of decisions whose ground is missing.
func groundlessCases() []agentCase {
	return []agentCase{
		{name: "decision/old-policy", ids: []string{"TRU-3"}, about: "the decision cites a policy that a newer one had replaced", play: func(p *play) {
			p.charged()
			first, err := p.stage.Ref(0)
			p.must(err)
			p.replacePolicy()
			p.authorized(p.decided(func(d *entry.Decision) { d.Policy = first }))
			p.start()
			p.idle()
		}},
		{name: "decision/unbelieved", ids: []string{"INC-2a"}, about: "the coordinator decides alone on the word of a downstream agent", play: func(p *play) {
			p.did(charge, entry.EffectCompensable)
			p.did(page, entry.EffectNone, charge)
			right, err := p.stage.Seal(stage.Agent, p.signalOf(charge))
			p.must(err)
			accusation := p.signalOf(charge)
			accusation.Standing = entry.StandingDownstream
			forged, err := p.stage.Seal(stage.Writer, accusation)
			p.must(err)
			p.forge(right, forged)
			p.authorized(p.decided(p.commitToSignals))
			p.start()
			p.idle()
		}},
	}
}

// forge has the log hold one entry in the place of another, which opens the incident if none is
// open.
func (p *play) forge(right, forged *entry.Entry) {
	if p.err != nil {
		return
	}
	ref, err := p.stage.Forge(noContext, right, forged)
	p.must(err)
	if p.incident == 0 {
		p.incident = ref.Index
	}
}

// commitToSignals has a decision commit to the opening signal as the log has it.
func (p *play) commitToSignals(d *entry.Decision) {
	ref, err := p.stage.Ref(p.incident)
	p.must(err)
	signals := merkle.HeadOf([]merkle.Hash{ref.LeafHash})
	d.Signals = &signals
}

// sealed is a twist that leaves the payload of the decision as it is, and seals it in another way.
func (p *play) sealed(seal func(e *entry.Entry, d *entry.Decision) error) stage.Twist {
	return func(right *entry.Entry) (*entry.Entry, error) {
		d, is := right.Body.(*entry.Decision)
		if !is || d.Act != entry.ActAuthorize {
			return nil, nil //nolint:nilnil // the entry stays as it is
		}
		again, err := entry.Decode(right.AppendEnvelope(nil))
		if err != nil {
			return nil, err
		}
		return again, seal(again, d)
	}
}

// replacePolicy writes a newer policy.
func (p *play) replacePolicy() {
	list, err := p.stage.Entries(0)
	p.must(err)
	if p.err != nil {
		return
	}
	next := *list[0].Body.(*entry.Policy) //nolint:forcetypeassert // the genesis
	previous, err := p.stage.Ref(0)
	p.must(err)
	next.Previous = &previous
	p.write(stage.Authority, &next)
}

// answered is a case in which the log holds a decision that a quorum did not approve. bob's
// approval is another one than the rules admitted; nil leaves it.
func answered(name, about string, ids []string, forged func(p *play, a *entry.Approval) entry.Principal) agentCase {
	return agentCase{name: "approval/" + name, ids: ids, about: about, play: func(p *play) {
		p.mailed()
		other := p.approval()
		p.secondly(forged(p, other), other)
	}}
}

// secondly has ann approve, and the log hold another approval in the place of bob's. The agent
// obeys nothing.
func (p *play) secondly(by entry.Principal, other *entry.Approval) {
	p.approve(stage.Ann)
	right, err := p.stage.Seal(stage.Bob, p.approval())
	p.must(err)
	made, err := p.stage.Seal(by, other)
	p.must(err)
	p.forge(right, made)
	p.authorized(nil)
	p.start()
	p.idle()
}

// approvalCases are those of a plan that people have to approve.
func approvalCases() []agentCase {
	bob := func(change func(p *play, a *entry.Approval)) func(*play, *entry.Approval) entry.Principal {
		return func(p *play, a *entry.Approval) entry.Principal {
			change(p, a)
			return stage.Bob
		}
	}
	return []agentCase{
		answered("twice", "one approver approves twice: the quorum is two", []string{"INC-5"}, func(*play, *entry.Approval) entry.Principal { return stage.Ann }),
		answered("by-the-signaler", "the agent that signaled, and owns the members, approves", []string{"INC-5a"}, func(*play, *entry.Approval) entry.Principal { return stage.Agent }),
		answered("by-the-coordinator", "the coordinator, which issued the proposal, approves", []string{"INC-5a"}, func(*play, *entry.Approval) entry.Principal { return stage.Coordinator }),
		answered("refused", "the second approver refuses", []string{"INC-5"}, bob(func(_ *play, a *entry.Approval) { a.Verdict = "refuse" })),
		answered("other-proposal", "the second approval answers another proposal", []string{"INC-5b"}, bob(func(p *play, a *entry.Approval) {
			a.Proposal.LeafHash[0] ^= 1
		})),
		answered("other-incident", "the second approval is about another incident", []string{"INC-5b"}, bob(func(_ *play, a *entry.Approval) { a.Incident-- })),
		answered("enrolled-late", "the second approver was enrolled after the incident opened", []string{"INC-5"}, func(p *play, _ *entry.Approval) entry.Principal {
			p.write(stage.Authority, stage.Enrolment("carl", p.stage.Signer("carl").Public(), entry.RoleApprover))
			return "carl"
		}),
		{name: "approval/by-who-signaled", ids: []string{"INC-5a"}, about: "the second approver is an agent, too, and has signaled about its own execution", play: func(p *play) {
			both := stage.Enrolment("dora", p.stage.Signer("dora").Public(), entry.RoleAgent)
			both.Roles = []entry.Role{entry.RoleAgent, entry.RoleApprover}
			p.write(stage.Authority, both)
			p.did("dora#read", entry.EffectNone)
			p.did(charge, entry.EffectCompensable, "dora#read")
			p.did(mail, entry.EffectIrrevocable, charge)
			p.fails("dora#read")
			p.coordinate(nil)
			p.secondly("dora", p.approval())
		}},
		{name: "approval/one", ids: []string{"INC-5", "INC-2a"}, about: "the decision names one approval: the quorum is two", play: func(p *play) {
			p.mailed()
			p.approve(stage.Ann, stage.Bob)
			p.authorized(p.decided(func(d *entry.Decision) { d.Approvals = d.Approvals[:1] }))
			p.doctor(func(b *bundle.Bundle) { p.without(b, isApprovalBy(stage.Bob)) })
			p.start()
			p.idle()
		}},
		{name: "approval/none", ids: []string{"INC-2a", "INC-5"}, about: "the coordinator decides alone on a plan with an effect that nothing undoes", play: func(p *play) {
			p.mailed()
			p.approve(stage.Ann, stage.Bob)
			p.authorized(p.decided(func(d *entry.Decision) { d.Approvals = nil }))
			p.doctor(func(b *bundle.Bundle) {
				p.without(b, func(e *entry.Entry) bool { return e.Kind == entry.KindApproval })
			})
			p.start()
			p.idle()
		}},
		{name: "approval/epoch", ids: []string{"RPL-1"}, about: "the decision has a lower epoch than the proposal that it carries out", play: func(p *play) {
			p.mailed()
			p.approve(stage.Ann, stage.Bob)
			p.authorized(p.decided(func(d *entry.Decision) { d.Epoch-- }))
			p.start()
			p.idle()
		}},
	}
}

func isApprovalBy(who entry.Principal) func(*entry.Entry) bool {
	return func(e *entry.Entry) bool { return e.Kind == entry.KindApproval && e.Header.Iss == who }
}

// replayCases show the agent what held once.
func replayCases() []agentCase {
	return []agentCase{
		{name: "replay/overridden", ids: []string{"RPL-1", "OVR-2"}, about: "the agent has learned of an override, and the ledger hides it and shows the bundle from before", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			before := p.capture()
			p.override()
			p.learns(before)
			p.shows(before)
			p.again()
			p.still()
		}},
		{name: "replay/compromised", ids: []string{"TRU-4"}, about: "the key of the coordinator is revoked as compromised since before the decision, and the bundle shows both", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			before := p.capture()
			revoked := p.revokes(&entry.Compromised{Index: p.incident})
			p.shows(before, revoked)
			p.start()
			p.idle()
		}},
		{name: "replay/hidden-revocation", ids: []string{"TRU-3", "TRU-4"},
			about: "the agent has learned that the key of the coordinator is compromised, and the ledger shows the bundle from before", play: func(p *play) {
				p.charged()
				p.authorized(nil)
				before := p.capture()
				revoked := p.revokes(&entry.Compromised{Index: p.incident})
				p.shows(before, revoked)
				p.start()
				p.idle()
				p.shows(before)
				p.again()
				p.still()
			}},
		{name: "replay/epoch", ids: []string{"RPL-1"}, about: "the agent has accepted the amend, and the ledger shows the decision from before, of a lower epoch", play: func(p *play) {
			p.did(second, entry.EffectCompensable)
			p.did(charge, entry.EffectCompensable)
			p.did(page, entry.EffectCompensable, charge)
			p.fails(charge)
			p.authorized(nil)
			before := p.capture()
			p.amended()
			p.start()
			p.does("compensate", second)
			p.outcome(second, entry.Compensated)
			p.writerDone()
			p.until("the charge is compensated under the amend", func() bool { return p.world.times("compensate", charge) == 1 })
			p.outcome(charge, entry.Compensated)
			p.shows(before)
			p.again()
			p.still()
		}},
	}
}

// revokes has the authority revoke the key of the coordinator.
func (p *play) revokes(since *entry.Compromised) uint64 {
	revocation := stage.Enrolment(stage.Coordinator, p.stage.Signer(stage.Coordinator).Public(), entry.RoleCoordinator)
	revocation.Op, revocation.CompromisedSince = entry.Revoke, since
	return p.write(stage.Authority, revocation).Index
}

// learns starts the agent, and sees that it gets what the ledger says now about the incident.
func (p *play) learns(before *captured) {
	if p.err != nil {
		return
	}
	p.hints(before)
	p.start()
	p.idle()
}
