package access

import (
	"errors"
	"time"

	"recoveryledger/coord/audit"
	"recoveryledger/verify"
)

// begun is where a fold that is interrupted leaves what it has taken up. A nil begun keeps nothing.
type begun struct {
	machine *Machine
	place   audit.Place
	size    uint64 // entries of the fold when it began, or went on
	found   bool   // whether it went on from what another one has left
}

// goOn has a fold go on from what an interrupted one has left, if that is more than the fold has.
func (m *Machine) goOn(l *Log, f *Fold) *begun {
	b := &begun{machine: m, size: f.Follower.State().Size()}
	var left *audit.Kept
	var err error
	if b.place, err = m.Trust.Begun(l.Root); err == nil {
		left, err = b.place.Load()
	}
	if err != nil {
		m.Warn("what an interrupted command has left in %s is not used: %v", b.place.Path, err)
		return b
	}
	if left == nil || f.passing {
		return b
	}
	if size := left.Follower.State().Size(); size > b.size && size <= f.Head.Size {
		f.Follower, b.size, b.found = left.Follower, size, true
	}
	return b
}

// disproved reports whether an error says that entries of a fold are not entries of the log, or
// that they should not be.
func disproved(err error) bool {
	_, others := errors.AsType[*audit.RootError](err)
	return others || audit.Evidence(err) != nil
}

// doubted reports whether a fold may be disproved by what was left, which nothing has compared with
// a tree head. It removes what was left: the log tells, read from its first entry on.
func (b *begun) doubted(err error) bool {
	if !disproved(err) || b == nil || !b.found {
		return false
	}
	b.machine.Warn("what an interrupted command has left is removed, and the log is read again: %v", err)
	b.remove()
	return true
}

// leave keeps what a fold has taken up before an error that says nothing against its entries.
func (b *begun) leave(taken *audit.Follower, head verify.SignedHead, err error) {
	if disproved(err) || b == nil {
		return
	}
	size := taken.State().Size()
	if size <= b.size {
		return
	}
	if failed := b.place.Save(&audit.Kept{Follower: taken, Head: head, At: time.Now().UnixMilli()}); failed != nil {
		b.machine.Warn("what was read is not kept, and the next command reads it again: %v", failed)
		return
	}
	b.machine.Warn("%d of %d entries are kept: the next command goes on there", size, head.Size)
}

func (b *begun) remove() {
	if b == nil {
		return
	}
	if err := b.place.Remove(); err != nil {
		b.machine.Warn("what an interrupted command has left stays in %s: %v", b.place.Path, err)
	}
}
