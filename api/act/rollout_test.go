package act_test

import (
	"errors"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/api/act"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/foldlog"
)

// TestARollout begins a rollout against the rules in force, and promotes it once a quorum has
// waived its report: the ledger takes both drafts. Without rules in force no rollout begins. A
// promotion that the ledger would not take is refused with everything that is against it.
func TestARollout(t *testing.T) {
	l := foldlog.New(t)
	l.Enrol("q", entry.RoleApprover)
	candidate, err := recovery.Load("candidate", []byte(strings.Replace(string(recovery.DefaultDocument()), "attempts: 6", "attempts: 5", 1)))
	if err != nil || candidate.Hash() == recovery.Default().Hash() {
		t.Fatal("no other rules", err)
	}
	start := &entry.Rollout{Rollout: "r", Reason: "test", Stage: entry.StageShadow,
		Start: &entry.RolloutTerms{Salt: "s", Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: l.At + hour}}
	inForce, _ := l.State.Chain().Policy()
	if err, ok := errors.AsType[*act.Obstacle](act.StartRollout(start, candidate, inForce)); !ok || !strings.Contains(err.Error(), "no rules of recovery") {
		t.Fatalf("without rules: %v", err)
	}
	next := policyAfter(l)
	next.Recovery = recovery.Default().JSON()
	l.Put("root", &next)
	inForce, _ = l.State.Chain().Policy()
	if err := act.StartRollout(start, candidate, inForce); err != nil {
		t.Fatal(err)
	}
	l.Put("o", start)

	if _, err := act.PromoteRollout(l.State, "other"); err == nil {
		t.Error("another rollout is promoted")
	}
	if _, err := act.PromoteRollout(l.State, "r"); err == nil || !strings.Contains(err.Error(), "the ledger takes no promotion of r: ") || !strings.Contains(err.Error(), "; ") {
		t.Errorf("without report and cases: %v", err)
	}
	for _, approver := range []entry.Principal{"p", "q"} {
		l.Put(approver, &entry.Rollout{Rollout: "r", Reason: "test", Op: entry.RolloutWaive})
	}
	early, err := act.PromoteRollout(l.State, "r")
	if err != nil {
		t.Fatal(err)
	}
	next = policyAfter(l)
	next.Windows.DecideMS++
	l.Put("root", &next)
	if refusal, ok := errors.AsType[*entry.Refusal](l.State.Admit(l.Sign("root", early), l.State.Size(), l.At)); !ok || refusal.Problem != entry.PolicySuperseded {
		t.Errorf("a promotion that was drafted before another policy came: %v", refusal)
	}
	promoted, err := act.PromoteRollout(l.State, "r")
	if err != nil {
		t.Fatal(err)
	}
	l.Put("root", promoted)
	if past := l.State.Rollouts().History(); len(past) != 1 || past[0].Outcome != rollout.Promoted || l.State.Rollouts().Current() != nil {
		t.Errorf("%+v", past)
	}
	if inForce, _ = l.State.Chain().Policy(); rollout.DigestOf(inForce.Recovery) != candidate.Hash() {
		t.Error("other rules are in force")
	}
}

// policyAfter returns the policy in force as its own successor.
func policyAfter(l *foldlog.Log) entry.Policy {
	inForce, previous := l.State.Chain().Policy()
	next := *inForce
	next.Previous = &previous
	return next
}

// TestCreateTask creates tasks, with a workflow of their own or with a named one.
func TestCreateTask(t *testing.T) {
	l := foldlog.New(t)
	for named, want := range map[entry.WorkflowID]entry.WorkflowID{"": "report-7", "flow": "flow"} {
		b := &entry.Task{Header: entry.Header{Wid: named}, Reason: "test"}
		act.CreateTask(b, "o", "report-7")
		if b.Wid != want {
			t.Errorf("workflow %q, want %q", b.Wid, want)
		}
		if named == "" {
			l.Put("o", b)
		}
	}
	if v, ok := l.State.Task("o#report-7"); !ok || v.State != entry.TaskCreated {
		t.Errorf("%+v", v)
	}
}

// TestGive gives a task to an agent by the operation that the task needs.
func TestGive(t *testing.T) {
	to := &api.Reassignment{Agent: "b"}
	for _, c := range []struct {
		of   api.Task
		want string
	}{
		{api.Task{State: entry.TaskCreated, GivenBy: entry.TaskReassign, Reassign: to}, entry.TaskReassign},
		{api.Task{State: entry.TaskFailed, GivenBy: entry.TaskReassign, Reassign: to}, entry.TaskReassign},
		{api.Task{State: entry.TaskFailed, GivenBy: entry.TaskRelease, Reassign: to}, entry.TaskRelease},
		{api.Task{State: entry.TaskBlocked, GivenBy: entry.TaskRelease}, entry.TaskRelease},
	} {
		b, err := act.Move(&c.of, &act.Order{Verb: act.Give, Agent: "c", Reason: "test"})
		if err != nil || b.Op != c.want || b.Agent != "c" {
			t.Errorf("%+v: %+v, %v; want %s", c.of, b, err, c.want)
		}
	}
	for _, state := range []entry.TaskState{entry.TaskInProgress, entry.TaskCompleted} {
		if _, err := act.Move(&api.Task{Task: "o#t", State: state}, &act.Order{Verb: act.Give, Agent: "c"}); err == nil || !strings.Contains(err.Error(), "cannot be reassigned") {
			t.Errorf("%s: %v", state, err)
		}
	}
}
