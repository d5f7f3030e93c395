package act_test

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
	"recoveryledger/testdata/testlog"
)

// hour is an hour of the ledger's clock.
const hour = 3_600_000

// known is the log as far as it is known now.
func known(l *foldlog.Log) *act.Log {
	return &act.Log{Origin: testlog.Origin, State: l.State, Now: l.At}
}

// signer signs as a principal of the log.
func signer(l *foldlog.Log, p entry.Principal) act.Signer {
	return act.Signer{Principal: p, Sign: func(e *entry.Entry) error {
		signed := l.Key(p).Sign(l.TB, e.Body)
		e.KeyID, e.Sig = signed.KeyID, signed.Sig
		return nil
	}}
}

// do carries out an order as a principal, and returns the draft.
func do(l *foldlog.Log, p entry.Principal, o act.Order) *act.Draft {
	l.TB.Helper()
	d, err := known(l).Prepare(&o, p)
	if err != nil {
		l.TB.Fatalf("%s: %v", o.Verb, err)
	}
	before := l.State.Size()
	entries, err := known(l).Seal(d.Bodies, signer(l, p))
	if err != nil {
		l.TB.Fatalf("%s: %v", o.Verb, err)
	}
	if l.State.Size() != before {
		l.TB.Fatalf("%s: Seal changed the state", o.Verb)
	}
	for _, e := range entries {
		if err := l.State.Admit(e, l.State.Size(), l.At); err != nil {
			l.TB.Fatalf("%s: %v", o.Verb, err)
		}
		l.Forge(e)
		l.State.Apply(e, l.State.Size(), l.At)
	}
	return d
}

// incident makes an incident with members of two agents, one of which cannot be undone.
func incident(l *foldlog.Log) uint64 {
	l.Do("a", "make", entry.EffectNone)
	l.Do("b", "send", entry.EffectIrrevocable, "a#make")
	return l.Signal("a", "a#make")
}

// state is the state of an incident.
func state(l *foldlog.Log, id uint64) entry.IncidentState {
	v, _ := l.State.Incident(id, l.At)
	return v.State
}

// TestOneLife takes an incident from its proposal to its record, each step by who may.
func TestOneLife(t *testing.T) {
	l := foldlog.New(t)
	id := incident(l)
	on := func(verb act.Verb) act.Order {
		return act.Order{Verb: verb, Incident: id, Reason: "checked", Hours: act.DefaultHours}
	}
	says := func(d *act.Draft, want string) {
		t.Helper()
		if !strings.Contains(d.Consequence(), want) {
			t.Errorf("%s: consequence %q, want %q", d.Order.Verb, d.Consequence(), want)
		}
	}
	refuses(t, l, on(act.Authorize), "no proposal waits", true)
	says(do(l, "k", on(act.Escalate)), "propose to the approvers to undo 2 members")
	refuses(t, l, on(act.Authorize), "0 of 1 approvals", true)
	d, err := known(l).Prepare(new(on(act.Approve)), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := known(l).May(d, "a", l.Key("a").Public.KeyID()); !refused(err, entry.UnauthorizedRole) {
		t.Errorf("an agent may approve: %v", err)
	}
	if err := known(l).May(d, "p", l.Key("p").Public.KeyID()); err != nil {
		t.Errorf("the approver may not approve: %v", err)
	}
	fixed := known(l)
	fixed.Fix(1)
	fixed.Now += 60_000 // the person reads
	payloads, err := fixed.Payloads(d, "p")
	if err != nil || len(payloads) != 1 || !strings.Contains(string(payloads[0]), `"reason":"checked"`) {
		t.Fatalf("%d payloads, %v", len(payloads), err)
	}
	if sealed, err := fixed.Seal(d.Bodies, signer(l, "p")); err != nil || string(sealed[0].Payload()) != string(payloads[0]) {
		t.Errorf("shown was %s, sealed is %v: %v", payloads[0], sealed, err)
	}
	if _, err := known(l).Seal(d.Bodies, signer(l, "a")); !refused(err, entry.UnauthorizedRole) {
		t.Errorf("sealed what would be refused: %v", err)
	}
	says(do(l, "p", on(act.Approve)), "approve proposal")
	says(do(l, "k", on(act.Authorize)), "put proposal")
	refuses(t, l, on(act.Deny), "too late to dismiss", false)
	refuses(t, l, on(act.Acknowledge), "nothing to acknowledge", false)
	says(do(l, "o", on(act.Override)), "without an outcome are withheld")
	if got := state(l, id); got != "AUTHORIZED" {
		t.Fatalf("the incident is %s", got)
	}
	l.At += 24 * hour
	d = do(l, "k", act.Order{Verb: act.Record, Incident: id})
	if got := state(l, id); got != d.Ends() || !got.LeftUndone() {
		t.Errorf("the incident is %s, foretold %q", got, d.Ends())
	}
}

func refused(err error, problem entry.Problem) bool {
	refusal, ok := errors.AsType[*entry.Refusal](err)
	return ok && refusal.Problem == problem
}

// refuses wants an order to meet an obstacle.
func refuses(t *testing.T, l *foldlog.Log, o act.Order, want string, quorum bool) {
	t.Helper()
	_, err := known(l).Prepare(&o, "p")
	if found, ok := errors.AsType[*act.Obstacle](err); !ok || found.Quorum != quorum || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", o.Verb, err, want)
	}
}

// TestAnotherPlanIsNotSigned lets the plan grow after it was proposed.
func TestAnotherPlanIsNotSigned(t *testing.T) {
	l := foldlog.New(t)
	id, end := l.InFlight("a", "pay")
	answer := act.Order{Verb: act.Approve, Incident: id, Reason: "checked", Hours: 1}
	refuses(t, l, answer, "no proposal waits", false)
	do(l, "k", act.Order{Verb: act.Escalate, Incident: id, Reason: "look"})
	end()
	if _, err := known(l).Prepare(&answer, "p"); !errors.Is(err, api.ErrOtherPlan) {
		t.Errorf("the answer to another plan: %v", err)
	}
	answer.Verb = act.Refuse
	do(l, "p", answer)
	if _, err := known(l).Prepare(&act.Order{Verb: act.Deny, Incident: 0}, "p"); !refused(err, entry.NotFound) {
		t.Errorf("an order about no incident: %v", err)
	}
}

// TestSealAside signs while the log goes on: it is read before and after the signature, and not
// while the key signs. What the log grows by changes no byte of the payload; if it changes the
// plan, or if the draft becomes another one, no entry comes of it.
func TestSealAside(t *testing.T) {
	l := foldlog.New(t)
	id, end := l.InFlight("a", "pay")
	do(l, "k", act.Order{Verb: act.Escalate, Incident: id, Reason: "look"})
	order := act.Order{Verb: act.Approve, Incident: id, Reason: "checked", Hours: 1}
	held, meanwhile := false, func() {}
	read := func(show func(*act.Log) error) error {
		held = true
		defer func() { held = false }()
		return show(known(l))
	}
	by := act.Signer{Principal: "p", Sign: func(e *entry.Entry) error {
		if held {
			t.Error("the log is held while the key signs")
		}
		meanwhile()
		return signer(l, "p").Sign(e)
	}}
	draft := func(l *act.Log) (*act.Draft, error) { return l.Prepare(&order, "p") }
	meanwhile = func() { l.At += 60_000; l.Do("b", "other", entry.EffectNone) }
	began := l.At
	sealed, err := act.SealAside(read, by, draft)
	if err != nil || len(sealed) != 1 {
		t.Fatalf("%d entries, %v", len(sealed), err)
	}
	if h := entry.HeaderOf(sealed[0].Body); h.Iat != began/1000 {
		t.Errorf("issued at %d, drafted at %d", h.Iat, began/1000)
	}
	meanwhile = func() { order.Reason = "something else" }
	if sealed, err := act.SealAside(read, by, draft); sealed != nil || !errors.Is(err, act.ErrChanged) {
		t.Errorf("another draft: %v, %v", sealed, err)
	}
	meanwhile = end
	if sealed, err := act.SealAside(read, by, draft); sealed != nil || !errors.Is(err, api.ErrOtherPlan) {
		t.Errorf("another plan: %v, %v", sealed, err)
	}
}

// TestRecordCallsSilentMembersUnknown closes an incident whose agent says nothing.
func TestRecordCallsSilentMembersUnknown(t *testing.T) {
	l := foldlog.New(t)
	l.Do("a", "make", entry.EffectCompensable)
	l.Do("b", "send", entry.EffectCompensable, "a#make")
	id := l.Signal("a", "a#make")
	l.Decide(id, entry.ActAuthorize)
	l.At += 1 << 31
	d := do(l, "p", act.Order{Verb: act.Record, Incident: id})
	if silent := d.Silent(); len(silent) != 2 || d.Ends() != "FAILED" || state(l, id) != "FAILED" {
		t.Errorf("silent %v, ends %s, is %s", silent, d.Ends(), state(l, id))
	}
}
