package server_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/verify/bundle"
)

// stages follows an incident: after each stage it fetches the bundles of every
// agent, from nothing and from what the agent had accepted at each stage before,
// and compares what they tell with the plan in force.
type stages struct {
	*panel
	incident uint64
	agents   []entry.Principal
	kept     map[entry.Principal][]bundle.Accepted
	told     map[string]bool // what was told in the end: "exec method result"
}

func (c *panel) stages(incident uint64, agents ...entry.Principal) *stages {
	return &stages{c, incident, agents, map[entry.Principal][]bundle.Accepted{}, map[string]bool{}}
}

// stage is one stage; want is how many commands there are for all agents.
func (s *stages) stage(name string, want int) {
	s.t.Helper()
	count := 0
	clear(s.told)
	for _, agent := range s.agents {
		fresh := s.keeps(agent)
		commands := fresh.told(s.incident)
		s.agree(name, commands)
		count += len(commands)
		for _, before := range s.kept[agent] {
			later := &keeper{s.panel, before}
			if from := before.Size(); from > fresh.Size() {
				s.t.Fatalf("%s: accepted %d before", name, from)
			}
			if again := later.told(s.incident); len(again) != len(commands) {
				s.t.Fatalf("%s: %s is told %d members from %d, and %d from 0", name, agent, len(again), before.Size(), len(commands))
			}
			_ = later.told(0)
		}
		_ = fresh.told(0)
		s.kept[agent] = append(s.kept[agent], fresh.Accepted)
		for i := range commands {
			s.told[fmt.Sprintf("%s %s %s", commands[i].Exec, commands[i].Method, commands[i].Result)] = true
		}
	}
	if count != want {
		s.t.Fatalf("%s: %d commands, want %d: %v", name, count, want, slices.Sorted(maps.Keys(s.told)))
	}
}

// agree compares commands with the plan in force. A drain holds back what waits
// for it, and no bundle shows that.
func (s *stages) agree(name string, commands []bundle.Command) {
	s.t.Helper()
	var plan *coord.PlanView
	s.coord.Read(func(state *coord.State) { plan, _ = state.PlanInForce(s.incident, s.log.Now()) })
	for i := range commands {
		c := &commands[i]
		at := slices.IndexFunc(plan.Members, func(m api.PlanMember) bool { return m.Exec == c.Exec })
		if at < 0 {
			s.t.Fatalf("%s: told %s, which is no member", name, c.Exec)
		}
		m := &plan.Members[at]
		drains := slices.ContainsFunc(plan.Members, func(m api.PlanMember) bool { return m.Drain })
		if c.Member != m.Member() || c.Result != "" && c.Result != m.Result || m.Result == "" && c.Released != m.Released && !drains {
			s.t.Fatalf("%s: told %+v, the plan has %+v", name, c, m)
		}
	}
}

// runs registers an execution up to the last of the steps.
func (c *panel) runs(x entry.Execution, steps ...entry.Progress) entry.Ref {
	c.t.Helper()
	if x.Wid == "" {
		x.Wid = "flow-1"
	}
	if x.Effect != entry.EffectNone && x.Effect != entry.EffectReversible {
		x.IdempotencyKey = someDigest
	}
	if x.Parents == nil {
		x.Parents = []entry.Parent{}
	}
	for _, step := range steps {
		x.Header, x.Progress = c.header(x.Iss, x.Wid), step
		c.put(&x)
	}
	return x.Ref()
}

// work is an execution of an agent, to be run.
func work(agent entry.Principal, id string, effect entry.Effect, parents ...entry.Ref) entry.Execution {
	x := entry.Execution{Header: entry.Header{Iss: agent}, Exec: id, Effect: effect}
	for _, parent := range parents {
		x.Parents = append(x.Parents, entry.Parent{Exec: parent, Dep: entry.Hard})
	}
	return x
}

func in(wid entry.WorkflowID, x entry.Execution) entry.Execution {
	x.Wid = wid
	return x
}

var whole = []entry.Progress{entry.Planned, entry.Started, entry.Confirmed}

// point registers a checkpoint of an agent in a workflow.
func (c *panel) point(agent entry.Principal, wid entry.WorkflowID, id string, after entry.Ref) {
	c.t.Helper()
	p := &entry.Checkpoint{Header: c.header(agent, wid), Checkpoint: id, Digest: someDigest}
	if after != "" {
		p.After = &after
	}
	c.put(p)
}

// ends registers what an agent did about a member.
func (c *panel) ends(id uint64, exec entry.Ref, result entry.Result) {
	c.t.Helper()
	agent, name := exec.Split()
	o := c.outcome(agent, id, exec, result)
	switch result {
	case entry.Restored:
		o.Residual, o.PostDigest = "", someDigest
	case entry.Compensated:
		undo := work(agent, name+".undo", entry.EffectIrrevocable)
		undo.Compensates = &entry.Compensates{Incident: id, Decision: o.Decision, Exec: exec}
		undo.Wid = o.Wid
		o.Residual, o.CompExec = "", c.runs(undo, whole...)
	}
	c.put(o)
}

// approves proposes what cannot be decided alone, lets two people approve it and
// carries it out.
func (c *panel) approves(id uint64, act entry.Act) {
	c.t.Helper()
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActEscalate}))
	c.put(c.approval("ann", id, "approve"))
	c.put(c.approval("ben", id, "approve"))
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: act}))
}

// TestBundleStages takes an incident that people approve through all that can
// happen: several workflows, an agent whose line is all of them, a drain,
// compensations that wait for others', keys that are rotated and revoked.
func TestBundleStages(t *testing.T) {
	budget.Unraced(t, "one request after the other; TestRandomBundles has the same routes")
	withAndWithout(t, testBundleStages)
}

func testBundleStages(t *testing.T, c *panel) {
	t.Helper()
	spanning := c.enrolment("agent-4", newSigner(t), entry.RoleAgent)
	c.signers["agent-4"] = newSigner(t)
	spanning.Key, spanning.Span = c.signers["agent-4"].Public(), entry.SpanAgent
	c.register(sign(t, c.authority, spanning))
	c.point("agent-1", "flow-1", "c0", "")
	c.point("agent-4", "flow-2", "c0", "")
	read := c.runs(work("agent-1", "read", entry.EffectNone), whole...)
	draft := c.runs(work("agent-1", "draft", entry.EffectReversible, read), whole...)
	other := c.runs(work("agent-1", "other", entry.EffectReversible), whole...)
	pay := c.runs(work("agent-2", "pay", entry.EffectCompensable, draft), whole...)
	ship := c.runs(in("flow-2", work("agent-3", "ship", entry.EffectCompensable, pay)), whole...)
	book := c.runs(in("flow-3", work("agent-4", "book", entry.EffectReversible, ship)), whole...)
	c.runs(in("flow-4", work("agent-4", "note", entry.EffectReversible)), whole...)
	mail := c.runs(work("agent-2", "mail", entry.EffectIrrevocable, pay), whole...)
	slow := c.runs(work("agent-2", "slow", entry.EffectReversible, draft), entry.Planned, entry.Started)
	c.runs(work("agent-2", "later", entry.EffectNone, slow), entry.Planned)
	id := c.signals("agent-1", entry.StandingExecutor, read)
	s := c.stages(id, "agent-1", "agent-2", "agent-3", "agent-4")
	s.stage("reported", 0)
	c.approves(id, entry.ActAuthorize)
	s.stage("authorized", 10)
	for _, what := range []string{"agent-1#other restore ", "agent-4#note restore ", "agent-2#later cancel ", "agent-2#slow residual "} {
		if !s.told[what] {
			t.Errorf("nobody was told %q: %v", what, slices.Sorted(maps.Keys(s.told)))
		}
	}
	c.put(c.outcome("agent-2", id, "agent-2#later", entry.NotExecuted))
	c.ends(id, ship, entry.Compensated)
	s.stage("shipment taken back", 10)
	rotated := newSigner(t)
	rotation := c.enrolment("agent-2", rotated, entry.RoleAgent)
	rotation.Op = entry.Rotate
	c.put(rotation)
	c.signers["agent-2"] = rotated
	c.register(sign(t, c.authority, c.revocation("olga", c.signers["olga"])))
	s.stage("keys rotated and revoked", 10)
	c.runs(work("agent-2", "slow", entry.EffectReversible, draft), entry.Confirmed)
	c.ends(id, pay, entry.Compensated)
	for exec, result := range map[entry.Ref]entry.Result{draft: entry.Restored, other: entry.Restored, book: entry.Restored, "agent-4#note": entry.ResultFailed,
		mail: entry.ResultIrrevocable, slow: entry.ResultIrrevocable} {
		c.ends(id, exec, result)
	}
	s.stage("all said", 10)
	c.put(c.drawnRecord(id))
	s.stage("recorded", 10)
}

// monitors registers a monitor's signal with evidence, over a range if it is
// given one.
func (c *panel) monitors(subject, since entry.Ref) uint64 {
	c.t.Helper()
	sig := c.signal(subject)
	sig.Header, sig.Standing, sig.Since = c.header("monitor-1", "flow-1"), entry.StandingMonitor, since
	sig.Class, sig.Code, sig.Effects, sig.ReplaySafety = "output", "ungrounded", entry.EffectsUnknown, entry.ReplayUnknown
	sig.Evidence = []entry.Evidence{{Digest: someDigest}}
	return c.put(sig).Index
}

// TestBundleAmended amends a plan: its first signal is not believed any more,
// while its members stay, and a second one takes the line further back.
func TestBundleAmended(t *testing.T) { withAndWithout(t, testBundleAmended) }

func testBundleAmended(t *testing.T, c *panel) {
	t.Helper()
	c.point("agent-1", "flow-1", "c0", "")
	first := c.runs(work("agent-1", "first", entry.EffectReversible), whole...)
	c.point("agent-1", "flow-1", "c1", first)
	second := c.runs(work("agent-1", "second", entry.EffectReversible), whole...)
	also := c.runs(work("agent-1", "also", entry.EffectReversible), whole...)
	use := c.runs(work("agent-2", "use", entry.EffectCompensable, second), whole...)
	c.runs(work("agent-3", "early", entry.EffectNone, first), whole...)
	id := c.signals("agent-1", entry.StandingExecutor, second)
	s := c.stages(id, "agent-1", "agent-2", "agent-3")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	s.stage("authorized", 3)
	c.ends(id, use, entry.Compensated)
	c.ends(id, second, entry.Restored)
	s.stage("partly restored", 3)
	c.monitors(first, "")
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAmend,
		Dismissed: []entry.Dismissal{{Index: id, Reason: "it was something before"}}}))
	s.stage("amended", 5)
	for _, what := range []string{"agent-1#second restore ", "agent-1#first restore ", "agent-2#use compensate compensated"} {
		if !s.told[what] {
			t.Errorf("nobody was told %q: %v", what, slices.Sorted(maps.Keys(s.told)))
		}
	}
	for _, exec := range []entry.Ref{second, also, first} {
		c.ends(id, exec, entry.Restored)
	}
	s.stage("restored again", 5)
	c.put(c.drawnRecord(id))
	s.stage("recorded", 5)
}

// TestBundlePassesThrough has a chain that leads through what an older incident
// has undone.
func TestBundlePassesThrough(t *testing.T) { withAndWithout(t, testBundlePassesThrough) }

func testBundlePassesThrough(t *testing.T, c *panel) {
	t.Helper()
	read := c.runs(work("agent-1", "read", entry.EffectNone), whole...)
	pay := c.runs(work("agent-2", "pay", entry.EffectCompensable, read), whole...)
	mail := c.runs(work("agent-3", "mail", entry.EffectIrrevocable, pay), whole...)
	older := c.signals("agent-2", entry.StandingExecutor, pay)
	c.approves(older, entry.ActAuthorize)
	c.ends(older, pay, entry.Compensated)
	c.ends(older, mail, entry.ResultFailed)
	c.put(c.drawnRecord(older))
	id := c.signals("agent-1", entry.StandingExecutor, read)
	c.approves(id, entry.ActAuthorize)
	s := c.stages(id, "agent-1", "agent-2", "agent-3")
	s.stage("authorized", 2)
	if !s.told["agent-3#mail residual "] {
		t.Fatalf("%v", s.told)
	}
	for _, command := range c.keeps("agent-3").told(id) {
		if len(command.Chain) != 3 {
			t.Errorf("chain %+v, want one through %s", command.Chain, pay)
		}
	}
}

// TestBundleRange has a signal that reaches over a range.
func TestBundleRange(t *testing.T) { withAndWithout(t, testBundleRange) }

func testBundleRange(t *testing.T, c *panel) {
	t.Helper()
	first := c.runs(work("agent-1", "first", entry.EffectNone), whole...)
	c.runs(in("flow-2", work("agent-1", "elsewhere", entry.EffectNone)), whole...)
	c.runs(work("agent-1", "between", entry.EffectNone), whole...)
	last := c.runs(work("agent-1", "last", entry.EffectNone), whole...)
	id := c.monitors(last, first)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	s := c.stages(id, "agent-1")
	s.stage("authorized", 3)
}

// TestBundleMerged takes up the signals of a younger incident.
func TestBundleMerged(t *testing.T) { withAndWithout(t, testBundleMerged) }

func testBundleMerged(t *testing.T, c *panel) {
	t.Helper()
	one := c.runs(work("agent-1", "one", entry.EffectNone), whole...)
	other := c.runs(work("agent-3", "other", entry.EffectNone), whole...)
	both := work("agent-2", "both", entry.EffectCompensable, one, other)
	c.runs(both, whole...)
	id := c.signals("agent-1", entry.StandingExecutor, one)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
	s := c.stages(id, "agent-1", "agent-2", "agent-3")
	s.stage("authorized", 2)
	younger := c.signals("agent-3", entry.StandingExecutor, other)
	c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAmend}))
	s.stage("merged", 3)
	t3 := c.stages(younger, "agent-3")
	t3.stage("of the younger", 0)
}

// TestBundleStopped takes the decision away: nothing but news is left, and it
// brings why.
func TestBundleStopped(t *testing.T) {
	t.Run("overridden", func(t *testing.T) {
		c := newPanel(t, nil)
		c.pipeline()
		id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
		s := c.stages(id, "agent-1", "agent-2")
		c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
		s.stage("authorized", 3)
		two := c.keeps("agent-2")
		_ = two.told(id)
		stale, _ := c.fetch(fmt.Sprintf("/v1/incidents/%d/bundle?agent=agent-2&from=%d", id, two.Size()))
		c.put(c.draft("olga", coord.Order{Incident: id, Act: entry.ActOverride}))
		s.stage("overridden", 0)
		_ = two.told(id)
		if epoch, ok := two.Epoch(id, 0); !ok || epoch != 1 {
			t.Fatalf("epoch %d, want that of the override", epoch)
		}
		if _, err := stale.Check(two.Accepted, c.log.Now()); err == nil {
			t.Error("a bundle from before the override is obeyed")
		}
	})
	t.Run("compromised", func(t *testing.T) {
		c := newPanel(t, nil)
		c.pipeline()
		id := c.signals("agent-1", entry.StandingExecutor, "agent-1#make")
		s := c.stages(id, "agent-1", "agent-2")
		c.put(c.draft("coordinator", coord.Order{Incident: id, Act: entry.ActAuthorize}))
		s.stage("authorized", 3)
		revoked := c.revocation("coordinator", c.signers["coordinator"])
		revoked.CompromisedSince = &entry.Compromised{Index: id}
		c.register(sign(t, c.authority, revoked))
		s.stage("compromised", 0)
	})
}
