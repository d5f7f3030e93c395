package coord

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
)

// candidateRules are the built-in rules with one more model, so that they differ.
func candidateRules() jsontext.Value {
	return jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":5`, 1))
}

// withRules puts the built-in rules into the policy.
func withRules(w *world) {
	p := w.nextPolicy()
	p.Recovery = recovery.Default().JSON()
	w.put(p)
}

func (w *world) rollout(iss entry.Principal, op entry.RolloutOp) *entry.Rollout {
	h := w.header(iss)
	h.Wid = "r1"
	return &entry.Rollout{Header: h, Rollout: "r1", Op: op, Reason: "because"}
}

func (w *world) startRollout() *entry.Rollout {
	r := w.rollout("o", entry.RolloutStart)
	r.Stage = entry.StageShadow
	r.Start = &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidateRules()), BaselineDigest: recovery.Default().Hash(), Candidate: candidateRules(),
		Salt: "s", Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: w.at + 1000*minuteMS}
	return r
}

func (w *world) canary(share int64) *entry.Rollout {
	r := w.rollout("o", entry.RolloutAdvance)
	r.Stage, r.SharePermille = entry.StageCanary, share
	return r
}

// promotion is the policy in force with the rules of the candidate.
func (w *world) promotion(report entry.Digest) *entry.Policy {
	p := w.nextPolicy()
	p.Recovery, p.Rollout = candidateRules(), &entry.Promotion{Rollout: "r1", Report: report}
	return p
}

// report registers a run that compares the candidate with the baseline.
func (w *world) report(id, recommendation string) entry.Digest {
	for _, op := range []string{"open", "close"} {
		r := w.run(id, op)
		r.PolicyDigest, r.BaselineDigest = rollout.DigestOf(candidateRules()), recovery.Default().Hash()
		if op == "close" {
			r.ReportDigest, r.Recommendation = someDigest(id), recommendation
		}
		w.put(r)
	}
	return someDigest(id)
}

// TestRolloutPromoted takes a rollout from shadow to the policy in force, restores the state before
// each entry, and audits the log.
func TestRolloutPromoted(t *testing.T) {
	w := rollsOut(t)
	w.put(w.canary(500))
	w.putArmed(2)
	w.refuse(w.sign(w.promotion(someDigest("r"))), entry.StateConflict, "rollout.report")
	rejected := w.report("bad", "reject")
	w.refuse(w.sign(w.promotion(rejected)), entry.StateConflict, "rollout.report")
	good := w.report("good", "promote")
	w.refuse(w.sign(w.promotion(rejected)), entry.StateConflict, "rollout.report")
	other := w.promotion(good)
	other.Recovery = recovery.Default().JSON()
	w.refuse(w.sign(other), entry.StateConflict, "recovery")
	w.state = restored(t, w.snapshot())
	w.put(w.promotion(good))
	if w.state.Rollouts().Current() != nil {
		t.Fatal("it goes on")
	}
	if past := w.state.Rollouts().History(); len(past) != 1 || past[0].Outcome != rollout.Promoted || past[0].Report != good {
		t.Errorf("%+v", past)
	}
	w.checkAll()
	auditRollouts(t, w)
}

// rollsOut returns a world with the shadow of a rollout whose canary has to decide two cases.
func rollsOut(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	withRules(w)
	start := w.startRollout()
	start.Start.CasesMin = 2
	w.put(start)
	return w
}

// putArmed registers n cases of the canary that recovered.
func (w *world) putArmed(n int) {
	for i := 0; n > 0; i++ {
		if id := "early-" + entry.IncidentValue(uint64(i)); w.state.Rollouts().Decides(id) {
			w.put(w.armed(id, entry.ArmCanary, entry.StatusRecovered))
			n--
		}
	}
}

// TestRolloutEvidence: a report alone does not promote a candidate that decided nothing, that
// decided too little, or whose gate has fallen. A quorum does.
func TestRolloutEvidence(t *testing.T) {
	w := rollsOut(t)
	good := w.report("good", "promote")
	lacks := func(text string) {
		t.Helper()
		w.refuse(w.sign(w.promotion(good)), entry.StateConflict, "rollout.rollout")
		want := []string{text, "a promotion without report and canary needs waivers of approvers, and has 0 of 1 (ROL-4)"}
		if missing := w.state.Rollouts().View(w.state.Size(), w.state.Law()).Current.Missing; !slices.Equal(missing, want) {
			t.Errorf("a promotion lacks %q, want %q", missing, want)
		}
	}
	lacks("r1 is a shadow, and its candidate has decided none of the 2 cases that its terms ask for (ROL-4)")
	w.put(w.canary(500))
	lacks("the canary of r1 has decided 0 cases, and its terms ask for 2 (ROL-4)")
	w.putArmed(1)
	lacks("the canary of r1 has decided 1 cases, and its terms ask for 2 (ROL-4)")
	w.putArmed(1) // the same case again
	lacks("the canary of r1 has decided 1 cases, and its terms ask for 2 (ROL-4)")
	w.putArmed(3)
	if missing := w.state.Rollouts().View(w.state.Size(), w.state.Law()).Current.Missing; len(missing) != 0 {
		t.Errorf("a promotion lacks %q", missing)
	}
	unsafe := w.armed("unsafe", entry.ArmCanary, entry.StatusRecovered)
	for i := 0; !w.state.Rollouts().Decides(unsafe.Case); i++ {
		unsafe.Case = "unsafe-" + entry.IncidentValue(uint64(i))
	}
	unsafe.Rungs = []entry.Rung{{Class: "access", Code: "denied", Rule: "r", Strategy: "retry", Result: "ok", Reason: "because"}}
	unsafe.Status = entry.StatusPassedOn
	w.put(unsafe)
	w.state = restored(t, w.snapshot())
	w.put(w.armed(unsafe.Case, entry.ArmCanary, entry.StatusRecovered)) // says nothing of the failure
	lacks("the gate unsafe of r1 has fallen in class access (ROL-4)")
	w.state = restored(t, w.snapshot())
	w.put(w.rollout("p1", entry.RolloutWaive))
	w.put(w.rollout("p2", entry.RolloutWaive))
	w.put(w.promotion(""))
	w.checkAll()
	auditRollouts(t, w)
}

// TestRolloutWaived promotes without a report, by as many approvers as the policy asks for.
func TestRolloutWaived(t *testing.T) {
	w := newWorld(t)
	withRules(w)
	p := w.nextPolicy()
	p.Quorum.Approve = 2
	w.put(p)
	w.put(w.startRollout())
	w.put(w.rollout("p1", entry.RolloutWaive))
	w.refuse(w.sign(w.promotion("")), entry.StateConflict, "rollout.report")
	if offered, lacks := w.state.Rollouts().Promotion("r1", w.state.Law()); offered != nil || len(lacks) != 3 || !strings.HasSuffix(lacks[2].Detail, "has 1 of 2 (ROL-4)") {
		t.Errorf("after one waiver of two %+v is offered, and it lacks %v", offered, lacks)
	}
	w.refuse(w.sign(w.rollout("p1", entry.RolloutWaive)), entry.StateConflict, "iss")
	w.put(w.rollout("p2", entry.RolloutWaive))
	if now := w.state.Rollouts().View(w.state.Size(), w.state.Law()).Current; len(now.Missing) > 0 {
		t.Errorf("after both waivers a promotion lacks %q", now.Missing)
	}
	w.put(w.promotion(""))
	w.checkAll()
	auditRollouts(t, w)
}

// TestRolloutDeadline: the coordinator aborts at the deadline and not before it, in one entry.
func TestRolloutDeadline(t *testing.T) {
	w := newWorld(t)
	withRules(w)
	start := w.startRollout()
	w.put(start)
	abort := w.rollout("k", entry.RolloutAbort)
	w.refuse(w.sign(abort), entry.StateConflict, "gate")
	abort.Gate = entry.GateDeadline
	w.refuse(w.sign(abort), entry.StateConflict, "gate")
	if todo, wake := w.state.Next(w.at); len(todo) != 0 || wake != start.Start.DeadlineAt {
		t.Fatalf("%v until %d", todo, wake)
	}
	w.at = start.Start.DeadlineAt
	todo, _ := w.state.Next(w.at)
	if len(todo) != 1 {
		t.Fatalf("%v", todo)
	}
	w.head("k", todo[0])
	w.put(todo[0])
	if todo, wake := w.state.Next(w.at); len(todo) != 0 || wake != math.MaxInt64 {
		t.Errorf("%v until %d", todo, wake)
	}
	if past := w.state.Rollouts().History(); len(past) != 1 || past[0].Gate != entry.GateDeadline {
		t.Errorf("%+v", past)
	}
	again := w.startRollout()
	w.refuse(w.sign(again), entry.StateConflict, "rollout")
	w.checkAll()
	auditRollouts(t, w)
}

// auditRollouts audits the log at one go and in two parts, and restores the state at every size.
func auditRollouts(t *testing.T, w *world) {
	t.Helper()
	if size, found := AuditLog(t, origin, w.log, len(w.log)-2); found != nil || size != w.state.Size() {
		t.Errorf("audit of %d: %+v", size, found)
	}
	resumed := NewState(origin)
	for _, e := range w.log {
		resumed = restored(t, snapshot(t, resumed))
		must(t, resumed.Admit(e.Entry, e.Index, e.RegisteredAt))
		resumed.Apply(e.Entry, e.Index, e.RegisteredAt)
	}
	if !bytes.Equal(snapshot(t, resumed), w.snapshot()) {
		t.Error("a state that was restored at each entry differs")
	}
}

// TestRolloutRefused gives what no rollout may do.
func TestRolloutRefused(t *testing.T) {
	terms := func(change func(r *entry.Rollout)) func(w *world) *entry.Entry {
		return func(w *world) *entry.Entry {
			withRules(w)
			r := w.startRollout()
			change(r)
			return w.sign(r)
		}
	}
	begun := func(next func(w *world) entry.Body) func(w *world) *entry.Entry {
		return func(w *world) *entry.Entry {
			withRules(w)
			w.put(w.startRollout())
			w.put(w.canary(50))
			return w.sign(next(w))
		}
	}
	looser := func(r *entry.Rollout) {
		r.Start.Candidate = jsontext.Value(strings.Replace(string(candidateRules()), `"cases_min":30`, `"cases_min":1`, 1))
		r.Start.CandidateDigest = rollout.DigestOf(r.Start.Candidate)
	}
	for _, r := range []refusal{
		{"ROL-2 built-in rules", func(w *world) *entry.Entry { return w.sign(w.startRollout()) }, entry.StateConflict, "start.baseline_digest"},
		{"ROL-2 another baseline", terms(func(r *entry.Rollout) { r.Start.BaselineDigest = someDigest("x") }), entry.StateConflict, "start.baseline_digest"},
		{"ROL-2 another candidate", terms(func(r *entry.Rollout) { r.Start.CandidateDigest = someDigest("x") }), entry.StateConflict, "start.candidate_digest"},
		{"ROL-2 no candidate", terms(func(r *entry.Rollout) {
			r.Start.Candidate, r.Start.CandidateDigest = recovery.Default().JSON(), r.Start.BaselineDigest
		}), entry.StateConflict, "start.candidate_digest"},
		{"ROL-2 over", terms(func(r *entry.Rollout) { r.Start.DeadlineAt = 1 }), entry.StateConflict, "start.deadline_at"},
		{"ROL-3 looser gates", terms(looser), entry.StateConflict, "start.candidate"},
		{"REG-4 begun by an approver", terms(func(r *entry.Rollout) { r.Iss = "p1" }), entry.UnauthorizedRole, "iss"},
		{"ROL-1 two", begun(func(w *world) entry.Body { return w.startRollout() }), entry.StateConflict, "rollout"},
		{"ROL-1 another", begun(func(w *world) entry.Body {
			r := w.canary(60)
			r.Rollout = "r2"
			return r
		}), entry.StateConflict, "rollout"},
		{"ROL-1 a smaller share", begun(func(w *world) entry.Body { return w.canary(50) }), entry.StateConflict, "share_permille"},
		{"ROL-1 a shadow again", begun(func(w *world) entry.Body {
			r := w.canary(0)
			r.Stage = entry.StageShadow
			return r
		}), entry.StateConflict, "stage"},
		{"ROL-4 other rules meanwhile", begun(func(w *world) entry.Body {
			p := w.nextPolicy()
			p.Recovery = candidateRules()
			return p
		}), entry.StateConflict, "recovery"},
		{"ROL-4 nobody waived", begun(func(w *world) entry.Body { return w.promotion("") }), entry.StateConflict, "rollout.report"},
		{"ROL-4 no rollout", func(w *world) *entry.Entry { return w.sign(w.promotion("")) }, entry.StateConflict, "rollout"},
		{"ROL-6 a gate that stands", begun(func(w *world) entry.Body {
			r := w.rollout("o", entry.RolloutAbort)
			r.Gate = entry.GateCost
			return r
		}), entry.StateConflict, "gate"},
	} {
		t.Run(r.rule, func(t *testing.T) {
			w := newWorld(t)
			w.refuse(r.make(w), r.problem, r.field)
		})
	}
}

// TestRolloutDecides: the arm of a case follows from salt and id, a greater share takes no case
// back, a shadow and an abort leave every case to the baseline.
func TestRolloutDecides(t *testing.T) {
	w := newWorld(t)
	withRules(w)
	w.put(w.startRollout())
	cases := make([]string, 2000)
	for i := range cases {
		cases[i] = "case-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + entry.IncidentValue(uint64(i))
	}
	count := func() (n int) {
		for _, id := range cases {
			if w.state.Rollouts().Decides(id) {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("a shadow decides %d", n)
	}
	w.put(w.canary(100))
	before := map[string]bool{}
	for _, id := range cases {
		before[id] = w.state.Rollouts().Decides(id)
	}
	if n := count(); n < 150 || n > 250 {
		t.Errorf("a canary of 100 ‰ decides %d of 2000", n)
	}
	w.put(w.canary(300))
	for _, id := range cases {
		if before[id] && !w.state.Rollouts().Decides(id) || w.state.Rollouts().Decides(id) != (rollout.Draw("s", id) < 300) {
			t.Errorf("%s left the canary", id)
		}
	}
	w.put(w.rollout("o", entry.RolloutAbort))
	if n := count(); n != 0 {
		t.Errorf("after an abort %d", n)
	}
}

// attempt by the engine about a case of an arm.
func (w *world) armed(id string, arm entry.Arm, status entry.CaseStatus) *entry.Attempt {
	a := &entry.Attempt{Header: w.header("r"), Agent: "a", Arm: arm, Policy: recovery.Default().Hash(),
		AttemptCase: entry.AttemptCase{Case: id, Rungs: []entry.Rung{}, Status: status}}
	if arm == entry.ArmCanary {
		a.Policy = rollout.DigestOf(candidateRules())
	}
	return a
}

// TestRolloutGateFalls: a canary that recovers less is aborted by the coordinator's first entry
// after the evidence; the state is restored and audited meanwhile.
func TestRolloutGateFalls(t *testing.T) {
	w := newWorld(t)
	withRules(w)
	w.put(w.startRollout())
	w.put(w.canary(500))
	canary, n := 0, 0
	for ; ; n++ {
		id := "case-" + entry.IncidentValue(uint64(n))
		arm, status := entry.ArmControl, entry.StatusRecovered
		if w.state.Rollouts().Decides(id) {
			arm, status = entry.ArmCanary, entry.StatusEscalated
			canary++
		}
		w.put(w.armed(id, arm, status))
		if todo, _ := w.state.Next(w.at); len(todo) > 0 {
			w.state = restored(t, w.snapshot())
			if again, _ := w.state.Next(w.at); len(again) != 1 || again[0].(*entry.Rollout).Gate != entry.GateRecovered {
				t.Fatalf("restored: %+v", again)
			}
			w.head("k", todo[0])
			w.put(todo[0])
			break
		}
		if n > 500 {
			t.Fatal("no gate falls")
		}
	}
	if past := w.state.Rollouts().History(); len(past) != 1 || past[0].Gate != entry.GateRecovered || canary < 30 {
		t.Errorf("%d of %d: %+v", canary, n, past)
	}
	w.put(w.armed("late", entry.ArmCanary, entry.StatusRecovered)) // under way when the rollout was aborted
	w.checkAll()
	auditRollouts(t, w)
}

// TestRolloutRules: the rules of a case are the candidate's in its canary, and else those in force.
func TestRolloutRules(t *testing.T) {
	w := newWorld(t)
	withRules(w)
	w.put(w.startRollout())
	if a := w.state.Rollouts().Of(compiled.Of(w.state), "case"); a.Beside == nil || a.Beside.Hash() != rollout.DigestOf(candidateRules()) ||
		a.Arm != entry.ArmControl || a.Rules.Hash() != recovery.Default().Hash() {
		t.Errorf("a shadow: %+v", a)
	}
	other, err := recovery.FromEntry(&entry.Policy{Recovery: jsontext.Value(strings.Replace(string(recovery.Default().JSON()), `"attempts":6`, `"attempts":4`, 1))})
	if err != nil {
		t.Fatal(err)
	}
	if a := w.state.Rollouts().Of(other, "case"); a.Beside != nil || a.Arm != "" || a.Rules != other {
		t.Errorf("rules that are not the baseline: %+v", a)
	}
	w.put(w.canary(500))
	arms := map[entry.Arm]int{}
	for i := range uint64(40) {
		id := entry.IncidentValue(i)
		a := w.state.Rollouts().Of(compiled.Of(w.state), id)
		arms[a.Arm]++
		if canary := a.Rules.Hash() == rollout.DigestOf(candidateRules()); canary != (a.Arm == entry.ArmCanary) || canary != w.state.Rollouts().Decides(id) || a.Beside != nil ||
			a.Other == nil || canary == (a.Other.Hash() == rollout.DigestOf(candidateRules())) {
			t.Errorf("%s: %+v", id, a)
		}
	}
	if arms[entry.ArmCanary] == 0 || arms[entry.ArmControl] == 0 {
		t.Errorf("%v", arms)
	}
}
