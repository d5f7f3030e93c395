package coord

import (
	"encoding/hex"
	"slices"
	"strings"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// executions are all executions by number, with the edges between them.
type executions struct {
	names *compact.Names // issuer's number and local id
	list  compact.List[execution]
	edges compact.List[uint32] // parents of all executions in turn: the number, doubled; odd: soft
	keys  compact.List[digest] // idempotency keys
	// users says which other agents have a child of an execution. A list of
	// children could be long, and whoever has no standing makes us read it.
	users map[use]struct{}
}

// use is an agent's, not its own, of an execution.
type use struct{ parent, agent uint32 }

// execution is what rules need of an execution: 40 bytes.
type execution struct {
	first    uint64 // index of its first entry: its place in every rule (EXE-1)
	final    uint64 // index of its final entry; 0: none yet
	agent    uint32 // number of its principal
	workflow uint32
	edges    uint32 // its parents are so many edges from this one on
	key      uint32 // 1 + its idempotency key; 0: none
	parents  uint16
	effect   effect
	progress progress
	used     bool // whether its own agent has a child of it
}

// effect and progress are places in effects and steps.
type (
	effect   uint8
	progress uint8
)

var effects = []entry.Effect{entry.EffectNone, entry.EffectReversible, entry.EffectCompensable, entry.EffectIrrevocable, entry.EffectUndeclared}

var steps = []entry.Progress{entry.Planned, entry.Dispatched, entry.Confirmed, entry.Failed, entry.Cancelled}

const (
	effectNone effect   = 0
	dispatched progress = 1
	confirmed  progress = 2
)

func effectOf(x *entry.Execution) effect { return effect(slices.Index(effects, x.Effect)) }

func progressOf(x *entry.Execution) progress { return progress(slices.Index(steps, x.Progress)) }

func (e effect) String() string   { return string(effects[e]) }
func (p progress) String() string { return string(steps[p]) }

func (p progress) final() bool { return p >= confirmed }

// after reports whether p is an advance over q (EXE-1): planned < dispatched <
// final.
func (p progress) after(q progress) bool { return !q.final() && p > q }

// digest is a digest of a payload in binary: 1 for a keyed one, 0 otherwise,
// and the hash.
type digest [33]byte

func digestOf(text string) (d digest) {
	algorithm, value, _ := strings.Cut(text, ":")
	if strings.HasPrefix(algorithm, "hmac-") {
		d[0] = 1
	}
	_, _ = hex.Decode(d[1:], []byte(value)) // REG-1 has checked it
	return d
}

// findExecution returns the execution that a reference names.
func (s *State) findExecution(ref entry.Ref) (number uint32, x *execution, ok bool) {
	if number, ok = s.resolve(s.executions.names, ref); ok {
		x = s.executions.list.At(number)
	}
	return number, x, ok
}

func (s *State) admitExecution(x *entry.Execution) error {
	for i := range x.Parents { // REG-8
		if _, _, ok := s.findExecution(x.Parents[i].Exec); !ok {
			return unknown(parentField(i), "no execution %s in the log", x.Parents[i].Exec).WithRemedy("register the parent first")
		}
	}
	if x.Task != "" {
		return unknown("task", "no task %s in the log", x.Task)
	}
	if x.Checkpoint != "" {
		if _, ok := s.resolve(s.checkpoints, x.Checkpoint); !ok {
			return unknown("checkpoint", "no checkpoint %s in the log", x.Checkpoint)
		}
	}
	if x.Compensates != nil { // EXE-4
		return conflict("compensates", "no decision is in force that would release a compensation")
	}
	if _, old, ok := s.findExecution(x.Ref()); ok {
		return s.admitProgress(x, old)
	}
	if effectOf(x) != effectNone && progressOf(x) == confirmed { // EXE-2
		return conflict("progress", "confirmed, but the effect is %s and dispatched was never logged", x.Effect).
			WithRemedy("log dispatched, and hold its receipt before acting")
	}
	return nil
}

// admitProgress is EXE-1 and EXE-2 for a later entry of an execution. That it
// comes from its agent needs no check: the id belongs to the issuer.
func (s *State) admitProgress(x *entry.Execution, old *execution) error {
	wid := string(s.workflows.Text(old.workflow))
	switch step := progressOf(x); {
	case string(x.Wid) != wid:
		return conflict("wid", "it is %s since entry %d and never changes", wid, old.first)
	case effectOf(x) != old.effect:
		return conflict("effect", "it is %s since entry %d and never changes", old.effect, old.first)
	case x.IdempotencyKey != "" && (old.key == 0 || *s.executions.keys.At(old.key - 1) != digestOf(x.IdempotencyKey)):
		return conflict("idempotency_key", "not that of entry %d, and it never changes", old.first)
	case len(x.Parents) != int(old.parents):
		return conflict("parents", "%d instead of the %d of entry %d; they never change", len(x.Parents), old.parents, old.first)
	case !step.after(old.progress):
		return conflict("progress", "%s does not follow %s", x.Progress, old.progress).
			WithRemedy("progress goes from planned over dispatched to one final step, and never back")
	case step == confirmed && old.effect != effectNone && old.progress != dispatched:
		return conflict("progress", "confirmed, but the effect is %s and dispatched was never logged", x.Effect).
			WithRemedy("log dispatched, and hold its receipt before acting")
	}
	for i := range x.Parents {
		if s.edgeTo(&x.Parents[i]) != *s.executions.edges.At(old.edges + uint32(i)) {
			return conflict(parentField(i), "not that of entry %d; parents never change", old.first)
		}
	}
	return nil
}

// edgeTo returns the edge to a parent.
func (s *State) edgeTo(p *entry.Parent) uint32 {
	to := s.mustResolve(s.executions.names, p.Exec) << 1
	if p.Dep == entry.Soft {
		to |= 1
	}
	return to
}

func (s *State) applyExecution(x *entry.Execution, issuer uint32, index uint64) {
	step, final := progressOf(x), uint64(0)
	if step.final() {
		final = index
	}
	number, added := s.executions.names.Add(localKey(make([]byte, 0, localKeyMax), issuer, x.Exec))
	if !added {
		old := s.executions.list.At(number)
		old.progress, old.final = step, final
		return
	}
	one := execution{first: index, final: final, agent: issuer, effect: effectOf(x), progress: step}
	one.workflow, _ = s.workflows.Add([]byte(x.Wid))
	if x.IdempotencyKey != "" {
		one.key = 1 + s.executions.keys.Add(digestOf(x.IdempotencyKey))
	}
	parents := make([]uint32, 0, 8)
	for i := range x.Parents {
		parents = append(parents, s.edgeTo(&x.Parents[i]))
	}
	s.executions.add(one, parents)
}

// add appends the execution whose name was added last, with its edges.
func (x *executions) add(one execution, parents []uint32) {
	one.edges, one.parents = x.edges.Size(), uint16(len(parents))
	for _, edge := range parents {
		x.edges.Add(edge)
		if parent := x.list.At(edge >> 1); parent.agent == one.agent {
			parent.used = true
		} else {
			x.users[use{edge >> 1, one.agent}] = struct{}{}
		}
	}
	x.list.Add(one)
}

// hasParentOf reports whether the agent has a direct parent of the execution.
func (x *executions) hasParentOf(number, agent uint32) bool {
	child := x.list.At(number)
	for i := range uint32(child.parents) {
		if x.list.At(*x.edges.At(child.edges + i)>>1).agent == agent {
			return true
		}
	}
	return false
}

// hasChildOf reports whether the agent has an execution that names this one as
// its parent.
func (x *executions) hasChildOf(number, agent uint32) bool {
	if parent := x.list.At(number); parent.agent == agent {
		return parent.used
	}
	_, ok := x.users[use{number, agent}]
	return ok
}
