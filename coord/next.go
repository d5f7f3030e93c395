package coord

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"recoveryledger/ledger/entry"
)

// Next returns the entries that the coordinator should write now (INC-1), from the state alone:
// decisions, outcomes that no agent reported, records, and the abort of a rollout. Each lacks jti,
// iss and iat. wake is the instant, in Unix milliseconds, at which more entries may be due;
// math.MaxInt64 says that none is due before the log grows. All entries rest on the same state, so
// each is admissible by itself. After the ledger admits the first entry, others may be
// inadmissible. [State.Route] returns the entries of tasks.
func (s *State) Next(now int64) (todo []entry.Body, wake int64) {
	n := next{State: s, now: now, wake: math.MaxInt64, amended: map[uint32]bool{}}
	for _, number := range s.openIncidents() {
		n.look(number)
	}
	if abort, due := s.rollouts.Next(now, math.MaxInt64); abort != nil {
		abort.Aud = s.origin
		n.todo = append(n.todo, abort)
	} else {
		n.wake = min(n.wake, due)
	}
	return n.todo, n.wake
}

// NextOf returns the first entry that Next returns about an incident, and the instant at which it
// does, in Unix milliseconds. body is nil if no entry is due before the log grows, or none can be
// drafted yet.
func (s *State) NextOf(id uint64, now int64) (body entry.Body, at int64) {
	number, inc, ok := s.findIncident(id)
	if !ok || !inc.state.Open() {
		return nil, 0
	}
	for range wakesMax {
		n := next{State: s, now: now, wake: math.MaxInt64, amended: map[uint32]bool{}}
		if n.look(number); len(n.todo) > 0 {
			return n.todo[0], now
		}
		if now = n.wake; now == math.MaxInt64 {
			break
		}
	}
	return nil, 0
}

// wakesMax is how many instants NextOf looks at.
const wakesMax = 8

// look notes what is due about an open incident.
func (n *next) look(number uint32) {
	switch inc := n.incidents[number]; {
	case inc.mergedInto != 0:
		n.decide(number, Order{Act: entry.ActDeny, Reason: "merged into an older incident"})
	case inc.state == entry.IncidentEscalated:
		n.escalated(number, inc)
	case inc.state == entry.IncidentAuthorized:
		n.authorized(number, inc)
	default:
		n.decideReported(number, inc)
	}
}

// next is a call of Next.
type next struct {
	*State
	now     int64
	todo    []entry.Body
	wake    int64
	amended map[uint32]bool // incidents that get an amend or a proposal already
}

func (n *next) decide(number uint32, o Order) {
	o.Incident = n.incidents[number].opened
	if d, err := n.Draft(o, n.now); err == nil {
		n.todo = append(n.todo, d)
	}
}

// at notes that something is due at an instant, and reports whether it is.
func (n *next) at(instant int64) bool {
	if n.now < instant {
		n.wake = min(n.wake, instant)
		return false
	}
	return true
}

// decideReported decides about an incident that is REPORTED or CONTAINED.
func (n *next) decideReported(number uint32, inc *incident) {
	a := n.assess(number, n.size, nil, n.now)
	if older, overlap := n.overlap(number, a.plan); overlap {
		before := len(n.todo)
		if n.amend(n.mustIncident(older.opened), older, n.lastSignal(inc)); len(n.todo) == before && !n.amended[n.mustIncident(older.opened)] {
			n.containMeanwhile(number, inc, a, older)
		}
		return
	}
	refusal := n.automatic(number, a, n.now)
	if refusal == nil {
		n.decide(number, Order{Act: entry.ActAuthorize, Reason: "within what the coordinator may authorize"})
		return
	}
	if inc.state == entry.IncidentReported && n.hasThirdParty(a) && len(a.plan.Members) > 1 && n.contain(number, inc, a, "a third party signals: "+why(refusal)) {
		return
	}
	if inc.state == entry.IncidentReported || n.at(inc.openedAt+a.policy.windows.DecideMS/2) {
		n.decide(number, Order{Act: entry.ActEscalate, Reason: why(refusal)})
	}
}

// contain fences the plan of an incident, if it can be fenced.
func (n *next) contain(number uint32, inc *incident, a *assessment, reason string) bool {
	until := n.defaultExp(inc, entry.ActContain, n.now) / 1000 * 1000
	if until <= n.now || n.unfenceable(number, a, until, n.now) != nil {
		return false
	}
	n.decide(number, Order{Act: entry.ActContain, Reason: reason})
	return true
}

// containMeanwhile fences an incident that an older incident is to take up, while the older
// incident cannot take it up yet. Agents must not build on its executions until then.
func (n *next) containMeanwhile(number uint32, inc *incident, a *assessment, older *incident) {
	if !n.holding(inc, n.now) {
		n.contain(number, inc, a, fmt.Sprintf("incident %d has members in common, and cannot take this one up now", older.opened))
		return
	}
	n.at(inc.hold.exp)
}

// why returns what prevents an automatic decision, as a reason for people.
func why(err error) string {
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return refusal.Detail
	}
	return err.Error()
}

// hasThirdParty reports whether a principal other than the executor signaled something
// that the plan rests on.
func (n *next) hasThirdParty(a *assessment) bool {
	return slices.ContainsFunc(a.signals, func(sig uint32) bool { return n.signals[sig].standing != entry.StandingExecutor })
}

// escalated carries out what people decided, and denies the incident if no approver answers.
func (n *next) escalated(number uint32, inc *incident) {
	p := n.waiting(inc, n.now)
	answer := n.policyFor(inc).windows.AnswerMS
	switch {
	case p == nil && n.now < inc.proposal.at+answer: // the proposal's key is compromised
		n.decide(number, Order{Act: entry.ActEscalate, Reason: "the proposal before is void"})
	case p == nil:
		n.decide(number, Order{Act: entry.ActDeny, Reason: reasonUnanswered})
	case n.quorumImpossible(inc, n.now):
		n.decide(number, Order{Act: entry.ActDeny, Reason: "refusals make a quorum impossible"})
	default:
		if q, _ := n.quorum(inc, n.now); q != nil {
			n.carryOut(number, inc, q)
		} else if n.at(p.at + answer) {
			n.decide(number, Order{Act: entry.ActDeny, Reason: reasonUnanswered})
		} else if n.outdated(number, inc, p) {
			n.propose(number, p)
		}
	}
}

// outdated reports whether a proposal is to be made again: its members have changed since, so no
// approver can approve it any more. The pause before the next proposal doubles with every
// proposal of the incident. However often a plan changes, there are only a few proposals, and
// then the time to answer is over.
func (n *next) outdated(number uint32, inc *incident, p *proposal) bool {
	pause := n.pause(inc, inc.epoch)
	return pause < n.policyFor(inc).windows.AnswerMS && n.at(p.at+pause) && n.rollbackSetHead(n.assess(number, p.pin.Size, p.dismissed, n.now).plan.Members) != p.rollbackSet
}

// pause is how long the coordinator waits before it asks people again. asked is how often it has
// asked them. Each pause is twice as long as the last, up to the time that people have to answer.
func (n *next) pause(inc *incident, asked int64) int64 {
	w := n.policyFor(inc).windows
	pause := max(1, w.DecideMS/2)
	for i := int64(1); i < asked && pause < w.AnswerMS; i++ {
		pause *= 2
	}
	return pause
}

// mayContinue reports whether agents may act on the plan in force, a member has no outcome, and
// the pause after people were asked in vain is not over. Without the pause, a principal that
// signals something new each time would stop the agents for ever.
func (n *next) mayContinue(inc *incident) bool {
	f := inc.current
	vain := inc.epoch - int64(len(f.decisions)-1)
	if f.proposal != 0 {
		vain--
	}
	return vain > 0 && inc.epoch == f.epoch && !n.void(&f.decided) && n.hasOpenMember(inc) && !n.at(inc.charge.at+n.pause(inc, vain))
}

// propose makes a new proposal, because the plan has changed since the last one. Signals that
// the last proposal left out are left out again.
func (n *next) propose(number uint32, p *proposal) {
	o := Order{Act: entry.ActEscalate, Reason: "the plan has changed since the proposal"}
	signals, _ := n.signalsBefore(number, n.size, n.now)
	for _, index := range p.dismissed {
		if slices.ContainsFunc(signals, func(sig uint32) bool { return n.signals[sig].index == index }) {
			o.Dismissed = append(o.Dismissed, entry.Dismissal{Index: index, Reason: "as proposed before"})
		}
	}
	n.decide(number, o)
}

// carryOut authorizes an approved proposal, or proposes again if the plan has changed since.
func (n *next) carryOut(number uint32, inc *incident, p *proposal) {
	a := n.assess(number, p.pin.Size, p.dismissed, n.now)
	if older, overlap := n.overlap(number, a.plan); overlap {
		n.amend(n.mustIncident(older.opened), older, n.lastSignal(inc))
		return
	}
	if n.rollbackSetHead(a.plan.Members) != p.rollbackSet {
		n.propose(number, p)
		return
	}
	n.decide(number, Order{Act: entry.ActAuthorize, Reason: "approved"})
}

// authorized amends an incident, closes members whose agents report nothing in time, and writes
// the recovery record.
func (n *next) authorized(number uint32, inc *incident) {
	if q, _ := n.quorum(inc, n.now); q != nil && (n.amended[number] || n.amendApproved(number, q)) {
		return
	}
	f, p, before, blocked := inc.current, n.pending(inc, n.now), len(n.todo), false
	switch {
	case p != nil:
		if n.at(n.answerUntil(inc, p)); n.outdated(number, inc, p) {
			n.propose(number, p)
		}
	case n.renew(number, inc):
	case n.void(&f.decided) && !n.askedSince(inc):
		blocked = n.amend(number, inc, math.MaxUint64)
	case n.lastSignal(inc) >= f.pin && !f.sameAs(n.assess(number, n.size, n.unbelieved(number, inc, n.size), n.now).plan):
		blocked = n.amend(number, inc, n.lastSignal(inc))
	}
	if len(n.todo) == before {
		n.overdue(inc, blocked)
	}
}

// askedSince reports whether the coordinator has asked people about an incident
// since the key of the decision in force was revoked.
func (n *next) askedSince(inc *incident) bool {
	key, _ := n.chain.KeyInfo(inc.current.keyID)
	return inc.proposal != nil && inc.proposal.index > key.Revoked && !n.void(&inc.proposal.decided)
}

// unbelieved returns the indexes of the signals that a decision about an incident in force leaves
// out. These are the signals that the decision in force leaves out, and every signal by which the
// same third party repeats one of them about the same subject. So a third party that was not
// believed cannot hold the incident up by signaling again.
func (n *next) unbelieved(number uint32, inc *incident, pin uint64) []uint64 {
	out, about := slices.Clone(inc.current.dismissed), map[cooldownKey]bool{}
	for _, index := range out {
		if sig, ok := n.findSignal(index); ok && sig.byNeighbor() {
			about[cooldownKey{sig.issuer, sig.subject}] = true
		}
	}
	if len(about) == 0 {
		return out
	}
	signals, _ := n.signalsBefore(number, pin, n.now)
	for _, of := range signals {
		if sig := &n.signals[of]; sig.byNeighbor() && about[cooldownKey{sig.issuer, sig.subject}] {
			out = append(out, sig.index)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// askedInVain returns unbelieved, and the indexes of the signals that name an execution beyond
// the plan in force, that people were asked about, and that people did not approve. If third is
// set, only signals of third parties are added.
func (n *next) askedInVain(number uint32, inc *incident, pin uint64, third bool) []uint64 {
	out, f := n.unbelieved(number, inc, pin), inc.current
	if inc.proposal == nil {
		return out
	}
	beyond := func(exec uint32) bool { _, member := f.find(exec); return !member }
	signals, _ := n.signalsBefore(number, pin, n.now)
	for _, of := range signals {
		index := n.signals[of].index
		rests := index < f.pin && slices.Contains(inc.signals, of)
		if third && !n.signals[of].byNeighbor() {
			continue
		}
		if !rests && index < inc.proposal.pin.Size && slices.ContainsFunc(n.seeds(nil, []uint32{of}, nil), beyond) {
			out = append(out, index)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leaveOut returns the list dismissed of a decision.
func leaveOut(indexes []uint64, reason string) (list []entry.Dismissal) {
	for _, index := range indexes {
		list = append(list, entry.Dismissal{Index: index, Reason: reason})
	}
	return list
}

// renew decides the plan in force again, after an unapproved proposal raised the epoch. Agents
// that saw the proposal act on no older decision (AGT-2). So without renew, an accusation that no
// approver follows would end the rollback. renew leaves out no more signals than it must. If the
// coordinator may not decide alone, people are asked again, once. After the deadline nothing is
// decided again.
func (n *next) renew(number uint32, inc *incident) bool {
	f := inc.current
	if inc.epoch == f.epoch || f.override != 0 || n.amended[number] || !n.hasOpenMember(inc) || f.over(n.now) {
		return false
	}
	pin := max(inc.pinned, n.lastSignal(inc)+1) // other incidents since then come later
	for _, without := range [][]uint64{n.unbelieved(number, inc, pin), n.askedInVain(number, inc, pin, true), n.askedInVain(number, inc, pin, false)} {
		a := n.assess(number, pin, without, n.now)
		_, overlap := n.overlap(number, a.plan)
		automatic, same := n.automatic(number, a, n.now) == nil, f.sameAs(a.plan)
		if overlap || !automatic && !same {
			continue
		}
		asked := n.asked(inc, 0) && !n.void(&inc.proposal.decided) && inc.proposal.rollbackSet == n.rollbackSetHead(a.plan.Members)
		if n.amended[number] = automatic || !asked; n.amended[number] {
			n.decideWithout(number, pin, without, automatic)
		}
		return n.amended[number]
	}
	return false
}

// decideWithout decides about an incident without some of its signals, or asks people
// to decide.
func (n *next) decideWithout(number uint32, pin uint64, without []uint64, automatic bool) {
	why := "nobody approved the proposal"
	if !n.quorumImpossible(n.incidents[number], n.now) { // people have not refused it
		why = reasonAmendUnanswered
	}
	o := Order{Act: entry.ActAmend, Pin: pin, Reason: why + ": what stands without that goes on"}
	if !automatic {
		o.Act, o.Pin, o.Reason = entry.ActEscalate, max(pin, n.incidents[number].pinned+1), why+": does the plan in force go on?"
	}
	o.Dismissed = leaveOut(without, "nobody approved the executions that follow from it")
	n.decide(number, o)
}

// hasOpenMember reports whether a member has no outcome.
func (n *next) hasOpenMember(inc *incident) bool {
	return slices.ContainsFunc(inc.current.members, func(m member) bool { return m.result == "" })
}

// amendApproved amends an incident as people approved, or proposes again if the plan has changed
// since. It does neither while another plan in force shares a member.
func (n *next) amendApproved(number uint32, q *proposal) bool {
	a := n.assess(number, q.pin.Size, q.dismissed, n.now)
	if _, overlap := n.overlap(number, a.plan); overlap {
		return false // one of the two incidents must end first
	}
	n.amended[number] = true
	if n.rollbackSetHead(a.plan.Members) != q.rollbackSet || n.signalsHead(a.signals) != q.signals {
		n.propose(number, q)
		return true
	}
	n.decide(number, Order{Act: entry.ActAmend, Reason: "approved"})
	return true
}

// lastSignal returns the index of the newest signal of an incident.
func (n *next) lastSignal(inc *incident) uint64 {
	return n.signals[inc.signals[len(inc.signals)-1]].index
}

// amend brings an incident in force up to the signal at an index. The signal is the incident's
// own, or belongs to another incident whose plan meets its plan. The coordinator amends alone if
// it may; else it asks people, once. Two plans in force never share a member: the later amend is
// blocked until the other incident has ended. After the deadline only what people have approved is
// amended, and the rest is for a new incident. Else a principal that goes on signaling could keep
// this incident open.
func (n *next) amend(number uint32, inc *incident, signal uint64) (blocked bool) {
	if n.amended[number] || n.pending(inc, n.now) != nil {
		return false
	}
	if q, _ := n.quorum(inc, n.now); q != nil { // approved late: an amend drafted now carries that out
		return !n.amendApproved(number, q)
	}
	if inc.current.over(n.now) {
		return false
	}
	without := n.unbelieved(number, inc, n.size)
	a := n.assess(number, n.size, without, n.now)
	if inc.current.pin > signal && len(a.merges) == 0 {
		return false // nothing is new: the asking incident meets this one by its own windows only
	}
	if _, overlap := n.overlap(number, a.plan); overlap {
		return true
	}
	refusal := n.automatic(number, a, n.now)
	out := leaveOut(without, "not believed before")
	switch asked := n.asked(inc, signal); {
	case refusal == nil:
		n.decide(number, Order{Act: entry.ActAmend, Reason: "more signals", Dismissed: out})
	case !asked && !n.mayContinue(inc):
		n.decide(number, Order{Act: entry.ActEscalate, Reason: why(refusal), Dismissed: out})
	default:
		return false
	}
	n.amended[number] = true
	return false
}

// asked reports whether the coordinator has already asked people about an amend up to a signal.
func (n *next) asked(inc *incident, signal uint64) bool {
	if inc.proposal == nil || inc.proposal.pin.Size <= signal {
		return false
	}
	key, _ := n.chain.KeyInfo(inc.proposal.keyID)
	return slices.Contains(key.Roles, entry.RoleCoordinator)
}

// overdue closes members whose time is over, and records a settled incident. An incident whose
// amend is blocked waits for its deadline.
func (n *next) overdue(inc *incident, blocked bool) {
	f, waits := inc.current, false
	for i := range f.members {
		m := &f.members[i]
		if m.result != "" {
			continue
		}
		waits = true
		if n.at(max(n.due(inc, m), f.expMax+skewMS) + 1) {
			n.todo = append(n.todo, n.draftUnknown(inc, m, n.now))
		}
	}
	switch {
	case waits || n.pending(inc, n.now) != nil:
		return
	case n.settled(inc, n.now) != nil:
		n.at(f.expMax)
		return
	case blocked && !n.at(f.deadline):
		return
	}
	if r, err := n.DraftRecord(inc.opened); err == nil {
		n.todo = append(n.todo, r)
	}
}
