package simulation

import (
	"maps"
	"slices"
	"strings"

	"recoveryledger/ledger/entry"
)

// hold is the fence of an incident that waits for a decision: of a contain, or of
// the proposal that people are asked about (INC-4).
type hold struct {
	plan  map[entry.Ref]verdict
	lines map[lineID]bool // that the plan takes back
	exp   int64           // Unix milliseconds
	keyID string
	index uint64 // of the decision
}

// held takes up what a contain or a proposal fences, by the oracle. A proposal
// that cannot be fenced, and one by a signaler, leaves the fence before it as it
// is.
func (o *observer) held(a *affair, e *entry.Entry, d *entry.Decision, index uint64) {
	roles := o.roles[e.KeyID]
	fences := slices.Contains(roles, entry.RoleCoordinator) || slices.Contains(roles, entry.RoleApprover)
	if strings.Contains(d.NotFenced, "limits.fence.") {
		o.w.fail("%s %d is not fenced, and no plan here is as large as a fence may be: %s", d.Act, index, d.NotFenced)
	}
	if a.decision != nil || d.NotFenced != "" || !fences {
		return
	}
	h := &hold{lines: map[lineID]bool{}, exp: d.Exp * 1000, keyID: e.KeyID, index: index}
	if o.edgesAlone(d) { // which fence less than the plan: that is not judged
		a.hold = h
		return
	}
	now := &decided{Decision: d, ref: entry.LogRef{Index: index}}
	h.plan = o.closure(o.seeds(now), o.w.ledger.last+o.policy.Windows.DeadlineMaxMS)
	for ref, v := range h.plan {
		if x := o.execs[ref]; v.method == entry.MethodRestore {
			h.lines[o.line(x.agent, x.wid)] = true
		}
	}
	a.hold = h
}

// edgesAlone reports whether an upstream or downstream signal is among those that
// a decision rests on.
func (o *observer) edgesAlone(d *entry.Decision) bool {
	view, _ := o.w.ledger.state.Incident(d.Incident, o.w.now)
	for _, s := range view.Signals {
		standing := o.signals[s.Index].Standing
		if s.Index < d.Pin.Size && (standing == entry.StandingUpstream || standing == entry.StandingDownstream) {
			return true
		}
	}
	return false
}

// holding returns the fence of an incident that nobody has decided about yet, nil
// if there is none.
func (o *observer) holding(a *affair, at int64) *hold {
	h := a.hold
	if h == nil || a.over || a.decision != nil || at >= h.exp || o.voided(h.keyID, h.index, o.w.ledger.size()) {
		return nil
	}
	return h
}

// judgeExecution is the fence of what is authorized, and of what may be (INC-4).
func (o *observer) judgeExecution(x *entry.Execution, at int64) {
	old := o.execs[x.Ref()]
	if x.Compensates != nil || old != nil && x.Progress != entry.Started {
		return
	}
	builds := func(on entry.Ref) bool {
		if old != nil {
			return on == x.Ref()
		}
		return slices.ContainsFunc(x.Parents, func(p entry.Parent) bool { return p.Exec == on })
	}
	fail := func(id uint64, around any) {
		o.w.fail("%s of %s is taken in spite of the fence of incident %d around %s", x.Progress, x.Ref(), id, around)
	}
	for _, id := range slices.Sorted(maps.Keys(o.incidents)) {
		a := o.incidents[id]
		if h := o.holding(a, at); h != nil {
			if line := o.line(x.Iss, x.Wid); h.lines[line] {
				fail(id, line)
			}
			for _, ref := range slices.Sorted(maps.Keys(h.plan)) {
				if builds(ref) {
					fail(id, ref)
				}
			}
		}
		if a.decision == nil {
			continue
		}
		for i := range a.decision.members {
			m := &a.decision.members[i]
			open := a.results[m.Exec] != entry.Restored && a.results[m.Exec] != entry.NotExecuted
			of := o.execs[m.Exec]
			onLine := m.Method == entry.MethodRestore && open && o.line(of.agent, of.wid) == o.line(x.Iss, x.Wid)
			if builds(m.Exec) || onLine {
				fail(id, m.Exec)
			}
		}
	}
}
