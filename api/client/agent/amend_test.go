package agent_test

import (
	"slices"
	"testing"

	"recoveryledger/api/client/agent"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/verify/bundle"
)

// cutOff keeps everything of a player from the ledger once its line has gone
// back, until the function that it returns is called.
func cutOff(p *player) (reach func()) {
	blocked := false
	p.desk.fault = func(string) error {
		if blocked {
			return errLost
		}
		return nil
	}
	p.world.fault = func(call string) error {
		blocked = blocked || call == "hook!" && slices.Contains(p.world.calls, "restore worker#c0")
		return nil
	}
	return func() { blocked, p.world.fault = false, nil }
}

// TestOverrideBeforeAmend cuts an agent off that has done what an override ends
// meanwhile. What comes after it, such as an amend, is all that the agent is shown
// then; it finds what withheld each member, and says the truth in its place.
// Draft: AGT-4e.
func TestOverrideBeforeAmend(t *testing.T) {
	stop := func(b *book, incident uint64) uint64 {
		return b.write("olga", mustDraft(t, b, coord.Order{Incident: incident, Act: entry.ActOverride, Reason: "stop"})).Index
	}
	amend := func(b *book, incident uint64) {
		b.write("coordinator", mustDraft(t, b, coord.Order{Incident: incident, Act: entry.ActEscalate, Reason: "does it go on?"}))
		(&damage{b, nil, incident}).approve(t)
	}
	for name, c := range map[string]struct {
		follows bool
		do      func(b *book, incident uint64)
	}{
		"amended": {do: func(b *book, incident uint64) { stop(b, incident); amend(b, incident) }},
		"overridden again": {follows: true, do: func(b *book, incident uint64) {
			stop(b, incident)
			amend(b, incident)
			stop(b, incident)
		}},
		"its key is void": {do: func(b *book, incident uint64) {
			at := stop(b, incident)
			b.write("root", &entry.Agent{Principal: "olga", Op: entry.Revoke, Key: b.public("olga"), Roles: []entry.Role{entry.RoleOperator}, Domain: "d",
				Span: entry.SpanWorkflow, CompromisedSince: &entry.Compromised{Index: at}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDamage(t)
			b := d.clone()
			worker, writer := d.player(b, "worker", probing), d.player(b, "writer", probing)
			if !c.follows {
				worker.change = func(c *agent.Config) { c.Log = nil }
				worker.open()
			}
			reach := cutOff(worker)
			play(t, b, b.now+30_000, nil, worker, writer)
			if worker.world.effects["restore worker#c0"] != 1 {
				t.Fatalf("its line has not gone back: %v", worker.world.calls)
			}
			c.do(b, d.incident)
			if got := b.results(d.incident)["worker#draft"]; got != entry.Withheld {
				t.Fatalf("draft: %q", got)
			}
			reach()
			d.ends(t, b, restoredAll(), worker, writer)
			if !worker.agent.Idle() {
				t.Errorf("it has not come to an end: %v", b.refused)
			}
		})
	}
}

// TestOverrideBeforeFirstContact brings in an agent after an override, by an amend
// that has more members, and has it begin again: of the others it reads in the log
// what withheld them, before the decision.
func TestOverrideBeforeFirstContact(t *testing.T) {
	b := newBook(t)
	b.pipeline()
	b.did("source#aside", entry.EffectNone)
	b.exec("worker#both", entry.EffectReversible, entry.Planned, "worker#draft", "source#aside")
	b.exec("worker#idle", entry.EffectReversible, entry.Planned, "source#aside")
	d := &damage{b, nil, b.signal("worker#draft")}
	b.coordinate()
	b.write("olga", mustDraft(t, b, coord.Order{Incident: d.incident, Act: entry.ActOverride, Reason: "stop"}))
	b.signal("source#aside")
	b.coordinate()
	d.approve(t)
	worker := b.player("worker", bare)
	worker.store = newMemory() // lost: what it says is that it does not know
	shown := 0
	worker.desk.fault = func(call string) error {
		if call == "bundle" {
			shown++
		}
		if shown > 1 {
			return errLost
		}
		return nil
	}
	worker.open()
	play(t, b, b.now+1000, nil, worker)
	worker.desk.fault = nil
	worker.open() // again: it has accepted the news, and is not shown them twice
	d.ends(t, b, map[entry.Ref]entry.Result{"worker#idle": entry.ResultUnknown, "worker#draft": entry.ResultUnknown}, worker)
	if !worker.agent.Idle() || worker.told(agent.EventHidden) {
		t.Errorf("it has not come to an end: %v", b.refused)
	}
}

// TestLineThatWasToGoFurther amends a plan while a line goes back: there is no
// checkpoint that is old enough any more. That the effects stand would be wrong,
// and that they are undone too; also where what is to be done now is refused.
func TestLineThatWasToGoFurther(t *testing.T) {
	wrongStep := func(v *bundle.Bundle) {
		for _, m := range v.Members {
			for i := range v.Steps {
				if m.Member.Exec == "worker#draft" && v.Steps[i].Exec == m.Member.Index {
					v.Steps[i].From++
				}
			}
		}
	}
	for name, c := range map[string]struct {
		forge func(*bundle.Bundle)
		lost  bool
		want  entry.Result
	}{
		"amended":                               {nil, false, entry.ResultFailed},
		"amended, and the store lost":           {nil, true, entry.ResultUnknown},
		"amended, and the step to one is wrong": {wrongStep, false, entry.ResultFailed},
		"amended, wrong, and the store lost":    {wrongStep, true, entry.ResultUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			worker := b.player("worker", probing)
			play(t, b, b.now+1, nil, worker) // first contact
			b.did("worker#early", entry.EffectReversible)
			early := entry.Ref("worker#early")
			b.write("worker", &entry.Checkpoint{Checkpoint: "c0", Digest: zero, After: &early})
			b.did("source#read", entry.EffectNone)
			b.did("worker#draft", entry.EffectReversible, "source#read")
			d := &damage{b, nil, b.signal("source#read")}
			reach := cutOff(worker)
			play(t, b, b.now+30_000, nil, worker)
			if worker.world.effects["restore worker#c0"] != 1 {
				t.Fatalf("its line has not gone back: %v", worker.world.calls)
			}
			b.signal("worker#early")
			b.coordinate()
			d.approve(t)
			worker.desk.forge = c.forge
			reach()
			if c.lost {
				worker.store = newMemory()
				worker.open()
			}
			d.ends(t, b, map[entry.Ref]entry.Result{early: c.want, "worker#draft": c.want}, worker)
			if !worker.agent.Idle() {
				t.Errorf("it has not come to an end: %v", b.refused)
			}
		})
	}
}

// amended returns damage that was decided about, overridden before any agent
// heard of it, and amended since.
func amended(t *testing.T) *damage {
	t.Helper()
	d := newDamage(t)
	d.did("source#aside", entry.EffectNone)
	d.exec("worker#both", entry.EffectReversible, entry.Planned, "worker#draft", "source#aside")
	d.exec("worker#idle", entry.EffectReversible, entry.Planned, "source#aside")
	d.exec("writer#idle", entry.EffectReversible, entry.Planned, "source#aside")
	d.coordinate()
	d.order(t, "olga", coord.Order{Act: entry.ActOverride, Reason: "stop"})
	return d
}

// order registers what somebody decides about the incident.
func (d *damage) order(t *testing.T, who entry.Principal, o coord.Order) {
	t.Helper()
	o.Incident = d.incident
	d.write(who, mustDraft(t, d.book, o))
}

// TestWithheldStaysWithheld amends a plan that was overridden: what the override
// withheld is open to nobody, and its agents say that they have not started it.
func TestWithheldStaysWithheld(t *testing.T) {
	d := amended(t)
	d.signal("source#aside")
	d.coordinate()
	d.approve(t)
	worker, writer := d.player(d.book, "worker", probing), d.player(d.book, "writer", probing)
	d.ends(t, d.book, map[entry.Ref]entry.Result{"worker#draft": entry.Withheld, "worker#charge": entry.Withheld, "worker#later": entry.Withheld,
		"writer#page": entry.Withheld, "worker#idle": entry.NotExecuted, "writer#idle": entry.NotExecuted}, worker, writer)
	if !slices.Equal(worker.world.calls, []string{"cancel worker#idle"}) || !slices.Equal(writer.world.calls, []string{"cancel writer#idle"}) {
		t.Errorf("started %v, %v", worker.world.calls, writer.world.calls)
	}
	if len(d.refused) > 0 || !worker.agent.Idle() || !writer.agent.Idle() {
		t.Errorf("they have not come to an end: %v", d.refused)
	}
	if view, _ := d.state.Incident(d.incident, d.now); view.State.Open() {
		t.Errorf("it is not recorded at once: %s", view.State)
	}
}

// TestLineOfWithheld has a line go back on which an override has withheld
// something: what is new in the plan is restored, once what is in flight there
// is drained.
func TestLineOfWithheld(t *testing.T) {
	d := amended(t)
	release := coord.Order{Act: entry.ActRelease, Reason: "work on"}
	for exec, result := range d.results(d.incident) {
		if iss, _ := exec.Split(); iss == "worker" && result == entry.Withheld {
			release.Members = append(release.Members, exec)
		}
	}
	slices.Sort(release.Members)
	d.order(t, "ann", release)
	d.did("worker#anew", entry.EffectReversible)
	d.signal("worker#anew")
	d.coordinate()
	d.approve(t)
	worker := d.player(d.book, "worker", probing)
	d.ends(t, d.book, map[entry.Ref]entry.Result{"worker#anew": entry.Restored, "worker#slow": entry.Withheld, "worker#draft": entry.Withheld}, worker)
	calls := worker.world.calls
	drained := slices.Index(calls, "drain worker#slow")
	if drained < 0 || drained > slices.Index(calls, "restore worker#c0") || slices.Contains(calls, "compensate worker#charge") {
		t.Errorf("started %v; refused %v", calls, d.refused)
	}
}

// TestIrrevocableOnALineThatWentBack has a line go back on which something cannot
// be undone: its effect stands, whatever becomes of the line.
func TestIrrevocableOnALineThatWentBack(t *testing.T) {
	b := newBook(t)
	worker := b.player("worker", probing)
	play(t, b, b.now+1, nil, worker)
	b.write("worker", &entry.Checkpoint{Checkpoint: "c0", Digest: zero})
	b.did("source#read", entry.EffectNone)
	b.did("worker#mail", entry.EffectIrrevocable, "source#read")
	b.did("worker#draft", entry.EffectReversible, "worker#mail")
	d := &damage{b, nil, b.signal("source#read")}
	b.coordinate()
	d.approve(t)
	d.ends(t, b, map[entry.Ref]entry.Result{"worker#draft": entry.Restored, "worker#mail": entry.ResultIrrevocable}, worker)
}

// approve has ann approve what is proposed, and the coordinator carry it out.
func (d *damage) approve(t *testing.T) {
	t.Helper()
	view, _ := d.state.Incident(d.incident, d.now)
	if view.Proposal == nil {
		t.Fatalf("nothing is proposed: %+v", view)
	}
	d.write("ann", &entry.Approval{Incident: d.incident, Proposal: view.Proposal.Ref, Verdict: "approve", Exp: d.now/1000 + 3600, Reason: "yes"})
	d.coordinate()
}
