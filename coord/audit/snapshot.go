package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"recoveryledger/coord"
	"recoveryledger/coord/codec"
	"recoveryledger/coord/compact"
	"recoveryledger/ledger/entry"
)

// followMagic begins every snapshot of a follower. The digit is the version. The snapshot of the
// state has a magic of its own.
const followMagic = "coord audit 3\n"

// jtiSize is the length of an entry's id in binary.
const jtiSize = 16

// Snapshot writes the follower, in the terms of [coord.State.Snapshot]:
//
//	magic, registered_at of the last entry, number of entries of each kind
//	identities: their number, and of each its issuer, id, half of the digest of the PAE
//	outcomes as they were reported: index, incident, issuer, execution, result
//	attempts: of each agent its name and counts
//	index: number of entries that it covers, number of subjects, and of each its key and record
//	the state
func (f *Follower) Snapshot(w io.Writer) error {
	c := codec.NewWriter(w)
	f.snapshot(c)
	if err := c.Close(); err != nil {
		return err
	}
	return f.state.Snapshot(w)
}

// Restore replaces the follower by one that Snapshot wrote, as [coord.State.Restore]
// does.
func (f *Follower) Restore(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, codec.BufferSize) // of which the codec reads no more than its own part
	c := codec.NewReader(buffered, coord.ErrSnapshot)
	fresh := NewFollower(f.origin)
	if fresh.snapshot(c); !c.OK() {
		return c.Err()
	}
	distinct := make(chan error, 1)
	go func() { distinct <- indexed(fresh.identities) }() // which the state does not ask for
	if err := errors.Join(fresh.state.Restore(buffered), <-distinct); err != nil {
		return err
	}
	if err := fresh.checkRestored(); err != nil {
		return err
	}
	*f = *fresh
	return nil
}

func indexed(identities *compact.Names) error {
	if twice, ok := identities.Index(); !ok {
		return fmt.Errorf("%w: the identity of entry %d twice", coord.ErrSnapshot, twice)
	}
	return nil
}

// snapshot passes the members of a follower other than its state, which is passed
// later.
func (f *Follower) snapshot(c *codec.Codec) {
	c.Magic(followMagic)
	c.Instant(&f.last)
	for _, kind := range entry.Kinds() {
		count := f.counts[kind]
		codec.Number(c, &count, math.MaxInt64)
		if c.Reading() && count > 0 {
			f.counts[kind] = count
		}
	}
	f.snapshotIdentities(c)
	before := uint64(0)
	codec.List(c, &f.outcomes, math.MaxUint32, func(o *outcomeAt) {
		gap := o.index - before
		codec.Number(c, &gap, math.MaxUint32)
		o.index = before + gap
		before = o.index
		codec.Number(c, &o.incident, math.MaxUint32)
		codec.Number(c, &o.issuer, math.MaxUint32)
		codec.Number(c, &o.exec, math.MaxUint32)
		codec.Number(c, &o.result, uint64(len(entry.Results())))
	})
	f.snapshotAttempts(c)
	f.index.snapshot(c)
}

func (f *Follower) snapshotIdentities(c *codec.Codec) {
	size := uint64(f.identities.Size())
	codec.Number(c, &size, math.MaxUint32)
	for i := range uint32(size) {
		if !c.Reading() {
			key := f.identities.Text(i)
			c.Put(uint64(binary.BigEndian.Uint32(key)))
			c.PutRaw(key[4:])
			c.PutRaw(f.payloads.At(i)[:])
			continue
		}
		var key [4 + jtiSize]byte
		binary.BigEndian.PutUint32(key[:], uint32(c.Get(math.MaxUint32)))
		both := c.GetRaw(jtiSize + sha256.Size/2)
		copy(key[4:], both)
		f.identities.Append(key[:])
		f.payloads.Add([sha256.Size / 2]byte(both[jtiSize:]))
		if !c.OK() {
			return
		}
	}
}

// checkRestored refuses restored members of a follower that do not fit its restored
// state.
func (f *Follower) checkRestored() error {
	s, size, counted := f.state, f.state.Size(), uint64(0)
	for _, count := range f.counts {
		counted += min(count, size+1)
	}
	if uint64(f.identities.Size()) != size || counted != size || uint64(len(f.outcomes)) != f.counts[entry.KindOutcome] {
		return fmt.Errorf("%w: size %d, of some kind %d, identities %d, outcomes %d", coord.ErrSnapshot, size, counted, f.identities.Size(), len(f.outcomes))
	}
	if f.index.tree.Size() > size {
		return fmt.Errorf("%w: an index of %d entries, of %d", coord.ErrSnapshot, f.index.tree.Size(), size)
	}
	for i := range uint32(f.identities.Size()) {
		if issuer := binary.BigEndian.Uint32(f.identities.Text(i)); issuer >= s.Principals() {
			return fmt.Errorf("%w: entry %d of principal %d", coord.ErrSnapshot, i, issuer)
		}
	}
	for i := range f.outcomes {
		o := &f.outcomes[i]
		if o.index >= size || i > 0 && o.index <= f.outcomes[i-1].index || o.incident >= o.index ||
			o.issuer >= s.Principals() || o.exec >= s.Graph().Size() {
			return fmt.Errorf("%w: an outcome at %d of nothing", coord.ErrSnapshot, o.index)
		}
	}
	return nil
}
