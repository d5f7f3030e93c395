package coord

import (
	"encoding/binary"
	"math"

	"recoveryledger/coord/codec"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
)

func (s *State) readChain(c *codec.Codec) {
	next := uint64(0)
	for range c.GetCount(s.size) {
		index := c.Get(s.size)
		leaf := c.GetText(leafMax)
		if !c.OK() {
			return
		}
		e, at, err := entry.DecodeLeaf(leaf)
		if err == nil {
			err = s.chain.Admit(e, index)
		}
		if err != nil || index < next {
			c.Refuse("entry %d of the policy chain: %v", index, err)
			return
		}
		s.applyLink(e, index, at)
		next = index + 1
	}
	if next == 0 && s.size > 0 {
		c.Refuse("size %d without a policy", s.size)
	}
}

func (s *State) readExecutions(c *codec.Codec) {
	x := &s.executions
	count := c.GetCount(min(s.size, math.MaxUint32>>1))
	key, parents := make([]byte, 0, localKeyMax), make([]scope.Parent, 0, entry.MaxParents)
	before, last := uint64(0), int64(0)
	for exec := range count {
		key = s.readLocal(c, key)
		x.names.Append(key)
		one := scope.Node{Agent: binary.BigEndian.Uint32(key), Workflow: uint32(c.Get(uint64(s.workflows.Size())))}
		if one.First = before + c.Get(s.size-before); one.First == before {
			c.Refuse("two executions begin at %d", before)
		}
		one.At = last + int64(c.Get(math.MaxInt64))
		before, last = one.First, one.At
		s.readProgress(c, &one)
		one.Clean, one.Undone = c.GetFlag(), c.GetFlag()
		var comp *compensated
		if c.GetFlag() {
			comp = &compensated{uint32(c.Get(math.MaxUint32)), uint32(c.Get(exec))}
		}
		of := c.GetFlag()
		task := uint32(0)
		if of {
			task = uint32(c.Get(uint64(len(s.tasks.list))))
		}
		idempotency, cost := readKey(c), int64(c.Get(entry.MaxInteger+1))
		parents = parents[:0]
		for range c.Get(entry.MaxParents + 1) {
			parents = append(parents, scope.Parent{Exec: uint32(c.Get(exec)), Soft: c.GetFlag()})
		}
		if !c.OK() {
			return
		}
		if s.addExecution(one, parents, idempotency, comp); of {
			s.addWork(uint32(exec), task)
		}
		*x.costs.Change(uint32(exec)) = cost
	}
	if twice, ok := x.names.Index(); !ok {
		c.Refuse("%q twice", x.names.Text(twice))
	}
	s.graph.SortFinals()
}

// readProgress reads the progress of an execution.
func (s *State) readProgress(c *codec.Codec, one *scope.Node) {
	one.Effect, one.Progress = scope.Effect(c.Get(uint64(len(effects)))), scope.Progress(c.Get(uint64(len(steps))))
	if one.Progress != scope.Planned {
		one.Started = one.First + c.Get(s.size-one.First)
	}
	if one.Progress.Final() {
		one.Final = one.First + c.Get(s.size-one.First)
	}
}

// readKey reads an idempotency key; a zero key says that there is none.
func readKey(c *codec.Codec) (key digest) {
	switch text := c.GetText(len(key)); {
	case len(text) == len(key) && (text[0] == 1 || text[0] == 2):
		return digest(text)
	case len(text) > 0:
		c.Refuse("an idempotency key of %d bytes", len(text))
	}
	return key
}

func (s *State) readCheckpoints(c *codec.Codec) {
	before, key := uint64(0), make([]byte, 0, localKeyMax)
	for range c.GetCount(s.size) {
		key = s.readLocal(c, key)
		addName(c, s.checkpoints.names, key)
		agent := binary.BigEndian.Uint32(key)
		workflow := uint32(c.Get(uint64(max(1, s.workflows.Size()))))
		point := scope.Checkpoint{Index: before + c.Get(s.size-before), Covered: c.Get(s.size), ExpiresAt: int64(c.Get(math.MaxInt64)), Void: c.GetFlag()}
		of, task := c.GetFlag(), uint32(0)
		if of {
			task = uint32(c.Get(uint64(len(s.tasks.list))))
		}
		if before = point.Index; !c.OK() {
			return
		}
		all := s.spansAll(agent)
		if all && workflow != 0 || int(workflow) >= s.workflows.Size() {
			c.Refuse("workflow %d of a checkpoint", workflow)
			return
		}
		point.Line = s.graph.AddLine(agent, workflow, all)
		if number := s.graph.AddCheckpoint(point); of {
			s.linkPoint(number, task)
		}
		s.checkpoints.digests.Add(digest(c.GetRaw(len(digest{}))))
	}
}
