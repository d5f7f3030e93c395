package importer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/faults"
)

// really runs cases under a policy with faults.
func really(tb testing.TB, p *recovery.Policy, f faults.Seeded, cases []scenario.Case) []engine.Recovery {
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
			tb.Fatalf("the default policy has no %q", change[0])
		}
		p, err := recovery.Load("policy.yaml", []byte(text))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestRehearseChaos makes a log by recoveries under a policy A. To rehearse A on the log gives what
// was recorded. To rehearse B gives bounds that contain what B does to the same faults for real.
func TestRehearseChaos(t *testing.T) {
	cases, pairs := faults.Cases(budget.Budget{Short: 60, Usual: 150, Chaos: 1000}.Now()), 0
	all := policies(t)
	for seed := range int64(budget.Budget{Short: 1, Usual: 2, Chaos: 5}.Now()) {
		for i, a := range all {
			f := faults.Seeded{Seed: seed}
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
	if pairs < 20 {
		t.Errorf("%d pairs", pairs)
	}
}

// bounded compares the bounds of a rehearsal with the truth.
func bounded(t *testing.T, b *recovery.Policy, f faults.Seeded, cases, past []scenario.Case) {
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
