// Package consoles is the console on a user's machine. It reads a log under its pinned root,
// derives the state from the entries, and follows the log. Its pages show only the derived state:
// no page relies on a statement of the ledger. Only this package signs from a page. The keys stay
// in this process.
package consoles

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"recoveryledger/api/console"
	"recoveryledger/cmd/arl/access"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/coord"
	"recoveryledger/coord/audit"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// Source is a log that this machine has derived. It grows only while run runs.
type Source struct {
	machine *access.Machine
	log     *access.Log
	logger  *slog.Logger
	still   bool // a stopped ledger: the log does not grow

	// lock guards the content of the fold, and the fields below.
	lock     sync.RWMutex
	fold     *access.Fold
	standing console.Standing
	grown    chan struct{} // closed when standing changes
}

// NewSource returns the source of a log. It begins with the kept fold of the log, and does not ask
// the server.
func NewSource(m *access.Machine, l *access.Log, logger *slog.Logger) *Source {
	_, served := l.Registry.(*access.Connection)
	s := &Source{machine: m, log: l, logger: logger, still: !served, grown: make(chan struct{})}
	s.begin()
	return s
}

// begin loads the kept fold of the log. Without a kept fold it begins with the empty log.
func (s *Source) begin() {
	fold := s.machine.Begin(s.log)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.fold = fold
	s.standing.Head, s.standing.Note, s.standing.At = fold.Head.Head, fold.Head.Note, fold.Follower.RegisteredAt()
	if fold.Before != nil {
		s.standing.LostAt = fold.Before.At
	} else {
		s.standing.Reading = &console.Reading{}
	}
}

// change changes the standing, and wakes the goroutines that wait for a change.
func (s *Source) change(change func(at *console.Standing)) {
	s.lock.Lock()
	defer s.lock.Unlock()
	change(&s.standing)
	close(s.grown)
	s.grown = make(chan struct{})
}

// pollTime is the time between two requests for a newer tree head.
const pollTime = time.Second

// run follows the log until ctx ends, or until something contradicts the ledger. From then on the
// pages show only the contradiction. The error is the contradiction.
func (s *Source) run(ctx context.Context) error {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		err := s.step(ctx)
		if contradicts(err) {
			s.accuse(err)
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.lost(err)
		}
		if err == nil && s.still {
			tick.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// step extends the fold to the newest tree head.
func (s *Source) step(ctx context.Context) error {
	to, err := s.machine.Look(ctx, s.log, s.fold, &s.lock)
	if err != nil {
		return err
	}
	if to == nil {
		s.lock.RLock()
		lost := s.standing.LostAt != 0 || s.standing.Reading != nil
		s.lock.RUnlock()
		if lost {
			s.settled()
		}
		return nil
	}
	if to.Size-s.fold.Size > access.Readahead || s.fold.Size == 0 {
		// The fold would be locked for long. read lets the pages show the progress.
		return s.read(ctx, to)
	}
	if err := s.machine.Advance(ctx, s.log, s.fold, to, &s.lock); err != nil {
		return s.again(err)
	}
	s.settled()
	return nil
}

// read extends the fold by more entries than a page can wait for.
func (s *Source) read(ctx context.Context, to *access.Ahead) error {
	s.change(func(at *console.Standing) { at.Reading = &console.Reading{Done: s.fold.Size, Size: to.Size} })
	to.Tell = func(done, size uint64) {
		s.change(func(at *console.Standing) { at.Reading = &console.Reading{Done: done, Size: size} })
	}
	// No goroutine reads the fold while standing says Reading, so a new lock is enough.
	if err := s.machine.Advance(ctx, s.log, s.fold, to, new(sync.RWMutex)); err != nil {
		return s.again(err)
	}
	s.settled()
	return nil
}

// settled shows the fold as it is now.
func (s *Source) settled() {
	s.change(func(at *console.Standing) {
		if at.LostAt != 0 {
			s.logger.Info("in contact with the ledger again", "size", s.fold.Size)
		}
		*at = console.Standing{Head: s.fold.Head.Head, Note: s.fold.Head.Note, At: s.fold.Follower.RegisteredAt()}
	})
}

// again begins again after an error in the middle of a step: the fold must not be used after such
// an error. A contradiction is final.
func (s *Source) again(err error) error {
	if !contradicts(err) {
		s.change(func(at *console.Standing) { *at = console.Standing{Reading: &console.Reading{}} })
		s.begin()
	}
	return err
}

// lost notes that the source did not reach the ledger.
func (s *Source) lost(err error) {
	s.lock.RLock()
	known := s.standing.LostAt != 0
	s.lock.RUnlock()
	if !known {
		s.change(func(at *console.Standing) { at.LostAt = time.Now().UnixMilli() })
		s.logger.Warn("no contact with the ledger", "error", err.Error())
	}
}

// contradicts reports whether an error says something against the log. Leaves that do not give the
// root of the signed tree head convict nobody, since whoever carries the leaves may have changed
// them. The console shows nothing of such a log either.
func contradicts(err error) bool {
	_, found := exit.Contradicted(err)
	_, other := errors.AsType[*audit.RootError](err)
	return found || other
}

// accuse keeps the evidence of a contradiction, if there is any, and lets the pages show nothing
// else.
func (s *Source) accuse(err error) {
	detail, file := err.Error(), ""
	if found, ok := exit.Contradicted(err); ok {
		kept, failed := s.machine.Trust.KeepEvidence(found.Kind, found.Evidence)
		if failed != nil {
			s.logger.Error("the evidence could not be written", "error", failed.Error())
		} else {
			file = kept
		}
		detail = found.Error()
	}
	s.change(func(at *console.Standing) { at.Found = &console.Found{Detail: detail, Evidence: file} })
	s.logger.Error("the ledger contradicts itself: nothing of it is shown any more", "error", detail, "evidence", file)
}

// Standing implements [console.Source].
func (s *Source) Standing() console.Standing {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.now()
}

// now returns the standing with the clock. The caller holds the lock.
func (s *Source) now() console.Standing {
	at := s.standing
	if at.Reading == nil && at.Found == nil {
		at.Now = s.log.Clock(s.fold)
	}
	return at
}

// Read implements [console.Source]. It waits while standing says Reading. Calls of show do not
// overlap, because show may change the state: a page that asks who may sign lets the state admit a
// decision, and the state remembers that.
func (s *Source) Read(show func(state *coord.State, at console.Standing)) {
	s.lock.Lock()
	for s.standing.Reading != nil {
		grown := s.grown
		s.lock.Unlock()
		<-grown
		s.lock.Lock()
	}
	defer s.lock.Unlock()
	show(s.fold.State, s.now())
}

// node returns a hash of the derived tree.
func (s *Source) node(level uint, index uint64) (merkle.Hash, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	if s.standing.Reading != nil {
		return merkle.Hash{}, entry.Refuse(entry.NotReady, "", "the log is being read")
	}
	return s.fold.State.Node(level, index)
}

// Wait implements [console.Source].
func (s *Source) Wait(ctx context.Context, size uint64) error {
	for {
		s.lock.RLock()
		there, grown := s.standing.Size >= size, s.grown
		s.lock.RUnlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// Entry implements [console.Source]. The entry must have the derived leaf hash.
func (s *Source) Entry(ctx context.Context, index, size uint64) (*entry.Registered, []merkle.Hash, error) {
	for e, err := range s.Entries(ctx, index, min(index+1, size)) {
		if err != nil {
			return nil, nil, err
		}
		proof, err := merkle.ProveInclusion(index, size, s.node, nil)
		return e, proof, err
	}
	return nil, nil, entry.Refuse(entry.NotFound, "index", "no entry %d below %d", index, size)
}

// errServed says that a server sends other bytes than before. The bytes before were checked against
// the signed tree head.
var errServed = errors.New("the server sends another entry than the one that is under the signed tree head")

// Entries implements [console.Source]. It fetches the bytes from the ledger again. Each leaf must
// have the derived hash.
func (s *Source) Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error] {
	return func(yield func(*entry.Registered, error) bool) {
		at := s.Standing()
		if at.LostAt != 0 {
			yield(nil, entry.Refuse(entry.NotReady, "", "the ledger has the entry, and there is no contact with it"))
			return
		}
		size := max(at.Size, to) // the newest tile is served, in any case
		for index := from; index < to; {
			tile := index / merkle.TileWidth
			found, err := audit.Bundle(ctx, s.log, tile, size)
			if err != nil {
				yield(nil, err)
				return
			}
			for ; index < min(to, (tile+1)*merkle.TileWidth); index++ {
				e, err := s.checked(index, found[index-tile*merkle.TileWidth])
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// checked decodes a leaf. The leaf must have the derived hash.
func (s *Source) checked(index uint64, leaf []byte) (*entry.Registered, error) {
	hash, err := s.node(0, index)
	if err != nil {
		return nil, err
	}
	if hash != merkle.HashLeaf(leaf) {
		return nil, errServed
	}
	e, at, err := entry.DecodeLeaf(leaf)
	if err != nil {
		return nil, err
	}
	return &entry.Registered{Entry: e, Index: index, RegisteredAt: at}, nil
}
