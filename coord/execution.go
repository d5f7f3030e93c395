package coord

import (
	"encoding/hex"
	"slices"
	"strings"

	"recoveryledger/coord/compact"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

// executions holds what the rules need of executions beside their graph, by the same numbers.
type executions struct {
	names *compact.Names         // issuer's number and local id
	keyOf compact.List[uint32]   // 1 + the number of its idempotency key; 0: none
	keys  compact.List[digest]   // idempotency keys
	users map[childOf]uint64     // where an agent first named a parent of another agent
	comps map[uint32]compensated // by compensation: its target
	costs compact.List[int64]    // logged cost of each execution, in micro-USD

	// before chains the executions of each workflow from its newest on: 1 + the number of the
	// execution before, 0 for none.
	before compact.List[uint32]
	newest []uint32 // 1 + the newest of each workflow
}

// childOf names an agent with an execution that depends on the parent. The list of the
// parent's children could be long, and an agent without standing would make the fold
// read it.
type childOf struct{ parent, agent uint32 }

// compensated is the target of a compensation (EXE-4).
type compensated struct {
	incident uint32 // its number
	exec     uint32
}

var effects = []entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared}

var steps = []entry.Progress{entry.Planned, entry.Started, entry.Confirmed, entry.Failed, entry.Cancelled}

func effectOf(x *entry.Execution) scope.Effect { return scope.Effect(slices.Index(effects, x.Effect)) }

func progressOf(x *entry.Execution) scope.Progress {
	return scope.Progress(slices.Index(steps, x.Progress))
}

// digest is a digest of a payload in binary: 2 for a keyed digest, 1 otherwise, and then the
// hash. The zero digest says that there is none.
type digest [33]byte

func digestOf(text entry.Digest) (d digest) {
	algorithm, value, _ := strings.Cut(string(text), ":")
	d[0] = 1
	if strings.HasPrefix(algorithm, "hmac-") {
		d[0] = 2
	}
	_, _ = hex.Decode(d[1:], []byte(value)) // REG-1 has checked it
	return d
}

// findExecution returns the execution that a reference names.
func (s *State) findExecution(ref entry.Ref) (number uint32, x *scope.Node, ok bool) {
	if number, ok = s.resolve(s.executions.names, ref); ok {
		x = s.graph.Node(number)
	}
	return number, x, ok
}

// refOf is the reference to an execution.
func (s *State) refOf(exec uint32) entry.Ref { return s.ref(s.executions.names, exec) }

// agentOf is the principal that an execution belongs to.
func (s *State) agentOf(exec uint32) entry.Principal { return s.principal(s.graph.Node(exec).Agent) }

func (s *State) admitExecution(x *entry.Execution, at int64) error {
	for i := range x.Parents { // REG-8
		if _, _, ok := s.findExecution(x.Parents[i].Exec); !ok {
			return unknown(parentField(i), "no execution %s in the log", x.Parents[i].Exec).WithRemedy("register the parent first")
		}
	}
	if _, _, ok := s.findTask(x.Task); x.Task != "" && !ok {
		return unknown("task", "no task %s in the log", x.Task).WithRemedy("create the task first")
	}
	if x.Checkpoint != "" {
		if _, ok := s.resolve(s.checkpoints.names, x.Checkpoint); !ok {
			return unknown("checkpoint", "no checkpoint %s in the log", x.Checkpoint)
		}
	}
	if number, old, ok := s.findExecution(x.Ref()); ok {
		if err := s.admitLaterWork(x, number, old); err != nil {
			return err
		}
		return s.admitProgress(x, number, old, at)
	}
	if err := s.admitWork(x); err != nil {
		return err
	}
	if effectOf(x) != scope.None && progressOf(x) == scope.Confirmed { // EXE-2
		return conflict("progress", "confirmed, but the effect is %s and started was never logged", x.Effect).
			WithRemedy("log started, and wait for its receipt before acting")
	}
	if x.Compensates != nil {
		return s.admitCompensation(x, at)
	}
	return s.admitFencedFirst(x, at)
}

// admitProgress checks EXE-1 and EXE-2 for a later entry of an execution. It need not check that
// the entry comes from the execution's agent, because the id belongs to the issuer.
func (s *State) admitProgress(x *entry.Execution, number uint32, old *scope.Node, at int64) error {
	wid := string(s.workflows.Text(old.Workflow))
	key := *s.executions.keyOf.At(number)
	switch step := progressOf(x); {
	case x.IdempotencyKey != "" && key != 0 && *s.executions.keys.At(key - 1) != digestOf(x.IdempotencyKey):
		second := conflict("idempotency_key", "not that of entry %d in workflow %s, and it never changes", old.First, wid)
		second.Against = old.First
		return second
	case string(x.Wid) != wid:
		return conflict("wid", "the value is %s since entry %d, and never changes", wid, old.First)
	case effectOf(x) != old.Effect:
		return conflict("effect", "the value is %s since entry %d, and never changes", effects[old.Effect], old.First)
	case x.IdempotencyKey != "" && key == 0:
		return conflict("idempotency_key", "entry %d named none, and a later entry adds none", old.First)
	case len(x.Parents) != s.graph.ParentsOf(number):
		return conflict("parents", "%d instead of the %d of entry %d; they never change", len(x.Parents), s.graph.ParentsOf(number), old.First)
	case !s.compensatesSame(x, number):
		return conflict("compensates", "not that of entry %d, and it never changes", old.First)
	case !step.After(old.Progress):
		return conflict("progress", "%s does not follow %s", x.Progress, steps[old.Progress]).
			WithRemedy("progress goes from planned to started and to one final value, and never back")
	case step == scope.Confirmed && old.Effect != scope.None && old.Progress != scope.Started:
		return conflict("progress", "confirmed, but the effect is %s and started was never logged", x.Effect).
			WithRemedy("log started, and wait for its receipt before acting")
	}
	i := 0
	for parent := range s.graph.Parents(number) {
		if s.edgeTo(&x.Parents[i]) != parent {
			return conflict(parentField(i), "not that of entry %d; parents never change", old.First)
		}
		i++
	}
	return s.admitFencedStep(x, number, old, at)
}

// compensatesSame reports whether a later entry of a compensation names the same target as the
// first entry, or no target.
func (s *State) compensatesSame(x *entry.Execution, number uint32) bool {
	if x.Compensates == nil {
		return true
	}
	was, ok := s.executions.comps[number]
	exec, known := s.resolve(s.executions.names, x.Compensates.Exec)
	return ok && known && exec == was.exec && s.incidents[was.incident].opened == x.Compensates.Incident
}

// edgeTo returns the edge to a parent.
func (s *State) edgeTo(p *entry.Parent) scope.Parent {
	return scope.Parent{Exec: s.mustResolve(s.executions.names, p.Exec), Soft: p.Dep == entry.Soft}
}

func (s *State) applyExecution(x *entry.Execution, issuer uint32, index uint64, at int64) {
	step := progressOf(x)
	number, added := s.executions.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, x.Exec))
	if !added {
		if x.CostMicroUSD != nil {
			*s.executions.costs.Change(number) = *x.CostMicroUSD
		}
		s.graph.Advance(number, step, index)
		s.noteActivity(number, issuer, at)
		if step.Final() {
			s.drained(number, index, at)
		}
		return
	}
	one := scope.Node{First: index, At: at, Agent: issuer, Effect: effectOf(x), Progress: step}
	if step != scope.Planned {
		one.Started = index
	}
	if step.Final() {
		one.Final = index
	}
	one.Workflow, _ = s.workflows.Add([]byte(x.Wid))
	var comp *compensated
	if c := x.Compensates; c != nil {
		comp = &compensated{s.mustIncident(c.Incident), s.mustResolve(s.executions.names, c.Exec)}
	}
	parents := make([]scope.Parent, 0, 8)
	for i := range x.Parents {
		parents = append(parents, s.edgeTo(&x.Parents[i]))
	}
	key := digest{}
	if x.IdempotencyKey != "" {
		key = digestOf(x.IdempotencyKey)
	}
	s.addExecution(one, parents, key, comp)
	if x.CostMicroUSD != nil {
		*s.executions.costs.Change(number) = *x.CostMicroUSD
	}
	if x.Task != "" && comp == nil {
		s.addWork(number, s.mustResolve(s.tasks.names, x.Task))
		s.noteActivity(number, issuer, at)
	}
}

// addExecution adds the execution whose name was added last. A zero key says that the execution
// has no key.
func (s *State) addExecution(one scope.Node, parents []scope.Parent, key digest, comp *compensated) {
	x := &s.executions
	number := uint32(0)
	if key != (digest{}) {
		number = 1 + x.keys.Add(key)
	}
	x.keyOf.Add(number)
	if one.Line = scope.NoLine; comp == nil {
		one.Line = s.graph.AddLine(one.Agent, one.Workflow, s.spansAll(one.Agent))
	}
	exec := s.graph.Add(one, parents)
	for len(x.newest) <= int(one.Workflow) {
		x.newest = append(x.newest, 0)
	}
	x.before.Add(x.newest[one.Workflow])
	x.newest[one.Workflow] = exec + 1
	x.costs.Add(0)
	if comp != nil {
		x.comps[exec] = *comp
	}
	for _, p := range parents {
		if _, known := x.users[childOf{p.Exec, one.Agent}]; !known {
			x.users[childOf{p.Exec, one.Agent}] = one.First
		}
	}
}

// hasParentOf reports whether the agent has a direct parent of the execution.
func (s *State) hasParentOf(exec, agent uint32) bool {
	for parent := range s.graph.Parents(exec) {
		if s.graph.Node(parent.Exec).Agent == agent {
			return true
		}
	}
	return false
}
