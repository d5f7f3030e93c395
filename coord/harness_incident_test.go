package coord

import (
	"maps"
	"slices"

	"recoveryledger/ledger/entry"
)

// checkDerived compares what incidents derive along the way with what a
// restored state derives at once.
func (w *world) checkDerived(other *State) {
	w.t.Helper()
	w.checkJoins(other)
	if !maps.EqualFunc(w.state.tasks.held, other.tasks.held, slices.Equal) {
		w.t.Fatalf("agents hold %v, restored %v", w.state.tasks.held, other.tasks.held)
	}
	for i, inc := range w.state.incidents {
		if was := other.incidents[i].missed; inc.missed != was {
			w.t.Fatalf("incident %d: missed answer %+v, restored %+v", inc.opened, inc.missed, was)
		}
		f, g := inc.current, other.incidents[i].current
		if f == nil {
			continue
		}
		for j := range f.members {
			if f.members[j] != g.members[j] {
				w.t.Fatalf("incident %d: member %+v, restored %+v", inc.opened, f.members[j], g.members[j])
			}
		}
		positive := func(_ uint32, n int) bool { return n == 0 }
		for _, counts := range []map[uint32]int{f.restores, f.waits, g.restores, g.waits} {
			maps.DeleteFunc(counts, positive)
		}
		byName := func(s *State, counts map[uint32]int) map[string]int {
			named := map[string]int{}
			for line, n := range counts {
				named[string(s.principal(s.graph.Line(line).Agent))+"/"+string(rune(s.graph.Line(line).Workflow))] = n
			}
			return named
		}
		if !maps.Equal(byName(w.state, f.restores), byName(other, g.restores)) || !maps.Equal(byName(w.state, f.waits), byName(other, g.waits)) ||
			!maps.Equal(f.through, g.through) {
			w.t.Fatalf("incident %d: order %+v, restored %+v", inc.opened, f.order, g.order)
		}
	}
}

// checkJoins compares which incident a signal about each execution and each task would join.
func (w *world) checkJoins(other *State) {
	w.t.Helper()
	subjects := []uint32{}
	for exec := range w.state.graph.Size() {
		subjects = append(subjects, exec)
	}
	for number := range w.state.tasks.list {
		subjects = append(subjects, taskBit|uint32(number))
	}
	for _, subject := range subjects {
		number, joins := w.state.joins(subject)
		if was, joined := other.joins(subject); joins != joined || number != was {
			w.t.Fatalf("a signal about %s joins incident number %d (%t), restored %d (%t)", w.state.subjectRef(subject), number, joins, was, joined)
		}
	}
}

// done registers an execution of an effect from planned to confirmed.
func (w *world) done(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) *entry.Execution {
	w.t.Helper()
	x := w.planned(iss, id, effect, parents...)
	if effect != entry.EffectNone {
		w.put(w.step(x, entry.Started))
	}
	w.put(w.step(x, entry.Confirmed))
	return x
}

// planned registers the first entry of an execution of an effect.
func (w *world) planned(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) *entry.Execution {
	w.t.Helper()
	x := w.exec(iss, id, parents...)
	if x.Effect = effect; effect != entry.EffectNone {
		x.IdempotencyKey = someDigest(id)
	}
	w.put(x)
	return x
}

// flying registers an execution up to started.
func (w *world) flying(iss entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) *entry.Execution {
	w.t.Helper()
	x := w.planned(iss, id, effect, parents...)
	w.put(w.step(x, entry.Started))
	return x
}

// order returns the decision that carries out an order, by a principal.
func (w *world) order(iss entry.Principal, o Order) *entry.Decision {
	w.t.Helper()
	if o.Reason == "" {
		o.Reason = "test"
	}
	d, err := w.state.Draft(o, w.at)
	must(w.t, err)
	w.head(iss, d)
	return d
}

// decide registers a decision.
func (w *world) decide(iss entry.Principal, act entry.Act, incident uint64) entry.LogRef {
	w.t.Helper()
	return w.put(w.order(iss, Order{Incident: incident, Act: act}))
}

// answer returns an answer to the proposal in force.
func (w *world) answer(iss entry.Principal, incident uint64, verdict string) *entry.Approval {
	w.t.Helper()
	_, inc, _ := w.state.findIncident(incident)
	a := &entry.Approval{Header: w.header(iss), Incident: incident, Verdict: verdict, Exp: w.at/1000 + 3600, Reason: "test"}
	if a.Proposal = w.state.logRef(0); inc.proposal != nil {
		a.Proposal = w.state.logRef(inc.proposal.index)
	}
	return a
}

// vouch makes a deny corroborate all signals by the word of who signs it.
func (w *world) vouch(iss entry.Principal, d *entry.Decision) {
	w.t.Helper()
	info, _ := w.state.Chain().Agent(iss)
	for i := range d.Dispositions {
		d.Dispositions[i].Disposition, d.Dispositions[i].Domains, d.Dispositions[i].Independent = entry.Corroborated, []string{info.Domain}, true
	}
}

// outcome returns an outcome of a member for the decision in force.
func (w *world) outcome(iss entry.Principal, incident uint64, exec entry.Ref, r entry.Result) *entry.Outcome {
	w.t.Helper()
	_, inc, _ := w.state.findIncident(incident)
	o := &entry.Outcome{
		Header: w.header(iss), Incident: incident, Exec: exec, Result: r, ObservedAt: w.at,
		Decision: w.state.logRef(0),
	}
	if inc.current != nil {
		o.Decision = w.state.logRef(inc.current.index)
		if n, ok := w.state.resolve(w.state.executions.names, exec); ok {
			if m, ok := inc.current.find(n); ok && m.result != "" {
				ref := w.state.logRef(m.resultAt)
				o.Supersedes = &ref
			}
		}
	}
	switch r {
	case entry.Restored:
		o.PostDigest = someDigest("state")
	case entry.Compensated:
		o.CompExec = exec + ".undo"
	case entry.NotExecuted:
	default:
		o.Residual = "something"
	}
	return o
}

// compensation returns the first entry of a compensation of a member.
func (w *world) compensation(incident uint64, exec entry.Ref) *entry.Execution {
	w.t.Helper()
	agent, id := exec.Split()
	_, inc, _ := w.state.findIncident(incident)
	x := w.exec(agent, id+".undo")
	x.Effect, x.IdempotencyKey, x.Progress = entry.EffectIrrevocable, someDigest(string(exec)+"|0"), entry.Planned
	x.Compensates = &entry.Compensates{Incident: incident, Exec: exec}
	if inc.current != nil {
		x.Compensates.Decision = w.state.logRef(inc.current.index)
	}
	return x
}

// compensate registers a whole compensation of a member, and its outcome.
func (w *world) compensate(incident uint64, exec entry.Ref) {
	w.t.Helper()
	x := w.compensation(incident, exec)
	w.put(x)
	w.put(w.step(x, entry.Started))
	w.put(w.step(x, entry.Confirmed))
	agent, _ := exec.Split()
	w.put(w.outcome(agent, incident, exec, entry.Compensated))
}

// next registers what the coordinator would write now, and returns it.
func (w *world) next() (written []entry.Body) {
	w.t.Helper()
	todo, _ := w.state.Next(w.at)
	tasks, _ := w.state.Route(w.at, &compiled)
	for _, body := range append(todo, tasks...) {
		w.head("k", body)
		if e := w.sign(body); w.admit(e) == nil {
			written = append(written, body)
		}
	}
	return written
}

// silences returns what nobody answered of what the coordinator would write now.
func (w *world) silences() (all []Silence) {
	todo, _ := w.state.Next(w.at)
	for _, body := range todo {
		if of, silent := w.state.SilenceOf(body, w.at); silent {
			all = append(all, of)
		}
	}
	return all
}

func (w *world) incident(id uint64) *incident {
	w.t.Helper()
	_, inc, ok := w.state.findIncident(id)
	if !ok {
		w.t.Fatalf("no incident %d", id)
	}
	return inc
}

// is checks where an incident stands.
func (w *world) is(id uint64, want entry.IncidentState) {
	w.t.Helper()
	if got := w.incident(id).state; got != want {
		w.t.Fatalf("incident %d is %s, want %s", id, got, want)
	}
}

// members returns the methods of the plan in force.
func (w *world) members(id uint64) map[entry.Ref]entry.Method {
	w.t.Helper()
	found := map[entry.Ref]entry.Method{}
	for _, m := range w.incident(id).current.members {
		found[w.state.refOf(m.exec)] = methods[m.method]
	}
	return found
}

// pipeline2 registers, beside what populate does, incidents with everything that
// a snapshot holds of them.
func (w *world) pipeline2() {
	w.t.Helper()
	w.done("b", "pay", entry.EffectCompensable)
	w.done("c", "cash", entry.EffectIrrevocable, "b#pay")
	one := w.put(w.signal("b", entry.StandingExecutor, "b#pay")).Index
	w.decide("k", entry.ActContain, one)
	w.decide("k", entry.ActEscalate, one)
	w.put(w.answer("p1", one, "approve"))
	w.put(w.answer("p2", one, "refuse"))
	w.next()
	w.put(w.compensation(one, "b#pay"))
	w.put(w.outcome("c", one, "c#cash", entry.ResultIrrevocable))
	w.done("b", "other", entry.EffectReversible)
	two := w.put(w.signal("b", entry.StandingExecutor, "b#other")).Index
	w.decide("k", entry.ActEscalate, two)
	w.put(w.answer("p1", two, "approve"))
	w.done("b", "idle", entry.EffectNone)
	d := w.order("p3", Order{Incident: w.put(w.signal("b", entry.StandingExecutor, "b#idle")).Index, Act: entry.ActDeny})
	d.Dispositions[0].Disposition = "dismissed"
	w.put(d)
}
