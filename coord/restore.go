package coord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"recoveryledger/coord/compact"
	"recoveryledger/coord/scope"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Restore replaces the state by one that Snapshot wrote. It accepts exactly
// what Snapshot makes; on an error, which wraps [ErrSnapshot] or that of r, the
// state is as before.
func (s *State) Restore(r io.Reader) error {
	d := newDecoder(r)
	fresh := newState(s.origin, s.check)
	d.state(fresh)
	if d.end(); d.err != nil {
		return d.err
	}
	*s = *fresh
	return nil
}

// decoder reads the parts of a snapshot. After the first error it returns zeros
// and every loop ends.
type decoder struct {
	r   *bufio.Reader
	err error
	buf []byte // the text read last
}

func newDecoder(r io.Reader) *decoder { return &decoder{r: bufio.NewReaderSize(r, 1<<16)} }

// end refuses what stands behind a snapshot.
func (d *decoder) end() {
	if _, err := d.r.ReadByte(); err == nil {
		d.refuse("bytes behind the end")
	} else if !errors.Is(err, io.EOF) {
		d.failed(err)
	}
}

func (d *decoder) state(s *State) {
	if string(d.bytes(len(snapshotMagic))) != snapshotMagic {
		d.refuse("it does not begin with %q", snapshotMagic)
	}
	if origin := d.text(entry.MaxName); string(origin) != s.origin {
		d.refuse("it is of %q", origin)
	}
	s.size = d.number(math.MaxInt64)
	d.chain(s)
	d.principals(s)
	d.names(s.workflows, s.size, d.text)
	for range s.size {
		if s.tree.leaves.Add(merkle.Hash(d.bytes(merkle.HashSize))); d.err != nil {
			return
		}
	}
	var nodes sync.WaitGroup
	nodes.Go(s.tree.grow) // which nothing up to the incidents asks for
	(&passage{d: d}).tasks(s)
	d.executions(s)
	d.checkpoints(s)
	nodes.Wait()
	if (&passage{d: d}).incidents(s); d.err == nil {
		d.derive(s)
	}
	d.runs(s)
}

func (d *decoder) chain(s *State) {
	next := uint64(0)
	for range d.count(s.size) {
		index := d.number(s.size)
		leaf := d.text(leafMax)
		if d.err != nil {
			return
		}
		e, at, err := entry.DecodeLeaf(leaf)
		if err == nil {
			err = s.chain.Admit(e, index)
		}
		if err != nil || index < next {
			d.refuse("entry %d of the policy chain: %v", index, err)
			return
		}
		s.applyLink(e, index, at)
		next = index + 1
	}
	if next == 0 && s.size > 0 {
		d.refuse("%d entries without a policy", s.size)
	}
}

// names reads texts that all differ.
func (d *decoder) names(n *compact.Names, countMax uint64, text func(limit int) []byte) {
	for range d.count(countMax) {
		d.name(n, text(entry.MaxName))
		if d.err != nil {
			return
		}
	}
}

// name gives a text that is not there yet its number.
func (d *decoder) name(n *compact.Names, text []byte) {
	if _, added := n.Add(text); !added {
		d.refuse("%q twice", text)
	}
}

func (d *decoder) principals(s *State) {
	for range d.count(s.size) {
		name := entry.Principal(d.text(entry.MaxName))
		d.name(s.principals, []byte(name))
		s.usage = append(s.usage, d.usage(name))
		if d.err != nil {
			return
		}
	}
}

func (d *decoder) usage(name entry.Principal) (u usage) {
	u.name = name
	u.entries, u.signals = d.ring(), d.ring()
	p := &passage{d: d}
	list(p, &u.judged, judgedMax, p.verdict)
	for _, v := range u.judged {
		u.count(v, 1)
	}
	u.corrections = int64(d.number(math.MaxInt64))
	ascending(p, &u.incidents, math.MaxUint32)
	return u
}

func (d *decoder) ring() (r ring) {
	r.minute = int64(d.number(entry.MaxInteger/minuteMS + 1))
	for i := range r.counts {
		r.counts[i] = uint32(d.number(math.MaxUint32 + 1))
	}
	return r
}

func (d *decoder) executions(s *State) {
	x := &s.executions
	count := d.count(min(s.size, math.MaxUint32>>1))
	parents := make([]scope.Parent, 0, entry.MaxParents)
	before, last := uint64(0), int64(0)
	for exec := range count {
		key := d.local(s.principals.Size())
		x.names.Append(key)
		one := scope.Node{Agent: binary.BigEndian.Uint32(key), Workflow: uint32(d.number(uint64(s.workflows.Size())))}
		if one.First = before + d.number(s.size-before); one.First == before {
			d.refuse("two executions begin at %d", before)
		}
		one.At = last + int64(d.number(math.MaxInt64))
		before, last = one.First, one.At
		d.progress(s, &one)
		one.Clean, one.Undone = d.flag(), d.flag()
		var comp *compensated
		if d.flag() {
			comp = &compensated{uint32(d.number(math.MaxUint32)), uint32(d.number(exec))}
		}
		of := d.flag()
		task := uint32(0)
		if of {
			task = uint32(d.number(uint64(len(s.tasks.list))))
		}
		idempotency, cost := d.key(), int64(d.number(entry.MaxInteger+1))
		parents = parents[:0]
		for range d.number(entry.MaxParents + 1) {
			parents = append(parents, scope.Parent{Exec: uint32(d.number(exec)), Soft: d.flag()})
		}
		if d.err != nil {
			return
		}
		if s.addExecution(one, parents, idempotency, comp); of {
			s.addWork(uint32(exec), task)
		}
		*x.costs.Change(uint32(exec)) = cost
	}
	if twice, ok := x.names.Index(); !ok {
		d.refuse("%q twice", x.names.Text(twice))
	}
	s.graph.SortFinals()
}

// progress reads how far an execution has come.
func (d *decoder) progress(s *State, one *scope.Node) {
	one.Effect, one.Progress = scope.Effect(d.number(uint64(len(effects)))), scope.Progress(d.number(uint64(len(steps))))
	if one.Progress != scope.Planned {
		one.Started = one.First + d.number(s.size-one.First)
	}
	if one.Progress.Final() {
		one.Final = one.First + d.number(s.size-one.First)
	}
}

// key reads an idempotency key; a zero one is none.
func (d *decoder) key() (key digest) {
	switch text := d.text(len(key)); {
	case len(text) == len(key) && (text[0] == 1 || text[0] == 2):
		return digest(text)
	case len(text) > 0:
		d.refuse("an idempotency key of %d bytes", len(text))
	}
	return key
}

func (d *decoder) checkpoints(s *State) {
	before := uint64(0)
	for range d.count(s.size) {
		key := d.local(s.principals.Size())
		d.name(s.checkpoints.names, key)
		agent := binary.BigEndian.Uint32(key)
		workflow := uint32(d.number(uint64(max(1, s.workflows.Size()))))
		c := scope.Checkpoint{Index: before + d.number(s.size-before), Covered: d.number(s.size), ExpiresAt: int64(d.number(math.MaxInt64)), Void: d.flag()}
		of, task := d.flag(), uint32(0)
		if of {
			task = uint32(d.number(uint64(len(s.tasks.list))))
		}
		if before = c.Index; d.err != nil {
			return
		}
		all := s.spansAll(agent)
		if all && workflow != 0 || int(workflow) >= s.workflows.Size() {
			d.refuse("workflow %d of a checkpoint", workflow)
			return
		}
		c.Line = s.graph.AddLine(agent, workflow, all)
		if number := s.graph.AddCheckpoint(c); of {
			s.linkPoint(number, task)
		}
		s.checkpoints.digests.Add(digest(d.bytes(len(digest{}))))
	}
}

func (d *decoder) runs(s *State) {
	for range d.count(s.size) {
		d.name(s.runs.names, d.local(s.principals.Size()))
		one := runState{}
		copy(one.config[1:], d.bytes(len(one.config)-1))
		one.closed = d.flag()
		if d.err != nil {
			return
		}
		s.runs.list = append(s.runs.list, one)
	}
}

func (d *decoder) flag() bool { return d.number(2) == 1 }

// count reads the length of a list.
func (d *decoder) count(most uint64) uint64 { return d.number(most + 1) }

// number reads a varint in its shortest form, below limit.
func (d *decoder) number(limit uint64) (n uint64) {
	for shift := 0; ; shift += 7 {
		b, err := d.r.ReadByte()
		if err != nil {
			d.failed(err)
			return 0
		}
		if shift > 0 && b == 0 || shift == 63 && b > 1 {
			d.refuse("a number that is not in its shortest form")
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	if n >= limit {
		d.refuse("%d, want less than %d", n, limit)
	}
	if d.err != nil {
		return 0
	}
	return n
}

// bytes reads so many bytes; they last until the next call.
func (d *decoder) bytes(size int) []byte {
	if cap(d.buf) < size {
		d.buf = make([]byte, size)
	}
	d.buf = d.buf[:size]
	if _, err := io.ReadFull(d.r, d.buf); err != nil {
		d.failed(err)
	}
	return d.buf
}

// text reads a text of at most limit bytes, as bytes does.
func (d *decoder) text(limit int) []byte { return d.bytes(int(d.number(uint64(limit) + 1))) }

// local reads an issuer's number and a local id: together a key of names.
func (d *decoder) local(principals int) []byte {
	agent := uint32(d.number(uint64(principals)))
	id := d.text(entry.MaxName)
	d.buf = append(d.buf, 0, 0, 0, 0)
	copy(d.buf[4:], id)
	binary.BigEndian.PutUint32(d.buf, agent)
	return d.buf
}

func (d *decoder) refuse(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrSnapshot}, args...)...)
	}
}

func (d *decoder) failed(err error) {
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		d.refuse("it ends too early")
	case d.err == nil:
		d.err = fmt.Errorf("coord: read snapshot: %w", err)
	}
}
