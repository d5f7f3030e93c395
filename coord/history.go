package coord

import (
	"cmp"
	"slices"

	"recoveryledger/ledger/entry"
)

// History is what the log says of a principal, for those who decide whom to
// trust. Every item names the entry that proves it.
type History struct {
	Principal entry.Principal
	// Of its last 256 signals that were judged: those that others corroborate, of
	// these the ones that count in its quota, those that it alone reports, and
	// those that were found false.
	Corroborated, Independent, SelfReported, Unfounded int64
	Judged                                             int   // how many these are
	Corrections                                        int64 // outcomes by which it corrected itself after the record
	SignalLimit                                        int64 // signals an hour that this leaves it (section 8)
	Signals                                            []SignalView
	Memberships                                        []Membership
}

// Membership is an execution of the principal that was to be undone.
type Membership struct {
	Incident uint64
	Decision uint64 // index of the one that made it a member
	Exec     entry.Ref
	Method   entry.Method
	Result   entry.Result // empty: none yet
	ResultAt uint64       // index of what says so
	Own      bool         // whether the principal said so itself
}

// History returns what the log says of a principal, from its incident before
// on, over up to limit incidents, the newest first; before 0 is the newest of
// all. next is what to go on with; 0: that is all.
func (s *State) History(p entry.Principal, before uint64, limit int) (h History, next uint64, ok bool) {
	h, number, ok := s.judgement(p)
	if !ok {
		return h, 0, false
	}
	for _, of := range slices.Backward(s.usage[number].incidents) {
		inc := s.incidents[of]
		if before != 0 && inc.opened >= before {
			continue
		}
		if limit == 0 {
			return h, next, true
		}
		limit--
		next = inc.opened
		s.recall(&h, inc, number)
	}
	return h, 0, true
}

// judgement begins the history of a principal with its counts.
func (s *State) judgement(p entry.Principal) (h History, number uint32, ok bool) {
	if number, ok = s.principals.Find([]byte(p)); !ok {
		return h, 0, false
	}
	u := &s.usage[number]
	h = History{Principal: p, Corroborated: u.corroborated, Independent: u.independent, SelfReported: u.selfReported, Unfounded: u.unfounded,
		Judged: len(u.judged), Corrections: u.corrections}
	if policy, _ := s.chain.Policy(); policy != nil {
		h.SignalLimit = u.signalLimit(policy.Quotas.SignalsPerHour)
	}
	return h, number, true
}

// Changes is the part of a history that is newer than a reader's cursor.
type Changes struct {
	History
	Incidents []uint64 // in which something changed, in the order of their newest change
	Cursor    uint64   // index of the newest change that is told; what was asked for if none is
	More      bool     // further changes lie behind the cursor
}

// HistoryAfter returns what the log says of a principal in the incidents in which
// something of its history changed behind an index, over limit incidents or a few
// more, in the order of their newest change. A reader that goes on from the
// cursor misses none, however late an old incident changes.
func (s *State) HistoryAfter(p entry.Principal, after uint64, limit int) (c Changes, ok bool) {
	h, number, ok := s.judgement(p)
	if !ok {
		return c, false
	}
	type change struct {
		at   uint64 // index of the newest entry that says something of it
		inc  *incident
		part History
	}
	var changes []change
	for _, of := range s.usage[number].incidents {
		one := change{inc: s.incidents[of]}
		s.recall(&one.part, one.inc, number)
		if one.at = one.part.changed(one.inc.opened); one.at > after {
			changes = append(changes, one)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.inc.opened, b.inc.opened)) })
	c = Changes{History: h, Cursor: after}
	for i := range changes {
		one := &changes[i]
		if i >= limit && one.at > c.Cursor { // changes by one entry are told together
			c.More = true
			break
		}
		c.Cursor, c.Incidents = one.at, append(c.Incidents, one.inc.opened)
		c.Signals, c.Memberships = append(c.Signals, one.part.Signals...), append(c.Memberships, one.part.Memberships...)
	}
	return c, true
}

// changed is the index of the newest entry that the history of one incident rests
// on, which is its opening at least.
func (h *History) changed(opened uint64) uint64 {
	newest := opened
	for i := range h.Signals {
		newest = max(newest, h.Signals[i].Index, h.Signals[i].Disposed)
	}
	for i := range h.Memberships {
		newest = max(newest, h.Memberships[i].Decision, h.Memberships[i].ResultAt)
	}
	return newest
}

// recall adds what a principal has to do with an incident.
func (s *State) recall(h *History, inc *incident, principal uint32) {
	for _, n := range slices.Backward(inc.signals) {
		if sig := &s.signals[n]; sig.issuer == principal && s.incidents[sig.incident] == inc {
			h.Signals = append(h.Signals, s.viewSignal(n))
		}
	}
	if inc.force == nil {
		return
	}
	for _, place := range inc.force.byAgent[principal] {
		m := &inc.force.members[place]
		h.Memberships = append(h.Memberships, Membership{inc.opened, m.since, s.refOf(m.exec), methods[m.method], m.result, m.resultAt, m.own})
	}
}

// Command is what an agent has to do in an incident, once it has verified the
// decision.
type Command struct {
	Incident uint64
	Decision uint64 // index of the one in force
	Members  int    // of the agent, without an outcome
	Released int    // of those: whose undo may begin (INC-7)
	// Changed is the index of the newest entry by which the decision came into
	// force, a member was released or the agent's got an outcome.
	Changed uint64
}

// Commands returns what an agent has to do, the oldest incident first.
func (s *State) Commands(agent entry.Principal) (list []Command) {
	number, ok := s.principals.Find([]byte(agent))
	if !ok {
		return nil
	}
	for _, of := range s.usage[number].incidents {
		inc := s.incidents[of]
		if inc.state != Authorized || inc.force.override != 0 || s.void(&inc.force.decided) {
			continue
		}
		c := Command{Incident: inc.opened, Decision: inc.force.index, Changed: inc.force.index}
		for _, place := range inc.force.byAgent[number] {
			m := &inc.force.members[place]
			c.Changed = max(c.Changed, m.releasedBy, m.resultAt)
			if m.result != "" {
				continue
			}
			if c.Members++; m.releasedAt != 0 {
				c.Released++
			}
		}
		if c.Members > 0 {
			list = append(list, c)
		}
	}
	return list
}

// ExecutionView is an execution as it stands.
type ExecutionView struct {
	Ref         entry.Ref
	Wid         entry.WorkflowID
	Index       uint64 // of its first entry
	Final       uint64 // index of its final entry; 0: none yet
	Effect      entry.Effect
	Progress    entry.Progress
	Parents     []entry.Parent
	Undone      bool
	FencedBy    uint64    // incident; 0: not fenced
	Compensates entry.Ref // of a compensation
}

// Workflow returns up to limit executions of a workflow, the newest first, from
// the one with the index before on; before 0 is the newest of all.
func (s *State) Workflow(wid entry.WorkflowID, before uint64, limit int, now int64) (views []ExecutionView, ok bool) {
	number, ok := s.workflows.Find([]byte(wid))
	if !ok || int(number) >= len(s.executions.newest) {
		return nil, ok
	}
	for next := s.executions.newest[number]; next != 0 && len(views) < limit; next = *s.executions.before.At(next - 1) {
		if before == 0 || s.graph.Node(next-1).First < before {
			views = append(views, s.viewExecution(next-1, now))
		}
	}
	return views, true
}

// Execution returns the execution that a reference names.
func (s *State) Execution(ref entry.Ref, now int64) (view ExecutionView, ok bool) {
	exec, _, ok := s.findExecution(ref)
	if ok {
		view = s.viewExecution(exec, now)
	}
	return view, ok
}

func (s *State) viewExecution(exec uint32, now int64) ExecutionView {
	x := s.graph.Node(exec)
	v := ExecutionView{
		Ref: s.refOf(exec), Wid: entry.WorkflowID(s.workflows.Text(x.Workflow)), Index: x.First, Final: x.Final,
		Effect: effects[x.Effect], Progress: steps[x.Progress], Undone: x.Undone, Parents: []entry.Parent{},
	}
	for p := range s.graph.Parents(exec) {
		dep := entry.Hard
		if p.Soft {
			dep = entry.Soft
		}
		v.Parents = append(v.Parents, entry.Parent{Exec: s.refOf(p.Exec), Dep: dep})
	}
	if by, fenced := s.fencedBy(exec, now); fenced {
		v.FencedBy = by.inc.opened
	}
	if comp, is := s.executions.comps[exec]; is {
		v.Compensates = s.refOf(comp.exec)
	}
	return v
}
