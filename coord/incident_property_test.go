package coord

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"recoveryledger/ledger/entry"
)

// TestRandomIncidents drives random executions, signals, decisions of whoever,
// answers, outcomes, revocations and waits, most of them refused. Whatever
// comes: a refusal leaves no trace, what the coordinator would write first is
// admitted, no two plans in force share a member, and every way to the state
// gives the same bytes.
func TestRandomIncidents(t *testing.T) {
	states, told := map[entry.IncidentState]int{}, map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		g, agents := generator{r, w}, w.bundles(told)
		g.graph()
		for range rapid.IntRange(20, 120).Draw(r, "actions") {
			if g.chance("resume", 12) {
				w.state = restored(t, w.snapshot())
			}
			g.act()
			w.checkIncidents()
			switch {
			case g.chance("bundles", 24):
				agents.check()
			case g.chance("further bundles", 12):
				agents.follow()
			}
		}
		w.checkAll()
		agents.check()
		for _, inc := range w.state.incidents {
			states[inc.state]++
		}
	})
	t.Logf("incidents: %v, agents were told: %v", states, told)
	for _, state := range entry.IncidentStates() {
		if states[state] == 0 && !testing.Short() {
			t.Errorf("no incident is %s in the end: the streams are too simple", state)
		}
	}
}

// checkIncidents checks what holds between incidents.
func (w *world) checkIncidents() {
	w.t.Helper()
	owner := map[uint32]uint64{}
	for _, inc := range w.state.incidents {
		if inc.state != entry.IncidentAuthorized {
			continue
		}
		for _, m := range inc.current.members {
			if other, taken := owner[m.exec]; taken {
				w.t.Fatalf("incidents %d and %d both undo %s", other, inc.opened, w.state.refOf(m.exec))
			}
			owner[m.exec] = inc.opened
		}
		w.checkMeeting(inc)
	}
}

// checkMeeting compares what asking about halves finds with what asking about
// each incident does.
func (w *world) checkMeeting(inc *incident) {
	w.t.Helper()
	until := w.at + hourMS
	var candidates, want []mergeCandidate
	for _, number := range w.state.openIncidents() {
		o := w.state.incidents[number]
		if o.current != nil {
			continue
		}
		candidates = append(candidates, mergeCandidate{number, o.signals})
		if inc.current.sharesMember(w.state.graph.Plan(w.state.request(o, o.signals, nil, until))) {
			want = append(want, candidates[len(candidates)-1])
		}
	}
	got := w.state.overlapping(inc.current, candidates, until, mergesMax)
	if !slices.EqualFunc(got, want, func(a, b mergeCandidate) bool { return a.number == b.number }) {
		w.t.Fatalf("incident %d: meets %v, want %v", inc.opened, got, want)
	}
}

// graph registers executions that depend on each other, and checkpoints.
func (g generator) graph() {
	var refs []entry.Ref
	for i := range rapid.IntRange(4, 14).Draw(g.T, "executions") {
		iss := g.agent()
		if g.chance("checkpoint", 3) {
			c := g.w.checkpoint(iss, strconv.Itoa(i), "")
			if len(refs) > 0 && !g.chance("after nothing", 4) {
				c.After = &refs[rapid.IntRange(0, len(refs)-1).Draw(g.T, "after")]
			}
			g.try(c)
		}
		x := g.w.exec(iss, strconv.Itoa(i))
		x.Wid, x.Effect = g.wid(), pick(g, "effect", entry.EffectNone, entry.EffectReversible, entry.EffectReversible, entry.EffectCompensable,
			entry.EffectCompensable, entry.EffectIrrevocable)
		for _, ref := range refs {
			if g.chance("parent", 3) {
				x.Parents = append(x.Parents, entry.Parent{Exec: ref, Dep: pick(g, "dep", entry.Hard, entry.Hard, entry.Soft)})
			}
		}
		if x.Effect != entry.EffectNone {
			x.IdempotencyKey = someDigest(x.Exec)
		}
		g.try(x)
		refs = append(refs, x.Ref())
		for _, step := range []entry.Progress{entry.Started, pick(g, "end", entry.Confirmed, entry.Confirmed, entry.Failed)} {
			if g.chance("stop", 6) {
				break
			}
			g.try(g.w.step(x, step))
		}
	}
}

// try registers an entry that may be refused.
func (g generator) try(body entry.Body) { _ = g.w.admit(g.w.sign(body)) }

func (g generator) act() {
	switch pick(g, "action", 'x', 'c', 's', 's', 's', 'n', 'n', 'd', 'd', 'a', 'o', 'o', 'o', 'f', 'f', 't', 'r', 'k') {
	case 'x':
		g.try(g.execution())
	case 'c':
		iss, id := g.ref().Split()
		c := g.w.checkpoint(iss, id, "")
		if after := g.ref(); !g.chance("after nothing", 4) {
			c.After = &after
		}
		c.Wid = g.wid()
		g.try(c)
	case 's':
		g.accuse()
	case 'n':
		g.next()
	case 'd':
		g.decision()
	case 'a':
		if inc := g.incident(); inc != nil {
			g.try(g.w.answer(g.approver(), inc.opened, pick(g, "verdict", "approve", "approve", "refuse")))
		}
	case 'o':
		g.outcomes()
	case 'f':
		g.finish()
	case 't':
		g.w.at += pick[int64](g, "wait", 1000, minuteMS, 20*minuteMS, 2*hourMS, dayMS)
	case 'r':
		g.rare()
	case 'k':
		g.task()
	}
}

// accuse lets somebody signal about an execution, often its agent.
func (g generator) accuse() {
	s := g.signal()
	if n := int(g.w.state.graph.Size()); n > 0 && !g.chance("pool", 4) {
		s.Subject = g.w.state.refOf(uint32(rapid.IntRange(0, n-1).Draw(g.T, "subject")))
	}
	if iss, _ := s.Subject.Split(); g.chance("executor", 2) {
		s.Header, s.Standing = g.w.header(iss), entry.StandingExecutor
	}
	if first := g.w.first(s.Subject); first != nil {
		s.Wid = first.Wid
	}
	if !g.chance("forgets the incident before", 6) {
		g.w.nameBefore(s)
	}
	s.Effects = pick(g, "effects", entry.EffectsNone, entry.EffectsUnknown)
	if g.chance("evidence", 2) {
		s.Evidence = []entry.Evidence{{Digest: someDigest("evidence")}}
	}
	g.try(s)
}

func (g generator) approver() entry.Principal {
	return pick[entry.Principal](g, "approver", "p1", "p2", "p3")
}

// incident draws one of those there are.
func (g generator) incident() *incident {
	if len(g.w.state.incidents) == 0 {
		return nil
	}
	return g.w.state.incidents[rapid.IntRange(0, len(g.w.state.incidents)-1).Draw(g.T, "incident")]
}

// next registers what the coordinator would write; the first must be admitted.
func (g generator) next() {
	todo, wake := g.w.state.Next(g.w.at)
	tasks, due := g.w.state.Route(g.w.at, &compiled)
	if min(wake, due) <= g.w.at {
		g.Fatalf("wakes at %d and %d, now is %d", wake, due, g.w.at)
	}
	if len(todo) == 0 || g.chance("tasks first", 2) {
		todo = append(tasks, todo...)
	}
	for i, body := range todo {
		g.w.head("k", body)
		e := g.w.sign(body)
		err := g.w.admit(e)
		revoked := func(id string) bool { key, _ := g.w.state.chain.KeyInfo(id); return key.Revoked != 0 }
		if i == 0 && err != nil && !revoked(e.KeyID) {
			g.Fatalf("the coordinator would write what is refused: %v\n%s", err, e.Payload())
		}
	}
}

// decision tries a decision of anybody, often a wrong one.
func (g generator) decision() {
	inc := g.incident()
	if inc == nil {
		return
	}
	o := Order{Incident: inc.opened, Reason: "random", Act: pick(g, "act", entry.ActContain, entry.ActEscalate, entry.ActEscalate, entry.ActAuthorize,
		entry.ActAmend, entry.ActDeny, entry.ActOverride, entry.ActRelease)}
	if g.chance("dismissed", 4) {
		o.Dismissed = []entry.Dismissal{{Index: inc.opened, Reason: "random"}}
	}
	if o.Act == entry.ActDeny {
		for _, n := range inc.signals {
			one := entry.Disposition{Index: g.w.state.signals[n].index, Disposition: pick(g, "disposition", dispositions[1:]...)}
			if one.Disposition == entry.Corroborated {
				one.Domains, one.Independent = []string{"d"}, pick(g, "independent", true, true, false)
			}
			o.Signals = append(o.Signals, one)
		}
	}
	if o.Act == entry.ActRelease && inc.current != nil && len(inc.current.members) > 0 {
		o.Members = []entry.Ref{g.w.state.refOf(inc.current.members[0].exec)}
	}
	if o.Act == entry.ActRelease && o.Members == nil {
		o.Members = []entry.Ref{g.ref()}
	}
	d := g.w.order(pick[entry.Principal](g, "who", "k", "k", "p1", "p2", "p3", "o", "a", "m"), o)
	if g.chance("tamper", 6) {
		g.tamper(d)
	}
	if len(d.Dispositions) > 0 || d.Act != entry.ActDeny {
		g.try(d)
	}
}

// tamper spoils a decision.
func (g generator) tamper(d *entry.Decision) {
	switch pick(g, "spoil", 'e', 'x', 'p', 's', 'b') {
	case 'e':
		d.Epoch++
	case 'x':
		d.Exp = max(1, d.Exp-rapid.Int64Range(0, 100_000).Draw(g.T, "earlier"))
	case 'p':
		if d.Pin != nil && d.Pin.Size > 0 {
			d.Pin.Size = rapid.Uint64Range(0, d.Pin.Size).Draw(g.T, "pin")
			d.Pin.Root = g.w.state.tree.Root(d.Pin.Size)
		}
	case 's':
		if d.RollbackSet != nil {
			d.RollbackSet.Root[0] ^= 1
		}
	case 'b':
		if d.Impact != nil {
			d.Impact.Members++
		}
	}
}

// outcomes lets agents do their part: compensations and outcomes, right and
// wrong ones.
func (g generator) outcomes() {
	inc := g.incident()
	if inc == nil || inc.current == nil || len(inc.current.members) == 0 {
		return
	}
	g.outcome(inc, rapid.IntRange(0, len(inc.current.members)-1).Draw(g.T, "member"))
}

// finish takes an incident from approval to record, as far as that goes.
func (g generator) finish() {
	inc := g.incident()
	if inc == nil {
		return
	}
	if inc.state == entry.IncidentEscalated {
		g.try(g.w.answer("p2", inc.opened, "approve"))
		g.try(g.w.answer("p3", inc.opened, "approve"))
		g.next()
	}
	for i := 0; inc.current != nil && i < len(inc.current.members); i++ { // what comes first, first
		g.outcome(inc, i)
	}
	g.next()
}

// outcome lets the agent of a member of an incident in force do its part.
func (g generator) outcome(inc *incident, place int) {
	m := inc.current.members[place]
	exec := g.w.state.refOf(m.exec)
	agent := g.w.state.agentOf(m.exec)
	if methods[m.method] == entry.MethodCompensate {
		x := g.w.compensation(inc.opened, exec)
		x.Wid = entry.WorkflowID(g.w.state.workflows.Text(g.w.state.graph.Node(m.exec).Workflow))
		g.try(x)
		g.try(g.w.step(x, entry.Started))
		g.try(g.w.step(x, pick(g, "end", entry.Confirmed, entry.Confirmed, entry.Failed)))
	}
	if first := g.w.first(exec); g.chance("drain", 2) {
		g.try(g.w.step(first, pick(g, "drained", entry.Confirmed, entry.Failed, entry.Cancelled)))
	}
	fits := map[entry.Method]entry.Result{entry.MethodCancel: entry.NotExecuted, entry.MethodRestore: entry.Restored,
		entry.MethodCompensate: entry.Compensated, entry.MethodResidual: entry.ResultIrrevocable}[methods[m.method]]
	o := g.w.outcome(agent, inc.opened, exec, fits)
	if fits == "" || g.chance("another result", 4) {
		o = g.w.outcome(agent, inc.opened, exec, pick(g, "result", results...))
	}
	o.Wid = entry.WorkflowID(g.w.state.workflows.Text(inc.workflow))
	g.try(o)
}

// rare revokes a key, changes the policy, or lets an approver close what is
// late.
func (g generator) rare() {
	switch pick(g, "rare", 'k', 'p', 'p', 'l') {
	case 'k':
		who := pick[entry.Principal](g, "revoked", "k", "p1", "p2")
		revoke := g.w.enrol("root", who, entry.RoleCoordinator)
		revoke.Op = entry.Revoke
		revoke.CompromisedSince = &entry.Compromised{Index: rapid.Uint64Range(0, g.w.state.Size()-1).Draw(g.T, "since")}
		g.try(revoke)
		if who == "k" {
			g.w.keys["k"] = g.w.seed("k") + "'s next"
			g.try(g.w.enrol("root", "k", entry.RoleCoordinator))
		}
	case 'p':
		p := g.w.nextPolicy()
		p.Limits.Incident.Members = pick[int64](g, "members", 1, 3, 100)
		p.Quorum.Approve = pick[int64](g, "quorum", 1, 2)
		p.Windows.DeadlineMaxMS = pick[int64](g, "deadline", hourMS, dayMS)
		g.try(p)
	case 'l':
		if inc := g.incident(); inc != nil && inc.current != nil {
			if r, err := g.w.state.DraftRecord(inc.opened); err == nil && !slices.ContainsFunc(inc.current.members, func(m member) bool { return m.result == "" }) {
				g.w.head(g.approver(), r)
				g.try(r)
			}
		}
	}
}
