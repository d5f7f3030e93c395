package simulation

import (
	"maps"
	"slices"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// observer sees the log and every hook that runs, and judges both by the rules
// as they are written. It keeps its own books; of the fold it uses views only,
// each of which it checks against the log.
type observer struct {
	w         *world
	spans     map[entry.Principal]bool // whether the span is agent
	roles     map[string][]entry.Role  // of keys, by id
	enrolled  map[string]uint64        // index of the entry that enrolled a key
	order     []*record                // executions by first entry
	execs     map[entry.Ref]*record
	points    []*point
	incidents map[uint64]*affair
	plans     map[uint64]*decided // decisions with a plan in force, by index
	policy    *entry.Policy
	policyAt  entry.LogRef
	signals   map[uint64]*entry.Signal
	approvals map[uint64]*approval
	signedBy  map[uint64]string                    // ids of the keys that signed signals
	judged    map[entry.Principal]map[string]int64 // by disposition, and independent
	domains   map[entry.Principal]string
	revoked   map[string]revocation // keys, by id
}

// record is an execution.
type record struct {
	ref                   entry.Ref
	agent                 entry.Principal
	wid                   entry.WorkflowID
	effect                entry.Effect
	parents               []entry.Parent
	first, started, final uint64
	at                    int64
	progress              entry.Progress
	clean, undone, comp   bool
}

// point is a checkpoint.
type point struct {
	ref            entry.Ref
	agent          entry.Principal
	wid            entry.WorkflowID
	index, covered uint64
	expires        int64
	void           bool
}

// affair is an incident.
type affair struct {
	id       uint64
	policy   *entry.Policy // when it was opened
	epoch    int64
	exp      int64    // the latest of its decisions with a plan, Unix milliseconds
	decision *decided // in force
	proposal *proposal
	asked    *asked // of an amend, until people approve it
	hold     *hold  // of the newest contain or proposal that fences
	override uint64
	votes    []string // keys of the approvers who want an override
	over     bool
	denied   entry.LogRef // what dismissed it
	noted    bool         // whether somebody has acknowledged that silence did
	results  map[entry.Ref]entry.Result
	own      map[entry.Ref]bool // whether the agent said so
}

// decided is a decision with a plan.
type decided struct {
	*entry.Decision
	ref     entry.LogRef
	keyID   string
	members []entry.Member
	restsOn []uint64 // indexes of signals
	drains  map[entry.Ref]bool
	// withheld are those that an override withheld before, and no agent spoke of.
	withheld map[entry.Ref]bool
}

type proposal struct {
	*entry.Decision
	ref entry.LogRef
	at  int64
}

type approval struct {
	*entry.Approval
	keyID string
	index uint64
}

func newObserver(w *world) *observer {
	return &observer{w: w, spans: map[entry.Principal]bool{}, roles: map[string][]entry.Role{}, enrolled: map[string]uint64{}, execs: map[entry.Ref]*record{},
		incidents: map[uint64]*affair{}, plans: map[uint64]*decided{}, signals: map[uint64]*entry.Signal{}, approvals: map[uint64]*approval{},
		signedBy: map[uint64]string{}, judged: map[entry.Principal]map[string]int64{}, domains: map[entry.Principal]string{}, revoked: map[string]revocation{}}
}

// lineID names a line.
type lineID struct {
	agent entry.Principal
	wid   entry.WorkflowID
}

func (o *observer) line(a entry.Principal, wid entry.WorkflowID) lineID {
	if o.spans[a] {
		wid = ""
	}
	return lineID{a, wid}
}

func (o *observer) open() (count int) {
	for _, a := range o.incidents {
		if !a.over {
			count++
		}
	}
	return count
}

// before judges an entry that is about to be registered.
func (o *observer) before(e *entry.Entry, at int64) {
	if r, revoked := o.revoked[e.KeyID]; revoked {
		o.w.fail("%s of %s is taken, whose key was revoked at %d", e.Kind, e.Header.Iss, r.index)
	}
	switch body := e.Body.(type) {
	case *entry.Decision:
		o.judgeDecision(e, body, at)
	case *entry.Execution:
		o.judgeExecution(body, at)
	case *entry.Outcome:
		o.judgeOutcome(body, at)
	case *entry.Record:
		o.judgeRecord(body, at)
	}
}

// logged takes up an entry.
func (o *observer) logged(e *entry.Entry, index uint64, at int64) {
	switch body := e.Body.(type) {
	case *entry.Policy:
		o.policy, o.policyAt = body, entry.LogRef{Index: index, LeafHash: e.LeafHash(at)}
	case *entry.Agent:
		if body.Op == entry.Revoke {
			o.revoked[body.Key.KeyID()] = revocation{index, body.CompromisedSince.Index}
			return
		}
		o.domains[body.Principal] = body.Domain
		o.spans[body.Principal] = body.Span == entry.SpanAgent
		o.roles[body.Key.KeyID()] = body.Roles
		if _, again := o.enrolled[body.Key.KeyID()]; !again {
			o.enrolled[body.Key.KeyID()] = index
		}
	case *entry.Execution:
		o.execution(body, index, at)
	case *entry.Checkpoint:
		p := &point{ref: entry.NewRef(body.Iss, body.Checkpoint), agent: body.Iss, wid: body.Wid, index: index, expires: body.ExpiresAt}
		if body.After != nil {
			p.covered = o.execs[*body.After].final
		}
		o.points = append(o.points, p)
	case *entry.Signal:
		o.signedBy[index] = e.KeyID
		o.signal(body, index)
	case *entry.Approval:
		o.approvals[index] = &approval{body, e.KeyID, index}
		if q := o.incidents[body.Incident].asked; q != nil && q.ref == body.Proposal {
			q.answered = true
		}
	case *entry.Decision:
		o.decision(e, body, index, at)
		o.checkLapse(o.incidents[body.Incident], at)
	case *entry.Outcome:
		o.outcome(body, index)
	case *entry.Record:
		o.recorded(body, at)
		o.checkLapse(o.incidents[body.Incident], at)
	}
}

func (o *observer) execution(body *entry.Execution, index uint64, at int64) {
	x := o.execs[body.Ref()]
	if x == nil {
		x = &record{ref: body.Ref(), agent: body.Iss, wid: body.Wid, effect: body.Effect, parents: body.Parents, first: index, at: at,
			comp: body.Compensates != nil}
		o.execs[x.ref] = x
		o.order = append(o.order, x)
	}
	x.progress = body.Progress
	if body.Progress != entry.Planned && x.started == 0 {
		x.started = index
	}
	if !body.Progress.Final() {
		return
	}
	x.final = index
	for _, a := range o.incidents { // what had no effect is over when it has ended, whatever others said of it before
		if d := a.decision; d != nil && d.drains[x.ref] && !a.own[x.ref] && o.member(d, x.ref).Method == entry.MethodNone {
			o.result(a, x.ref, entry.NotExecuted, index, false)
		}
	}
}

func (o *observer) member(d *decided, ref entry.Ref) *entry.Member {
	for i := range d.members {
		if d.members[i].Exec == ref {
			return &d.members[i]
		}
	}
	return nil
}

func (o *observer) signal(body *entry.Signal, index uint64) {
	o.signals[index] = body
	if x := o.execs[body.Subject]; body.Standing == entry.StandingExecutor {
		x.clean = body.Effects == entry.EffectsNone
	}
	if _, opened := o.w.ledgerIncident(index); opened {
		o.incidents[index] = &affair{id: index, policy: o.policy, results: map[entry.Ref]entry.Result{}, own: map[entry.Ref]bool{}}
	}
}

// decision takes up a decision, and checks the plan that the fold puts in force.
func (o *observer) decision(e *entry.Entry, d *entry.Decision, index uint64, at int64) {
	a := o.incidents[d.Incident]
	a.epoch = d.Epoch
	ref := entry.LogRef{Index: index, LeafHash: e.LeafHash(at)}
	switch d.Act {
	case entry.ActContain:
		o.held(a, e, d, index)
	case entry.ActEscalate:
		a.proposal = &proposal{d, ref, at}
		if a.decision != nil {
			a.asked = &asked{ref: ref, keyID: e.KeyID, at: at}
		}
		o.held(a, e, d, index)
	case entry.ActDeny:
		switch { // where it is not the first, somebody takes note that nobody answered
		case a.decision != nil:
			a.asked.noted, a.asked.over = index, true
			return
		case a.over:
			a.noted = true
			return
		}
		a.over, a.denied = true, ref
		o.judge(d.Dispositions)
	case entry.ActOverride:
		o.dropped(a, at)
		o.overridden(a, e, index)
	case entry.ActAuthorize, entry.ActAmend:
		if o.dropped(a, at); len(d.Approvals) > 0 {
			a.asked = nil
		}
		a.proposal = nil
		o.inForce(a, d, ref, e.KeyID)
	}
}

func (o *observer) overridden(a *affair, e *entry.Entry, index uint64) {
	if !slices.Contains(o.roles[e.KeyID], entry.RoleOperator) {
		a.votes = append(a.votes, e.KeyID)
		// Revocations hold as they are now (INC-3): who has lost the key that
		// they voted with has not voted, so that fewer than two want it.
		a.votes = slices.DeleteFunc(a.votes, func(keyID string) bool { _, revoked := o.revoked[keyID]; return revoked })
		if len(a.votes) < 2 {
			return
		}
	}
	a.override, a.votes = index, nil
	for i := range a.decision.members {
		if ref := a.decision.members[i].Exec; a.results[ref] == "" {
			o.result(a, ref, entry.Withheld, index, false)
		}
	}
}

// TestVoteOfRevokedKeyIsNone has two approvers want an override, one of whom has
// lost the key meanwhile: that makes one.
func TestVoteOfRevokedKeyIsNone(t *testing.T) {
	o := newObserver(&world{})
	x := &record{ref: "a#x", agent: "a"}
	o.execs[x.ref] = x
	a := &affair{results: map[entry.Ref]entry.Result{}, own: map[entry.Ref]bool{}, decision: &decided{members: []entry.Member{{Exec: x.ref}}}}
	o.overridden(a, &entry.Entry{KeyID: "one"}, 5)
	o.revoked["one"] = revocation{index: 6}
	o.overridden(a, &entry.Entry{KeyID: "two"}, 7)
	if a.override != 0 || a.results[x.ref] != "" {
		t.Errorf("overridden at %d, %s is %q", a.override, x.ref, a.results[x.ref])
	}
	o.overridden(a, &entry.Entry{KeyID: "three"}, 8)
	if a.override != 8 || a.results[x.ref] != entry.Withheld {
		t.Errorf("two votes: overridden at %d, %s is %q", a.override, x.ref, a.results[x.ref])
	}
}

// inForce takes up a plan: its members are those whose tree has the root that
// was signed.
func (o *observer) inForce(a *affair, d *entry.Decision, ref entry.LogRef, keyID string) {
	view, ok := o.w.ledger.state.PlanInForce(d.Incident, o.w.now)
	if !ok {
		o.w.fail("decision %d: no plan is in force", ref.Index)
	}
	now := &decided{Decision: d, ref: ref, keyID: keyID, members: view.Set(), drains: map[entry.Ref]bool{}, withheld: map[entry.Ref]bool{}}
	var leaves []merkle.Hash
	for i := range now.members {
		leaves = append(leaves, merkle.HashLeaf(now.members[i].AppendJSON(nil)))
	}
	if merkle.HeadOf(leaves) != d.RollbackSet.Head {
		o.w.fail("decision %d: the plan in force is not the one that was signed", ref.Index)
	}
	before := a.decision
	o.checkScope(a, now)
	o.judgeDomains(a, now)
	o.judgeStopped(a, now)
	a.decision, a.exp = now, max(a.exp, d.Exp*1000)
	o.plans[ref.Index] = now
	for i := range now.members {
		m := &now.members[i]
		x := o.execs[m.Exec]
		if before != nil {
			if old := o.member(before, m.Exec); old != nil {
				now.drains[m.Exec] = before.drains[m.Exec]
				if old.Checkpoint != m.Checkpoint { // it was reopened
					x.undone = false
					delete(a.results, m.Exec)
				}
				now.withheld[m.Exec] = a.results[m.Exec] == entry.Withheld && !a.own[m.Exec]
				continue
			}
		}
		now.drains[m.Exec] = x.progress == entry.Started
		if m.Method == entry.MethodNone && x.progress != entry.Started {
			o.result(a, m.Exec, entry.NotExecuted, ref.Index, false)
		}
	}
}

func (o *observer) outcome(body *entry.Outcome, index uint64) {
	a, x := o.incidents[body.Incident], o.execs[body.Exec]
	o.result(a, body.Exec, body.Result, index, body.Iss == x.agent)
	if n := o.w.nodeOf(body.Iss); n != nil && body.Result == entry.Refused && !n.rogue && !n.cheated {
		o.w.fail("%s refuses %s, and nobody lied to it: %s", n.name, body.Exec, body.Residual)
	}
}

// result gives a member its result.
func (o *observer) result(a *affair, ref entry.Ref, r entry.Result, index uint64, own bool) {
	x, m := o.execs[ref], o.member(a.decision, ref)
	a.results[ref], a.own[ref] = r, own
	x.undone = r == entry.Restored || r == entry.Compensated || r == entry.NotExecuted
	if !x.undone {
		return
	}
	for _, p := range o.points {
		if o.line(p.agent, p.wid) != o.line(x.agent, x.wid) || p.index > index {
			continue
		}
		if x.started != 0 && p.index > x.first {
			p.void = true
		}
		if r == entry.Restored && p.index > o.point(m.Checkpoint).index {
			p.void = true
		}
	}
}

func (o *observer) point(ref entry.Ref) *point {
	for _, p := range o.points {
		if p.ref == ref {
			return p
		}
	}
	o.w.fail("no checkpoint %s", ref)
	return nil
}

func (o *observer) recorded(r *entry.Record, at int64) {
	a := o.incidents[r.Incident]
	o.dropped(a, at)
	a.over = true
	o.judge(r.Dispositions)
}

// judge counts the verdicts on signals.
func (o *observer) judge(list []entry.Disposition) {
	for _, one := range list {
		iss := o.signals[one.Index].Iss
		if o.judged[iss] == nil {
			o.judged[iss] = map[string]int64{}
		}
		if o.judged[iss][one.Disposition]++; one.Independent {
			o.judged[iss]["independent"]++
		}
	}
}

// recordedOf returns the newest recorded incident that had an execution as a
// member.
func (o *observer) recordedOf(ref entry.Ref) (uint64, bool) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(o.incidents))) {
		if a := o.incidents[id]; a.over && a.decision != nil && o.member(a.decision, ref) != nil {
			return id, true
		}
	}
	return 0, false
}

func (w *world) nodeOf(p entry.Principal) *node {
	for _, n := range w.nodes {
		if n.name == p {
			return n
		}
	}
	return nil
}

func (w *world) ledgerIncident(index uint64) (id uint64, ok bool) {
	v, ok := w.ledger.state.Incident(index, w.now)
	return v.ID, ok
}
