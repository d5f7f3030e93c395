package admission

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"recoveryledger/api/conformance/stage"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// graph is a random workflow that the kit logs, as the kit's own computation of rollback sets sees
// it.
type graph struct {
	flow  entry.WorkflowID
	nodes []node // by index
}

type node struct {
	ref      entry.Ref
	index    uint64
	leaf     merkle.Hash
	effect   entry.Effect
	progress entry.Progress
	parents  []int // hard
}

// methodOf is how a member of a graph without checkpoints is undone (SCO-4).
func methodOf(n *node) entry.Method {
	switch {
	case n.effect == entry.EffectNone:
		return entry.MethodNone
	case n.progress == entry.Planned:
		return entry.MethodCancel
	case n.effect == entry.EffectCompensable:
		return entry.MethodCompensate
	}
	return entry.MethodResidual
}

// set is the rollback set of a seed: the least set that SCO-1 and SCO-2 close. Each agent of the
// graph has one line, and no checkpoint: a line that goes back goes back as a whole.
func (g *graph) set(seed int) []entry.Member {
	in := make([]bool, len(g.nodes))
	in[seed] = true
	for grown := true; grown; {
		grown = false
		lines := map[entry.Principal]bool{}
		for i := range g.nodes {
			n := &g.nodes[i]
			if agent, _ := stage.Owner(n.ref); in[i] && n.effect == entry.EffectReversible && n.progress != entry.Planned {
				lines[agent] = true
			}
		}
		for i := range g.nodes {
			n := &g.nodes[i]
			agent, _ := stage.Owner(n.ref)
			dependent := slices.ContainsFunc(n.parents, func(parent int) bool { return in[parent] })
			if !in[i] && (dependent || lines[agent]) {
				in[i], grown = true, true
			}
		}
	}
	var members []entry.Member
	for i, n := range g.nodes {
		if agent, _ := stage.Owner(n.ref); in[i] {
			members = append(members, entry.Member{Agent: agent, Exec: n.ref, Index: n.index, LeafHash: n.leaf, Method: methodOf(&n)})
		}
	}
	slices.SortFunc(members, func(a, b entry.Member) int { return cmp.Compare(b.Index, a.Index) })
	return members
}

// scopeCases compare the rollback sets of random graphs with those of the kit: the ledger must
// admit the kit's set, and refuse a smaller one.
func scopeCases(count int) []kitCase {
	var cases []kitCase
	const each = 20 // graphs of a case
	for first := 0; first < count; first += each {
		cases = append(cases, kitCase{fmt.Sprintf("scope/graphs-%d", first), []string{"SCO-0", "SCO-5b", "SCO-4"}, "rollback sets of random graphs", func(l *play) {
			for seed := first; seed < min(first+each, count) && l.err == nil; seed++ {
				l.compares(uint64(seed))
			}
		}})
	}
	return cases
}

// compares logs a random graph, and proposes what the kit computes.
func (l *play) compares(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 21)) //nolint:gosec // the same graphs in each run
	g := l.grows(random)
	if l.err != nil || len(g.nodes) == 0 {
		return
	}
	at := random.IntN(len(g.nodes))
	by, _ := stage.Owner(g.nodes[at].ref)
	report := stage.Signal(g.nodes[at].ref, entry.StandingExecutor, l.now())
	report.Wid = g.flow
	incident := l.write(by, report).Index
	members := g.set(at)
	d := l.drafts(incident, entry.ActEscalate)
	if l.err != nil {
		return
	}
	d.RollbackSet = &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: headOf(members)}
	d.Impact = impactOf(g, members)
	right := *d
	if len(members) > 1 {
		d.RollbackSet = &entry.RollbackSet{Algorithm: entry.ScopeAlgorithm, Head: headOf(members[1:])}
		l.refuses(l.name("coordinator"), d, entry.ScopeMismatch)
	}
	l.write(l.name("coordinator"), &right)
	if f, is := l.err.(*Fault); is { //nolint:errorlint // what fail makes
		f.expected = fmt.Sprintf("graph %d: %s: the rollback set has %d members of %d executions", seed, f.expected, len(members), len(g.nodes))
	}
}

func headOf(members []entry.Member) merkle.Head {
	var leaves []merkle.Hash
	for i := range members {
		leaves = append(leaves, merkle.HashLeaf(members[i].AppendJSON(nil)))
	}
	return merkle.HeadOf(leaves)
}

// impactOf counts what a decision says of its set.
func impactOf(g *graph, members []entry.Member) *entry.Impact {
	impact := &entry.Impact{Members: int64(len(members)), Domains: 1}
	agents := map[entry.Principal]bool{}
	for i := range members {
		agents[members[i].Agent] = true
		for _, n := range g.nodes {
			if n.ref == members[i].Exec && members[i].Method == entry.MethodResidual && n.effect == entry.EffectIrrevocable {
				impact.Irrevocable++
			}
		}
	}
	impact.Agents = int64(len(agents))
	return impact
}

// grows logs a graph of a few executions, in a workflow of its own.
func (l *play) grows(random *rand.Rand) *graph {
	l.n++
	g := &graph{flow: entry.WorkflowID("kit-" + l.run + "-" + strconv.Itoa(l.n))}
	for range 3 + random.IntN(6) {
		of := []string{"a", "b", "c"}[random.IntN(3)]
		n := node{ref: l.fresh(of), effect: []entry.Effect{entry.EffectNone, entry.EffectCompensable, entry.EffectReversible, entry.EffectIrrevocable}[random.IntN(4)],
			progress: []entry.Progress{entry.Planned, entry.Started, entry.Confirmed, entry.Confirmed}[random.IntN(4)]}
		if n.effect == entry.EffectNone {
			n.progress = entry.Confirmed
		}
		x := stage.Execution(n.ref, n.effect, n.progress)
		for range random.IntN(3) {
			if len(g.nodes) == 0 {
				break
			}
			parent := random.IntN(len(g.nodes))
			if !slices.Contains(n.parents, parent) {
				n.parents = append(n.parents, parent)
				x.Parents = append(x.Parents, entry.Parent{Exec: g.nodes[parent].ref, Dep: entry.Hard})
			}
		}
		for i := range g.nodes { // a soft edge leads nowhere
			if random.IntN(8) == 0 && !slices.Contains(n.parents, i) {
				x.Parents = append(x.Parents, entry.Parent{Exec: g.nodes[i].ref, Dep: entry.Soft})
			}
		}
		x.Wid = g.flow
		ref := l.advances(x, n.ref)
		n.index, n.leaf = ref.Index, ref.LeafHash
		g.nodes = append(g.nodes, n)
	}
	return g
}

// advances logs an execution up to its progress, and returns where its first entry stands.
func (l *play) advances(x *entry.Execution, ref entry.Ref) entry.LogRef {
	by, _ := stage.Owner(ref)
	if x.Progress != entry.Confirmed || x.Effect == entry.EffectNone {
		return l.write(by, x)
	}
	begun := *x
	begun.Progress = entry.Started
	first := l.write(by, &begun)
	l.write(by, x)
	return first
}
