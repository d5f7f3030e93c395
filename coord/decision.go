package coord

import (
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// decisionOf is a decision in progress, with its incident, its signer and the present instant.
type decisionOf struct {
	*entry.Decision
	entry  *entry.Entry
	signer verify.Signer
	number uint32
	inc    *incident
	now    int64
}

// acts is the table of protocol.md, section 6: the states in which each act is allowed.
var acts = map[entry.Act][]entry.IncidentState{
	entry.ActContain:   {entry.IncidentReported, entry.IncidentContained, entry.IncidentEscalated},
	entry.ActAuthorize: {entry.IncidentReported, entry.IncidentContained, entry.IncidentEscalated},
	entry.ActEscalate:  {entry.IncidentReported, entry.IncidentContained, entry.IncidentEscalated, entry.IncidentAuthorized},
	entry.ActDeny: {entry.IncidentReported, entry.IncidentContained, entry.IncidentEscalated, entry.IncidentAuthorized, entry.IncidentDismissed,
		entry.IncidentRecovered, entry.IncidentNoEffects, entry.IncidentPartial, entry.IncidentFailed},
	entry.ActAmend:    {entry.IncidentAuthorized},
	entry.ActOverride: {entry.IncidentAuthorized},
	entry.ActRelease:  {entry.IncidentAuthorized, entry.IncidentRecovered, entry.IncidentNoEffects, entry.IncidentPartial, entry.IncidentFailed},
}

// Takes reports whether an incident in a state may take an act, by that table alone.
func Takes(state entry.IncidentState, act entry.Act) bool { return slices.Contains(acts[act], state) }

func (d *decisionOf) has(role entry.Role) bool { return slices.Contains(d.signer.Roles, role) }

// scoped reports whether the act has a plan.
func scoped(act entry.Act) bool {
	return act == entry.ActContain || act == entry.ActEscalate || act == entry.ActAuthorize || act == entry.ActAmend
}

func (s *State) admitDecision(e *entry.Entry, body *entry.Decision, signer verify.Signer, now int64) error {
	inc, number, err := s.admitIncident(body.Incident, &body.Header) // REG-8
	if err != nil {
		return err
	}
	d := &decisionOf{body, e, signer, number, inc, now}
	if err := s.checkDecisionRefs(d); err != nil {
		return err
	}
	if err := s.checkDecisionForm(d); err != nil { // REG-9
		return err
	}
	if !scoped(d.Act) {
		switch d.Act {
		case entry.ActDeny:
			return s.admitDeny(d)
		case entry.ActOverride:
			return s.admitOverride(d)
		}
		return s.admitRelease(d)
	}
	if err := s.checkPin(d); err != nil {
		return err
	}
	signals, merges := s.signalsBefore(number, d.Pin.Size, now)
	if err := s.checkSignals(d, signals); err != nil {
		return err
	}
	a := s.assessOn(number, &assessment{signals: signals, merges: merges, dismissed: dismissedOf(d.Decision)}, now)
	if err := s.checkScope(d, a); err != nil {
		return err
	}
	s.assessed = assessed{e, s.size, a}
	switch d.Act {
	case entry.ActContain:
		if refusal := s.unfenceable(d.number, a, d.Exp*1000, d.now); refusal != nil {
			return refusal
		}
		return nil
	case entry.ActEscalate:
		return s.admitEscalate(d, a)
	case entry.ActAmend:
		return s.admitAmend(d, a)
	}
	return s.admitAuthorize(d, a)
}

// assessed is the assessment of the last scoped decision that was admitted. applyDecision need not
// compute the assessment again. It is no part of the state.
type assessed struct {
	entry *entry.Entry
	index uint64
	a     *assessment
}

// checkDecisionRefs checks REG-8: the entries that a decision points at are in the log.
func (s *State) checkDecisionRefs(d *decisionOf) error {
	if d.Supersedes != nil && !s.isRef(*d.Supersedes) {
		return unknown("supersedes", "entry %d is not in the log with that leaf hash", d.Supersedes.Index)
	}
	for _, index := range d.Approvals {
		if index >= s.size {
			return unknown("approvals", "no entry %d in the log", index)
		}
	}
	return nil
}

// checkDecisionForm checks the rules of every act: state, policy, epoch and expiry. An incident
// that was merged into another incident can only be denied.
func (s *State) checkDecisionForm(d *decisionOf) error {
	if !Takes(d.inc.state, d.Act) {
		return conflict("act", "%s of incident %d, which is %s", d.Act, d.inc.opened, d.inc.state)
	}
	if d.inc.mergedInto != 0 && d.Act != entry.ActDeny {
		return conflict("incident", "incident %d was merged into %d", d.inc.opened, d.inc.mergedInto).WithRemedy("decide about the older incident instead")
	}
	if _, inForce := s.chain.Policy(); d.Policy != inForce {
		return entry.Refuse(entry.PolicySuperseded, "policy", "entry %d is not the policy in force, which is entry %d", d.Policy.Index, inForce.Index).
			WithRemedy("decide again under the policy in force")
	}
	want := d.inc.epoch
	if d.Act == entry.ActEscalate || d.Act == entry.ActAmend || d.Act == entry.ActOverride {
		want++
	}
	if d.Epoch != want {
		return entry.Refuse(entry.StaleEpoch, "epoch", "%d, but the incident has epoch %d, and %s makes it %d", d.Epoch, d.inc.epoch, d.Act, want).
			WithRemedy("read the newer decisions, and decide again")
	}
	if d.Exp*1000 <= d.now {
		return entry.Refuse(entry.Stale, "exp", "%d has passed", d.Exp)
	}
	return nil
}

func dismissedOf(d *entry.Decision) (indexes []uint64) {
	for i := range d.Dismissed {
		indexes = append(indexes, d.Dismissed[i].Index)
	}
	return indexes
}

func mismatch(field, format string, args ...any) *entry.Refusal {
	return entry.Refuse(entry.ScopeMismatch, field, format, args...).WithRemedy("compute the plan again from the present log")
}

// checkPin checks that the pin is a state of this log, is not too old, and leaves out no signal
// of the incident.
func (s *State) checkPin(d *decisionOf) error {
	pin := *d.Pin
	switch {
	case pin.Size > s.size:
		return mismatch("pin.size", "%d, the log has size %d", pin.Size, s.size)
	case pin.Size <= d.inc.opened:
		return mismatch("pin.size", "%d, before incident %d began", pin.Size, d.inc.opened)
	case pin.Size < d.inc.pinned && !s.answers(d):
		return mismatch("pin.size", "%d, but an earlier decision pinned %d", pin.Size, d.inc.pinned)
	case pin.Root != s.tree.Root(pin.Size):
		return mismatch("pin.root", "not the root of size %d", pin.Size)
	}
	if last := d.inc.signals[len(d.inc.signals)-1]; !s.answers(d) && s.signals[last].index >= pin.Size {
		return mismatch("pin.size", "%d leaves out the signal at %d", pin.Size, s.signals[last].index)
	}
	return nil
}

// checkSignals checks that the decision rests on all signals before the pin, and that the signals
// that it dismisses are among them.
func (s *State) checkSignals(d *decisionOf, signals []uint32) error {
	if want := s.signalsHead(signals); *d.Signals != want {
		return mismatch("signals", "not every signal before the pin: there are %d", want.Size)
	}
	dismissed := dismissedOf(d.Decision)
	for i, index := range dismissed {
		in := slices.ContainsFunc(signals, func(n uint32) bool { return s.signals[n].index == index })
		if !in || i > 0 && dismissed[i-1] >= index {
			return mismatch("dismissed", "entry %d is not a signal of the decision, or is out of order", index)
		}
	}
	if len(dismissed) == len(signals) && d.inc.current == nil {
		return conflict("dismissed", "the decision dismisses every signal").WithRemedy("deny the incident")
	}
	return nil
}

// answers reports whether a decision carries out the waiting proposal. Such a decision rests on
// the signals of the proposal, and not on later signals.
func (s *State) answers(d *decisionOf) bool {
	p := s.waiting(d.inc, d.now)
	return p != nil && len(d.Approvals) > 0 && (d.Act == entry.ActAuthorize || d.Act == entry.ActAmend) && *d.Pin == p.pin
}

// checkScope checks SCO-5: the scope of the decision equals the scope that is computed here.
func (s *State) checkScope(d *decisionOf, a *assessment) error {
	want := s.rollbackSetHead(a.plan.Members)
	switch {
	case d.RollbackSet.Size != want.Size:
		return mismatch("rollback_set.size", "%d, the rules give %d", d.RollbackSet.Size, want.Size)
	case d.RollbackSet.Root != want.Root:
		return mismatch("rollback_set.root", "not the root over the rollback set of size %d that the rules give", want.Size)
	case *d.Impact != a.impact:
		return mismatch("impact", "%+v, the plan's is %+v", *d.Impact, a.impact)
	}
	return nil
}

// unfenceable returns why the plan of an incident cannot be fenced until exp. It is nil if the
// plan can be fenced.
func (s *State) unfenceable(number uint32, a *assessment, exp, now int64) *entry.Refusal {
	_, c := s.holdFor(s.incidents[number], a, decided{exp: exp}, now)
	return s.checkLimits(number, a, c, toFence)
}

// admitEscalate checks who may propose, and that approvers have time to answer. After decide_ms a
// signaler may propose too, if nothing was proposed yet. Else the signaler could void every
// approval by proposing again. For the same reason an approver does not replace its own proposal:
// silence would never deny it. A proposal that cannot be fenced says so. Then the approvers know
// that other agents may go on.
func (s *State) admitEscalate(d *decisionOf, a *assessment) error {
	l := s.policyFor(d.inc)
	if !d.has(entry.RoleCoordinator) {
		issuer, known := s.principals.Find([]byte(d.Iss))
		switch {
		case !d.has(entry.RoleApprover) && (!known || !s.signaled(d.inc, issuer)):
			return entry.Refuse(entry.NoStanding, "iss", "%s did not signal incident %d", d.Iss, d.inc.opened)
		case !d.has(entry.RoleApprover) && d.inc.state != entry.IncidentReported && d.inc.state != entry.IncidentContained:
			return conflict("act", "incident %d is %s: its approvers have a proposal already", d.inc.opened, d.inc.state)
		case d.inc.state == entry.IncidentEscalated && d.inc.proposal.issuer == issuer && known:
			return conflict("act", "%s made the proposal in force, and other approvers must answer it", d.Iss).
				WithRemedy("let another approver propose, or deny")
		case d.now < d.inc.openedAt+l.windows.DecideMS:
			return conflict("act", "the coordinator has until %d to decide", d.inc.openedAt+l.windows.DecideMS)
		}
	}
	if d.Exp*1000 < d.now+l.windows.AnswerMS {
		return conflict("exp", "%d leaves approvers less than %d ms to answer", d.Exp, l.windows.AnswerMS)
	}
	if d.inc.proposal != nil && d.Pin.Size <= d.inc.proposal.pin.Size {
		return entry.Refuse(entry.ScopeMismatch, "pin.size", "%d, not newer than the %d of the proposal before", d.Pin.Size, d.inc.proposal.pin.Size)
	}
	switch refusal := s.unfenceable(d.number, a, d.Exp*1000, d.now); {
	case refusal != nil && d.NotFenced == "":
		return mismatch("not_fenced", "missing, and nothing can be fenced: %s", refusal.Detail)
	case refusal == nil && d.NotFenced != "":
		return mismatch("not_fenced", "%.80q, but the plan can be fenced", d.NotFenced)
	}
	return nil
}

// applyDecision applies an admitted decision.
func (s *State) applyDecision(e *entry.Entry, body *entry.Decision, issuer uint32, index uint64, now int64) {
	number := s.mustIncident(body.Incident)
	d := &decisionOf{Decision: body, entry: e, number: number, inc: s.incidents[number], now: now}
	d.inc.epoch = d.Epoch
	s.tookPart(issuer, number, index)
	as := decided{index, e.KeyID, d.Exp * 1000}
	var a *assessment
	if scoped(d.Act) {
		if a = s.assessed.a; s.assessed.entry != e || s.assessed.index != s.size {
			a = s.assess(number, d.Pin.Size, dismissedOf(body), now)
		}
		s.assessed = assessed{}
		d.inc.pinned = d.Pin.Size
	}
	switch d.Act {
	case entry.ActContain:
		h, c := s.holdFor(d.inc, a, as, now)
		s.setHold(d, h, c)
		d.inc.notFenced = ""
		if d.inc.state == entry.IncidentReported {
			d.inc.state = entry.IncidentContained
		}
	case entry.ActEscalate:
		s.applyEscalate(d, a, as, issuer)
	case entry.ActAuthorize, entry.ActAmend:
		s.applyForce(d, a, as)
	case entry.ActDeny:
		s.applyDeny(d, index)
	case entry.ActOverride:
		s.applyOverride(d, issuer, index)
	case entry.ActRelease:
		for _, ref := range d.Members {
			if m, ok := d.inc.current.find(s.mustResolve(s.executions.names, ref)); ok {
				s.change(d.inc.current, m, func(m *member) { m.released = true })
			}
		}
	}
}

// setHold replaces the fence of an incident.
func (s *State) setHold(d *decisionOf, h hold, c charge) {
	d.inc.fencedMS = c.fencedMS
	d.inc.hold, d.inc.charge = h, c
	s.indexExecutions(d.number, h.members...)
	s.indexLines(d.number, h.lines...)
	for _, v := range c.victims {
		s.involve(v.agent, d.number)
	}
}

// applyEscalate makes the decision the proposal in force. Earlier approvals are void. The proposal
// fences what a contain could fence. Else the present fence stays.
func (s *State) applyEscalate(d *decisionOf, a *assessment, as decided, issuer uint32) {
	d.inc.proposal = &proposal{
		decided: as, issuer: issuer, at: d.now, pin: *d.Pin, signals: *d.Signals, dismissed: a.dismissed, rollbackSet: d.RollbackSet.Head,
		members: execsOf(a.plan.Members), signalers: slices.Sorted(slices.Values(s.signalersOf(a.signals))),
	}
	d.inc.missed = missedAnswer{} // people are asked again
	s.indexExecutions(d.number, d.inc.proposal.members...)
	if d.inc.state != entry.IncidentAuthorized {
		d.inc.state = entry.IncidentEscalated
	}
	d.inc.notFenced = d.NotFenced
	key, _ := s.chain.KeyInfo(as.keyID)
	switch {
	case d.NotFenced != "":
	case !slices.Contains(key.Roles, entry.RoleCoordinator) && !slices.Contains(key.Roles, entry.RoleApprover):
		d.inc.notFenced = notFencedBySignaler
	default:
		h, c := s.holdFor(d.inc, a, as, d.now)
		s.setHold(d, h, c)
	}
}

// notFencedBySignaler says why a signaler's proposal fences nothing.
const notFencedBySignaler = "a signaler made the proposal, and only the coordinator and approvers may fence"
