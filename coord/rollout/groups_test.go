package rollout

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/codec"
	"recoveryledger/coord/recovery/judge"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// mix is classes of cases with their weights, and how many in a thousand each arm recovers. Every
// tenth case is of the slice adversarial. A case of the class dear costs the candidate 40 % more.
type mix []struct {
	class           string
	weight          int64
	canary, control int64
}

var sliced = jsontext.Value(`{"thresholds":{"slices":["adversarial"],"never_auto_recover":["security"]}}`)

func (m mix) draw(r *rand.Rand, canary bool) *entry.AttemptCase {
	all := int64(0)
	for _, of := range m {
		all += of.weight
	}
	at := r.Int64N(all)
	i := 0
	for ; at >= m[i].weight; i++ {
		at -= m[i].weight
	}
	c := &entry.AttemptCase{Case: "c", Status: entry.StatusEscalated, Rungs: []entry.Rung{{Class: m[i].class, Code: "x"}}, Facts: jsontext.Value(`{"tags":["other"]}`)}
	if r.Int64N(10) == 0 {
		c.Facts = jsontext.Value(`{"tags":["adversarial"]}`)
	}
	recovers := m[i].control
	if canary {
		recovers = m[i].canary
	}
	if r.Int64N(1000) < recovers {
		c.Status = entry.StatusRecovered
	}
	cost, elapsed := 2500+r.Int64N(5000), 450+r.Int64N(900)
	if canary && m[i].class == "dear" {
		cost += cost * 2 / 5
	}
	c.CostMicroUSD, c.ElapsedMS = &cost, &elapsed
	return c
}

// simulateMix runs rollouts of so many cases of each arm. It returns where the gates fell, and in
// how many rollouts the candidate is better by a gate or in a group and no gate fell.
func simulateMix(rollouts, pairs int, m mix) (fell map[string]int, better int) {
	r := rand.New(rand.NewPCG(7, 11))
	fell = map[string]int{}
	for range rollouts {
		one := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: 30, Candidate: sliced}}
		one.Evidence = newEvidence(&one.Terms)
		e := &one.Evidence
		for n := 0; n < pairs && e.Fell == ""; n++ {
			one.take(m.draw(r, false), begun{}, false)
			one.take(m.draw(r, true), begun{}, true)
		}
		wins := 0
		for i := range e.Gates {
			if e.Gates[i].Watch.Answer == judge.Candidate {
				wins++
			}
		}
		for i := range e.Groups {
			if e.Groups[i].Watch.Answer == judge.Candidate {
				wins++
			}
		}
		switch {
		case e.Fell != "":
			fell[fmt.Sprint(e.Fell, " ", e.FellIn)]++
		case wins > 0:
			better++
		}
	}
	return fell, better
}

func count(fell map[string]int) (n int) {
	for _, of := range fell {
		n += of
	}
	return n
}

// TestAlikeClassesChaos: of rollouts of a policy against itself, with all gates watched over all
// cases, in six classes and in a slice, at most 5 % are aborted, and in at most 5 % the candidate
// looks better.
func TestAlikeClassesChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 100, Usual: 300, Chaos: 10_000}.Now()
	for _, m := range []mix{
		{{"output", 1, 500, 500}, {"tool", 1, 500, 500}, {"model", 1, 500, 500}, {"crash", 1, 500, 500}, {"state", 1, 500, 500}, {"timeout", 1, 500, 500}},
		{{"output", 20, 950, 950}, {"tool", 10, 750, 750}, {"model", 5, 500, 500}, {"crash", 3, 900, 900}, {"state", 2, 100, 100}, {"timeout", 1, 300, 300}},
	} {
		fell, better := simulateMix(rollouts, 600, m)
		t.Logf("of %d rollouts %d are aborted, and in %d the candidate looks better: %v", rollouts, count(fell), better, fell)
		if 20*count(fell) > rollouts || 20*better > rollouts {
			t.Errorf("%v and %d of %d", fell, better, rollouts)
		}
	}
}

// TestPowerInClassesChaos: a candidate that is better over all cases, and worse in one class, is
// aborted as often as docs/rollout.md states, for that class.
func TestPowerInClassesChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 50, Usual: 100, Chaos: 2000}.Now()
	for _, test := range []struct {
		name  string
		tool  int64 // of a thousand cases, the candidate recovers so many in the class
		pairs int   // of cases of all classes
	}{
		{"75 % and 25 % of a fifth of the cases", 250, 600},
		{"75 % and 45 % of a fifth of the cases", 450, 1500},
		{"75 % and 55 % of a fifth of the cases", 550, 3000},
	} {
		fell, _ := simulateMix(rollouts, test.pairs, mix{{"output", 40, 850, 750}, {"model", 40, 850, 750}, {"tool", 20, test.tool, 750}})
		t.Logf("%s: of %d rollouts within %d pairs: %v", test.name, rollouts, test.pairs, fell)
		if 100*fell["recovered class tool"] < 90*rollouts {
			t.Errorf("%s: %v of %d", test.name, fell, rollouts)
		}
	}
}

// TestPowerOfCostInClassesChaos: a candidate whose cases of one class cost more is aborted for it.
func TestPowerOfCostInClassesChaos(t *testing.T) {
	rollouts := budget.Budget{Short: 20, Usual: 40, Chaos: 2000}.Now()
	fell, _ := simulateMix(rollouts, 1000, mix{{"output", 40, 750, 750}, {"model", 40, 750, 750}, {"dear", 20, 750, 750}})
	t.Logf("of %d rollouts within 1000 pairs: %v", rollouts, fell)
	if 100*fell["cost class dear"] < 90*rollouts {
		t.Errorf("%v of %d", fell, rollouts)
	}
}

// TestGroups: slices come before classes, each group has its share of the error budget, a case
// counts in its class and in its slice, and a snapshot and a copy keep all of it.
func TestGroups(t *testing.T) {
	one := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: 1, Candidate: sliced}}
	one.Evidence = newEvidence(&one.Terms)
	e := &one.Evidence
	of := func(class, facts string, status entry.CaseStatus) *entry.AttemptCase {
		return &entry.AttemptCase{Case: "c", Status: status, Rungs: []entry.Rung{{Class: class, Code: "x"}}, Facts: jsontext.Value(facts)}
	}
	one.take(of("tool", `{"tags":["adversarial","adversarial"]}`, entry.StatusEscalated), begun{}, true)
	one.take(of("output", `{}`, entry.StatusEscalated), begun{}, true)
	before := e.clone()
	one.take(of("tool", `{"tags":7}`, entry.StatusRecovered), begun{}, false)
	one.take(&entry.AttemptCase{Case: "c", Status: entry.StatusRecovered}, begun{}, false) // of no class
	var got []string
	share := 0.0
	for i := range e.Groups {
		g := &e.Groups[i]
		got = append(got, fmt.Sprintf("%s %d/%d %d/%d pairs %d", g, g.Canary.Recovered, g.Canary.Cases, g.Control.Recovered, g.Control.Cases, g.Watch.Pairs))
		share += 1/float64(g.Watch.Tests) + 1/float64(g.Cost.Tests)
	}
	if want := []string{"slice adversarial 0/1 0/0 pairs 0", "class tool 0/1 1/1 pairs 1", "class output 0/1 0/0 pairs 0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if share >= 0.5 || e.Gates[0].Watch.Tests != 8 {
		t.Errorf("the groups have %f of the budget, a gate 1/%d", share, e.Gates[0].Watch.Tests)
	}
	if before.Groups[1].Watch.Pairs != 0 || len(before.Groups[1].pairing.waiting) != 1 {
		t.Errorf("the copy changed: %+v", before.Groups[1])
	}
	var out bytes.Buffer
	c := codec.NewWriter(&out)
	for i := range e.Groups {
		e.Groups[i].snapshot(c)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r := codec.NewReader(&out, io.ErrUnexpectedEOF)
	for i := range e.Groups {
		var g Group
		if g.snapshot(r); !reflect.DeepEqual(fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", e.Groups[i])) {
			t.Errorf("%+v, want %+v", g, e.Groups[i])
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestGroupsAreBounded: classes beyond the bound are compared with all others alone.
func TestGroupsAreBounded(t *testing.T) {
	one := Rollout{Terms: entry.RolloutTerms{Gates: entry.RolloutGates(), CasesMin: 1, Candidate: sliced}}
	one.Evidence = newEvidence(&one.Terms)
	for i := range 2 * groupsMax {
		one.take(&entry.AttemptCase{Case: "c", Status: entry.StatusRecovered, Rungs: []entry.Rung{{Class: fmt.Sprint("class", i)}}}, begun{}, i%2 == 0)
	}
	if len(one.Evidence.Groups) != groupsMax || one.Evidence.Canary.Cases != groupsMax {
		t.Errorf("%d groups, %d cases", len(one.Evidence.Groups), one.Evidence.Canary.Cases)
	}
	without := Rollout{Terms: entry.RolloutTerms{Gates: []entry.Gate{entry.GateLatency}, CasesMin: 1, Candidate: sliced}}
	without.Evidence = newEvidence(&without.Terms)
	without.take(&entry.AttemptCase{Case: "c", Status: entry.StatusRecovered, Rungs: []entry.Rung{{Class: "tool"}}}, begun{}, true)
	if len(without.Evidence.Groups) != 0 || without.Evidence.Gates[0].Watch.Tests != 1 {
		t.Errorf("without the gate: %+v", without.Evidence)
	}
}
