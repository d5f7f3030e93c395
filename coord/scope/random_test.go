package scope

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// graph builds the graph of a history, entry by entry in log order.
func (h *history) graph() *Graph {
	g := new(Graph)
	type event struct {
		index uint64
		do    func()
	}
	var events []event
	at := func(index uint64, do func()) { events = append(events, event{index, do}) }
	for i := range h.executions {
		e := &h.executions[i]
		at(e.first, func() {
			one := Node{First: e.first, Agent: uint32(e.agent), Workflow: uint32(e.workflow), Line: NoLine, Effect: e.effect}
			if !e.compensation {
				one.Line = g.AddLine(one.Agent, one.Workflow, h.spans[e.agent])
			}
			if e.started == e.first {
				one.Started, one.Progress = e.started, Started
			}
			if e.final == e.first {
				one.Final, one.Progress = e.final, e.progress
			}
			g.Add(one, e.parents)
		})
		if e.started > e.first && e.started != e.final {
			at(e.started, func() { g.Advance(uint32(i), Started, e.started) })
		}
		if e.final > e.first {
			at(e.final, func() { g.Advance(uint32(i), e.progress, e.final) })
		}
	}
	for i := range h.checkpoints {
		c := &h.checkpoints[i]
		at(c.index, func() {
			line := g.AddLine(uint32(c.agent), uint32(c.workflow), h.spans[c.agent])
			covered := uint64(0)
			if c.after >= 0 {
				covered = h.executions[c.after].final
			}
			g.AddCheckpoint(Checkpoint{Index: c.index, Covered: covered, ExpiresAt: c.expires, Line: line})
		})
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.index) - int(b.index) })
	for _, e := range events {
		e.do()
	}
	for i := range h.executions {
		e := &h.executions[i]
		g.SetClean(uint32(i), e.clean)
		g.nodes.Change(uint32(i)).Undone = e.undone
	}
	for i := range h.checkpoints {
		g.checkpoints.Change(uint32(i)).Void = h.checkpoints[i].void
	}
	return g
}

// randomHistory draws a log of up to size entries: several agents and
// workflows, executions in flight when a checkpoint is taken, checkpoints that
// are void or expire, what was undone before, compensations.
func randomHistory(r *rand.Rand, size int) *history {
	h := &history{spans: map[int]bool{}, size: 1}
	agents, workflows := 1+r.IntN(4), 1+r.IntN(3)
	for a := range agents {
		h.spans[a] = r.IntN(3) == 0
	}
	for range size {
		index := h.size
		h.size++
		switch r.IntN(8) {
		case 0, 1, 2:
			h.randomExecution(r, index, agents, workflows)
		case 3:
			h.randomCheckpoint(r, index, r.IntN(agents), r.IntN(workflows))
		default:
			h.randomProgress(r, index)
		}
	}
	for i := range h.executions {
		h.executions[i].undone = h.executions[i].undone || r.IntN(12) == 0
	}
	return h
}

func (h *history) randomExecution(r *rand.Rand, index uint64, agents, workflows int) {
	e := execution{agent: r.IntN(agents), workflow: r.IntN(workflows), effect: Effect(r.IntN(5)), first: index, clean: r.IntN(3) == 0}
	if e.effect != Reversible && r.IntN(2) == 0 {
		e.effect = Reversible
	}
	if r.IntN(10) == 0 {
		e.compensation = true
	} else {
		for p := range h.executions {
			if r.IntN(2+len(h.executions)/2) == 0 {
				e.parents = append(e.parents, Parent{uint32(p), r.IntN(4) == 0})
			}
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		e.progress, e.started = Started, index
	case 2:
		e.progress, e.started, e.final = Failed, index, index
	case 3:
		if e.effect == None {
			e.progress, e.started, e.final = Confirmed, index, index
		}
	}
	h.executions = append(h.executions, e)
}

func (h *history) randomProgress(r *rand.Rand, index uint64) {
	if len(h.executions) == 0 {
		return
	}
	e := &h.executions[r.IntN(len(h.executions))]
	to := []Progress{Started, Confirmed, Confirmed, Failed, Cancelled}[r.IntN(5)]
	if to == Confirmed && e.effect != None && e.progress == Planned {
		to = Started
	}
	if !to.After(e.progress) {
		return
	}
	if e.progress = to; e.started == 0 {
		e.started = index
	}
	if to.Final() {
		e.final = index
	}
}

// randomCheckpoint appends one that CHK-1 admits.
func (h *history) randomCheckpoint(r *rand.Rand, index uint64, agent, workflow int) {
	c := checkpoint{agent: agent, workflow: workflow, index: index, after: -1}
	least := uint64(0)
	for i := range h.checkpoints {
		old := &h.checkpoints[i]
		if old.agent == agent && (h.spans[agent] || old.workflow == workflow) && !old.void && old.after >= 0 {
			least = max(least, h.executions[old.after].final)
		}
	}
	var candidates []int
	for i := range h.executions {
		e := &h.executions[i]
		if h.onLine(&c, e) && !e.compensation && e.final != 0 && e.final >= least {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) > 0 && r.IntN(8) > 0 {
		c.after = candidates[r.IntN(len(candidates))]
	} else if least > 0 {
		return
	}
	c.void = r.IntN(6) == 0
	if r.IntN(5) == 0 {
		c.expires = int64(50 + r.IntN(100))
	}
	h.checkpoints = append(h.checkpoints, c)
}

func (h *history) randomSeeds(r *rand.Rand) (seeds []int) {
	for range 1 + r.IntN(3) {
		seeds = append(seeds, r.IntN(len(h.executions)))
	}
	return seeds
}

const until = 100

func request(seeds []int) Request {
	r := Request{UsableUntil: until}
	for _, s := range seeds {
		r.Seeds = append(r.Seeds, uint32(s))
	}
	return r
}

// each runs f over random histories, of which the seed of the failing one is
// told.
func each(t *testing.T, count int, f func(t *testing.T, r *rand.Rand, h *history)) {
	t.Helper()
	for seed := range uint64(count) {
		r := rand.New(rand.NewPCG(seed, 4))
		h := randomHistory(r, 4+r.IntN(40))
		if len(h.executions) == 0 {
			continue
		}
		f(t, r, h)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestOracle compares plans with the oracle's over 12,000 random graphs:
// members, methods, checkpoints, review list, direct members.
// Draft: SCO-0.
func TestOracle(t *testing.T) {
	methods := map[Method]int{}
	indirect, reviewed := 0, 0
	each(t, 12_000, func(t *testing.T, r *rand.Rand, h *history) {
		t.Helper()
		seeds := h.randomSeeds(r)
		p := h.graph().Plan(request(seeds))
		want := h.scope(seeds, until)
		direct := h.direct(seeds)
		for x, v := range want {
			m, ok := p.Find(uint32(x))
			switch {
			case ok != v.in:
				t.Errorf("execution %d: member %v, the oracle says %v", x, ok, v.in)
			case ok && (m.Method != v.method || int(m.Checkpoint)-1 != v.checkpoint):
				t.Errorf("execution %d: method %d to checkpoint %d, the oracle says %d to %d", x, m.Method, int(m.Checkpoint)-1, v.method, v.checkpoint)
			case ok && m.Direct != direct[x]:
				t.Errorf("execution %d: direct %v, the oracle says %v", x, m.Direct, direct[x])
			case ok:
				methods[m.Method]++
				if !m.Direct {
					indirect++
				}
			}
		}
		if review := h.review(want, seeds); !slices.Equal(p.Review, review) {
			t.Errorf("review %v, the oracle says %v", p.Review, review)
		}
		reviewed += len(p.Review)
		h.checkChains(t, p, seeds)
	})
	t.Logf("methods %v, indirect %d, review %d", methods, indirect, reviewed)
	for m := Invalid; m <= Residual; m++ {
		if methods[m] < 1000 {
			t.Errorf("only %d members with method %d", methods[m], m)
		}
	}
	if indirect < 1000 || reviewed < 1000 {
		t.Errorf("%d indirect members, %d to review: the graphs are too simple", indirect, reviewed)
	}
}

// checkChains checks every member's chain of steps by the rules alone.
func (h *history) checkChains(t *testing.T, p *Plan, seeds []int) {
	t.Helper()
	for i := range p.Members {
		chain := p.Chain(p.Members[i].Exec)
		if len(chain) == 0 || chain[len(chain)-1].Exec != p.Members[i].Exec || !slices.Contains(seeds, int(chain[0].Exec)) || chain[0].Why.Rule != Seed {
			t.Errorf("execution %d: chain %v", p.Members[i].Exec, chain)
			return
		}
		for j, step := range chain[1:] {
			from := chain[j].Exec
			x := &h.executions[step.Exec]
			valid := step.Why.From == from
			switch step.Why.Rule {
			case Dependent:
				valid = valid && slices.Contains(x.parents, Parent{from, false})
			case Rollback:
				valid = valid && h.sameLine(int(step.Exec), int(from)) && h.takesBack(p, step)
			default:
				valid = false
			}
			if !valid {
				t.Errorf("execution %d: step %+v after %d", p.Members[i].Exec, step, from)
			}
		}
	}
}

// takesBack checks who takes the line of a member back, and where to.
func (h *history) takesBack(p *Plan, m Member) bool {
	by := &h.executions[m.Why.From]
	if own := by.effect == Reversible && by.progress != Cancelled; own != (m.Why.By == 0) {
		return false
	} else if !own {
		by = &h.executions[m.Why.By-1]
	}
	members := map[int]bool{}
	for x := range set(p) {
		members[int(x)] = true
	}
	c, back := h.goesBackTo(int(m.Exec), members, until)
	return by.effect == Reversible && pastPlanned(by) && back && int(m.Why.Checkpoint) == c+1 &&
		(c < 0 || h.checkpoints[c].index < h.executions[m.Why.From].started)
}
