package coord

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// able enrols agents that can do tasks of a type.
func (w *world) able(kind string, names ...entry.Principal) {
	w.t.Helper()
	for _, p := range names {
		a := w.enrol("root", p, entry.RoleAgent)
		a.Capabilities = []string{kind, "wash"}
		w.put(a)
	}
}

// ruled puts rules in front of those that are built in, as the policy in force.
func (w *world) ruled(rules string, strategies ...string) {
	w.t.Helper()
	document := string(recovery.DefaultDocument())
	if len(strategies) > 0 {
		document = strings.Replace(document, "  rules:\n", "  strategies:\n    - "+strings.Join(strategies, "\n    - ")+"\n  rules:\n", 1)
	}
	p, err := recovery.Load("rules.yaml", []byte(strings.Replace(document, "  rules:\n", "  rules:\n"+rules, 1)))
	must(w.t, err)
	next := w.nextPolicy()
	next.Recovery = p.JSON()
	w.put(next)
}

// rule is one for crashes of tasks of type cook.
func rule(strategy string, rungs ...string) string {
	text := "    - id: cooking\n      when: class == \"crash\" && task_type == \"cook\"\n"
	if strategy != "" {
		text += "      strategy: " + strategy + "\n"
	}
	text += "      ladder:\n"
	for _, r := range append(rungs, "strategy: escalate") {
		text += "        - { " + r + " }\n"
	}
	return text + "      remediation: ask the cook\n"
}

// saved registers a checkpoint of a task, by whoever.
func (w *world) saved(iss entry.Principal, task entry.Ref, change ...func(*entry.Checkpoint)) {
	w.t.Helper()
	c := w.checkpoint(iss, entry.CheckpointName(task)+fmt.Sprint(len(w.log)), "")
	for _, f := range change {
		f(c)
	}
	w.put(c)
}

// routed returns the only claim that Route makes; nil if it makes none.
func (w *world) routed() (claim *entry.Task, wake int64) {
	w.t.Helper()
	todo, wake := w.state.Route(w.at, &compiled)
	switch len(todo) {
	case 0:
		return nil, wake
	case 1:
		claim, _ = todo[0].(*entry.Task)
		return claim, wake
	}
	w.t.Fatalf("%d entries, want one", len(todo))
	return nil, 0
}

// checkRoute checks that what Route returns follows from the state: again, from a
// copy, from what a snapshot gives, and with rules that are compiled anew.
func (w *world) checkRoute() {
	w.t.Helper()
	before := w.snapshot()
	text := func(s *State, rules *Rules) string {
		todo, wake := s.Route(w.at, rules)
		said := fmt.Sprint(wake)
		for _, body := range todo {
			said += fmt.Sprintf(" %+v", body)
		}
		return said
	}
	want := text(w.state, &compiled)
	for _, s := range []*State{w.state, w.state.Clone(), restored(w.t, before)} {
		if got := text(s, &compiled); got != want {
			w.t.Fatalf("routed %s, before %s", got, want)
		}
	}
	if !bytes.Equal(before, w.snapshot()) {
		w.t.Fatal("Route changed the state")
	}
}

// TestRouteObeysRules has a task of a type fail under each action that rules may
// choose: who gets it, how and when, is what the action says, and what executes
// nothing again is for people.
func TestRouteObeysRules(t *testing.T) {
	nobody := (*entry.Task)(nil)
	to := func(agent entry.Principal, retries, resumes int64) *entry.Task {
		return &entry.Task{Agent: agent, RetryCount: retries, ResumeCount: resumes}
	}
	quick := "backoff: { base_ms: 5000, factor: 2, max_ms: 60000 }"
	for _, c := range []struct {
		rungs, strategy string
		point           bool
		want            *entry.Task
		pause           int64
		reason          string
	}{
		{"strategy: fail_reassign", "", false, to("y", 1, 0), 0, "fail_reassign: ladder (cooking[0])"},
		{"strategy: fail_reassign", "", true, to("y", 1, 0), 0, "fail_reassign: ladder (cooking[0])"},
		{"strategy: fail_reassign, " + quick, "", false, to("y", 1, 0), 5000, "fail_reassign after 5000 ms: ladder (cooking[0])"},
		{"strategy: checkpoint_resume", "", true, to("y", 0, 1), 0, "checkpoint_resume: ladder (cooking[0])"},
		{"strategy: checkpoint_resume", "", false, nobody, 0, "escalate (error): ladder_exhausted (cooking[1])"},
		{"strategy: retry", "", false, to("x", 1, 0), 0, "retry: ladder (cooking[0])"},
		{"strategy: retry, max: 2, " + quick, "", false, to("x", 1, 0), 5000, "retry after 5000 ms: ladder (cooking[0])"},
		{"strategy: retry_altered, variant: reflect", "", false, to("x", 1, 0), 0, "retry_altered(reflect): ladder (cooking[0])"},
		{"strategy: fallback_model", "", false, to("x", 1, 0), 0, "fallback_model on primary: ladder (cooking[0])"},
		{"strategy: state_reset, scope: start", "", false, to("x", 1, 0), 0, "state_reset(start): ladder (cooking[0])"},
		{"strategy: state_reset, scope: verified", "", true, to("x", 1, 0), 0, "state_reset(verified): ladder (cooking[0])"},
		{"strategy: wait, min_ms: 3000, max_ms: 9000 }\n        - { strategy: fail_reassign", "", false, to("y", 1, 0), 3000, "fail_reassign: ladder (cooking[1])"},
		{"strategy: wait, min_ms: 3000, max_ms: 9000", "", false, nobody, 0, "escalate (error): ladder_exhausted (cooking[1])"},
		{"strategy: reconcile", "", false, nobody, 0, "reconcile: ladder (cooking[0])"},
		{"strategy: rollback", "", false, nobody, 0, "rollback: ladder (cooking[0])"},
		{"strategy: quarantine", "", false, nobody, 0, "quarantine (critical): ladder (cooking[0])"},
		{"strategy: abort", "", false, nobody, 0, "abort (error): ladder (cooking[0])"},
		{"strategy: retry, enabled: false", "", false, nobody, 0, "escalate (error): ladder_exhausted (cooking[1])"},
		{"strategy: retry", "checkpoint_resume", true, to("y", 0, 1), 0, "checkpoint_resume: external (checkpoint_resume)"},
		{"strategy: retry", "checkpoint_resume", false, to("y", 1, 0), 0, "fail_reassign: external (checkpoint_resume)"},
		{"strategy: retry", "quarantine", false, nobody, 0, "quarantine (critical): external (quarantine)"},
		{"strategy: fail_reassign", "triage", false, to("y", 1, 0), 0, "fail_reassign: ladder (cooking[0])"}, // a program that is asked where the agent runs
	} {
		w := newWorld(t)
		w.able("cook", "x", "y", "z")
		var declared []string
		if c.strategy == "triage" {
			declared = []string{`{ name: triage, version: "1", capabilities: [retry] }`}
		}
		w.ruled(rule(c.strategy, c.rungs), declared...)
		ref := w.create("task", ofType("cook"), retries(3))
		w.next()
		if c.point {
			w.saved("x", ref)
		}
		w.fails(ref)
		view, _ := w.state.Task(ref)
		w.state.Consult(&view, w.at, &compiled)
		number, _, _ := w.state.findTask(ref)
		if d := w.state.recovery(number, w.at, &compiled); d.Action.String()+" ("+d.Rule.String()+")" != c.reason {
			t.Errorf("%s %s: the rules say %s (%s)", c.rungs, c.strategy, d.Action, d.Rule)
		}
		if r := view.Recovery; r == nil || (view.Waits == api.WaitsOperator) != (c.want == nil) || !strings.HasPrefix(c.reason, r.Strategy) || r.Remediation != "ask the cook" {
			t.Errorf("%s %s: people see %+v", c.rungs, c.strategy, r)
		}
		got, wake := w.routed()
		if c.pause > 0 {
			if got != nil || wake != w.at+c.pause {
				t.Errorf("%s: %+v at once, wakes in %d", c.rungs, got, wake-w.at)
			}
			w.at = wake
			got, wake = w.routed()
		}
		switch {
		case wake != math.MaxInt64, (got == nil) != (c.want == nil):
			t.Errorf("%s %s: %+v, wakes at %d", c.rungs, c.strategy, got, wake)
		case got != nil && (got.Agent != c.want.Agent || got.RetryCount != c.want.RetryCount || got.ResumeCount != c.want.ResumeCount || got.Reason != c.reason):
			t.Errorf("%s %s: %s gets it, %d retries, %d resumes: %s", c.rungs, c.strategy, got.Agent, got.RetryCount, got.ResumeCount, got.Reason)
		}
		w.checkRoute()
		w.next()
		w.checkAll()
	}
}

// TestRouteClimbsLadder has a task crash again and again under the rules that are
// built in: it goes on from its checkpoint twice, then from the beginning while
// there are retries, and then waits for an operator; a release begins anew.
// Another type of task, and an interruption, climb ladders of their own.
func TestRouteClimbsLadder(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x", "y")
	ref := w.create("task", ofType("cook"))
	w.next()
	w.saved("x", ref)
	w.fails(ref)
	w.next()
	w.stands(ref, entry.TaskAssigned, 2, 0, 1)
	w.fails(ref)
	w.next()
	w.stands(ref, entry.TaskAssigned, 3, 0, 2)
	w.fails(ref)
	w.next()
	w.stands(ref, entry.TaskAssigned, 4, 1, 2)
	w.fails(ref)
	if claim, wake := w.routed(); claim != nil || wake != math.MaxInt64 {
		t.Fatalf("what is spent goes on: %+v, %d", claim, wake)
	}
	w.does("o", ref, entry.TaskRelease, "x")
	if view, _ := w.state.Task(ref); len(view.Failures) != 0 {
		t.Fatalf("somebody answers for them: %+v", view.Failures)
	}
	idle := w.create("idle", ofType("cook"), retries(0))
	w.next()
	for claims := range int64(8) { // crash.interrupted: fail_reassign×8
		w.at += 2 * minuteMS
		w.does("k", idle, entry.TaskInterrupt)
		w.next()
		w.stands(idle, entry.TaskAssigned, claims+2, 0, 0)
	}
	w.at += 2 * minuteMS
	w.does("k", idle, entry.TaskInterrupt)
	if claim, _ := w.routed(); claim != nil {
		t.Fatalf("the ninth interruption: %+v", claim)
	}
	w.checkAll()
}

// TestCheckpointsOfTasks resumes only from what is a checkpoint of the task, made
// by who held it, and neither expired nor void.
func TestCheckpointsOfTasks(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(w *world, ref entry.Ref)
		resume bool
	}{
		{"the holder's", func(w *world, ref entry.Ref) { w.saved("x", ref) }, true},
		{"another agent's", func(w *world, ref entry.Ref) { w.saved("y", ref) }, false},
		{"of another task", func(w *world, _ entry.Ref) { w.saved("x", "o#other") }, false},
		{"named otherwise", func(w *world, _ entry.Ref) { w.put(w.checkpoint("x", "task-", "")) }, false},
		{"of another workflow", func(w *world, ref entry.Ref) { w.saved("x", ref, func(c *entry.Checkpoint) { c.Wid = "w2" }) }, false},
		{"expired", func(w *world, ref entry.Ref) {
			w.saved("x", ref, func(c *entry.Checkpoint) { c.ExpiresAt = w.at + minuteMS })
		}, false},
		{"not expired", func(w *world, ref entry.Ref) {
			w.saved("x", ref, func(c *entry.Checkpoint) { c.ExpiresAt = w.at + hourMS })
		}, true},
		{"void", func(w *world, ref entry.Ref) {
			x := w.work("x", "step", ref, entry.EffectCompensable)
			w.put(x)
			w.put(w.step(x, entry.Started))
			w.put(w.step(x, entry.Confirmed))
			w.saved("x", ref)
			id := w.put(w.signal("x", entry.StandingExecutor, "x#step")).Index
			w.next()
			if w.incident(id).state == entry.IncidentEscalated {
				w.put(w.answer("p1", id, "approve"))
				w.next()
			}
			w.compensate(id, "x#step")
			w.next()
		}, false},
	} {
		w := newWorld(t)
		w.able("cook", "x", "y")
		ref := w.create("task", ofType("cook"))
		w.next()
		c.make(w, ref)
		w.fails(ref)
		claim, _ := w.routed()
		if claim == nil || (claim.ResumeCount == 1) != c.resume || (claim.RetryCount == 1) == c.resume {
			t.Errorf("%s: %+v", c.name, claim)
		}
		w.checkAll()
	}
}

// TestFailuresAreBounded keeps the newest failures of a task, at the limit and one
// past it.
func TestFailuresAreBounded(t *testing.T) {
	w := newWorld(t)
	ref := w.create("task")
	w.does("o", ref, entry.TaskReassign, "a")
	for n := range failuresMax + 1 {
		at := w.at
		w.at += 2 * minuteMS
		w.does("k", ref, entry.TaskInterrupt)
		view, _ := w.state.Task(ref)
		if len(view.Failures) != min(n+1, failuresMax) || view.Failures[len(view.Failures)-1] != (entry.TaskFailure{Class: "crash", Code: "interrupted", At: at + 2*minuteMS}) {
			t.Fatalf("%d interruptions: %d failures", n+1, len(view.Failures))
		}
		w.does("o", ref, entry.TaskReassign, "a")
	}
	w.checkAll()
}

// TestRulesThatDoNotCompile has those that are built in decide in their place, and
// rules are compiled once for each policy.
func TestRulesThatDoNotCompile(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x", "y")
	next := w.nextPolicy()
	next.Recovery = []byte(`{"rules":[]}`)
	w.put(next)
	ref := w.create("task", ofType("cook"))
	w.next()
	w.fails(ref)
	if claim, _ := w.routed(); claim == nil || claim.Agent != "y" || claim.Reason != "fail_reassign: ladder (crash[1])" {
		t.Errorf("claim %+v", claim)
	}
	var rules Rules
	if first := rules.Of(w.state); first != rules.Of(w.state) || first.Hash() != recovery.Default().Hash() {
		t.Error("compiled twice")
	}
	w.ruled(rule("", "strategy: quarantine"))
	if claim, _ := w.routed(); claim != nil {
		t.Errorf("the policy in force is another now: %+v", claim)
	}
}

// TestRouter gives tasks to whoever is able, holds the fewest, and did not fail
// just now; the first by name. People assign what has no type.
func TestRouter(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "z", "x", "y")
	monitor := w.enrol("root", "mm", entry.RoleMonitor)
	monitor.Capabilities = []string{"cook"}
	w.put(monitor)
	var refs []entry.Ref
	for _, id := range []string{"1", "2", "3", "4"} {
		refs = append(refs, w.create(id, ofType("cook")))
	}
	w.create("untyped")
	w.create("unable", ofType("fly"))
	w.next()
	holders := func() (list []entry.Principal) {
		for _, ref := range refs {
			_, task, _ := w.state.findTask(ref)
			list = append(list, task.Agent)
		}
		return list
	}
	if got := holders(); !slices.Equal(got, []entry.Principal{"x", "y", "z", "x"}) {
		t.Fatalf("held by %v", got)
	}
	w.fails(refs[0])
	w.next()
	if got := holders(); got[0] != "y" {
		t.Fatalf("held by %v", got)
	}
	w.does("y", refs[1], entry.TaskStart)
	w.does("y", refs[1], entry.TaskComplete)
	for _, p := range []entry.Principal{"x", "z"} {
		revoke := w.enrol("root", p, entry.RoleAgent)
		revoke.Op = entry.Revoke
		w.put(revoke)
	}
	w.fails(refs[0]) // spent
	w.fails(refs[2])
	w.next()
	if got := holders(); !slices.Equal(got, []entry.Principal{"y", "y", "y", "x"}) {
		t.Fatalf("held by %v", got)
	}
	w.fails(refs[2])
	if todo, _ := w.state.Route(w.at, &compiled); len(todo) != 0 {
		t.Fatalf("what is spent goes on: %v", todo)
	}
	w.checkAll()
}

// TestCandidates tells who may get a task that waits: whom the router would choose
// comes first, and who just failed is no candidate where the rules want another.
func TestCandidates(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x", "y", "z")
	w.create("other", ofType("wash"))
	w.next() // x holds one
	waits := func(ref entry.Ref, another bool, want ...api.Candidate) {
		t.Helper()
		view, _ := w.state.Task(ref)
		w.state.Consult(&view, w.at, &compiled)
		w.state.Candidates(&view)
		if !slices.Equal(view.Candidates, want) || (view.Recovery != nil && view.Recovery.Another) != another {
			t.Errorf("%s, which is %s: %v, recovery %+v", ref, view.State, view.Candidates, view.Recovery)
		}
	}
	ref, untyped := w.create("task", ofType("cook"), retries(2)), w.create("untyped")
	waits(ref, false, api.Candidate{Agent: "y"}, api.Candidate{Agent: "z"}, api.Candidate{Agent: "x", Held: 1})
	waits(untyped, false)
	w.does("o", ref, entry.TaskReassign, "y")
	waits(ref, false)
	w.fails(ref)
	waits(ref, true, api.Candidate{Agent: "z"}, api.Candidate{Agent: "x", Held: 1})
	if claim, _ := w.routed(); claim == nil || claim.Agent != "z" {
		t.Fatalf("the router chose %+v", claim)
	}
	w.next()
	w.fails(ref)
	w.ruled(rule("", "strategy: retry, max: 3, backoff: { base_ms: 1000, factor: 1, max_ms: 1000 }"))
	waits(ref, false, api.Candidate{Agent: "y"}, api.Candidate{Agent: "z"}, api.Candidate{Agent: "x", Held: 1})
	w.does("o", untyped, entry.TaskReassign, "z")
	w.fails(untyped)
	waits(untyped, true)
}

// TestCandidatesAreBounded tells candidatesMax of those who may get a task, and of
// one more it tells those that hold the fewest.
func TestCandidatesAreBounded(t *testing.T) {
	for _, more := range []int{0, 1} {
		w := newWorld(t)
		var able []entry.Principal
		for i := range candidatesMax + more {
			able = append(able, entry.Principal(fmt.Sprintf("a%02d", i)))
		}
		w.able("cook", able...)
		w.does("o", w.create("held", ofType("cook")), entry.TaskReassign, able[0])
		view, _ := w.state.Task(w.create("task", ofType("cook")))
		w.state.Candidates(&view)
		told := view.Candidates
		if len(told) != candidatesMax || told[0].Agent != able[1] || (told[candidatesMax-1].Agent == able[0]) != (more == 0) {
			t.Errorf("of %d: %v", len(able), told)
		}
	}
}

// TestInterruptedIsChosenLast takes tasks from agents that are asked to end: another
// goes on, though it holds more, and who was interrupted only if it is alone.
func TestInterruptedIsChosenLast(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x", "y")
	for _, id := range []string{"1", "2", "3"} {
		ref := w.create(id, ofType("cook"))
		w.does("o", ref, entry.TaskReassign, "y")
	}
	ref := w.create("task", ofType("cook"), retries(0))
	alone := w.create("alone", ofType("bake"))
	w.next()
	w.at += 2 * minuteMS
	w.does("k", ref, entry.TaskInterrupt)
	view, _ := w.state.Task(ref)
	w.state.Consult(&view, w.at, &compiled)
	w.state.Candidates(&view)
	if want := []api.Candidate{{Agent: "y", Held: 3}, {Agent: "x"}}; view.Recovery.Another || !slices.Equal(view.Candidates, want) {
		t.Errorf("%v, want %v; %+v", view.Candidates, want, view.Recovery)
	}
	if claim, _ := w.routed(); claim == nil || claim.Agent != "y" || claim.RetryCount != 0 {
		t.Errorf("the router chose %+v", claim)
	}
	w.able("bake", "z")
	w.next()
	w.at += 2 * minuteMS
	w.does("k", alone, entry.TaskInterrupt)
	if claim, _ := w.routed(); claim == nil || claim.Agent != "z" {
		t.Errorf("the router chose %+v", claim)
	}
	w.checkAll()
}

// TestNobody tells of tasks that wait for an agent that there is not: of a type that
// none can do, or that failed in the hands of the only one.
func TestNobody(t *testing.T) {
	w := newWorld(t)
	ref, untyped := w.create("task", ofType("cook"), retries(3)), w.create("untyped")
	nobody := func(ref entry.Ref, want bool) {
		t.Helper()
		view, _ := w.state.Task(ref)
		w.state.Consult(&view, w.at, &compiled)
		if view.Unassignable != want {
			t.Errorf("%s, which is %s: nobody %v, recovery %+v", ref, view.State, view.Unassignable, view.Recovery)
		}
	}
	nobody(ref, true)
	nobody(untyped, false) // it is for people, whoever there is
	w.able("cook", "x")
	nobody(ref, false)
	w.next()
	nobody(ref, false)
	w.fails(ref)
	nobody(ref, true)
	w.ruled(rule("", "strategy: retry, max: 3, backoff: { base_ms: 1000, factor: 1, max_ms: 1000 }"))
	nobody(ref, false) // in a while
	w.ruled(rule("", "strategy: fail_reassign"))
	w.able("cook", "y")
	nobody(ref, false)
}

// TestRouterKeepsWithinLoad gives one agent no more than it may hold.
func TestRouterKeepsWithinLoad(t *testing.T) {
	w := newWorld(t)
	w.able("cook", "x")
	for i := range agentTasksMax + 1 {
		w.create(strings.Repeat("t", i+1), ofType("cook"))
	}
	if written := w.next(); len(written) != agentTasksMax {
		t.Fatalf("%d tasks for one agent, want %d", len(written), agentTasksMax)
	}
	if written := w.next(); len(written) != 0 {
		t.Fatalf("%d tasks more", len(written))
	}
}
