package coord

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

// guardSteps are entries whose guard looks at more than the state: who, when,
// after which answers.
var guardSteps = []step{
	decision("k", entry.ActContain),
	decision("k", entry.ActAuthorize), decision("p3", entry.ActAuthorize),
	decision("k", entry.ActEscalate), decision("p3", entry.ActEscalate), decision("a", entry.ActEscalate), decision("b", entry.ActEscalate),
	{"approve by p2", func(w *world, id uint64) entry.Body { return w.answer("p2", id, "approve") }},
	decision("k", entry.ActDeny), decision("p3", entry.ActDeny),
	decision("k", entry.ActAmend), decision("p3", entry.ActAmend),
	decision("o", entry.ActOverride), decision("p3", entry.ActOverride),
	{"unknown by k", func(w *world, id uint64) entry.Body { return w.outcome("k", id, "b#pay", entry.ResultUnknown) }},
	{"unknown by p3", func(w *world, id uint64) entry.Body { return w.outcome("p3", id, "b#pay", entry.ResultUnknown) }},
	{"record by k", func(w *world, id uint64) entry.Body { return w.recordBy("k", id) }},
	{"record by p3", func(w *world, id uint64) entry.Body { return w.recordBy("p3", id) }},
	{"restored by a", func(w *world, id uint64) entry.Body { return w.outcome("a", id, "a#make", entry.Restored) }},
}

func (w *world) recordBy(iss entry.Principal, id uint64) *entry.Record {
	r, err := w.state.DraftRecord(id)
	if err != nil {
		r = &entry.Record{Incident: id, State: "FAILED", Tally: map[entry.Result]int64{}, Dispositions: []entry.Disposition{}}
		r.V, r.Aud, r.Wid = 1, origin, "w"
	}
	delete(r.Tally, "")
	w.head(iss, r)
	return r
}

// later lets time pass.
func later(ms int64) func(w *world, _ uint64) { return func(w *world, _ uint64) { w.at += ms } }

func doing(act entry.Act) func(w *world, id uint64) {
	return func(w *world, id uint64) { w.decide("k", act, id) }
}

func answering(who entry.Principal, verdict string) func(w *world, id uint64) {
	return func(w *world, id uint64) { w.put(w.answer(who, id, verdict)) }
}

var guardStates = []struct {
	name string
	make []func(w *world, id uint64)
	want string
}{
	{"REPORTED", nil,
		"contain by k; authorize by k; escalate by k; deny by p3"},
	{"REPORTED, decide_ms over", []func(*world, uint64){later(10 * minuteMS)},
		"contain by k; authorize by k; escalate by k; escalate by p3; escalate by a; deny by p3"},
	{"ESCALATED", []func(*world, uint64){doing(entry.ActEscalate)},
		"contain by k; escalate by k; approve by p2; deny by p3"},
	{"ESCALATED, approved", []func(*world, uint64){doing(entry.ActEscalate), answering("p1", "approve")},
		"contain by k; authorize by k; authorize by p3; escalate by k; approve by p2; deny by p3"},
	{"ESCALATED, refused by all", []func(*world, uint64){doing(entry.ActEscalate), answering("p1", "refuse"), answering("p2", "refuse"), answering("p3", "refuse")},
		"contain by k; escalate by k; approve by p2; deny by k; deny by p3"},
	{"ESCALATED, answer_ms over", []func(*world, uint64){doing(entry.ActEscalate), later(hourMS)},
		"contain by k; escalate by k; escalate by p3; approve by p2; deny by k; deny by p3"},
	{"ESCALATED, expired", []func(*world, uint64){doing(entry.ActEscalate), answering("p1", "approve"), later(2 * hourMS)},
		"contain by k; escalate by k; escalate by p3; deny by k; deny by p3"},
	{"AUTHORIZED", []func(*world, uint64){doing(entry.ActAuthorize)},
		"escalate by k; amend by k; override by o; override by p3; restored by a"},
	{"AUTHORIZED, amend approved", []func(*world, uint64){doing(entry.ActAuthorize), doing(entry.ActEscalate), answering("p1", "approve")},
		"escalate by k; approve by p2; amend by k; amend by p3; override by o; override by p3; restored by a"},
	{"AUTHORIZED, amend expired", []func(*world, uint64){doing(entry.ActAuthorize), doing(entry.ActEscalate), later(2 * hourMS)},
		"escalate by k; escalate by p3; deny by p3; amend by k; override by o; override by p3; restored by a"},
	{"AUTHORIZED, amend unanswered, not expired", []func(*world, uint64){doing(entry.ActAuthorize), doing(entry.ActEscalate), later(hourMS)},
		"escalate by k; escalate by p3; approve by p2; deny by p3; amend by k; override by o; override by p3; restored by a"},
	{"AUTHORIZED, amend approved late", []func(*world, uint64){doing(entry.ActAuthorize), doing(entry.ActEscalate), later(hourMS), answering("p1", "approve")},
		"escalate by k; escalate by p3; approve by p2; amend by k; amend by p3; override by o; override by p3; restored by a"},
	{"AUTHORIZED, amend refused by all, expired", []func(*world, uint64){doing(entry.ActAuthorize), doing(entry.ActEscalate),
		answering("p1", "refuse"), answering("p2", "refuse"), answering("p3", "refuse"), later(2 * hourMS)},
		"escalate by k; escalate by p3; amend by k; override by o; override by p3; restored by a"},
	{"AUTHORIZED, p1 overrides", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.decide("p1", entry.ActOverride, id) }},
		"escalate by k; amend by k; override by o; override by p3; restored by a"},
	{"AUTHORIZED, overridden", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.decide("o", entry.ActOverride, id) }},
		"escalate by k; restored by a"},
	{"AUTHORIZED, overridden, amend approved", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.decide("o", entry.ActOverride, id) },
		doing(entry.ActEscalate), answering("p1", "approve")},
		"escalate by k; approve by p2; amend by k; amend by p3; restored by a"},
	{"AUTHORIZED, overridden and over", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.decide("o", entry.ActOverride, id) }, later(dayMS + 1)},
		"escalate by k; escalate by p3; record by k; record by p3; restored by a"},
	{"AUTHORIZED, deadline over", []func(*world, uint64){doing(entry.ActAuthorize), later(dayMS + skewMS + 1)},
		"escalate by k; escalate by p3; amend by k; override by o; override by p3; unknown by k; unknown by p3; restored by a"},
	{"AUTHORIZED, settled, amend pending", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.finish(id, entry.Restored) }, doing(entry.ActEscalate)},
		"escalate by k; approve by p2; override by o; override by p3"},
	{"AUTHORIZED, settled, deadline over", []func(*world, uint64){doing(entry.ActAuthorize), func(w *world, id uint64) { w.finish(id, entry.Restored) }, later(dayMS + 1)},
		"escalate by k; escalate by p3; amend by k; override by o; override by p3; record by k; record by p3"},
}

// guardOther is what stands in the way before the state does: whoever may never
// do it. By a quorum an approver may authorize and amend, after the deadline
// record.
var guardOther = map[string]entry.Problem{
	"escalate by b": entry.NoStanding, "authorize by p3": entry.UnauthorizedRole, "amend by p3": entry.UnauthorizedRole,
	"record by p3": entry.UnauthorizedRole, "amend by k": entry.ScopeExceedsPolicy,
}

// TestTableGuards tries entries in states that differ by time, answers and
// overrides: what is not listed is refused.
func TestTableGuards(t *testing.T) {
	for _, in := range guardStates {
		w := newWorld(t)
		w.pipeline()
		id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
		for _, prepare := range in.make {
			prepare(w, id)
		}
		before, wants := w.snapshot(), strings.Split(in.want, "; ")
		for _, step := range guardSteps {
			err := w.state.Admit(w.sign(step.make(w, id)), w.state.Size(), w.at)
			refusal, _ := errors.AsType[*entry.Refusal](err)
			switch want := slices.Contains(wants, step.name); {
			case want && err != nil:
				t.Errorf("%s: %s: %v", in.name, step.name, err)
			case !want && (refusal == nil || refusal.Problem != entry.StateConflict && refusal.Problem != guardOther[step.name]):
				t.Errorf("%s: %s: %v, want a refusal", in.name, step.name, err)
			}
		}
		if !bytes.Equal(before, w.snapshot()) {
			t.Errorf("%s: asking left a trace", in.name)
		}
	}
}
