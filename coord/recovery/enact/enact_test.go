package enact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"recoveryledger/coord/recovery/enact"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// book is a log with one execution and its task, that may refuse.
type book struct {
	exec    *entry.Execution
	task    *entry.Task
	refuses error
	has     []entry.Body
}

func (b *book) Execution(_ context.Context, ref entry.Ref) (*entry.Execution, error) {
	if b.exec == nil || b.exec.Ref() != ref {
		return nil, nil
	}
	return b.exec, nil
}

func (b *book) Task(_ context.Context, ref entry.Ref) (*entry.Task, error) {
	if b.task == nil || b.task.Task != ref {
		return nil, nil
	}
	return b.task, nil
}

func (b *book) Register(_ context.Context, entries []*entry.Entry) error {
	for _, e := range entries {
		if b.refuses != nil {
			return b.refuses
		}
		b.has = append(b.has, e.Body)
	}
	return nil
}

// engine is an engine with roles at a log; it signs nothing.
func engine(log enact.Log, roles ...entry.Role) *enact.Engine {
	return &enact.Engine{Log: log, Origin: "example.com/log", Sign: func(*entry.Entry) error { return nil }, Roles: func() []entry.Role { return roles }}
}

// decided is a case of desk that ends with strategies, about a step of till.
func decided(tb testing.TB, strategies ...string) *entry.Attempt {
	tb.Helper()
	c, err := scenario.Decode([]byte(`{"v":1,"id":"order-7","agent":"desk","steps":[{"id":"charge","agent":"till","outcome":"failed",` +
		`"failure":{"class":"state","code":"corrupt","effects":"partial","replay_safety":"unsafe"}}]}`))
	if err != nil {
		tb.Fatal(err)
	}
	a := &entry.Attempt{Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "engine", Aud: "example.com/log", Iat: 1, Wid: "run/1"}, Agent: "desk",
		AttemptCase: entry.AttemptCase{Case: c.ID, Status: entry.StatusEscalated, TraceDigest: entry.DigestOf("trace"), Rungs: []entry.Rung{}}}
	if a.Facts, err = scenario.Facts(&c, 1<<16); err != nil {
		tb.Fatal(err)
	}
	for _, s := range strategies {
		a.Rungs = append(a.Rungs, entry.Rung{Attempt: 1, Step: "charge", Class: "state", Code: "corrupt", Rule: "state.corrupt", Strategy: s, Result: "decided", Reason: "ladder"})
	}
	return a
}

func full() *book {
	return &book{exec: &entry.Execution{Header: entry.Header{Iss: "till", Wid: "w"}, Exec: "charge", Task: "boss#order"},
		task: &entry.Task{Header: entry.Header{Wid: "w"}, Task: "boss#order", To: entry.TaskInProgress, Epoch: 3, RetryCount: 1, Agent: "till"}}
}

// TestEnacted: each decision is the entry that it stands for, about the step and its agent.
func TestEnacted(t *testing.T) {
	log := full()
	e := engine(log, entry.RoleEngine, entry.RoleMonitor, entry.RoleOperator)
	for _, s := range []string{"rollback", "quarantine", "abort"} {
		a := decided(t, s, "escalate")
		if done, why, err := e.Case(t.Context(), a, &a.AttemptCase); !done || why != "" || err != nil {
			t.Fatalf("%s: %t %q %v", s, done, why, err)
		}
	}
	rollback, _ := log.has[0].(*entry.Signal)
	if rollback.Subject != "till#charge" || rollback.Standing != entry.StandingMonitor || rollback.Effects != entry.EffectsPartial || rollback.ReplaySafety != entry.ReplayUnsafe ||
		len(rollback.Evidence) != 1 || rollback.Evidence[0].Digest != entry.DigestOf("trace") || rollback.Wid != "w" || rollback.Code != "corrupt" {
		t.Errorf("%+v", rollback)
	}
	quarantine, _ := log.has[1].(*entry.Signal)
	if quarantine.Subject != "till#charge" || len(quarantine.Evidence) != 0 || quarantine.JTI == rollback.JTI {
		t.Errorf("%+v", quarantine)
	}
	cancel, _ := log.has[2].(*entry.Task)
	if cancel.Task != "boss#order" || cancel.Op != entry.TaskCancel || cancel.From != entry.TaskInProgress || cancel.To != entry.TaskCancelled || cancel.Epoch != 3 || cancel.RetryCount != 1 {
		t.Errorf("%+v", cancel)
	}
}

// TestNotEnacted: what the log cannot have is said, and nothing is written. A ledger that cannot
// answer is an error.
func TestNotEnacted(t *testing.T) {
	refusal := entry.Refuse(entry.StateConflict, "subject", "till#charge was undone")
	gone := errors.New("no route to host")
	for _, c := range []struct {
		name, strategy string
		roles          []entry.Role
		change         func(*book, *entry.Attempt)
		why            string
		err            error
	}{
		{"no role", "rollback", []entry.Role{entry.RoleEngine}, nil, "lacks the role monitor", nil},
		{"no role", "abort", []entry.Role{entry.RoleMonitor}, nil, "lacks the role operator", nil},
		{"no step", "quarantine", []entry.Role{entry.RoleMonitor}, func(_ *book, a *entry.Attempt) { a.Rungs[0].Step = "" }, "names no step", nil},
		{"no execution", "quarantine", []entry.Role{entry.RoleMonitor}, func(b *book, _ *entry.Attempt) { b.exec = nil }, "no execution till#charge", nil},
		{"no task", "abort", []entry.Role{entry.RoleOperator}, func(b *book, _ *entry.Attempt) { b.exec.Task = "" }, "works at no task", nil},
		{"task over", "abort", []entry.Role{entry.RoleOperator}, func(b *book, _ *entry.Attempt) { b.task.To = entry.TaskCompleted }, "is COMPLETED", nil},
		{"refused", "rollback", []entry.Role{entry.RoleMonitor}, func(b *book, _ *entry.Attempt) { b.refuses = refusal }, "was undone", nil},
		{"away", "rollback", []entry.Role{entry.RoleMonitor}, func(b *book, _ *entry.Attempt) { b.refuses = gone }, "", gone},
	} {
		log, a := full(), decided(t, c.strategy, "escalate")
		if c.change != nil {
			c.change(log, a)
		}
		done, why, err := engine(log, c.roles...).Case(t.Context(), a, &a.AttemptCase)
		if done || !strings.Contains(why, c.why) || (why == "") != (c.err != nil) || !errors.Is(err, c.err) || len(log.has) > 0 {
			t.Errorf("%s, %s: %t %q %v, wrote %d", c.name, c.strategy, done, why, err, len(log.has))
		}
	}
}

// TestNothingToEnact: what recovered, what only waits for people, what was tried and failed, and
// what the candidate of a shadow decided stand for no entry. A decision from before is there.
func TestNothingToEnact(t *testing.T) {
	for name, change := range map[string]func(*entry.Attempt){
		"recovered": func(a *entry.Attempt) { a.Status = entry.StatusRecovered }, "shadow": func(a *entry.Attempt) { a.Arm = entry.ArmShadow },
		"escalation": func(a *entry.Attempt) { a.Rungs = a.Rungs[1:] }, "failed": func(a *entry.Attempt) { a.Rungs[0].Result = "failed" },
	} {
		log, a := full(), decided(t, "rollback", "escalate")
		change(a)
		if done, why, err := engine(log, entry.Roles()...).Case(t.Context(), a, &a.AttemptCase); done || why != "" || err != nil || len(log.has) > 0 {
			t.Errorf("%s: %t %q %v", name, done, why, err)
		}
	}
	log, a := full(), decided(t, "abort", "rollback", "escalate")
	log.task.To, log.refuses = entry.TaskCancelled, entry.Refuse(entry.IDConflict, "jti", "taken")
	if done, why, err := engine(log, entry.Roles()...).Case(t.Context(), a, &a.AttemptCase); !done || why != "" || err != nil {
		t.Errorf("the same again: %t %q %v", done, why, err)
	}
}

// TestHostileDecisions: whatever an attempt entry may say, what is registered has a good form.
func TestHostileDecisions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := full()
		a := decided(t, "rollback", "quarantine", "abort")
		name, word := rapid.StringMatching(`[A-Za-z0-9._:/@-]{1,128}`), rapid.StringMatching(`[a-z0-9_.-]{1,64}`)
		a.Case = name.Draw(r, "case")
		for i := range a.Rungs {
			a.Rungs[i].Class, a.Rungs[i].Code, a.Rungs[i].Rule = word.Draw(r, "class"), word.Draw(r, "code"), word.Draw(r, "rule")
			a.Rungs[i].Reason = rapid.SampledFrom([]string{"", "ladder", strings.Repeat("é", 512), "\x1b[2J\u202e", strings.Repeat("r", 1024)}).Draw(r, "reason")
		}
		if _, err := entry.New(a); err != nil {
			r.Fatal(err)
		}
		if _, _, err := engine(log, entry.Roles()...).Case(t.Context(), a, &a.AttemptCase); err != nil || len(log.has) != 3 {
			r.Fatal(fmt.Sprint(err, len(log.has)))
		}
	})
}
