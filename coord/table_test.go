package coord

import (
	"errors"
	"testing"

	"recoveryledger/ledger/entry"
)

// step is an entry that names an incident, as good as it can be made there.
type step struct {
	name string
	make func(w *world, id uint64) entry.Body
}

func decision(iss entry.Principal, act entry.Act) step {
	return step{string(act) + " by " + string(iss), func(w *world, id uint64) entry.Body {
		o := Order{Incident: id, Act: act}
		if act == entry.ActRelease {
			o.Members = []entry.Ref{"a#make"}
		}
		return w.order(iss, o)
	}}
}

var tableSteps = []step{
	{"signal", func(w *world, _ uint64) entry.Body { return w.signal("a", entry.StandingExecutor, "a#make") }},
	decision("k", entry.ActContain),
	decision("k", entry.ActAuthorize),
	decision("k", entry.ActEscalate),
	{"approval", func(w *world, id uint64) entry.Body { return w.answer("p2", id, "approve") }},
	decision("p3", entry.ActDeny),
	decision("k", entry.ActDeny),
	decision("k", entry.ActAmend),
	{"outcome", func(w *world, id uint64) entry.Body { return w.outcome("a", id, "a#make", entry.ResultFailed) }},
	decision("o", entry.ActOverride),
	decision("p3", entry.ActRelease),
	{"record", func(w *world, id uint64) entry.Body {
		r, err := w.state.DraftRecord(id)
		if err != nil {
			r = &entry.Record{Incident: id, State: "FAILED", Tally: map[entry.Result]int64{}, Dispositions: []entry.Disposition{}}
			r.V, r.Aud, r.Wid = 1, origin, "w"
		}
		delete(r.Tally, "") // without an outcome
		w.head("k", r)
		return r
	}},
}

// tableStates makes an incident that stands as the name says.
var tableStates = []struct {
	name  string
	state entry.IncidentState
	make  func(w *world, id uint64)
}{
	{"REPORTED", entry.IncidentReported, func(*world, uint64) {}},
	{"CONTAINED", entry.IncidentContained, func(w *world, id uint64) { w.decide("k", entry.ActContain, id) }},
	{"ESCALATED", entry.IncidentEscalated, func(w *world, id uint64) { w.decide("k", entry.ActEscalate, id) }},
	{"ESCALATED, approved", entry.IncidentEscalated, func(w *world, id uint64) {
		w.decide("k", entry.ActEscalate, id)
		w.put(w.answer("p1", id, "approve"))
	}},
	{"AUTHORIZED", entry.IncidentAuthorized, func(w *world, id uint64) { w.decide("k", entry.ActAuthorize, id) }},
	{"AUTHORIZED, amend pending", entry.IncidentAuthorized, func(w *world, id uint64) {
		w.decide("k", entry.ActAuthorize, id)
		w.decide("k", entry.ActEscalate, id)
	}},
	{"AUTHORIZED, settled", entry.IncidentAuthorized, func(w *world, id uint64) {
		w.decide("k", entry.ActAuthorize, id)
		w.finish(id, entry.Restored)
	}},
	{"AUTHORIZED, amend unanswered", entry.IncidentAuthorized, amendUnanswered},
	{"AUTHORIZED, amend unanswered, acknowledged", entry.IncidentAuthorized, func(w *world, id uint64) {
		amendUnanswered(w, id)
		w.decide("p3", entry.ActDeny, id)
	}},
	{"DISMISSED", entry.IncidentDismissed, func(w *world, id uint64) { w.decide("p1", entry.ActDeny, id) }},
	{"DISMISSED by silence", entry.IncidentDismissed, dismissedBySilence},
	{"DISMISSED by silence, acknowledged", entry.IncidentDismissed, func(w *world, id uint64) {
		dismissedBySilence(w, id)
		w.decide("p3", entry.ActDeny, id)
	}},
	{"RECOVERED", entry.IncidentRecovered, func(w *world, id uint64) {
		w.decide("k", entry.ActAuthorize, id)
		w.finish(id, entry.Restored)
		w.next()
	}},
	{"RECOVERED, amend unanswered", entry.IncidentRecovered, recoveredUnanswered},
	{"RECOVERED, amend unanswered, acknowledged", entry.IncidentRecovered, func(w *world, id uint64) {
		recoveredUnanswered(w, id)
		w.decide("p3", entry.ActDeny, id)
	}},
	{"PARTIAL", entry.IncidentPartial, func(w *world, id uint64) {
		w.decide("k", entry.ActAuthorize, id)
		w.finish(id, entry.ResultFailed)
		w.next()
	}},
	{"FAILED", entry.IncidentFailed, func(w *world, id uint64) {
		w.decide("k", entry.ActAuthorize, id)
		w.put(w.outcome("a", id, "a#make", entry.ResultFailed))
		w.put(w.outcome("b", id, "b#pay", entry.Refused))
		w.next()
	}},
}

func dismissedBySilence(w *world, id uint64) {
	w.decide("k", entry.ActEscalate, id)
	w.at += hourMS
	w.next()
}

// amendUnanswered proposes an amend, which is dropped for want of an answer.
func amendUnanswered(w *world, id uint64) {
	w.decide("k", entry.ActAuthorize, id)
	w.decide("k", entry.ActEscalate, id)
	w.at += hourMS
	w.next()
}

func recoveredUnanswered(w *world, id uint64) {
	amendUnanswered(w, id)
	w.finish(id, entry.Restored)
	w.next()
}

// finish compensates b#pay and gives a#make a result.
func (w *world) finish(id uint64, r entry.Result) {
	w.t.Helper()
	w.put(w.outcome("a", id, "a#make", r))
	w.compensate(id, "b#pay")
}

// tableWant is protocol.md, section 6, by state: the steps that are admitted, in
// the order of tableSteps. Everything else is refused as state-conflict.
var tableWant = map[string][]string{
	"REPORTED":                     {"signal", "contain by k", "authorize by k", "escalate by k", "deny by p3"},
	"CONTAINED":                    {"signal", "contain by k", "authorize by k", "escalate by k", "deny by p3"},
	"ESCALATED":                    {"signal", "contain by k", "escalate by k", "approval", "deny by p3"},
	"ESCALATED, approved":          {"signal", "contain by k", "authorize by k", "escalate by k", "approval", "deny by p3"},
	"AUTHORIZED":                   {"signal", "escalate by k", "amend by k", "outcome", "override by o"},
	"AUTHORIZED, amend pending":    {"signal", "escalate by k", "approval", "outcome", "override by o"},
	"AUTHORIZED, settled":          {"escalate by k", "amend by k", "outcome", "override by o", "release by p3", "record"},
	"AUTHORIZED, amend unanswered": {"signal", "escalate by k", "deny by p3", "amend by k", "outcome", "override by o"},
	"AUTHORIZED, amend unanswered, acknowledged": {"signal", "escalate by k", "amend by k", "outcome", "override by o"},
	"DISMISSED":                                 {"signal"}, // opens another
	"DISMISSED by silence":                      {"signal", "deny by p3"},
	"DISMISSED by silence, acknowledged":        {"signal"},
	"RECOVERED":                                 {"outcome", "release by p3"},
	"RECOVERED, amend unanswered":               {"outcome", "deny by p3", "release by p3"},
	"RECOVERED, amend unanswered, acknowledged": {"outcome", "release by p3"},
	"PARTIAL":                                   {"signal", "release by p3"},
	"FAILED":                                    {"signal", "release by p3"},
}

// TestTable tries every entry in every state.
// Draft: REG-9.
func TestTable(t *testing.T) {
	for _, in := range tableStates {
		for _, step := range tableSteps {
			t.Run(in.name+"/"+step.name, func(t *testing.T) {
				w := newWorld(t)
				w.pipeline()
				id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
				in.make(w, id)
				w.is(id, in.state)
				want := false
				for _, name := range tableWant[in.name] {
					want = want || name == step.name
				}
				err := w.admit(w.sign(step.make(w, id)))
				refusal, _ := errors.AsType[*entry.Refusal](err)
				switch {
				case want && err != nil:
					t.Errorf("refused: %v", err)
				case !want && (refusal == nil || refusal.Problem != entry.StateConflict):
					t.Errorf("%v, want state-conflict", err)
				}
				w.checkAll()
			})
		}
	}
}

// TestTableOfUnknownIncidents names an incident that is none.
func TestTableOfUnknownIncidents(t *testing.T) {
	w := newWorld(t)
	w.pipeline()
	id := w.put(w.signal("a", entry.StandingExecutor, "a#make")).Index
	for _, step := range tableSteps[1:] {
		body := step.make(w, id)
		switch b := body.(type) {
		case *entry.Decision:
			b.Incident = 1
		case *entry.Approval:
			b.Incident = 1
		case *entry.Outcome:
			b.Incident = 1
		case *entry.Record:
			b.Incident = 1
		}
		w.refuse(w.sign(body), entry.UnknownSubject, "incident")
	}
}
