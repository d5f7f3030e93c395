package coord

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"

	"recoveryledger/coord/codec"
	"recoveryledger/coord/compact"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// snapshotMagic begins every snapshot; the digit is its version.
const snapshotMagic = "coord state 17\n"

// ErrSnapshot reports bytes that are not a snapshot of this version, or not of
// this ledger. A state can always be built again from the log.
var ErrSnapshot = errors.New("coord: not a snapshot of this ledger's state")

// Snapshot writes the state. The bytes depend on the applied entries only. All
// numbers are unsigned varints in their shortest form, texts follow their
// length, every list its own:
//
//	magic, origin, size
//	policy chain: index and leaf of each entry
//	principals: name, usage, dispositions, corrections, incidents, newest entry ·
//	    workflows: name
//	leaf hashes of all entries
//	tasks: issuer, id, index of the first entry, workflow, state, type, limits, counts,
//	    its holder and the time of the claim, the newest entries, the newest release,
//	    how its claims ended
//	executions: agent, id, workflow, entries and time between the first one and
//	    that of the execution before, effect, progress, entries from first to
//	    started and to final, whether without effects, undone, a compensation
//	    and of what, task, idempotency key, cost, parents
//	checkpoints: agent, id, workflow, entries since the one before, covered,
//	    expiry, whether void, task, digest
//	signals, incidents, cooldowns: see snapshotIncidents
//	runs: engine, id, digest of its configuration, closed · attempts: run, case
//	entries that the newest index entry covers
//	rollouts: the one under way, those that ended, newest reports
func (s *State) Snapshot(w io.Writer) error {
	c := codec.NewWriter(w)
	s.snapshot(c)
	return c.Close()
}

// Restore replaces the state by one that Snapshot wrote. It accepts exactly the bytes that Snapshot
// makes. An error wraps [ErrSnapshot] or the error of r, and leaves the state as it was.
func (s *State) Restore(r io.Reader) error {
	c := codec.NewReader(r, ErrSnapshot)
	fresh := NewCheckedState(s.origin, s.check)
	fresh.snapshot(c)
	if err := c.Close(); err != nil {
		return err
	}
	*s = *fresh
	return nil
}

// snapshot passes the state: it writes it, or reads into it.
func (s *State) snapshot(c *codec.Codec) {
	c.Magic(snapshotMagic)
	origin := s.origin
	if c.Text(&origin, entry.MaxName); origin != s.origin {
		c.Refuse("it is of %q", origin)
	}
	codec.Number(c, &s.size, math.MaxInt64)
	if c.Reading() {
		s.readChain(c)
	} else {
		s.writeChain(c)
	}
	snapshotNames(c, s.principals, s.size, func(number uint32) {
		if c.Reading() {
			s.usage = append(s.usage, usage{name: entry.Principal(s.principals.Text(number))})
		}
		s.usage[number].snapshot(c)
	})
	snapshotNames(c, s.workflows, s.size, func(uint32) {})
	if s.snapshotLeaves(c); !c.OK() {
		return
	}
	var nodes sync.WaitGroup
	if c.Reading() {
		nodes.Go(s.tree.Grow) // needed only from the incidents on
	}
	if s.snapshotTasks(c); c.Reading() {
		s.readExecutions(c)
		s.readCheckpoints(c)
	} else {
		s.writeExecutions(c)
		s.writeCheckpoints(c)
	}
	nodes.Wait()
	if s.snapshotIncidents(c); c.Reading() && c.OK() {
		s.derive(c)
	}
	s.snapshotRuns(c)
	codec.Number(c, &s.indexed, max(1, s.size))
	s.rollouts.Snapshot(c, s.size)
}

func (s *State) writeChain(c *codec.Codec) {
	links := s.chain.Links()
	c.Put(uint64(len(links)))
	for i := range links {
		c.Put(links[i].Index)
		c.PutText(links[i].AppendLeaf(nil))
	}
}

// snapshotNames passes texts that all differ, and the members that go with each text.
func snapshotNames(c *codec.Codec, names *compact.Names, most uint64, with func(number uint32)) {
	count := uint64(names.Size())
	codec.Number(c, &count, most+1)
	for number := range uint32(count) {
		if c.Reading() {
			addName(c, names, c.GetText(entry.MaxName))
		} else {
			c.PutText(names.Text(number))
		}
		if c.OK() {
			with(number)
		}
		if !c.OK() {
			return
		}
	}
}

// addName adds a new text and gives it its number.
func addName(c *codec.Codec, names *compact.Names, text []byte) {
	if _, added := names.Add(text); !added {
		c.Refuse("%q twice", text)
	}
}

// snapshotLocal passes the issuer's number and the local id of the name with a number. When the
// codec reads, the name gets the next number.
func (s *State) snapshotLocal(c *codec.Codec, names *compact.Names, number uint32) {
	if c.Reading() {
		addName(c, names, s.readLocal(c, make([]byte, 0, localKeyMax)))
		return
	}
	writeLocal(c, names.Text(number))
}

func writeLocal(c *codec.Codec, key []byte) {
	c.Put(uint64(binary.BigEndian.Uint32(key)))
	c.PutText(key[4:])
}

// readLocal reads an issuer's number and a local id into buf, as a key of localKey.
func (s *State) readLocal(c *codec.Codec, buf []byte) []byte {
	issuer := uint32(c.Get(uint64(s.principals.Size())))
	return append(binary.BigEndian.AppendUint32(buf[:0], issuer), c.GetText(entry.MaxName)...)
}

// snapshotLeaves passes the leaf hashes of all entries.
func (s *State) snapshotLeaves(c *codec.Codec) {
	var leaf merkle.Hash // here once: the writer makes it escape
	for i := range s.size {
		if !c.Reading() {
			leaf = s.tree.Leaf(uint32(i))
		}
		if c.Raw(leaf[:]); !c.OK() {
			return
		}
		if c.Reading() {
			s.tree.Append(leaf)
		}
	}
}

// snapshot passes the usage of a principal.
func (u *usage) snapshot(c *codec.Codec) {
	u.entries.Snapshot(c, entry.MaxInteger)
	u.signals.Snapshot(c, entry.MaxInteger)
	codec.List(c, &u.judged, judgedMax, func(v *verdict) { v.snapshot(c) })
	if c.Reading() {
		for _, v := range u.judged {
			u.count(v, 1)
		}
	}
	codec.Number(c, &u.corrections, math.MaxInt64)
	codec.Ascending(c, &u.incidents, math.MaxUint32)
	codec.Number(c, &u.last, math.MaxUint32+1)
}

func (s *State) writeExecutions(c *codec.Codec) {
	x, before, last := &s.executions, uint64(0), int64(0)
	c.Put(uint64(s.graph.Size()))
	for i := range s.graph.Size() {
		one := s.graph.Node(i)
		writeLocal(c, x.names.Text(i))
		c.Put(uint64(one.Workflow))
		c.Put(one.First - before)
		c.Put(uint64(one.At - last))
		before, last = one.First, one.At
		c.Put(uint64(one.Effect))
		c.Put(uint64(one.Progress))
		if one.Progress != scope.Planned {
			c.Put(one.Started - one.First)
		}
		if one.Progress.Final() {
			c.Put(one.Final - one.First)
		}
		comp, compensates := x.comps[i]
		c.PutFlag(one.Clean)
		c.PutFlag(one.Undone)
		if c.PutFlag(compensates); compensates {
			c.Put(uint64(comp.incident))
			c.Put(uint64(comp.exec))
		}
		task, of := s.tasks.of[i]
		if c.PutFlag(of); of {
			c.Put(uint64(task))
		}
		if key := *x.keyOf.At(i); key == 0 {
			c.PutText(nil)
		} else {
			c.PutText(x.keys.At(key - 1)[:])
		}
		c.Put(uint64(*x.costs.At(i)))
		c.Put(uint64(s.graph.ParentsOf(i)))
		for p := range s.graph.Parents(i) {
			c.Put(uint64(p.Exec))
			c.PutFlag(p.Soft)
		}
	}
}

func (s *State) writeCheckpoints(c *codec.Codec) {
	before := uint64(0)
	c.Put(uint64(s.graph.Checkpoints()))
	for i := range s.graph.Checkpoints() {
		point := s.graph.Checkpoint(i)
		writeLocal(c, s.checkpoints.names.Text(i))
		if workflow := s.graph.Line(point.Line).Workflow; workflow == scope.AllWorkflows {
			c.Put(0)
		} else {
			c.Put(uint64(workflow))
		}
		c.Put(point.Index - before)
		before = point.Index
		c.Put(point.Covered)
		c.Put(uint64(point.ExpiresAt))
		c.PutFlag(point.Void)
		task, of := s.tasks.pointOf[i]
		if c.PutFlag(of); of {
			c.Put(uint64(task))
		}
		c.PutRaw(s.checkpoints.digests.At(i)[:])
	}
}

func (s *State) snapshotRuns(c *codec.Codec) {
	number := uint32(0)
	codec.List(c, &s.runs.list, s.size, func(r *runState) {
		s.snapshotLocal(c, s.runs.names, number)
		c.Raw(r.config[1:])
		c.Flag(&r.closed)
		number++
	})
}
