package coord

import "recoveryledger/ledger/entry"

// silence is the reason for which the coordinator dismisses what nobody answered.
const silence = "nobody answered in time"

// lapsed begins the reason for which the coordinator goes on without an amend that
// nobody answered.
const lapsed = silence + " what was proposed"

// unanswered reports whether approvers have had all their time to answer what is
// proposed about an incident that waits for them.
func (s *State) unanswered(inc *incident, now int64) bool {
	return inc.state == Escalated && inc.proposal != nil && now >= inc.proposal.at+s.lawOf(inc).windows.AnswerMS
}

// bySilence reports whether a deny that was admitted is nobody's decision: the time
// to answer is over, refusals do not explain it, and who signs it judges nothing.
func (s *State) bySilence(d *decisionOf) bool {
	return d.inc.into == 0 && s.unanswered(d.inc, d.now) && !s.hopeless(d.inc, d.now) && s.mayJudge(d) != nil
}

// admitAcknowledgement is how a person takes note of what silence has dismissed: by
// a deny that supersedes the one nobody decided. Whoever runs the coordinator is to
// see that nobody watches, so that the coordinator cannot write it.
func (s *State) admitAcknowledgement(d *decisionOf) error {
	switch inc := d.inc; {
	case !inc.silent:
		return conflict("act", "deny of incident %d, which is DISMISSED by entry %d", inc.opened, inc.recorded)
	case inc.acknowledged != 0:
		return conflict("act", "entry %d has acknowledged that nobody answered about incident %d", inc.acknowledged, inc.opened)
	case d.Supersedes == nil || d.Supersedes.Index != inc.recorded:
		return conflict("supersedes", "not the deny that silence stands for, which is entry %d", inc.recorded).
			WithRemedy("name it: arl escalation acknowledge does")
	case !d.has(entry.RoleApprover) && !d.has(entry.RoleOperator):
		return conflict("iss", "%s is neither an approver nor an operator", d.Iss).WithRemedy("let a person acknowledge it")
	}
	if err := s.checkDispositions(d.inc, d.Signals); err != nil {
		return err
	}
	return s.checkUnjudged(d, "name it as inconclusive: silence has judged nobody, and who takes note of it does not either")
}

// checkUnjudged wants every signal to be inconclusive.
func (s *State) checkUnjudged(d *decisionOf, remedy string) error {
	for i := range d.Signals {
		if one := &d.Signals[i]; one.Disposition != entry.Inconclusive {
			return conflict("signals", "%s does not judge the signal at %d", d.Iss, one.Index).WithRemedy(remedy)
		}
	}
	return nil
}

// IncidentCounts returns how many incidents there are in each state, and how many
// of them silence has dismissed without anybody having taken note.
func (s *State) IncidentCounts() (states map[IncidentState]int, unacknowledged int) {
	states = map[IncidentState]int{}
	for _, inc := range s.incidents {
		if states[inc.state]++; inc.silent && inc.acknowledged == 0 {
			unacknowledged++
		}
	}
	return states, unacknowledged
}
