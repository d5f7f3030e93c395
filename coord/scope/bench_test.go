package scope

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

const (
	benchSize  = 1_000_000
	benchParts = 10 // so that a rollback has a tenth of the executions
	benchDeps  = 5
)

// benchGraph has benchSize executions in benchParts parts that lie among each
// other; each depends on benchDeps others of its part, one in ten of them
// softly. Workflows have 1,000 executions on ten lines, a part has 100
// workflows, and one execution in a hundred has a checkpoint.
func benchGraph() *Graph {
	g, r := new(Graph), rand.New(rand.NewPCG(1, 2))
	index := uint64(1)
	parents := make([]Parent, 0, benchDeps)
	for i := range uint32(benchSize) {
		parents = parents[:0]
		for range min(benchDeps, i/benchParts) {
			p := r.Uint32N(i/benchParts)*benchParts + i%benchParts
			parents = append(parents, Parent{p, len(parents) > 0 && r.IntN(10) == 0})
		}
		agent, workflow := r.Uint32N(10), i/10_000*benchParts+i%benchParts
		one := Node{First: index, Agent: agent, Workflow: workflow, Effect: Effect(r.IntN(3)), Progress: Started, Started: index}
		one.Line = g.AddLine(agent, workflow, false)
		g.Add(one, parents)
		g.Advance(i, Confirmed, index+1)
		if index += 2; i%100 == 99 {
			g.AddCheckpoint(Checkpoint{Index: index, Covered: index - 1, Line: one.Line})
			index++
		}
	}
	return g
}

// BenchmarkPlan computes the rollback of 100,000 members among a million.
func BenchmarkPlan(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := benchGraph()
	runtime.GC()
	runtime.ReadMemStats(&after)
	members := 0
	for b.Loop() {
		members = len(g.Plan(Request{Seeds: []uint32{3}}).Members)
	}
	b.ReportMetric(float64(members), "members")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
}
