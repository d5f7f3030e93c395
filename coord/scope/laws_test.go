package scope

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// set returns the members of a plan.
func set(p *Plan) map[uint32]bool {
	members := map[uint32]bool{}
	for i := range p.Members {
		members[p.Members[i].Exec] = true
	}
	return members
}

func contains(t *testing.T, what string, large, small map[uint32]bool) {
	t.Helper()
	for x := range small {
		if !large[x] {
			t.Errorf("%s: execution %d is missing", what, x)
		}
	}
}

const lawGraphs = 2_000

// TestLawOfOthers adds an execution of an agent of its own, which depends on
// nothing in the plan and on which nothing depends: plan and methods stay.
func TestLawOfOthers(t *testing.T) {
	each(t, lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		seeds := h.randomSeeds(r)
		before := h.graph().Plan(request(seeds))
		in, other := set(before), execution{agent: 99, effect: Effect(r.IntN(5)), progress: Started, first: h.size, started: h.size}
		members := map[int]bool{}
		for x := range in {
			members[int(x)] = true
		}
		path := h.reachable(seeds, members)
		for x := range h.executions {
			if !path[x] && r.IntN(2) == 0 {
				other.parents = append(other.parents, Parent{uint32(x), false})
			}
		}
		h.executions = append(h.executions, other)
		after := h.graph().Plan(request(seeds))
		if !slices.Equal(before.Members, after.Members) || !slices.Equal(before.Review, after.Review) {
			t.Errorf("plan %v became %v", before.Members, after.Members)
		}
	})
}

// TestLawOfCheckpoints takes a checkpoint away: the set never gets smaller by
// it. So a denser line of checkpoints never enlarges the set.
func TestLawOfCheckpoints(t *testing.T) {
	grew := 0
	each(t, lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		if len(h.checkpoints) == 0 {
			return
		}
		seeds := h.randomSeeds(r)
		dense := h.graph().Plan(request(seeds))
		i := r.IntN(len(h.checkpoints))
		h.checkpoints = slices.Delete(h.checkpoints, i, i+1)
		thin := h.graph().Plan(request(seeds))
		contains(t, "with fewer checkpoints", set(thin), set(dense))
		grew += len(thin.Members) - len(dense.Members)
	})
	if grew == 0 {
		t.Error("no checkpoint ever helped: the graphs are too simple")
	}
}

// TestLawOfUnions joins the seeds of two plans: the joint set has both.
func TestLawOfUnions(t *testing.T) {
	each(t, lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		g := h.graph()
		one, two := h.randomSeeds(r), h.randomSeeds(r)
		joint := set(g.Plan(request(slices.Concat(one, two))))
		contains(t, "union", joint, set(g.Plan(request(one))))
		contains(t, "union", joint, set(g.Plan(request(two))))
	})
}

// TestLawOfEdges adds an edge: the set never gets smaller.
func TestLawOfEdges(t *testing.T) {
	each(t, lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		child := r.IntN(len(h.executions))
		if child == 0 || h.executions[child].compensation {
			return
		}
		seeds := h.randomSeeds(r)
		before := set(h.graph().Plan(request(seeds)))
		edge := Parent{uint32(r.IntN(child)), r.IntN(4) == 0}
		parents := slices.DeleteFunc(slices.Clone(h.executions[child].parents), func(p Parent) bool { return p.Exec == edge.Exec && p.Soft })
		parents = append(parents, edge)
		h.executions[child].parents = parents
		contains(t, "with one more edge", set(h.graph().Plan(request(seeds))), before)
	})
}

// TestLawOfClosure: the plan is closed under itself, so that asking for all
// of it gives no more, and its methods do not change.
// Draft: SCO-0.
func TestLawOfClosure(t *testing.T) {
	each(t, lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		g := h.graph()
		once := g.Plan(request(h.randomSeeds(r)))
		again := Request{UsableUntil: until}
		for i := range once.Members {
			again.Seeds = append(again.Seeds, once.Members[i].Exec)
		}
		twice := g.Plan(again)
		for i := range twice.Members {
			if i >= len(once.Members) || once.Members[i].Exec != twice.Members[i].Exec || once.Members[i].Method != twice.Members[i].Method {
				t.Fatalf("plan %v, of itself %v", once.Members, twice.Members)
			}
		}
	})
}

// TestLawOfAmends takes a plan, lets some members be undone and others change,
// and asks for the amended plan with one more seed: it has the members of the
// old, with their methods, except those whose line goes further back; and the
// new closure.
func TestLawOfAmends(t *testing.T) {
	reopened := 0
	each(t, 2*lawGraphs, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		g := h.graph()
		seeds := h.randomSeeds(r)
		old := g.Plan(request(seeds))
		for i := range old.Members {
			if m := &old.Members[i]; r.IntN(3) == 0 && m.Method != Residual {
				g.Undo(m.Exec, h.size)
			}
		}
		more := slices.Concat(seeds, h.randomSeeds(r))
		fresh := set(g.Plan(request(more)))
		ask := request(more)
		ask.Kept = old.Members
		amended := g.Plan(ask)
		contains(t, "new closure", set(amended), fresh)
		for i := range old.Members {
			was := &old.Members[i]
			is, ok := amended.Find(was.Exec)
			switch {
			case !ok:
				t.Errorf("member %d is lost", was.Exec)
			case is.Reopened && (was.Method != Restore || is.Checkpoint >= was.Checkpoint):
				t.Errorf("member %+v was reopened as %+v", was, is)
			case !is.Reopened && (is.Method != was.Method || is.Checkpoint != was.Checkpoint):
				t.Errorf("member %+v became %+v", was, is)
			case is.Reopened:
				reopened++
			}
		}
		if !slices.IsSortedFunc(amended.Members, descending) {
			t.Errorf("members out of order: %v", amended.Members)
		}
	})
	if reopened < 20 {
		t.Errorf("only %d members were reopened: the graphs are too simple", reopened)
	}
}
