package stage

import (
	"context"
	"errors"

	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// fold admits and applies the right entry in the place of a forged one.
type fold struct {
	*coordinator.Fold

	stage *Stage
}

// Admit implements [ledger.Fold].
func (f *fold) Admit(e *entry.Entry, index uint64, at int64) error {
	if err := f.stage.judged(e, f.State.Admit(f.stage.right(e), index, at)); err != nil {
		return err
	}
	return f.State.Admit(f.stage.right(e), index, at) // a mistake has given it another right entry
}

// Apply implements [ledger.Fold].
func (f *fold) Apply(e *entry.Entry, index uint64, at int64) {
	f.Fold.Apply(f.stage.right(e), index, at)
}

// A Judge changes what the ledger answers about an entry: nil registers the entry.
type Judge func(e *entry.Entry, refused error) error

// Judge has the ledger be mistaken. In the place of an entry that it registers in spite of the
// rules, the rules see one that changes nothing.
func (s *Stage) Judge(judge Judge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge = judge
}

// judged is the answer about an entry.
func (s *Stage) judged(e *entry.Entry, refused error) error {
	s.mu.Lock()
	judge := s.judge
	s.mu.Unlock()
	if judge == nil {
		return refused
	}
	given := judge(e, refused)
	if given != nil || refused == nil {
		return given
	}
	nothing, err := s.Seal(Source, &entry.Execution{Exec: e.Header.JTI, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.twins[e.Header.JTI] = nothing
	s.mu.Unlock()
	return nil
}

// right is the entry that the rules see in the place of e.
func (s *Stage) right(e *entry.Entry) *entry.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if twin := s.twins[e.Header.JTI]; twin != nil {
		return twin
	}
	return e
}

// A Twist makes another entry of one that the coordinator writes. The log holds the other one,
// and the rules go on from the first one. The twist returns nil to leave the entry as it is.
type Twist func(right *entry.Entry) (forged *entry.Entry, err error)

// Coordinate writes what the coordinator writes now, each entry changed by a twist; nil changes
// none.
func (s *Stage) Coordinate(ctx context.Context, twist Twist) error {
	k := &coordinator.Coordinator{Replica: s.replica, Log: twisted{s, s.log, twist}, Principal: Coordinator, Seal: s.Signer(Coordinator).Sign}
	_, _, err := k.Step(ctx)
	return err
}

// twisted is the log as a coordinator writes to it.
type twisted struct {
	stage *Stage
	*ledger.Log
	twist Twist
}

// Submit implements [coordinator.Log].
func (l twisted) Submit(ctx context.Context, entries ...*entry.Entry) (taken int, err error) {
	for _, e := range entries {
		if err := l.submit(ctx, e); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// submit registers an entry, twisted.
func (l twisted) submit(ctx context.Context, e *entry.Entry) error {
	written := e
	if l.twist != nil {
		forged, err := l.twist(e)
		if err != nil {
			return err
		}
		if forged != nil {
			written = forged
			l.stage.mu.Lock()
			l.stage.twins[forged.Header.JTI] = e
			l.stage.mu.Unlock()
		}
	}
	_, err := l.stage.submit(ctx, written)
	if refusal, is := errors.AsType[*entry.Refusal](err); is {
		return refusal
	}
	return err
}

// Forge has the log hold one entry, and the rules go on from another one.
func (s *Stage) Forge(ctx context.Context, right, forged *entry.Entry) (entry.LogRef, error) {
	s.mu.Lock()
	s.twins[forged.Header.JTI] = right
	s.mu.Unlock()
	return s.submit(ctx, forged)
}
