package conformance

import (
	"fmt"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
)

// honestCases are those in which nobody lies: the agent does what a proven decision says.
func honestCases() []agentCase {
	return []agentCase{
		{name: first, ids: []string{"AGT-0", "EXE-2", "INC-6b"}, about: "a proven decision: one compensation, its execution, its outcome", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.start()
			p.does("compensate", charge)
			o := p.outcome(charge, entry.Compensated)
			if p.err == nil && o.Decision != p.decision(entry.ActAuthorize) {
				p.fail("the outcome names the decision by index and leaf hash", "%+v", o.Decision)
			}
			p.compensation()
		}},
		{name: "undo/late", ids: []string{"AGT-0"}, about: "the agent is there first, and the decision comes later", play: func(p *play) {
			p.start()
			p.until("the agent asks for commands", func() bool { return len(p.stage.Seen()) > 0 })
			p.charged()
			p.authorized(nil)
			p.does("compensate", charge)
			p.outcome(charge, entry.Compensated)
		}},
		{name: "undo/twice", ids: []string{"AGT-4a", "AGT-4e"}, about: "the ledger tells of a command that is done, again and again", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			before := p.capture()
			p.start()
			p.does("compensate", charge)
			p.outcome(charge, entry.Compensated)
			p.shows(before)
			p.still()
			p.again()
			p.still()
		}},
		{name: "undo/cancel", ids: []string{"SCO-4", "INC-6c"}, about: "a planned execution is cancelled: nothing is undone, and the outcome says not_executed", play: func(p *play) {
			p.did(read, entry.EffectNone)
			p.step(later, entry.EffectCompensable, entry.Planned, read)
			p.fails(read)
			p.authorized(nil)
			p.start()
			p.outcome(later, entry.NotExecuted)
			p.nothing()
		}},
		{name: "undo/restore", ids: []string{"SCO-4", "INC-6c"}, about: "a reversible execution: the line goes back to its checkpoint", play: func(p *play) {
			p.write(stage.Agent, &entry.Checkpoint{Checkpoint: "c0", Digest: stateDigest})
			p.did(read, entry.EffectNone)
			p.did(drafted, entry.EffectReversible, read)
			p.fails(read)
			p.approved()
			p.start()
			p.outcome(drafted, entry.Restored)
			p.does("restore", begun)
		}},
		{name: "undo/order", ids: []string{"INC-7a", "AGT-7"}, about: "a compensation waits for the outcome of the compensation that depends on it", play: func(p *play) {
			p.pipeline()
			p.authorized(nil)
			p.start()
			p.idle()
			p.writerDone()
			p.does("compensate", charge)
			p.does("restore", begun)
			p.outcome(charge, entry.Compensated)
			p.outcome(drafted, entry.Restored)
			p.outcome(later, entry.NotExecuted)
			p.lineLast()
		}},
	}
}

// planCases are those of plans that stop, change, or leave something.
func planCases() []agentCase {
	return []agentCase{
		{name: "undo/residual", ids: []string{"INC-6a"}, about: "the service refuses the compensation for good: the outcome says failed and what is left", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.world.fails["compensate"] = true
			p.start()
			o := p.outcome(charge, entry.ResultFailed, entry.ResultUnknown)
			if p.err == nil && o.Residual == "" {
				p.fail("residual", "none")
			}
		}},
		{name: "undo/irrevocable", ids: []string{"SCO-4", "INC-6c"}, about: "people approve a plan with an effect that nothing undoes: its outcome is " +
			"irrevocable, the charge is compensated", play: func(p *play) {
			p.mailed()
			p.approve(stage.Ann, stage.Bob)
			p.authorized(nil)
			p.start()
			p.outcome(mail, entry.ResultIrrevocable)
			p.does("compensate", charge)
			p.outcome(charge, entry.Compensated)
		}},
		{name: "undo/amended", ids: []string{"AGT-4a", "INC-7d"}, about: "an amend adds a member while another one waits: each is undone once", play: func(p *play) {
			p.did(second, entry.EffectCompensable)
			p.did(charge, entry.EffectCompensable)
			p.did(page, entry.EffectCompensable, charge)
			p.fails(charge)
			p.authorized(nil)
			p.start()
			p.idle()
			p.amended()
			p.does("compensate", second)
			p.outcome(second, entry.Compensated)
			p.writerDone()
			p.does("compensate", charge)
			p.outcome(charge, entry.Compensated)
		}},
		{name: "undo/overridden", ids: []string{"OVR-2"}, about: "an operator overrides the decision before the agent begins", play: func(p *play) {
			p.charged()
			p.authorized(nil)
			p.override()
			p.start()
			p.until("the agent asks for commands", func() bool { return len(p.stage.Seen()) > 0 })
			p.still()
		}},
		{name: "undo/own", ids: []string{"AGT-0a"}, about: "a plan of which no member is the agent's", play: func(p *play) {
			p.did(charge, entry.EffectCompensable)
			p.did(page, entry.EffectCompensable)
			p.fails(page)
			p.authorized(nil)
			p.start()
			p.until("the agent asks for commands", func() bool { return len(p.stage.Seen()) > 0 })
			p.still()
		}},
	}
}

// nothing sees that nothing was undone.
func (p *play) nothing() {
	if list := p.world.undone(); p.err == nil && len(list) > 0 {
		p.fail("nothing is undone", "%s of %s", list[0].Do, describeEffect(list[0]))
	}
}

// approved has the coordinator decide, with approvals where it proposes.
func (p *play) approved() {
	p.coordinate(nil)
	if p.err == nil && p.decision(entry.ActEscalate).LeafHash != (entry.LogRef{}).LeafHash {
		p.approve(stage.Ann, stage.Bob)
		p.coordinate(nil)
	}
	if d := p.decision(entry.ActAuthorize); p.err == nil && d == (entry.LogRef{}) {
		p.must(fmt.Errorf("conformance: the incident is %v, not authorized", p.state()))
	}
}

// amended has the agent report that its failure began with an earlier execution, and the
// coordinator amend.
func (p *play) amended() {
	again := p.signalOf(charge)
	again.Since = second
	p.write(stage.Agent, again)
	p.coordinate(nil)
	if d := p.decision(entry.ActAmend); p.err == nil && d == (entry.LogRef{}) {
		p.must(fmt.Errorf("conformance: the incident is %v, not amended", p.state()))
	}
}

// override stops the plan in force.
func (p *play) override() {
	d := p.decision(entry.ActAuthorize)
	list, err := p.stage.Entries(d.Index)
	p.must(err)
	if p.err != nil {
		return
	}
	inForce := list[0].Body.(*entry.Decision) //nolint:forcetypeassert // decision found it
	p.write(stage.Operator, &entry.Decision{Incident: p.incident, Act: entry.ActOverride, Policy: inForce.Policy, Epoch: inForce.Epoch + 1,
		Exp: p.stage.Now()/1000 + 600, Reason: "it was right after all"})
}

// compensation sees that the compensation has an execution of its own, by the rules.
func (p *play) compensation() {
	if p.err != nil {
		return
	}
	progress := []entry.Progress{}
	for _, e := range p.entries() {
		if x, is := e.Body.(*entry.Execution); is && x.Compensates != nil && x.Compensates.Exec == charge {
			progress = append(progress, x.Progress)
			if len(x.Parents) > 0 || x.Compensates.Decision != p.decision(entry.ActAuthorize) {
				p.fail("an execution with compensates and without parents (EXE-4a)", "%+v", x)
			}
		}
	}
	if n := len(progress); n < 2 || progress[n-1] != entry.Confirmed {
		p.fail("the compensation is started, then confirmed (EXE-1)", "%v", progress)
	}
}

// lineLast sees that the line went back after the compensation.
func (p *play) lineLast() {
	if list := p.world.undone(); p.err == nil && (len(list) != 2 || list[1].Do != "restore") {
		p.fail("the line goes back once, after the compensation (INC-7)", "%v", list)
	}
}
