package coord

import "recoveryledger/ledger/entry"

// reasonUnanswered is the reason that the coordinator gives when it dismisses an incident because
// no approver answered in time.
const reasonUnanswered = "nobody answered in time"

// reasonAmendUnanswered begins the reason that the coordinator gives when it continues
// without an amend because no approver answered in time.
const reasonAmendUnanswered = reasonUnanswered + " what was proposed"

// missedAnswer is a proposal that no approver answered in time. For a DISMISSED incident it is the
// deny that the coordinator wrote because of that. For an incident with a plan in force it is the
// newest amend that was proposed, if the plan continued without that amend.
type missedAnswer struct {
	entry        uint64 // index of the deny, or of the escalate; 0: there is none
	at           int64  // when the time to answer was over, Unix milliseconds
	acknowledged uint64 // index of the deny by which a person acknowledged it; 0: none
}

// isOpen reports whether a person has still to acknowledge the missed answer.
func (l missedAnswer) isOpen() bool { return l.entry != 0 && l.acknowledged == 0 }

// dismissedBySilence reports whether the incident was dismissed because no approver answered in
// time.
func (inc *incident) dismissedBySilence() bool {
	return inc.state == entry.IncidentDismissed && inc.missed.entry != 0
}

// missedAnswerOf returns the missed answer about an incident. No entry says that the time to
// answer an amend is over. So until an entry takes the proposal away, the ledger's clock decides
// whether its answer was missed.
func (s *State) missedAnswerOf(inc *incident, now int64) missedAnswer {
	p := inc.proposal
	if inc.current == nil || p == nil || p.index == inc.missed.entry {
		return inc.missed
	}
	until := max(p.at, s.answerUntil(inc, p)) // an approver may propose after the deadline
	if now < until || s.answered(inc, p) {
		return inc.missed
	}
	return missedAnswer{entry: p.index, at: until}
}

// answered reports whether a proposal has its answer: a quorum of approvals, or
// refusals that make the quorum impossible. Late answers count, and so do answers that
// have expired since, because the people who gave them have seen the proposal. None had
// expired when the proposal was made.
func (s *State) answered(inc *incident, p *proposal) bool {
	approve, _ := s.answersTo(inc, p, p.at)
	return int64(len(approve)) >= s.policyFor(inc).quorum.Approve || s.proposalRefused(inc, p, p.at)
}

// unanswered reports whether the approvers' time to answer the proposal of an ESCALATED
// incident is over.
func (s *State) unanswered(inc *incident, now int64) bool {
	return inc.state == entry.IncidentEscalated && inc.proposal != nil && now >= inc.proposal.at+s.policyFor(inc).windows.AnswerMS
}

// bySilence reports whether an admitted deny is no person's decision: the time to
// answer is over, refusals do not explain the deny, and its signer may not judge
// signals.
func (s *State) bySilence(d *decisionOf) bool {
	return d.inc.mergedInto == 0 && s.unanswered(d.inc, d.now) && !s.quorumImpossible(d.inc, d.now) && s.mayJudge(d) != nil
}

// admitAcknowledgement admits the deny by which a person acknowledges that a proposal
// went unanswered. The deny supersedes the coordinator's deny or the amend that was
// proposed. The coordinator may not write it, because the operator of the coordinator
// has to see that nobody watches.
func (s *State) admitAcknowledgement(d *decisionOf) error {
	inc, l := d.inc, s.missedAnswerOf(d.inc, d.now)
	what := "the proposal that no approver answered"
	if inc.state == entry.IncidentDismissed {
		what = "the deny for silence"
	}
	switch {
	case l.entry == 0 && inc.state == entry.IncidentDismissed:
		return conflict("act", "deny of incident %d, which is DISMISSED by entry %d", inc.opened, inc.recorded)
	case l.entry == 0:
		return conflict("act", "deny of incident %d, which is %s and has no unanswered amend", inc.opened, inc.state)
	case l.acknowledged != 0:
		return conflict("act", "entry %d already acknowledges that no approver answered incident %d", l.acknowledged, inc.opened)
	case d.Supersedes == nil || d.Supersedes.Index != l.entry:
		return conflict("supersedes", "not %s, which is entry %d", what, l.entry).
			WithRemedy("name that entry, as arl escalation acknowledge does")
	case !d.has(entry.RoleApprover) && !d.has(entry.RoleOperator):
		return conflict("iss", "%s is neither an approver nor an operator", d.Iss).WithRemedy("let an approver or operator acknowledge the silence")
	}
	if err := s.checkDispositions(d.inc, d.Dispositions); err != nil {
		return err
	}
	return s.checkUnjudged(d, "give the disposition inconclusive: an acknowledgement judges no signal")
}

// applyAcknowledgement applies that a person has acknowledged a missed answer.
func (s *State) applyAcknowledgement(d *decisionOf, index uint64) {
	d.inc.missed = s.missedAnswerOf(d.inc, d.now)
	d.inc.missed.acknowledged = index
}

// checkUnjudged refuses a disposition that is not inconclusive.
func (s *State) checkUnjudged(d *decisionOf, remedy string) error {
	for i := range d.Dispositions {
		if one := &d.Dispositions[i]; one.Disposition != entry.Inconclusive {
			return conflict("dispositions", "%s may not judge the signal at %d", d.Iss, one.Index).WithRemedy(remedy)
		}
	}
	return nil
}

// Silence reports that the coordinator goes on because no approver answered in time.
type Silence struct {
	Incident uint64 // its id
	Wid      entry.WorkflowID
	// Amend says that an amend was dropped and the plan in force goes on. Else the incident is
	// dismissed.
	Amend bool
}

// SilenceOf returns the silence because of which Next returned an entry at now. ok is false if the
// entry does not go on without an answer.
func (s *State) SilenceOf(body entry.Body, now int64) (of Silence, ok bool) {
	var id uint64
	carriesOut := false
	switch b := body.(type) {
	case *entry.Decision:
		id, carriesOut = b.Incident, len(b.Approvals) > 0
	case *entry.Record:
		id = b.Incident
	}
	_, inc, found := s.findIncident(id)
	if !found || carriesOut {
		return Silence{}, false
	}
	of = Silence{inc.opened, entry.WorkflowID(s.workflows.Text(inc.workflow)), inc.current != nil}
	if of.Amend {
		l := s.missedAnswerOf(inc, now)
		return of, l.isOpen() && inc.proposal != nil && inc.proposal.index == l.entry
	}
	d, deny := body.(*entry.Decision)
	return of, deny && d.Act == entry.ActDeny && inc.mergedInto == 0 && s.unanswered(inc, now) && !s.quorumImpossible(inc, now)
}
