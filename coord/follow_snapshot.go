package coord

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// followMagic begins every snapshot of a follower; the digit is its version. The
// snapshot of the state has its own.
const followMagic = "coord audit 1\n"

// jtiSize is the length of an entry's id in binary.
const jtiSize = 16

// Snapshot writes the follower, in the terms of [State.Snapshot]:
//
//	magic, registered_at of the last entry, how many entries of each kind
//	identities: how many, and of each issuer, id, half of the digest of the PAE
//	outcomes as they were reported: index, incident, issuer, execution, result
//	the state
func (f *Follower) Snapshot(w io.Writer) error {
	e := &encoder{bufio.NewWriterSize(w, 1<<16)}
	_, _ = e.w.WriteString(followMagic)
	(&passage{e: e}).follower(f)
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("coord: write snapshot: %w", err)
	}
	return f.state.Snapshot(w)
}

// Restore replaces the follower by one that Snapshot wrote, as [State.Restore]
// does.
func (f *Follower) Restore(r io.Reader) error {
	d := newDecoder(r)
	fresh := NewFollower(f.state.origin)
	if string(d.bytes(len(followMagic))) != followMagic {
		d.refuse("it does not begin with %q", followMagic)
	}
	(&passage{d: d}).follower(fresh)
	if d.err != nil {
		return d.err
	}
	distinct := make(chan error, 1)
	go func() { distinct <- indexed(fresh.identities) }() // which the state does not ask for
	d.state(fresh.state)
	d.end()
	if err := errors.Join(d.err, <-distinct); err != nil {
		return err
	}
	if err := fresh.fits(); err != nil {
		return err
	}
	*f = *fresh
	return nil
}

func indexed(identities *compact.Names) error {
	if twice, ok := identities.Index(); !ok {
		return fmt.Errorf("%w: the identity of entry %d twice", ErrSnapshot, twice)
	}
	return nil
}

// follower passes what a follower has beside its state, which is read later.
func (p *passage) follower(f *Follower) {
	instant(p, &f.last)
	for _, kind := range entry.Kinds() {
		count := f.counts[kind]
		number(p, &count, math.MaxInt64)
		if p.reading() && count > 0 {
			f.counts[kind] = count
		}
	}
	p.identities(f)
	before := uint64(0)
	list(p, &f.outcomes, math.MaxUint32, func(o *outcomeAt) {
		gap := o.index - before
		number(p, &gap, math.MaxUint32)
		o.index = before + gap
		before = o.index
		number(p, &o.incident, math.MaxUint32)
		number(p, &o.issuer, math.MaxUint32)
		number(p, &o.exec, math.MaxUint32)
		number(p, &o.result, uint64(len(results)))
	})
}

func (p *passage) identities(f *Follower) {
	size := uint64(f.identities.Size())
	number(p, &size, math.MaxUint32)
	for i := range uint32(size) {
		if !p.reading() {
			key := f.identities.Text(i)
			p.e.number(uint64(binary.BigEndian.Uint32(key)))
			_, _ = p.e.w.Write(key[4:])
			_, _ = p.e.w.Write(f.payloads.At(i)[:])
			continue
		}
		var key [4 + jtiSize]byte
		binary.BigEndian.PutUint32(key[:], uint32(p.d.number(math.MaxUint32)))
		both := p.d.bytes(jtiSize + sha256.Size/2)
		copy(key[4:], both)
		f.identities.Append(key[:])
		f.payloads.Add([sha256.Size / 2]byte(both[jtiSize:]))
		if p.d.err != nil {
			return
		}
	}
}

// fits refuses what a follower has beside its state where it is not of that state.
func (f *Follower) fits() error {
	s, counted := f.state, uint64(0)
	for _, count := range f.counts {
		counted += min(count, s.size+1)
	}
	if uint64(f.identities.Size()) != s.size || counted != s.size || uint64(len(f.outcomes)) != f.counts[entry.KindOutcome] {
		return fmt.Errorf("%w: %d entries, %d of some kind, %d identities, %d outcomes", ErrSnapshot, s.size, counted, f.identities.Size(), len(f.outcomes))
	}
	for i := range uint32(f.identities.Size()) {
		if issuer := binary.BigEndian.Uint32(f.identities.Text(i)); int(issuer) >= s.principals.Size() {
			return fmt.Errorf("%w: entry %d of principal %d", ErrSnapshot, i, issuer)
		}
	}
	for i := range f.outcomes {
		o := &f.outcomes[i]
		if o.index >= s.size || i > 0 && o.index <= f.outcomes[i-1].index || o.incident >= o.index ||
			int(o.issuer) >= s.principals.Size() || o.exec >= s.graph.Size() {
			return fmt.Errorf("%w: an outcome at %d of nothing", ErrSnapshot, o.index)
		}
	}
	return nil
}
