package coord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// snapshotMagic begins every snapshot; the digit is its version.
const snapshotMagic = "coord state 2\n"

// ErrSnapshot reports bytes that are not a snapshot of this version, or not of
// this ledger. A state can always be built again from the log.
var ErrSnapshot = errors.New("coord: not a snapshot of this ledger's state")

// Snapshot writes the state. The bytes depend on the applied entries only. All
// numbers are unsigned varints in their shortest form, texts follow their
// length, every list its own:
//
//	magic, origin, size
//	policy chain: index and leaf of each entry
//	principals: name and usage · workflows: name
//	executions: agent, id, workflow, entries between the first one and that of
//	    the execution before, entries from first to final, effect, progress,
//	    idempotency key, parents
//	checkpoints: agent, id · lines: agent, workflow, covered
//	signals: entries since the one before, leaf hash, issuer, subject
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
		e.ring(&s.usage[i].entries)
		e.ring(&s.usage[i].signals)
	}
	e.number(uint64(s.workflows.Size()))
	for i := range s.workflows.Size() {
		e.text(s.workflows.Text(uint32(i)))
	}
	e.executions(&s.executions)
	e.number(uint64(s.checkpoints.Size()))
	for i := range s.checkpoints.Size() {
		e.local(s.checkpoints.Text(uint32(i)))
	}
	e.number(uint64(len(s.lines.list)))
	for _, l := range s.lines.list {
		e.number(uint64(l.agent))
		e.number(uint64(l.workflow))
		e.number(l.covered)
	}
	e.number(uint64(len(s.signals)))
	before := uint64(0)
	for i := range s.signals {
		e.number(s.signals[i].index - before)
		before = s.signals[i].index
		_, _ = e.w.Write(s.signals[i].leaf[:])
		e.number(uint64(s.signals[i].issuer))
		e.number(uint64(s.signals[i].subject))
	}
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

func (e *encoder) executions(x *executions) {
	size, before := x.list.Size(), uint64(0)
	e.number(uint64(size))
	for i := range size {
		one := x.list.At(i)
		e.local(x.names.Text(i))
		e.number(uint64(one.workflow))
		e.number(one.first - before)
		before = one.first
		if one.progress.final() {
			e.number(one.final - one.first)
		} else {
			e.number(0)
		}
		_ = e.w.WriteByte(byte(one.effect))
		_ = e.w.WriteByte(byte(one.progress))
		if one.key == 0 {
			e.text(nil)
		} else {
			e.text(x.keys.At(one.key - 1)[:])
		}
		e.number(uint64(one.parents))
		for j := range uint32(one.parents) {
			e.number(uint64(*x.edges.At(one.edges + j)))
		}
	}
}

func (e *encoder) runs(r *runs) {
	e.number(uint64(len(r.list)))
	for i := range r.list {
		e.local(r.names.Text(uint32(i)))
		_, _ = e.w.Write(r.list[i].config[1:])
		e.flag(r.list[i].closed)
	}
	e.number(uint64(r.cases.Size()))
	for i := range r.cases.Size() {
		e.local(r.cases.Text(uint32(i)))
	}
}

func (e *encoder) flag(set bool) {
	if set {
		e.number(1)
		return
	}
	e.number(0)
}
