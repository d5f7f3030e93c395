package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// faults makes attempts that end as a seed says. The end depends on case, step, way and how often
// that way was tried, and so on nothing that a policy has a say in.
type faults struct{ seed int64 }

func (f faults) draw(q scenario.Request, what string, n uint64) uint64 {
	times := 0
	for _, w := range q.Past {
		if w == q.Variation {
			times++
		}
	}
	purpose := what + "|" + q.Step.ID + "|" + q.Variation.Strategy + "|" + q.Variation.Variant + "|" + q.Variation.Model
	return recovery.Draw(f.seed, purpose, q.Case.ID, int64(times), 0) % n
}

// Attempt implements [engine.Runtime].
func (f faults) Attempt(_ context.Context, q scenario.Request) (scenario.Attempt, error) {
	cost, latency := int64(f.draw(q, "cost", 900)), int64(10+f.draw(q, "latency", 90))
	a := scenario.Attempt{Variation: q.Variation, Outcome: scenario.OK, Verified: true, CostMicroUSD: &cost, LatencyMS: &latency}
	if q.Variation.Strategy == string(recovery.Reconcile) {
		a.Effects = []entry.Effects{entry.EffectsNone, entry.EffectsComplete, entry.EffectsUnknown}[f.draw(q, "effects", 3)]
		return a, nil
	}
	if f.draw(q, "fails", 100) < 45 {
		labels := []scenario.Label{{Class: "transient", Code: "timeout"}, {Class: "transient", Code: "unavailable"}, {Class: "capacity", Code: "rate_limited"},
			{Class: "output", Code: "malformed"}, {Class: "output", Code: "refused"}, {Class: "crash", Code: "panic"}}
		failure := &scenario.Failure{Label: labels[f.draw(q, "class", uint64(len(labels)))], Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown}
		if f.draw(q, "left", 2) == 0 {
			failure.Effects, failure.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
		}
		a.Outcome, a.Verified, a.Failure = scenario.Failed, false, failure
	}
	return a, nil
}

// strewn are cases without any attempts yet.
func strewn(n int) []scenario.Case {
	effects := []entry.Effect{entry.EffectNone, entry.EffectNone, entry.EffectCompensable, entry.EffectReversible}
	var all []scenario.Case
	for i := range n {
		agent := entry.Principal("agent-" + strconv.Itoa(i%7))
		c := scenario.Case{ID: fmt.Sprintf("case-%d", i), Agent: agent, Intent: "work"}
		for s := range 1 + i%3 {
			c.Steps = append(c.Steps, scenario.Step{ID: fmt.Sprintf("step-%d", s), Agent: agent, Effect: effects[(i+s)%len(effects)], Idempotent: (i+s)%3 == 0, Tool: "tool"})
		}
		all = append(all, c)
	}
	return all
}

// really runs cases under a policy with faults.
func really(tb testing.TB, p *recovery.Policy, f faults, cases []scenario.Case) []engine.Recovery {
	tb.Helper()
	config := engine.Config{Policy: p, Runtime: f}
	var all []engine.Recovery
	for i := range cases {
		r, err := config.Recover(context.Background(), &cases[i])
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// logged puts recoveries into a log, several cases to an entry, and reads the log back as cases.
func logged(tb testing.TB, policy entry.Digest, all []engine.Recovery) []scenario.Case {
	tb.Helper()
	l := newTestLog(tb)
	l.enrolEngine("engine")
	open := map[entry.Principal]*entry.Joint{}
	settle := func(j *entry.Joint) {
		j.Header = entry.Header{V: 1, JTI: testJTI(j.Case), Iss: "engine", Aud: testOrigin, Iat: testNow, Wid: "w"}
		l.register(j.Attempt)
	}
	for i := range all {
		line, err := all[i].Trace.Encode()
		if err != nil {
			tb.Fatal(err)
		}
		a, err := engine.AttemptOf("", policy, &all[i], line)
		if err != nil {
			tb.Fatal(err)
		}
		if j := open[a.Agent]; j != nil {
			if j.Join(a) {
				continue
			}
			settle(j)
		}
		open[a.Agent] = &entry.Joint{Attempt: a}
	}
	for _, agent := range slices.Sorted(maps.Keys(open)) {
		settle(open[agent])
	}
	if int(l.size) > len(all)/4 {
		tb.Errorf("%d entries of %d cases", l.size, len(all))
	}
	var past []scenario.Case
	for c, err := range FromLog("log", leavesOf(l.leaves), 0) {
		if err != nil {
			tb.Fatal(err)
		}
		line, err := scenario.Encode(c) // as arl scenario import writes it, and arl recover reads it
		if err != nil {
			tb.Fatal(err)
		}
		if c, err = scenario.Decode(line); err != nil {
			tb.Fatal(err)
		}
		past = append(past, c)
	}
	return past
}

// policies are variations of the default policy.
func policies(tb testing.TB) []*recovery.Policy {
	tb.Helper()
	all := []*recovery.Policy{recovery.Default()}
	for _, change := range [][2]string{{"attempts: 6", "attempts: 2"}, {"attempts: 6", "attempts: 3"}, {"strategy: fallback_model, enabled: false", "strategy: fallback_model, enabled: true"},
		{"strategy: retry, max: 3", "strategy: retry, max: 1"}} {
		text := strings.Replace(string(recovery.DefaultDocument()), change[0], change[1], 1)
		if text == string(recovery.DefaultDocument()) {
			continue
		}
		p, err := recovery.Load("policy.yaml", []byte(text))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 3 {
		tb.Fatalf("%d policies: the default policy changed", len(all))
	}
	return all
}

// TestRehearseChaos makes a log by recoveries under a policy A. To rehearse A on the log gives what was
// recorded. To rehearse B gives bounds that contain what B does to the same faults for real.
func TestRehearseChaos(t *testing.T) {
	cases, pairs := strewn(budget.Budget{Short: 60, Usual: 150, Chaos: 1000}.Now()), 0
	all := policies(t)
	for seed := range int64(budget.Budget{Short: 1, Usual: 2, Chaos: 5}.Now()) {
		for i, a := range all {
			f := faults{seed}
			truth := really(t, a, f, cases)
			past := logged(t, a.Hash(), truth)
			if len(past) != len(cases) {
				t.Fatalf("%d cases of %d in the log", len(past), len(cases))
			}
			recorded := map[string]*engine.Trace{}
			for k := range truth {
				recorded[truth[k].Trace.Case] = &truth[k].Trace
			}
			rehearsal := engine.Config{Policy: a}
			for k := range past {
				r, err := rehearsal.Recover(t.Context(), &past[k])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(recorded[past[k].ID], &r.Trace); diff != "" {
					t.Fatalf("seed %d policy %d: the rehearsal of %s differs from what was recorded\n%s", seed, i, past[k].ID, diff)
				}
			}
			for j, b := range all {
				if j != i {
					bounded(t, b, f, cases, past)
					pairs++
					if t.Failed() {
						t.Fatalf("seed %d, from policy %d to %d", seed, i, j)
					}
				}
			}
		}
	}
	t.Logf("%d pairs of policies, %d cases each", pairs, len(cases))
	if budget.Large() && pairs < 20 {
		t.Errorf("%d pairs", pairs)
	}
}

// bounded compares the bounds of a rehearsal with the truth.
func bounded(t *testing.T, b *recovery.Policy, f faults, cases, past []scenario.Case) {
	t.Helper()
	rehearsal, least, unknown, truth := engine.Config{Policy: b}, 0, 0, 0
	for k := range past {
		r, err := rehearsal.Recover(t.Context(), &past[k])
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Trace.Reason == string(recovery.ReasonNotObserved):
			unknown++
		case r.Trace.Status != engine.Escalated:
			least++
		}
	}
	for _, r := range really(t, b, f, cases) {
		if r.Trace.Status != engine.Escalated {
			truth++
		}
	}
	if truth < least || truth > least+unknown {
		t.Errorf("%d of %d cases end well, the rehearsal says %d to %d", truth, len(cases), least, least+unknown)
	}
}

// enrolEngine enrols a principal that may write of the work of others.
func (l *testLog) enrolEngine(p entry.Principal) {
	l.t.Helper()
	l.register(&entry.Agent{
		Header:    entry.Header{V: 1, JTI: testJTI(string(p)), Iss: "authority", Aud: testOrigin, Iat: testNow},
		Principal: p, Op: entry.Enrol, Key: l.signer(p).Public(), Roles: []entry.Role{entry.RoleEngine}, Domain: "test", Span: entry.SpanWorkflow,
	})
}
