package coord

import (
	"cmp"
	"slices"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// Past is a part of the history of a principal: what the log says of the principal in some
// incidents. It has no outcomes, attempts, entries or tree head, because the fold does not keep
// them.
type Past struct {
	api.History
	Incidents []api.Incident // of the part, in its order
	Rest      uint64         // where the next part begins; 0: there is none
}

// History returns what the log says of a principal in up to limit incidents, the newest first. Only
// incidents older than before count; 0 begins with the newest. Rest is the before of the next call.
// now is the ledger's clock, Unix milliseconds. known is false if the principal was never enrolled
// and no entry is its own; an attempt may be about it all the same.
func (s *State) History(p entry.Principal, before uint64, limit int, now int64) (past Past, known bool) {
	u, number := s.usageOf(p)
	past.History, known = s.judgement(p, u)
	next := uint64(0)
	for _, of := range slices.Backward(u.incidents) {
		inc := s.incidents[of]
		if before != 0 && inc.opened >= before {
			continue
		}
		if len(past.Incidents) == limit {
			past.Rest = next
			break
		}
		next, past.Incidents = inc.opened, append(past.Incidents, s.view(inc, now))
		s.addToHistory(&past.History, inc, number)
	}
	return past, known
}

// usageOf returns what is counted of a principal; nothing if no entry is its own.
func (s *State) usageOf(p entry.Principal) (u *usage, number uint32) {
	number, ok := s.principals.Find([]byte(p))
	if !ok {
		return &usage{}, 0
	}
	return &s.usage[number], number
}

// judgement begins the history of a principal with its counts.
func (s *State) judgement(p entry.Principal, u *usage) (h api.History, known bool) {
	h = api.History{Principal: p, Corroborated: u.corroborated, Independent: u.independent, SelfReported: u.selfReported, Dismissed: u.dismissed,
		Judged: len(u.judged), Corrections: u.corrections, Signals: []api.IncidentSignal{}, Memberships: []api.Membership{},
		Outcomes: []api.HistoryOutcome{}, Entries: []api.Item{}}
	if policy, _ := s.chain.Policy(); policy != nil {
		h.SignalLimit = u.signalLimit(policy.Quotas.SignalsPerHour)
	}
	return h, u.name != "" || s.chain.Span(p) != ""
}

// AgentCounts returns what the log counts of a principal up to now.
func (s *State) AgentCounts(p entry.Principal, now int64) (counts api.AgentCounts) {
	u, number := s.usageOf(p)
	counts = api.AgentCounts{Corroborated: u.corroborated, Dismissed: u.dismissed, Corrections: u.corrections, Last: uint64(u.last)}
	if policy, _ := s.chain.Policy(); policy != nil {
		counts.SignalLimit = u.signalLimit(policy.Quotas.SignalsPerHour)
		counts.SignalsLeft = max(0, counts.SignalLimit-u.signals.Used(now))
	}
	for _, of := range u.incidents {
		if f := s.incidents[of].current; f != nil {
			counts.Memberships += int64(len(f.byAgent[number]))
		}
	}
	return counts
}

// IncidentEntries returns the indexes of the entries about an incident, ascending: its signals, and
// decisions, answers, outcomes and the record.
func (s *State) IncidentEntries(id uint64) (indexes []uint64) {
	_, inc, ok := s.findIncident(id)
	if !ok {
		return nil
	}
	for _, n := range inc.signals {
		indexes = append(indexes, s.signals[n].index)
	}
	for _, index := range inc.entries {
		indexes = append(indexes, uint64(index))
	}
	slices.Sort(indexes)
	return indexes
}

// HistoryAfter returns what the log says of a principal in the incidents in which its history
// changed behind an index. It covers limit incidents or a few more, in the order of their newest
// change. Cursor is the index of the newest change, or after if there is none, and Rest is Cursor
// if further changes lie behind it. A reader that goes on from Cursor misses no change, however
// late an old incident changes. now and known are as in History.
func (s *State) HistoryAfter(p entry.Principal, after uint64, limit int, now int64) (past Past, known bool) {
	u, number := s.usageOf(p)
	type change struct {
		at   uint64 // index of the newest entry about it
		inc  *incident
		part api.History
	}
	var changes []change
	for _, of := range u.incidents {
		one := change{inc: s.incidents[of]}
		s.addToHistory(&one.part, one.inc, number)
		if one.at = newestChange(&one.part, one.inc.opened); one.at > after {
			changes = append(changes, one)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.inc.opened, b.inc.opened)) })
	past.History, known = s.judgement(p, u)
	past.Cursor = after
	for i := range changes {
		one := &changes[i]
		if i >= limit && one.at > past.Cursor { // changes by one entry are told together
			past.Rest = past.Cursor
			break
		}
		past.Cursor, past.Incidents = one.at, append(past.Incidents, s.view(one.inc, now))
		past.Signals, past.Memberships = append(past.Signals, one.part.Signals...), append(past.Memberships, one.part.Memberships...)
	}
	return past, known
}

// newestChange returns the index of the newest entry that the history of one incident rests on.
// It is at least the index of the incident's opening.
func newestChange(h *api.History, opened uint64) uint64 {
	newest := opened
	for i := range h.Signals {
		newest = max(newest, h.Signals[i].Index, h.Signals[i].Disposed)
	}
	for i := range h.Memberships {
		newest = max(newest, h.Memberships[i].Decision, h.Memberships[i].ResultAt)
	}
	return newest
}

// addToHistory adds a principal's part in an incident to its history.
func (s *State) addToHistory(h *api.History, inc *incident, principal uint32) {
	for _, n := range slices.Backward(inc.signals) {
		if sig := &s.signals[n]; sig.issuer == principal && s.incidents[sig.incident] == inc {
			h.Signals = append(h.Signals, s.viewSignal(n))
		}
	}
	if inc.current == nil {
		return
	}
	for _, place := range inc.current.byAgent[principal] {
		m := &inc.current.members[place]
		h.Memberships = append(h.Memberships, api.Membership{Incident: inc.opened, Decision: m.since,
			Exec: s.refOf(m.exec), Method: methods[m.method], Result: m.result, ResultAt: m.resultAt, Own: m.own})
	}
}

// Commands returns what an agent has to do, the oldest incident first.
func (s *State) Commands(agent entry.Principal) (list []api.Command) {
	u, number := s.usageOf(agent)
	list = []api.Command{}
	for _, of := range u.incidents {
		inc := s.incidents[of]
		if inc.state != entry.IncidentAuthorized || inc.current.override != 0 || s.void(&inc.current.decided) {
			continue
		}
		c := api.Command{Incident: inc.opened, Decision: inc.current.index, Changed: inc.current.index}
		for _, place := range inc.current.byAgent[number] {
			m := &inc.current.members[place]
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

// ExecutionView is an execution as it stands, its workflow, and the incidents that report it.
type ExecutionView struct {
	api.Execution
	Wid entry.WorkflowID
	// Reported are the ids of the newest incidents, at most reportedMax, with a signal about the
	// execution or its task that was not dismissed. A signal about the task counts for the
	// executions that began before it. The newest incident comes first. [State.Workflow] and
	// [State.TaskWork] alone fill Reported and Further in.
	Reported []uint64
	Further  int // number of the older incidents of that kind
}

// Workflow returns up to limit executions of a workflow, the newest first. Only executions with an
// index below before count. If before is 0, the list begins with the newest.
func (s *State) Workflow(wid entry.WorkflowID, before uint64, limit int, now int64) (views []ExecutionView, ok bool) {
	number, ok := s.workflows.Find([]byte(wid))
	if !ok || int(number) >= len(s.executions.newest) {
		return nil, ok
	}
	for next := s.executions.newest[number]; next != 0 && len(views) < limit; next = *s.executions.before.At(next - 1) {
		if before == 0 || s.graph.Node(next-1).First < before {
			views = append(views, s.reported(next-1, now))
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
	v := ExecutionView{Wid: entry.WorkflowID(s.workflows.Text(x.Workflow)), Execution: api.Execution{
		Exec: s.refOf(exec), Index: x.First, Final: x.Final,
		Effect: effects[x.Effect], Progress: steps[x.Progress], Undone: x.Undone, Parents: []entry.Parent{},
	}}
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

// reported returns an execution with the incidents that report it.
func (s *State) reported(exec uint32, now int64) ExecutionView {
	v, last := s.viewExecution(exec, now), (*incident)(nil)
	for inc, sig := range s.signalsAbout(exec) {
		if inc == last || sig.index < v.Index || sig.verdict.disposition == dismissed {
			continue
		}
		if last = inc; len(v.Reported) == reportedMax {
			v.Reported, v.Further = slices.Delete(v.Reported, 0, 1), v.Further+1
		}
		v.Reported = append(v.Reported, inc.opened)
	}
	slices.Reverse(v.Reported)
	return v
}
