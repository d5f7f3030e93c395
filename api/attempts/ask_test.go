package attempts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"recoveryledger/api"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/question"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// giveUp adds cases that escalate.
func giveUp(t *testing.T, b *Batch, ids ...string) {
	t.Helper()
	rules := recovery.Default()
	batch := engine.Batch{Config: engine.Config{Policy: rules}, Workers: 1}
	for _, id := range ids {
		done, err := batch.Line(t.Context(), []byte(`{"v":1,"id":"`+id+`","agent":"desk","steps":[{"id":"s","agent":"desk","effect":"none","outcome":"failed","failure":{"class":"access","code":"denied"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(t.Context(), done, rules.Hash()); err != nil {
			t.Fatal(err)
		}
	}
}

// asking returns a recorder that asks people, for a ledger that refuses what refuse says.
func asking(t *testing.T, refuse func(*entry.Task) entry.Problem) (r *Recorder, asked map[entry.Ref]*entry.Task) {
	t.Helper()
	asked = map[entry.Ref]*entry.Task{}
	r = recorder(t, func(all ...*entry.Entry) (*ledger.Answer, error) {
		a := &ledger.Answer{}
		for _, e := range all {
			if q, ok := e.Body.(*entry.Task); ok {
				if problem := refuse(q); problem != "" {
					a.Refused = entry.Refuse(problem, "task", "not taken")
					break
				}
				asked[q.Task] = q
			}
			a.Registered = append(a.Registered, ledger.Registration{})
		}
		return a, nil
	})
	r.Known = func(task entry.Ref) bool { return asked[task] != nil }
	r.Rules = func(entry.Digest) *recovery.Policy { return nil } // nobody knows the advice
	return r, asked
}

// TestQuestionsAreBounded: a request asks no more than people can answer, whatever escalates. The
// last question is about all cases beyond.
func TestQuestionsAreBounded(t *testing.T) {
	r, asked := asking(t, func(*entry.Task) entry.Problem { return "" })
	b, many := r.Begin(true, true), make([]string, question.Max+100)
	for i := range many {
		many[i] = fmt.Sprint("case-", i)
	}
	giveUp(t, b, many...)
	got, err := b.End(t.Context())
	if err != nil || got.Cases != question.Max+100 || got.Asked != question.Max || got.Unasked != 100 || len(asked) != question.Max+1 || got.Reason != "" {
		t.Errorf("%+v, %v; %d tasks", got, err, len(asked))
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(asked)), func(q *entry.Task) bool {
		return q.About.Case == "case-1000" && strings.HasPrefix(q.Reason, "100 cases escalated beyond the 1000")
	}) {
		t.Error("no question is about the cases beyond")
	}
}

// TestRefusedQuestions: a question that another request asked meanwhile is known. Any other refusal
// is told, and the cases stay recorded.
func TestRefusedQuestions(t *testing.T) {
	r, asked := asking(t, func(q *entry.Task) entry.Problem {
		switch q.About.Case {
		case "b":
			return entry.StateConflict
		case "d":
			return entry.RateLimited
		}
		return ""
	})
	b := r.Begin(true, true)
	giveUp(t, b, "a", "b", "c")
	ended(t, b, api.Recorded{Cases: 3, Entries: 1, Asked: 2})
	b = r.Begin(true, true)
	giveUp(t, b, "a", "d", "e")
	got, err := b.End(t.Context())
	if err != nil || got.Cases != 3 || got.Asked != 0 || got.Reason != api.Refused || got.Detail == "" || len(asked) != 2 {
		t.Errorf("%+v, %v; asked %v", got, err, asked)
	}
}
