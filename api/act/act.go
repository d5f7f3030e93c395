// Package act prepares what people sign about an incident or a task. [Log.Prepare] drafts
// an order from the state that follows from the log: the entries, and the plan that
// they rest on. [Log.Seal] completes and signs the entries, and holds them to the rules of
// registration first, so that a refusal costs nothing. The command line and the pages
// of the console sign the same drafts, because both take them from here.
package act

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/ledger/redact"
)

// Verb is what somebody does about an incident or a task.
type Verb string

// The verbs.
const (
	Approve     Verb = "approve"     // exactly the proposed plan
	Refuse      Verb = "refuse"      // the proposed plan
	Escalate    Verb = "escalate"    // propose the plan to the approvers
	Authorize   Verb = "authorize"   // carry out an approved proposal
	Amend       Verb = "amend"       // extend the plan in force by an approved proposal
	Deny        Verb = "deny"        // dismiss the incident
	Override    Verb = "override"    // stop the plan in force
	Release     Verb = "release"     // lift the fence around members that have an outcome; give a held up task to an agent
	Record      Verb = "record"      // close the incident
	Acknowledge Verb = "acknowledge" // take note that nobody answered

	Reassign Verb = "reassign" // give a task to an agent
	Cancel   Verb = "cancel"   // end a task
	Give     Verb = "give"     // to Move alone: Reassign or Release, whichever the task needs
)

// Verbs returns the verbs of incidents, in the order in which an incident usually meets them.
func Verbs() []Verb {
	return []Verb{Approve, Refuse, Escalate, Authorize, Amend, Deny, Override, Release, Record, Acknowledge}
}

// TaskVerbs returns the verbs of tasks.
func TaskVerbs() []Verb { return []Verb{Reassign, Release, Cancel} }

// DefaultHours is the time for which an answer is valid by default.
const DefaultHours = 24

// Order says what somebody wants done about an incident or a task.
type Order struct {
	Verb     Verb
	Incident uint64
	Task     entry.Ref // empty: the order is about the incident
	// Agent gets the task, with Reassign and Release. Empty with Reassign: the agent that
	// the coordinator would choose. With Release it is needed: the operator answers for the choice.
	Agent entry.Principal
	// Reason stays in the entry, once it has passed the redactor. See [Verb.NeedsReason].
	Reason string
	// Hours is the time for which an answer is valid, with Approve and Refuse.
	Hours int64
	// Dismissed are signals that the plan leaves out, with Escalate.
	Dismissed []entry.Dismissal
	// Corroborated and False are the indexes of signals that the signer found true or
	// false by its own word, with Deny.
	Corroborated, False []uint64
	// Members are the executions to release, with Release.
	Members []entry.Ref
}

// Obstacle is an error: the incident does not stand so that the order could be carried
// out.
type Obstacle struct {
	Quorum  bool // too few approvers have approved
	Unnamed bool // the order must name an agent
	detail  string
}

// Error implements error.
func (o *Obstacle) Error() string { return o.detail }

func obstacle(format string, args ...any) error {
	return &Obstacle{detail: fmt.Sprintf(format, args...)}
}

func noQuorum(format string, args ...any) error {
	return &Obstacle{Quorum: true, detail: fmt.Sprintf(format, args...)}
}

// Log is a log as far as it is known.
type Log struct {
	Origin string
	State  *coord.State // that follows from its entries
	Now    int64        // the ledger's clock, Unix milliseconds
	Rules  *coord.Rules // of recovery; nil: they are compiled for each task
	Fixed  *Fixed       // what stays as it was shown; nil: nothing
}

// Fixed is what an entry has from the moment at which it was drafted. A draft that is fixed is
// signed byte for byte as it was shown, or not at all.
type Fixed struct {
	At   int64    // when it was drafted, Unix milliseconds
	Pin  uint64   // size of the log then
	JTIs []string // of the entries, in their order; further entries get new ones
}

// Fix fixes what is drafted from now on: as of now, with new identifiers of that many entries.
func (l *Log) Fix(entries int) {
	l.Fixed = &Fixed{At: l.Now, Pin: l.State.Size()}
	for range entries {
		l.Fixed.JTIs = append(l.Fixed.JTIs, keys.NewHeader("", l.Origin).JTI)
	}
}

// drafted is when the drafts of the log are made, Unix milliseconds.
func (l *Log) drafted() int64 {
	if l.Fixed != nil {
		return l.Fixed.At
	}
	return l.Now
}

// Draft is what an order comes to.
type Draft struct {
	Order    Order
	Incident *api.Incident // as it stands; nil: the order is about a task
	Task     *api.Task     // as it stands; nil: the order is about an incident
	// Plan is the plan that is signed, authorized or proposed; nil: the order rests on no
	// plan.
	Plan *api.Plan
	// InForce is the plan in force, with Override alone.
	InForce *api.Plan
	// Bodies are the entries in the order of the log. Their headers name the workflow
	// only; Seal completes them.
	Bodies []entry.Body
	// Unnamed says that the agent is any agent of the log, in a draft by Suppose: the person must
	// name the agent.
	Unnamed bool
}

// Prepare drafts an order as of now. by is the principal that will
// sign; Deny alone needs it, and only with Corroborated. The error is a [*entry.Refusal]
// of problem not-found where the incident does not exist, an [*Obstacle] where the
// incident does not stand so, and [api.ErrOtherPlan] where the plan is not the proposed
// one any more. Prepare does not change the state.
func (l *Log) Prepare(o *Order, by entry.Principal) (*Draft, error) {
	if o.Task != "" {
		return l.prepareTask(o)
	}
	v, ok := l.State.Incident(o.Incident, l.Now)
	if !ok {
		return nil, entry.Refuse(entry.NotFound, "incident", "entry %d did not open an incident", o.Incident).WithRemedy("arl incident list shows the incidents")
	}
	d := &Draft{Order: *o, Incident: &v}
	d.Order.Reason = redact.Text(o.Reason)
	d.Order.Dismissed = slices.Clone(o.Dismissed)
	for i := range d.Order.Dismissed {
		d.Order.Dismissed[i].Reason = redact.Text(o.Dismissed[i].Reason)
	}
	var err error
	switch o.Verb {
	case Approve, Refuse:
		err = d.answer(l)
	case Record:
		err = d.record(l)
	default:
		err = d.decide(l, by)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// answer recomputes the plan that is proposed, and answers the proposal.
func (d *Draft) answer(l *Log) error {
	v, p := d.Incident, d.Incident.Proposal
	if p == nil {
		return obstacle("no proposal waits for incident %d, which is %s", v.ID, v.State)
	}
	d.Plan = l.planAt(v.ID, p.Dismissed, p.Pin.Size)
	answer, err := v.Answer(d.Plan, d.Order.Verb == Refuse, d.Order.Reason, l.drafted()/1000+d.Order.Hours*3600)
	if err != nil {
		return err
	}
	d.Bodies = []entry.Body{answer}
	return nil
}

// planAt computes the plan for the signals registered before size, without some.
func (l *Log) planAt(id uint64, without []uint64, size uint64) *api.Plan {
	for index := size; index < l.State.Size(); index++ {
		without = append(without, index)
	}
	view, _ := l.State.Preview(id, without, l.Now) // the caller has found the incident
	return &view.Plan
}

// record closes what no agent reports, and then the incident.
func (d *Draft) record(l *Log) error {
	silent, r, err := l.State.DraftClosing(d.Incident.ID, l.drafted())
	if err != nil {
		return err
	}
	for _, o := range silent {
		d.Bodies = append(d.Bodies, o)
	}
	d.Bodies = append(d.Bodies, r)
	return nil
}

// decide drafts a decision.
func (d *Draft) decide(l *Log, by entry.Principal) error {
	o, v := &d.Order, d.Incident
	if err := standsFor(o, v); err != nil {
		return err
	}
	order := coord.Order{Incident: v.ID, Act: entry.Act(o.Verb), Reason: o.Reason, Dismissed: o.Dismissed, Members: o.Members}
	switch o.Verb {
	case Deny:
		if len(o.Corroborated) == 0 {
			by = "" // by whose word counts for what is corroborated alone
		}
		order.Signals = l.State.Dispositions(v.ID, by, o.Corroborated, o.False)
	case Acknowledge:
		order.Act = entry.ActDeny
	case Override:
		if plan, there := l.State.PlanInForce(v.ID, l.Now); there {
			d.InForce = &plan.Plan
		}
	}
	if l.Fixed != nil {
		order.Pin = l.Fixed.Pin
	}
	decision, err := l.State.Draft(order, l.drafted())
	if err != nil {
		return err
	}
	if decision.RollbackSet != nil {
		var without []uint64
		for _, u := range decision.Dismissed {
			without = append(without, u.Index)
		}
		d.Plan = l.planAt(v.ID, without, decision.Pin.Size)
	}
	d.Bodies = []entry.Body{decision}
	return nil
}

// standsFor reports whether an incident stands so that the verb of an order means what its name
// says. The rules of registration are held to the entry later.
func standsFor(o *Order, v *api.Incident) error {
	switch o.Verb {
	case Authorize, Amend:
		return quorumOf(v)
	case Override:
		if v.Decision == nil || !v.State.Open() {
			return obstacle("incident %d is %s: no plan is in force that could be stopped", v.ID, v.State)
		}
	case Release:
		if len(o.Members) == 0 {
			return obstacle("incident %d is %s: there is no member to release, or none is named", v.ID, v.State)
		}
	case Deny:
		if v.State.Decided() { // a deny would acknowledge
			return obstacle("incident %d is %s: it is too late to dismiss it; arl escalation acknowledge is for incidents that nobody answered", v.ID, v.State)
		}
	case Acknowledge:
		switch noted := v.NotedBy(); {
		case noted != 0:
			return obstacle("entry %d already acknowledges incident %d", noted, v.ID)
		case !v.Unacknowledged():
			return obstacle("incident %d is %s, and has nothing to acknowledge: approvers answered the incident and its amends in time", v.ID, v.State)
		}
	}
	return nil
}

// quorumOf reports whether a proposal waits that enough approvers approve.
func quorumOf(v *api.Incident) error {
	if v.Proposal == nil {
		return noQuorum("no proposal waits for incident %d: arl incident escalate makes one", v.ID)
	}
	if p := v.Proposal; !p.Approved() {
		return noQuorum("%d of %d approvals of proposal %d: arl incident approve adds one", len(p.Approve), p.Quorum, p.Ref.Index)
	}
	return nil
}

// Signer is a principal, and how it signs.
type Signer struct {
	Principal entry.Principal
	Sign      func(*entry.Entry) error
}

// Seal completes and signs entries as the next ones of the log, now. An entry that the rules would
// not admit is not returned: the error is then a [*entry.Refusal], and nothing was sent. Seal does
// not change the state, but for goroutines a call with several entries counts as a change of it.
func (l *Log) Seal(bodies []entry.Body, by Signer) ([]*entry.Entry, error) {
	entries, err := l.completeAll(bodies, by.Principal)
	if err != nil {
		return nil, err
	}
	if err := by.signAll(entries); err != nil {
		return nil, err
	}
	return entries, l.admitAll(entries)
}

// ErrChanged reports that a draft became another one while its key signed.
var ErrChanged = errors.New("what this does has changed while the key signed: the signature is thrown away, and nothing was sent")

// SealAside is [Log.Seal] of what draft returns, for a log that goes on while the key signs: a key
// in a KMS signs slowly. read calls its function with the log as it stands, which does not change
// meanwhile. draft is called before the signature and once more after it. If the payloads are not
// the same then, SealAside returns [ErrChanged] or the error of draft, and no entry.
func SealAside(read func(func(*Log) error) error, by Signer, draft func(*Log) (*Draft, error)) (sealed []*entry.Entry, err error) {
	var fixed *Fixed // by the first draft
	payloads := func(l *Log) (list []*entry.Entry, err error) {
		l.Fixed = fixed
		d, err := draft(l)
		if err != nil {
			return nil, err
		}
		if fixed == nil {
			fixed = l.fixAll(len(d.Bodies))
		}
		l.Fixed = fixed
		return l.completeAll(d.Bodies, by.Principal)
	}
	err = read(func(l *Log) (err error) {
		sealed, err = payloads(l)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := by.signAll(sealed); err != nil {
		return nil, err
	}
	err = read(func(l *Log) error {
		again, err := payloads(l)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(sealed, again, func(a, b *entry.Entry) bool { return bytes.Equal(a.Payload(), b.Payload()) }) {
			return ErrChanged
		}
		return l.admitAll(sealed)
	})
	if err != nil {
		return nil, err
	}
	return sealed, nil
}

// fixAll returns what stays of a number of entries, with an id for each of them.
func (l *Log) fixAll(entries int) *Fixed {
	was := l.Fixed
	l.Fix(entries)
	all := l.Fixed
	if was != nil {
		all.At, all.Pin = was.At, was.Pin
		copy(all.JTIs, was.JTIs)
	}
	return all
}

// signAll signs entries in their order.
func (by Signer) signAll(entries []*entry.Entry) error {
	for _, e := range entries {
		if err := by.Sign(e); err != nil {
			return err
		}
	}
	return nil
}

// completeAll completes entries in their order.
func (l *Log) completeAll(bodies []entry.Body, by entry.Principal) (list []*entry.Entry, err error) {
	for n, body := range bodies {
		e, err := l.complete(body, by, n)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// admitAll holds entries to the rules, each one to what the ones before it change.
func (l *Log) admitAll(entries []*entry.Entry) error {
	state := l.State
	for n, e := range entries {
		if n == 1 {
			state = state.Clone()
		}
		if n > 0 {
			state.Apply(entries[n-1], state.Size(), l.Now)
		}
		if err := state.Admit(e, state.Size(), l.Now); err != nil {
			return err
		}
	}
	return nil
}

// complete returns the nth body of a draft as the entry that a principal signs.
func (l *Log) complete(body entry.Body, by entry.Principal, n int) (*entry.Entry, error) {
	keys.FillHeader(body, by, l.Origin)
	h := entry.HeaderOf(body)
	h.Iat = l.drafted() / 1000
	if l.Fixed != nil && n < len(l.Fixed.JTIs) {
		h.JTI = l.Fixed.JTIs[n]
	}
	return entry.New(body)
}

// Payloads returns what a principal signs with a draft, byte for byte: of the entries whose
// identifiers are fixed.
func (l *Log) Payloads(d *Draft, by entry.Principal) (list [][]byte, err error) {
	for n, body := range d.Bodies {
		if l.Fixed == nil || n >= len(l.Fixed.JTIs) {
			break
		}
		e, err := l.complete(body, by, n)
		if err != nil {
			return nil, err
		}
		list = append(list, e.Payload())
	}
	return list, nil
}

// May returns why the rules would not admit the first entry of a draft from a principal
// with that key, as a [*entry.Refusal]; nil: they would. It is an [*Obstacle] if by is empty: the
// key is enrolled for no principal. Nothing is signed. For goroutines, a call counts as a change
// of the state.
func (l *Log) May(d *Draft, by entry.Principal, keyID string) error {
	if by == "" {
		return obstacle("the key is enrolled for no principal")
	}
	e, err := l.complete(d.Bodies[0], by, 0)
	if err != nil {
		return err
	}
	e.KeyID, e.SignatureChecked = keyID, true // as the signature of that key would be
	return l.State.Admit(e, l.State.Size(), l.Now)
}
