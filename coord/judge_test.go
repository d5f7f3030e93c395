package coord

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// TestAnAgentAloneConfirmsNothing lets an agent report five steps without effect
// as their executor: nobody else bears it out, nothing was undone, and its quota
// after a false signal is what it would be without the five.
// Draft: INC-8a.
func TestAnAgentAloneConfirmsNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.done("a", fmt.Sprint(i), entry.EffectNone)
		id := w.put(w.signal("a", entry.StandingExecutor, entry.Ref(fmt.Sprint("a#", i)))).Index
		w.settle()
		w.is(id, entry.IncidentNoEffects)
	}
	w.done("b", "made", entry.EffectReversible)
	w.done("a", "used", entry.EffectNone, "b#made")
	id := w.put(w.signal("a", entry.StandingDownstream, "b#made")).Index
	d := w.order("p1", Order{Incident: id, Act: entry.ActDeny})
	d.Dispositions[0].Disposition = entry.Dismissed
	w.put(d)
	h, _ := w.state.History("a", 0, 10, w.at)
	if h.Judged != 6 || h.SelfReported != 5 || h.Corroborated != 0 || h.Independent != 0 || h.Dismissed != 1 {
		t.Errorf("history %+v", h)
	}
	if policy, _ := w.state.Chain().Policy(); h.SignalLimit != policy.Quotas.Signals(0, 1) {
		t.Errorf("%d signals an hour, want those of somebody of whom nothing is confirmed", h.SignalLimit)
	}
	w.checkAll()
}

// TestWhoCorroborates takes a signal of the executor of a step to its record, with
// what others have said of the step before.
func TestWhoCorroborates(t *testing.T) {
	signal := func(iss entry.Principal, standing entry.Standing, evidence bool) func(w *world) {
		return func(w *world) {
			s := w.signal(iss, standing, "a#x")
			if evidence {
				s.Evidence = []entry.Evidence{{Digest: someDigest("evidence")}}
			}
			w.put(s)
		}
	}
	for _, c := range []struct {
		name        string
		others      func(w *world)
		domains     []string // empty: self-reported
		independent bool
	}{
		{"nobody", func(*world) {}, nil, false},
		{"itself again", signal("a", entry.StandingExecutor, true), nil, false},
		{"a neighbour of its domain", signal("b", entry.StandingDownstream, false), []string{"d"}, false},
		{"a neighbour of another domain", signal("far", entry.StandingDownstream, false), []string{"e"}, true},
		{"neighbours of both", func(w *world) {
			signal("far", entry.StandingDownstream, false)(w)
			signal("b", entry.StandingDownstream, false)(w)
		}, []string{"d", "e"}, true},
		{"a neighbour that came when all was over", signal("late", entry.StandingDownstream, false), nil, false},
		{"a monitor's word", signal("m", entry.StandingMonitor, false), nil, false},
		{"a monitor's evidence", signal("m", entry.StandingMonitor, true), []string{"d"}, true},
		{"an operator's evidence", signal("o", entry.StandingOperator, true), []string{"d"}, true},
		{"its own evidence, as a monitor of itself", signal("a", entry.StandingMonitor, true), nil, false},
		{"an approver", func(w *world) { w.approve("p1") }, []string{"d"}, true},
		{"an approver of another domain", func(w *world) { w.approve("pe") }, []string{"e"}, true},
		{"an approver whose key was stolen before", func(w *world) {
			w.approve("pe")
			w.compromise("pe", entry.RoleApprover)
		}, nil, false},
		{"a neighbour whose key was stolen before", func(w *world) {
			signal("far", entry.StandingDownstream, false)(w)
			w.compromise("far", entry.RoleAgent)
		}, nil, false},
		{"an approver asked before, and a plan amended since", func(w *world) {
			w.done("b", "elsewhere", entry.EffectNone)
			w.done("b", "both", entry.EffectCompensable, "a#x", "b#elsewhere")
			w.decide("k", entry.ActEscalate, w.state.incidents[0].opened)
			w.put(w.signal("b", entry.StandingExecutor, "b#elsewhere"))
			w.approve("p1")
		}, []string{"d"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, id := corroborable(t)
			c.others(w)
			if w.incident(id).state != entry.IncidentAuthorized {
				w.decide("k", entry.ActAuthorize, id)
			}
			w.settle()
			want := entry.IncidentNoEffects
			if _, also := w.members(id)["b#both"]; also {
				w.compensate(id, "b#both")
				w.settle()
				want = entry.IncidentRecovered
			}
			if amended := len(w.incident(id).current.decisions) > 1; amended != strings.HasSuffix(c.name, "amended since") {
				t.Errorf("amended: %t", amended)
			}
			if w.incident(id).state == entry.IncidentAuthorized { // its decision is void: nobody is asked again
				r := w.recordBy("k", id)
				w.checkDisposition(r.Dispositions[0], c.domains, c.independent)
				return
			}
			w.is(id, want)
			sig, _ := w.state.findSignal(id)
			w.checkDisposition(dispositionOf(w.state.viewSignal(sigNumber(w, sig))), c.domains, c.independent)
			w.checkAll()
		})
	}
}

func sigNumber(w *world, sig *signal) uint32 {
	return uint32(slices.IndexFunc(w.state.signals, func(s signal) bool { return s.index == sig.index }))
}

// corroborable returns a world with a step of a, used by agents of its domain and
// of another while it runs, and by one that came when it was over; a says of
// itself that it went wrong.
func corroborable(t *testing.T) (w *world, id uint64) {
	t.Helper()
	w = newWorld(t)
	far, approver := w.enrol("root", "far", entry.RoleAgent), w.enrol("root", "pe", entry.RoleApprover)
	far.Domain, approver.Domain = "e", "e"
	w.put(far)
	w.put(approver)
	late := w.enrol("root", "late", entry.RoleAgent)
	late.Domain = "e"
	w.put(late)
	w.keys["a"] = "a, who watches itself"
	w.put(w.enrol("root", "a", entry.RoleAgent, entry.RoleMonitor))
	x := w.planned("a", "x", entry.EffectNone)
	uses := func(p entry.Principal) { // softly: what it does itself is no member
		use := w.exec(p, "use", "a#x")
		use.Parents[0].Dep = entry.Soft
		w.put(use)
	}
	uses("b")
	uses("far")
	w.put(w.step(x, entry.Confirmed))
	uses("late")
	return w, w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
}

// approve has people decide about the only incident.
func (w *world) approve(approver entry.Principal) {
	w.t.Helper()
	id := w.state.incidents[0].opened
	if w.incident(id).proposal == nil {
		w.decide("k", entry.ActEscalate, id)
	}
	w.put(w.answer(approver, id, "approve"))
	w.put(w.order("k", Order{Incident: id, Act: entry.ActAuthorize}))
}

// settle lets the coordinator write until it has nothing to write.
func (w *world) settle() {
	w.t.Helper()
	for len(w.next()) > 0 {
	}
}

// compromise revokes a principal's key as compromised since it was enrolled.
func (w *world) compromise(p entry.Principal, role entry.Role) {
	w.t.Helper()
	info, _ := w.state.Chain().Agent(p)
	r := w.enrol("root", p, role)
	r.Op, r.Domain, r.CompromisedSince = entry.Revoke, info.Domain, &entry.Compromised{Index: info.Enrolled}
	w.put(r)
}

func (w *world) checkDisposition(got entry.Disposition, domains []string, independent bool) {
	w.t.Helper()
	want := entry.SelfReported
	if len(domains) > 0 {
		want = entry.Corroborated
	}
	if got.Disposition != want || !slices.Equal(got.Domains, domains) || got.Independent != independent {
		w.t.Errorf("%+v, want %s by %v, independent %t", got, want, domains, independent)
	}
}

// dispositionOf is what was found of a signal.
func dispositionOf(s api.IncidentSignal) entry.Disposition {
	return entry.Disposition{Index: s.Index, Disposition: s.Disposition, Domains: s.Domains, Independent: s.Independent}
}

// TestMonitorsBearThemselvesOut takes signals of others than the executor to their
// records: a monitor's evidence bears out its own signal, a neighbour's word does
// not, and a signal that was not believed corroborates nothing.
func TestMonitorsBearThemselvesOut(t *testing.T) {
	w := newWorld(t)
	w.done("a", "x", entry.EffectNone)
	s := w.signal("m", entry.StandingMonitor, "a#x")
	s.Evidence = []entry.Evidence{{Digest: someDigest("evidence")}}
	id := w.put(s).Index
	w.settle()
	w.is(id, entry.IncidentNoEffects)
	h, _ := w.state.History("m", 0, 1, w.at)
	w.checkDisposition(dispositionOf(h.Signals[0]), []string{"d"}, true)

	w, id = corroborable(t)
	lie := w.put(w.signal("far", entry.StandingDownstream, "a#x")).Index
	d := w.order("k", Order{Incident: id, Act: entry.ActAuthorize, Dismissed: []entry.Dismissal{{Index: lie, Reason: "it saw nothing"}}})
	w.put(d)
	w.next()
	w.is(id, entry.IncidentNoEffects)
	h, _ = w.state.History("a", 0, 1, w.at)
	w.checkDisposition(dispositionOf(h.Signals[0]), nil, false)
	w.checkAll()
}

// TestATaskAndItsWorkAreOneSubject lets a monitor's evidence about an execution bear
// out what an agent says of its task.
func TestATaskAndItsWorkAreOneSubject(t *testing.T) {
	w := newWorld(t)
	ref := w.create("t")
	w.does("k", ref, entry.TaskAssign, "a")
	w.does("a", ref, entry.TaskStart)
	w.put(w.work("a", "x", ref, entry.EffectNone))
	other := w.work("a", "y", ref, entry.EffectNone)
	w.put(other)
	about := func(subject entry.Ref) uint32 {
		n, ok := w.state.findSubject(subject)
		if !ok {
			t.Fatalf("no %s", subject)
		}
		return n
	}
	for _, c := range []struct {
		a, b entry.Ref
		same bool
	}{{ref, ref, true}, {ref, "a#x", true}, {"a#y", ref, true}, {"a#x", "a#x", true}, {"a#x", "a#y", false}} {
		if got := w.state.sameSubject(about(c.a), about(c.b)); got != c.same {
			t.Errorf("%s and %s: %t", c.a, c.b, got)
		}
	}
}

// TestRecordSaysWhoCorroborates refuses records that claim or hide corroboration.
func TestRecordSaysWhoCorroborates(t *testing.T) {
	w, id := corroborable(t)
	w.put(w.signal("far", entry.StandingDownstream, "a#x"))
	w.decide("k", entry.ActAuthorize, id)
	for field, spoil := range map[string]func(d *entry.Disposition){
		"disposition": func(d *entry.Disposition) { *d = entry.Disposition{Index: d.Index, Disposition: entry.SelfReported} },
		"domains":     func(d *entry.Disposition) { d.Domains = []string{"d", "e"} },
		"independent": func(d *entry.Disposition) { d.Independent = false },
	} {
		r := w.recordBy("k", id)
		spoil(&r.Dispositions[0])
		w.refuse(w.sign(r), entry.StateConflict, "dispositions[0]."+field)
	}
	w.put(w.recordBy("k", id))
	w.is(id, entry.IncidentNoEffects)
	w.checkAll()
}

// TestDenyVouchesForItself lets an approver who denies say that a signal was true,
// by its own domain alone, and never that nobody else says so.
func TestDenyVouchesForItself(t *testing.T) {
	w, id := corroborable(t)
	for _, wrong := range []entry.Disposition{
		{Disposition: entry.SelfReported},
		{Disposition: entry.Corroborated, Domains: []string{"d"}, Independent: true},
		{Disposition: entry.Corroborated, Domains: []string{"d", "e"}, Independent: true},
		{Disposition: entry.Corroborated, Domains: []string{"e"}},
	} {
		d := w.order("pe", Order{Incident: id, Act: entry.ActDeny})
		wrong.Index = id
		d.Dispositions[0] = wrong
		w.refuse(w.sign(d), entry.StateConflict, "dispositions")
	}
	d := w.order("pe", Order{Incident: id, Act: entry.ActDeny})
	w.vouch("pe", d)
	w.put(d)
	h, _ := w.state.History("a", 0, 1, w.at)
	w.checkDisposition(dispositionOf(h.Signals[0]), []string{"e"}, true)
	if h.Independent != 1 {
		t.Errorf("history %+v", h)
	}
	w.checkAll()
}

// TestStatesOfARecord is what the outcomes of a plan amount to: it is RECOVERED only
// if something was restored or compensated, and NO_EFFECTS if nothing had to be.
// Draft: REC-2.
func TestStatesOfARecord(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *world) (id uint64)
		want entry.IncidentState
	}{
		{"no effect", func(w *world) uint64 {
			w.done("a", "x", entry.EffectNone)
			return w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
		}, entry.IncidentNoEffects},
		{"only planned", func(w *world) uint64 {
			w.done("a", "x", entry.EffectNone)
			w.planned("b", "y", entry.EffectIrrevocable, "a#x")
			id := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
			w.next()
			w.put(w.outcome("b", id, "b#y", entry.NotExecuted))
			return id
		}, entry.IncidentNoEffects},
		{"planned, and nobody knows", func(w *world) uint64 {
			w.done("a", "x", entry.EffectNone)
			w.planned("b", "y", entry.EffectIrrevocable, "a#x")
			id := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
			w.next()
			w.put(w.outcome("b", id, "b#y", entry.ResultUnknown))
			return id
		}, entry.IncidentPartial},
		{"compensated, and something without effect", func(w *world) uint64 {
			w.done("a", "x", entry.EffectCompensable)
			w.done("a", "y", entry.EffectNone, "a#x")
			id := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
			w.next()
			w.compensate(id, "a#x")
			return id
		}, entry.IncidentRecovered},
		{"something without effect, and a mail", func(w *world) uint64 {
			w.done("a", "x", entry.EffectNone)
			w.done("a", "y", entry.EffectIrrevocable, "a#x")
			id := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
			w.next()
			w.put(w.answer("p1", id, "approve"))
			w.next()
			w.put(w.outcome("a", id, "a#y", entry.ResultIrrevocable))
			return id
		}, entry.IncidentFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			id := c.make(w)
			w.settle()
			w.is(id, c.want)
			w.checkAll()
		})
	}
}

// TestDispositions: a deny judges every signal of its incident, and Admit refuses what is
// said of another entry.
// Draft: INC-8.
func TestDispositions(t *testing.T) {
	w := newWorld(t)
	w.done("a", "x", entry.EffectNone)
	w.done("b", "y", entry.EffectNone, "a#x")
	id := w.put(w.signal("a", entry.StandingExecutor, "a#x")).Index
	lie := w.put(w.signal("b", entry.StandingDownstream, "a#x")).Index
	later := w.put(w.signal("m", entry.StandingMonitor, "a#x")).Index
	want := []entry.Disposition{
		{Index: id, Disposition: entry.Corroborated, Domains: []string{"d"}, Independent: true},
		{Index: lie, Disposition: entry.Dismissed},
		{Index: later, Disposition: entry.Inconclusive},
	}
	got := w.state.Dispositions(id, "p1", []uint64{id}, []uint64{lie})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	other := w.state.Dispositions(id, "p1", nil, []uint64{0})
	w.refuse(w.sign(w.order("p1", Order{Incident: id, Act: entry.ActDeny, Signals: other})), entry.StateConflict, "dispositions")
	w.put(w.order("p1", Order{Incident: id, Act: entry.ActDeny, Signals: got}))
	w.checkAll()
}
