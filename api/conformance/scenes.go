package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// write registers an entry of somebody whom the kit plays, or of the agent before the case begins.
func (p *play) write(by entry.Principal, body entry.Body) (ref entry.LogRef) {
	if p.err == nil {
		var err error
		ref, err = p.stage.Write(by, body)
		p.must(err)
	}
	return ref
}

// step registers one entry of an execution.
func (p *play) step(ref entry.Ref, effect entry.Effect, progress entry.Progress, parents ...entry.Ref) {
	by, _ := stage.Owner(ref)
	p.write(by, stage.Execution(ref, effect, progress, parents...))
}

// did registers an execution up to its end.
func (p *play) did(ref entry.Ref, effect entry.Effect, parents ...entry.Ref) {
	if effect != entry.EffectNone {
		p.step(ref, effect, entry.Started, parents...)
	}
	p.step(ref, effect, entry.Confirmed, parents...)
}

// The executions of the scenes.
const (
	read    entry.Ref = "source#read"
	drafted entry.Ref = "worker#draft"
	later   entry.Ref = "worker#later"
	charge  entry.Ref = "worker#charge"
	second  entry.Ref = "worker#second"
	mail    entry.Ref = "worker#mail"
	page    entry.Ref = "writer#page"
	begun   entry.Ref = "worker#c0"
)

// fails reports an execution by its own agent, and opens the incident.
func (p *play) fails(subject entry.Ref) {
	by, _ := stage.Owner(subject)
	ref := p.write(by, p.signalOf(subject))
	if p.incident == 0 {
		p.incident = ref.Index
	}
}

func (p *play) signalOf(subject entry.Ref) *entry.Signal {
	return stage.Signal(subject, entry.StandingExecutor, p.stage.Now())
}

// coordinate writes what the coordinator writes now, changed by a twist.
func (p *play) coordinate(twist stage.Twist) {
	if p.err == nil {
		p.must(p.stage.Coordinate(noContext, twist))
	}
}

// state is the state of the incident.
func (p *play) state() (state entry.IncidentState) {
	p.stage.State(func(s *coord.State) {
		if view, ok := s.Incident(p.incident, p.stage.Now()); ok {
			state = view.State
		}
	})
	return state
}

// authorized has the coordinator decide, and sees that it authorizes.
func (p *play) authorized(twist stage.Twist) {
	p.coordinate(twist)
	if p.err == nil && p.state() != entry.IncidentAuthorized {
		p.must(fmt.Errorf("conformance: the incident is %v, not authorized", p.state()))
	}
}

// charged is the plainest scene: one compensable execution of the agent, which reports its failure.
func (p *play) charged() {
	p.did(charge, entry.EffectCompensable)
	p.fails(charge)
}

// pipeline is a longer scene: what the source read was wrong; the agent drafted from it, charged
// and planned more; the writer went on from the charge.
func (p *play) pipeline() {
	p.write(stage.Agent, &entry.Checkpoint{Checkpoint: "c0", Digest: stateDigest})
	p.did(read, entry.EffectNone)
	p.did(drafted, entry.EffectReversible, read)
	p.did(charge, entry.EffectCompensable, drafted)
	p.did(page, entry.EffectCompensable, charge)
	p.step(later, entry.EffectReversible, entry.Planned, drafted)
	p.fails(read)
}

// mailed is a scene that people approve: an effect that nothing undoes depends on the charge.
func (p *play) mailed() {
	p.did(charge, entry.EffectCompensable)
	p.did(mail, entry.EffectIrrevocable, charge)
	p.fails(charge)
	p.coordinate(nil)
	if p.err == nil && p.state() != entry.IncidentEscalated {
		p.must(fmt.Errorf("conformance: the incident is %v, not escalated", p.state()))
	}
}

// decision is the newest decision with one of some acts.
func (p *play) decision(acts ...entry.Act) (ref entry.LogRef) {
	list, err := p.stage.Entries(p.incident)
	p.must(err)
	for _, e := range list {
		if d, is := e.Body.(*entry.Decision); is && slices.Contains(acts, d.Act) {
			ref, err = p.stage.Ref(e.Index)
			p.must(err)
		}
	}
	return ref
}

func (p *play) approval() *entry.Approval {
	return &entry.Approval{Incident: p.incident, Proposal: p.decision(entry.ActEscalate), Verdict: "approve", Exp: p.stage.Now()/1000 + 1800, Reason: "computed again"}
}

// approve answers the proposal.
func (p *play) approve(names ...entry.Principal) {
	for _, name := range names {
		p.write(name, p.approval())
	}
}

// writerDone is the outcome of the writer's member.
func (p *play) writerDone() {
	d := p.decision(entry.ActAuthorize, entry.ActAmend)
	for _, progress := range []entry.Progress{entry.Planned, entry.Started, entry.Confirmed} {
		p.write(stage.Writer, &entry.Execution{Exec: "unpage", Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable, Progress: progress, IdempotencyKey: stage.ZeroDigest,
			Compensates: &entry.Compensates{Incident: p.incident, Decision: d, Exec: page}})
	}
	p.write(stage.Writer, &entry.Outcome{Incident: p.incident, Decision: d, Exec: page, Result: entry.Compensated, CompExec: "writer#unpage", ObservedAt: p.stage.Now()})
}

// does waits until the world has undone something once.
func (p *play) does(do string, of entry.Ref) {
	p.until(fmt.Sprintf("%s of %s, once", do, of), func() bool { return p.world.times(do, of) > 0 })
}

// outcome waits for the outcome of a member.
func (p *play) outcome(of entry.Ref, results ...entry.Result) (o *entry.Outcome) {
	p.until(fmt.Sprintf("an outcome of %s: %v", of, results), func() bool {
		for _, e := range p.entries() {
			if made, is := e.Body.(*entry.Outcome); is && made.Exec == of {
				o = made
			}
		}
		return o != nil && slices.Contains(results, o.Result)
	})
	return o
}

// asked is the number of times that the agent got an answer to a question for the bundle.
func (p *play) asked() (n int) {
	for _, r := range p.stage.Seen() {
		if strings.HasSuffix(r.Path, "/bundle") && r.Status != 0 {
			n++
		}
	}
	return n
}

// idle sees that the agent, which has asked for the bundle, undoes nothing because of it.
func (p *play) idle() {
	p.until("the agent asks for its bundle", func() bool { return p.asked() > 0 })
	if p.gone() {
		p.err = nil // whoever ends undoes nothing
	}
	p.still()
}

// still sees that nothing is undone for a while.
func (p *play) still() {
	if p.err != nil {
		return
	}
	undone := len(p.world.undone())
	moved := p.stage.Until(p.over, cmp.Or(p.kit.Settle, settleDefault), func() bool { return len(p.world.undone()) > undone })
	if moved {
		p.fail("nothing is undone", "%s of %s", p.world.undone()[undone].Do, describeEffect(p.world.undone()[undone]))
	}
}

func describeEffect(e Effect) string { return fmt.Sprintf("%s, key %q", e.of(), e.Key) }

// undeclared says what is wrong with the log where the agent has an effect: no entry says that it
// was started.
func (p *play) undeclared(e *Effect) string {
	if e.Do == "restore" {
		return ""
	}
	list, err := p.stage.Entries(0)
	if err != nil {
		return err.Error()
	}
	for _, logged := range list {
		x, is := logged.Body.(*entry.Execution)
		if !is || x.Iss != stage.Agent || x.Progress != entry.Started {
			continue
		}
		if e.Do == "run" && x.Ref() == e.Exec || e.Do == "compensate" && x.Compensates != nil && x.Compensates.Exec == e.Exec {
			return ""
		}
	}
	return fmt.Sprintf("%s of %s before an entry in the log says that it was started", e.Do, e.of())
}

// invariants are what holds in every case: log before act, one effect at most, and one payload
// under an id.
func (p *play) invariants() {
	if p.err != nil {
		return
	}
	p.world.mu.Lock()
	wrong, done := slices.Clone(p.world.wrong), slices.Clone(p.world.done)
	p.world.mu.Unlock()
	if len(wrong) > 0 {
		p.fail("log before act (EXE-2), and only effects that there are", "%s", wrong[0])
	}
	seen := map[string]bool{}
	for _, e := range done {
		name := e.Do + " of " + string(e.of())
		if seen[name] {
			p.fail("one effect at most (AGT-4b)", "%s a second time", name)
		}
		seen[name] = true
	}
	p.resent()
}

// submitted are the entries that the agent has sent, in their order.
func (p *play) submitted() (list []*entry.Entry, at []time.Time) {
	for _, r := range p.stage.Seen() {
		if r.Method != http.MethodPost {
			continue
		}
		for line := range bytes.Lines(r.Body) {
			if e, err := entry.Decode(bytes.TrimSpace(line)); err == nil {
				list, at = append(list, e), append(at, r.At)
			}
		}
	}
	return list, at
}

// resent sees that what is sent again under one id is the same.
func (p *play) resent() {
	first := map[string]*entry.Entry{}
	list, _ := p.submitted()
	for _, e := range list {
		id := string(e.Header.Iss) + " " + e.Header.JTI
		if before := first[id]; before != nil && !bytes.Equal(before.PAE(), e.PAE()) {
			p.fail("the same bytes again (REG-2c)", "other bytes under the id %s: %s, then %s", e.Header.JTI, before.Payload(), e.Payload())
		}
		first[id] = e
	}
}
