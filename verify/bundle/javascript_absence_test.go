package bundle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/jsverify"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
	"recoveryledger/verify/bundle"
)

// TestJavaScriptAgreesOnAbsencesChaos has verify/js judge bundles with an index, before
// and behind which random entries stand, some of them left out: both verifiers must say
// the same.
func TestJavaScriptAgreesOnAbsencesChaos(t *testing.T) {
	count := budget.Budget{Short: 100, Usual: 100, Chaos: 20_000}.Now()
	random := rand.New(rand.NewPCG(budget.Seed(t), 0))
	second := jsverify.Start(t)
	rules := map[string]int{}
	for i := 0; i < count && !t.Failed(); i++ {
		c := randomWhole(t, random)
		c.name = fmt.Sprintf("bundle %d, %s", i, c.name)
		rules[agree(t, second, c)]++
		good := c.data
		for range 2 {
			c.data = randomChange(t, random, good)
			rules[agree(t, second, c)]++
		}
	}
	for rule := range strings.SplitSeq(",AGT-2 ABS-1,AGT-2 ABS-2,AGT-2 ABS-3,AGT-2 ABS-4", ",") {
		if rules[rule] == 0 {
			t.Errorf("nothing has the verdict %q", rule)
		}
	}
	t.Log(rules)
}

// randomWhole is an incident with an index behind it and random entries around that. The
// bundle shows them all, or but for one.
func randomWhole(t *testing.T, random *rand.Rand) madeCase {
	t.Helper()
	scenes := []func(testing.TB, func(*world)) (*world, *bundle.Bundle){automatic, approved, amended, restored, wholeLine, ranged, further}
	scene := random.IntN(len(scenes))
	w, b := scenes[scene](t, hook("policy", func(p *entry.Policy) {
		if random.IntN(2) == 0 {
			p.Index = &entry.IndexPolicy{Required: random.IntN(4) > 0}
		}
	}))
	said := []string{fmt.Sprintf("scene %d:", scene)}
	first := len(w.Leaves)
	show := append(indexesOf(b), w.at["monitor"], w.at["operator"], w.at["source"], w.at["writer"])
	around := func(count, of int) {
		for range count {
			from := len(w.Leaves)
			said = append(said, w.something(random, of))
			for index := from; index < len(w.Leaves); index++ {
				show = append(show, uint64(index))
			}
		}
	}
	around(random.IntN(3), 6+random.IntN(2)*8)
	x := w.Index(len(w.Leaves))
	said = append(said, "index")
	around(random.IntN(2), 14)
	by := "coordinator"
	if random.IntN(3) == 0 {
		by = "deputy"
		w.who[by] = testlog.NewKey(t, entry.Principal(by), by)
		show = append(show, w.put(by, "authority", w.Agent(w.who["authority"], entry.Enrol, w.who[by], entry.RoleCoordinator)))
	}
	show = append(show, w.put("index", by, x.Entry(w.Header(entry.Principal(by)))))
	around(random.IntN(4), 14)
	w.now = w.At + 1000
	a := w.knows(random, b)
	w.show(b, x)
	b.Indexed = x.Prove(w.asked(scene, by, random)...)
	if random.IntN(2) == 0 {
		most := len(w.Leaves)
		if covered := int(x.Size); covered > first && random.IntN(4) > 0 {
			most = covered
		}
		hidden := uint64(first + random.IntN(most-first))
		said = append(said, fmt.Sprintf("without %d", hidden))
		show = slices.DeleteFunc(show, func(index uint64) bool { return index == hidden })
	}
	if random.IntN(8) == 0 {
		said = append(said, "without index")
		b.Index, b.Indexed = 0, verify.Indexed{}
		show = slices.DeleteFunc(show, func(index uint64) bool { return index == w.at["index"] })
	}
	w.prove(b, show)
	data, err := json.Marshal(b)
	must(t, err)
	return madeCase{strings.Join(said, " "), data, a, w.now}
}

// asked are the subjects that the verdict on a scene rests on, and sometimes one more or less.
func (w *world) asked(scene int, by string, random *rand.Rand) []entry.Subject {
	agents := map[int][]string{1: {"anna", "bert", "source"}, 2: {"monitor", "source"}, 4: {"anna", "bert", "source"}, 5: {"monitor"}}[scene]
	if agents == nil {
		agents = []string{"source"}
	}
	agents = append(agents, "coordinator")
	if by != "coordinator" && random.IntN(4) > 0 {
		agents = append(agents, by)
	}
	if random.IntN(8) == 0 {
		agents = append(agents, "writer")
	}
	subjects := []entry.Subject{{Type: entry.SubjectIncident, Value: entry.IncidentValue(w.at["signal"])}, {Type: entry.SubjectLog}}
	for _, name := range agents {
		subjects = append(subjects, entry.Subject{Type: entry.SubjectAgent, Value: name})
	}
	return subjects
}

// knows is what the worker accepted before: the company, or the log up to a later head
// with all of its links.
func (w *world) knows(random *rand.Rand, b *bundle.Bundle) bundle.Accepted {
	w.TB.Helper()
	a := w.state()
	if random.IntN(3) > 0 {
		return a
	}
	size := accepted + random.IntN(len(w.Leaves)-accepted+1)
	a.Head, a.Links, b.From = w.Signed(size), nil, uint64(size)
	for i, leaf := range w.Leaves[:size] {
		e, _, err := entry.DecodeLeaf(leaf)
		must(w.TB, err)
		if e.Kind == entry.KindPolicy || e.Kind == entry.KindAgent {
			a.Links = append(a.Links, bundle.Leaf{Index: uint64(i), Bytes: leaf})
		}
	}
	return a
}

// something logs what may stand anywhere behind a decision, and says what. The first 6 of
// the 14 it chooses from are what a bundle has a place for.
func (w *world) something(random *rand.Rand, of int) string {
	w.TB.Helper()
	n := len(w.Leaves)
	name := fmt.Sprintf("something %d", n)
	kinds := []func() string{
		func() string { w.decided(random, name); return "decision" },
		func() string { w.recorded(name); return "record" },
		func() string { w.revoked(random, name); return "revocation" },
		func() string { w.revoked(random, name); return "revocation" },
		func() string { w.newPolicy(random, name); return "policy" },
		func() string { w.override(name, int64(random.IntN(2))); return "override" },
		func() string { w.done(fmt.Sprintf("writer#x%d", n), entry.EffectNone); return "execution" },
		func() string {
			w.exec("worker#later:"+name, entry.EffectReversible, entry.Started, "worker#draft")
			return "progress"
		},
		func() string {
			w.exec("worker#note:"+name, entry.EffectReversible, entry.Started)
			return "other effect"
		},
		func() string { w.monitored(name, "worker#memo"); return "signal" },
		func() string { w.checkpoint(fmt.Sprintf("worker#c%d", random.IntN(n)), nil); return "checkpoint" },
		func() string { w.outcome(name, "writer#page", entry.ResultIrrevocable); return "outcome of the writer" },
		func() string { w.outcome(name, "worker#memo", entry.Restored); return "outcome of the worker" },
		func() string { w.outcome(name, "source#other", entry.ResultIrrevocable); return "outcome of nothing" },
	}
	return kinds[random.IntN(of)]()
}

// decided logs another act of the coordinator, about this incident or another.
func (w *world) decided(random *rand.Rand, name string) {
	w.TB.Helper()
	d := w.decision("coordinator", []entry.Act{entry.ActContain, entry.ActEscalate, entry.ActAuthorize}[random.IntN(3)], int64(random.IntN(3)), "signal")
	if random.IntN(3) == 0 {
		d.Incident = uint64(random.IntN(len(w.Leaves)))
	}
	w.put(name, "coordinator", d)
}

func (w *world) recorded(name string) {
	w.TB.Helper()
	w.put(name, "coordinator", &entry.Record{Header: w.Work("coordinator"), Incident: w.at["signal"], State: "RECOVERED", Decision: w.refTo("decision"),
		Tally: map[entry.Result]int64{}, Unresolved: merkle.HeadOf(nil), Dispositions: []entry.Disposition{}})
}

// revoked takes a key back, and lets in another.
func (w *world) revoked(random *rand.Rand, name string) {
	w.TB.Helper()
	who, by, role := "source", "enroller", entry.RoleAgent
	switch random.IntN(4) {
	case 0:
		who, by, role = "coordinator", "authority", entry.RoleCoordinator
	case 1:
		who, by, role = "operator", "authority", entry.RoleOperator
	case 2:
		who = "writer"
	}
	a := w.Agent(w.who[by], entry.Revoke, w.who[who], role)
	if random.IntN(2) == 0 {
		a.CompromisedSince = &entry.Compromised{Index: uint64(random.IntN(len(w.Leaves)))}
	}
	w.put(name, by, a)
	w.who[who] = testlog.NewKey(w.TB, entry.Principal(who), name)
	w.put(name+" again", by, w.Agent(w.who[by], entry.Enrol, w.who[who], role))
}

// newPolicy logs the next policy, which may want proofs of what is left out.
func (w *world) newPolicy(random *rand.Rand, name string) {
	w.TB.Helper()
	p := w.policyOf("authority")
	previous := w.refTo("policy")
	p.Previous = &previous
	if random.IntN(2) == 0 {
		p.Index = &entry.IndexPolicy{Required: random.IntN(2) == 0}
	}
	w.at["policy"] = w.put(name, "authority", p)
}
