package coord

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// Restore replaces the state by one that Snapshot wrote. It accepts exactly
// what Snapshot makes; on an error, which wraps [ErrSnapshot] or that of r, the
// state is as before.
func (s *State) Restore(r io.Reader) error {
	d := &decoder{r: bufio.NewReaderSize(r, 1<<16)}
	fresh := newState(s.origin, s.check)
	d.state(fresh)
	if _, err := d.r.ReadByte(); err == nil {
		d.refuse("bytes behind the end")
	} else if !errors.Is(err, io.EOF) {
		d.failed(err)
	}
	if d.err != nil {
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
	d.executions(s)
	d.names(s.checkpoints, s.size, func(int) []byte { return d.local(s.principals.Size()) })
	d.lines(s)
	d.signals(s)
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
		s.chain.Apply(e, index, at)
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
		d.name(s.principals, d.text(entry.MaxName))
		s.usage = append(s.usage, usage{entries: d.ring(), signals: d.ring()})
		if d.err != nil {
			return
		}
	}
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
	x.names = compact.NewNames(int(min(count, presizeMax)))
	parents := make([]uint32, 0, entry.MaxParents)
	for number := range count {
		key := d.local(s.principals.Size())
		agent := binary.BigEndian.Uint32(key)
		d.name(x.names, key)
		one := d.execution(s)
		parents = parents[:0]
		for range d.number(entry.MaxParents + 1) {
			parents = append(parents, uint32(d.number(2*number)))
		}
		if d.err != nil {
			return
		}
		one.agent = agent
		x.add(one, parents)
	}
}

// execution reads what stands between the id and the parents.
func (d *decoder) execution(s *State) (x execution) {
	x.workflow = uint32(d.number(uint64(s.workflows.Size())))
	before := uint64(0)
	if n := s.executions.list.Size(); n > 0 {
		before = s.executions.list.At(n - 1).first
	}
	if x.first = before + d.number(s.size-before); x.first == before {
		d.refuse("two executions begin at %d", before)
	}
	x.final = x.first + d.number(s.size-x.first)
	x.effect = effect(d.number(uint64(len(effects))))
	x.progress = progress(d.number(uint64(len(steps))))
	if !x.progress.final() {
		if x.final > x.first {
			d.refuse("an execution that is final and %s", x.progress)
		}
		x.final = 0
	}
	switch key := d.text(len(digest{})); {
	case len(key) == len(digest{}) && key[0] <= 1:
		x.key = 1 + s.executions.keys.Add(digest(key))
	case len(key) > 0:
		d.refuse("an idempotency key of %d bytes", len(key))
	}
	return x
}

func (d *decoder) lines(s *State) {
	for range d.count(s.size) {
		of := line{agent: uint32(d.number(uint64(s.principals.Size())))}
		of.workflow = uint32(d.number(math.MaxUint32 + 1))
		if of.workflow != allWorkflows && int(of.workflow) >= s.workflows.Size() {
			d.refuse("workflow %d of %d", of.workflow, s.workflows.Size())
		}
		if _, there := s.lines.numbers[of]; there {
			d.refuse("a line twice")
		}
		covered := d.number(s.size)
		if d.err != nil {
			return
		}
		s.lines.cover(of, covered)
	}
}

func (d *decoder) signals(s *State) {
	before := uint64(0)
	for range d.count(s.size) {
		one := signal{index: before + d.number(s.size-before)}
		copy(one.leaf[:], d.bytes(len(one.leaf)))
		one.issuer = uint32(d.number(uint64(s.principals.Size())))
		one.subject = uint32(d.number(uint64(s.executions.list.Size())))
		if one.index == before {
			d.refuse("two signals at %d", before)
		}
		if d.err != nil {
			return
		}
		s.signals = append(s.signals, one)
		before = one.index
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
	for range d.count(s.size) {
		key := d.local(len(s.runs.list))
		d.name(s.runs.cases, key)
		if d.err != nil {
			return
		}
		s.runs.list[binary.BigEndian.Uint32(key)].cases++
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
