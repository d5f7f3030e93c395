package simulation

import (
	"slices"

	"recoveryledger/ledger/entry"
)

// asked is the newest amend of an incident that people were asked about.
type asked struct {
	ref      entry.LogRef
	keyID    string // of who proposed it
	at       int64
	answered bool   // whether somebody has answered it at all
	over     bool   // whether an entry shows that the time to answer was over
	noted    uint64 // index of the entry by which a person has taken note
}

// unanswered reports whether the time to answer is over. A proposal of the coordinator
// has the time of the slower of two policies, that of an approver ends with the
// deadline.
func (o *observer) unanswered(a *affair, at int64) bool {
	q := a.asked
	if q == nil || q.over {
		return q != nil
	}
	until := q.at + max(o.policy.Windows.AnswerMS, a.policy.Windows.AnswerMS)
	if !slices.Contains(o.roles[q.keyID], entry.RoleCoordinator) {
		until = min(until, a.decision.DeadlineAt)
	}
	return at >= until
}

// dropped takes up that an entry takes a proposal away.
func (o *observer) dropped(a *affair, at int64) {
	if !o.unanswered(a, at) {
		a.asked = nil
		return
	}
	a.asked.over = true
}

// judgeNote is who takes note that nobody answered an amend, and of what.
func (o *observer) judgeNote(e *entry.Entry, d *entry.Decision, a *affair, at int64) {
	roles, index := o.roles[e.KeyID], o.w.ledger.size()
	switch q := a.asked; {
	case !slices.Contains(roles, entry.RoleApprover) && !slices.Contains(roles, entry.RoleOperator):
		o.w.fail("deny %d of incident %d, which has a plan in force, is by %s", index, a.id, d.Iss)
	case !o.unanswered(a, at):
		o.w.fail("deny %d takes note of an amend of incident %d, which nobody has left unanswered", index, a.id)
	case q.noted != 0 || d.Supersedes == nil || *d.Supersedes != q.ref:
		o.w.fail("deny %d of incident %d does not take note of proposal %d, which entry %d did", index, a.id, q.ref.Index, q.noted)
	}
}

// checkLapse holds what the fold says of an amend that nobody answered to the log.
func (o *observer) checkLapse(a *affair, at int64) {
	v, _ := o.w.ledger.state.Incident(a.id, at)
	q := a.asked
	switch {
	case !o.unanswered(a, at):
		if v.Lapsed != nil {
			o.w.fail("incident %d says that nobody answered proposal %d", a.id, v.Lapsed.Proposal)
		}
	case q.answered && q.noted == 0: // whether that was enough is the fold's to say
	case v.Lapsed == nil || v.Lapsed.Proposal != q.ref.Index || v.Lapsed.Acknowledged != q.noted || v.Unacknowledged() != (q.noted == 0):
		o.w.fail("incident %d says %+v of proposal %d, which nobody answered, and of which entry %d took note", a.id, v.Lapsed, q.ref.Index, q.noted)
	}
}
