package coord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"recoveryledger/coord/scope"
)

// snapshotMagic begins every snapshot; the digit is its version.
const snapshotMagic = "coord state 8\n"

// ErrSnapshot reports bytes that are not a snapshot of this version, or not of
// this ledger. A state can always be built again from the log.
var ErrSnapshot = errors.New("coord: not a snapshot of this ledger's state")

// Snapshot writes the state. The bytes depend on the applied entries only. All
// numbers are unsigned varints in their shortest form, texts follow their
// length, every list its own:
//
//	magic, origin, size
//	policy chain: index and leaf of each entry
//	principals: name, usage, dispositions, corrections, incidents · workflows: name
//	leaf hashes of all entries
//	tasks: issuer, id, index of the first entry, workflow, state, type, limits, counts,
//	    who holds it and since when, the newest entries, when somebody answered for it,
//	    how its claims ended
//	executions: agent, id, workflow, entries and time between the first one and
//	    that of the execution before, effect, progress, entries from first to
//	    started and to final, whether without effects, undone, a compensation
//	    and of what, task, idempotency key, cost, parents
//	checkpoints: agent, id, workflow, entries since the one before, covered,
//	    expiry, whether void, task, digest
//	signals, incidents, cooldowns: see incidents
//	runs: engine, id, digest of its configuration, closed · attempts: run, case
func (s *State) Snapshot(w io.Writer) error {
	e := &encoder{bufio.NewWriterSize(w, 1<<16)}
	_, _ = e.w.WriteString(snapshotMagic)
	e.text([]byte(s.origin))
	e.number(s.size)
	links := s.chain.Links()
	e.number(uint64(len(links)))
	for i := range links {
		e.number(links[i].Index)
		e.text(links[i].Leaf)
	}
	e.number(uint64(s.principals.Size()))
	for i := range s.usage {
		e.text(s.principals.Text(uint32(i)))
		e.usage(&s.usage[i])
	}
	e.number(uint64(s.workflows.Size()))
	for i := range s.workflows.Size() {
		e.text(s.workflows.Text(uint32(i)))
	}
	for i := range s.tree.leaves.Size() {
		_, _ = e.w.Write(s.tree.leaves.At(i)[:])
	}
	(&passage{e: e}).tasks(s)
	e.executions(s)
	e.checkpoints(s)
	(&passage{e: e}).incidents(s)
	e.runs(&s.runs)
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("coord: write snapshot: %w", err)
	}
	return nil
}

// encoder writes the parts of a snapshot. The first error of the writer stays
// until Flush tells it.
type encoder struct {
	w *bufio.Writer
}

func (e *encoder) number(n uint64) {
	_, _ = e.w.Write(binary.AppendUvarint(e.w.AvailableBuffer(), n))
}

func (e *encoder) text(text []byte) {
	e.number(uint64(len(text)))
	_, _ = e.w.Write(text)
}

// local writes an issuer's number and a local id.
func (e *encoder) local(key []byte) {
	e.number(uint64(binary.BigEndian.Uint32(key)))
	e.text(key[4:])
}

func (e *encoder) ring(r *ring) {
	e.number(uint64(r.minute))
	for _, count := range r.counts {
		e.number(uint64(count))
	}
}

// usage writes what is known of a principal.
func (e *encoder) usage(u *usage) {
	e.ring(&u.entries)
	e.ring(&u.signals)
	p := &passage{e: e}
	list(p, &u.judged, judgedMax, p.verdict)
	e.number(uint64(u.corrections))
	ascending(p, &u.incidents, math.MaxUint32)
}

func (e *encoder) executions(s *State) {
	x, before, last := &s.executions, uint64(0), int64(0)
	e.number(uint64(s.graph.Size()))
	for i := range s.graph.Size() {
		one := s.graph.Node(i)
		e.local(x.names.Text(i))
		e.number(uint64(one.Workflow))
		e.number(one.First - before)
		e.number(uint64(one.At - last))
		before, last = one.First, one.At
		_ = e.w.WriteByte(byte(one.Effect))
		_ = e.w.WriteByte(byte(one.Progress))
		if one.Progress != scope.Planned {
			e.number(one.Started - one.First)
		}
		if one.Progress.Final() {
			e.number(one.Final - one.First)
		}
		comp, compensates := x.comps[i]
		e.flag(one.Clean)
		e.flag(one.Undone)
		if e.flag(compensates); compensates {
			e.number(uint64(comp.incident))
			e.number(uint64(comp.exec))
		}
		task, of := s.tasks.of[i]
		if e.flag(of); of {
			e.number(uint64(task))
		}
		if key := *x.keyOf.At(i); key == 0 {
			e.text(nil)
		} else {
			e.text(x.keys.At(key - 1)[:])
		}
		e.number(uint64(*x.costs.At(i)))
		e.number(uint64(s.graph.ParentsOf(i)))
		for p := range s.graph.Parents(i) {
			e.number(uint64(p.Exec))
			e.flag(p.Soft)
		}
	}
}

func (e *encoder) checkpoints(s *State) {
	before := uint64(0)
	e.number(uint64(s.graph.Checkpoints()))
	for i := range s.graph.Checkpoints() {
		c := s.graph.Checkpoint(i)
		e.local(s.checkpoints.names.Text(i))
		if workflow := s.graph.Line(c.Line).Workflow; workflow == scope.AllWorkflows {
			e.number(0)
		} else {
			e.number(uint64(workflow))
		}
		e.number(c.Index - before)
		before = c.Index
		e.number(c.Covered)
		e.number(uint64(c.ExpiresAt))
		e.flag(c.Void)
		task, of := s.tasks.pointOf[i]
		if e.flag(of); of {
			e.number(uint64(task))
		}
		_, _ = e.w.Write(s.checkpoints.digests.At(i)[:])
	}
}

func (e *encoder) runs(r *runs) {
	e.number(uint64(len(r.list)))
	for i := range r.list {
		e.local(r.names.Text(uint32(i)))
		_, _ = e.w.Write(r.list[i].config[1:])
		e.flag(r.list[i].closed)
	}
}

func (e *encoder) flag(set bool) {
	if set {
		e.number(1)
		return
	}
	e.number(0)
}
