package question_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/question"
	"recoveryledger/ledger/entry"
)

// attempt is the entry of an engine about a case of desk that ends with some actions.
func attempt(actions ...string) *entry.Attempt {
	a := &entry.Attempt{Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "engine", Aud: "example.com/log", Iat: 1, Wid: "run/1"}, Agent: "desk",
		AttemptCase: entry.AttemptCase{Case: "order-7", Status: entry.StatusEscalated, Rungs: []entry.Rung{}}}
	for _, action := range actions {
		strategy, result, _ := strings.Cut(action, "=")
		a.Rungs = append(a.Rungs, entry.Rung{Attempt: 1, Step: "charge", Class: "safety", Code: "violation", Rule: "safety.violation", Strategy: strategy,
			Result: result, Reason: "ladder"})
	}
	return a
}

// of returns the question about the case, as a ledger takes it.
func of(tb testing.TB, a *entry.Attempt) *entry.Task {
	tb.Helper()
	q := question.Of(a, &a.AttemptCase, recovery.Default(), "")
	if q == nil {
		return nil
	}
	q.JTI, q.Iat = uuid.NewString(), 1
	if _, err := entry.New(q); err != nil {
		tb.Fatal(err)
	}
	return q
}

// TestQuestion: a case that escalated asks, and says what is to be done. The same case is the same
// question; another failure, step or agent is another one.
func TestQuestion(t *testing.T) {
	a := attempt("retry=failed", "quarantine=decided", "escalate=decided")
	q := of(t, a)
	if want := "quarantine, escalate: ladder (safety.violation): stop the agent: the runbook agent-harm; case order-7 of desk, step charge: safety.violation"; q.Reason != want {
		t.Errorf("asked\n%s, want\n%s", q.Reason, want)
	}
	if got := fmt.Sprint(*q.About); got != fmt.Sprint(entry.TaskCase{Case: "order-7", Attempt: a.JTI, Agent: "desk", Decided: []string{"quarantine", "escalate"}}) ||
		q.Type != "" || q.Wid != question.Workflow || !strings.HasPrefix(string(q.Task), "engine#order-7-") {
		t.Errorf("%+v about %s", q, got)
	}
	again := attempt("escalate=decided")
	again.Run, again.Policy = "other", recovery.Default().Hash()
	if other := of(t, again); other.Task != q.Task {
		t.Errorf("the same case is %s and %s", q.Task, other.Task)
	}
	for name, change := range map[string]func(*entry.Attempt){
		"step": func(a *entry.Attempt) { a.Rungs[0].Step = "mail" }, "code": func(a *entry.Attempt) { a.Rungs[0].Code = "injection" },
		"agent": func(a *entry.Attempt) { a.Agent = "till" }, "case": func(a *entry.Attempt) { a.Case = "order-8" },
	} {
		a := attempt("escalate=decided")
		change(a)
		if of(t, a).Task == q.Task {
			t.Errorf("another %s is the same question", name)
		}
	}
}

// TestNobodyIsAsked about what did not escalate, or what nobody did.
func TestNobodyIsAsked(t *testing.T) {
	for _, status := range []entry.CaseStatus{entry.StatusRecovered, entry.StatusPassedOn, entry.StatusNoFailure} {
		a := attempt("escalate=decided")
		if a.Status = status; of(t, a) != nil {
			t.Errorf("asked about a case that is %s", status)
		}
	}
	a := attempt("escalate=decided")
	if a.Arm = entry.ArmShadow; of(t, a) != nil {
		t.Error("asked about what the candidate of a shadow decided")
	}
}

// TestHostileCases: whatever an attempt entry may say, the question is an entry of a good form.
func TestHostileCases(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := attempt()
		name := rapid.StringMatching(`[A-Za-z0-9._:/@-]{1,128}`)
		a.Case, a.Agent = name.Draw(r, "case"), entry.Principal(name.Draw(r, "agent"))
		for range rapid.IntRange(0, 5).Draw(r, "rungs") {
			word := rapid.StringMatching(`[a-z0-9_.-]{1,64}`)
			a.Rungs = append(a.Rungs, entry.Rung{Step: name.Draw(r, "step"), Class: word.Draw(r, "class"), Code: word.Draw(r, "code"), Rule: word.Draw(r, "rule"),
				Strategy: word.Draw(r, "strategy"), Result: rapid.SampledFrom([]string{"decided", "failed"}).Draw(r, "result"),
				Reason: rapid.SampledFrom([]string{"", "ladder", strings.Repeat("é", 512), "\x1b[2J\u202e", strings.Repeat("r", 1024)}).Draw(r, "reason")})
		}
		if _, err := entry.New(a); err != nil {
			r.Fatal(err)
		}
		of(t, a)
	})
}
