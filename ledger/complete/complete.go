// Package complete keeps the index over a log. The index says which entries there are about each
// subject, and proves that there are no others (docs/index.md).
//
// The index is a pure function of the log. An [Index] follows the log in a store of its own,
// DIR/index. After the directory is deleted, the Index builds it again. With a submitter, the Index
// has the coordinator write its root into the log. It compares the root of every index entry that
// it reads with its own. A difference stops the Index, and never the ledger.
//
// A [Tree] is the same index in memory, for an audit of a log.
package complete

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

var (
	// ErrNotReady reports a question that the index cannot answer yet: it is being
	// built, or no index entry stands under the tree head that was asked for.
	ErrNotReady = errors.New("complete: the index is not ready")
	// ErrStopped reports an index that has stopped. The ledger continues.
	ErrStopped = errors.New("complete: the index has stopped")
)

// Log is the log that an Index reads.
type Log interface {
	// Size returns the number of committed entries.
	Size() uint64
	// Wait returns when the log has at least size entries, or with the error of ctx.
	Wait(ctx context.Context, size uint64) error
	// Entries returns the entries from index from to below to.
	Entries(ctx context.Context, from, to uint64) iter.Seq2[*entry.Registered, error]
	// IndexEntry returns the first entry of kind index from an index on; nil: there
	// is none.
	IndexEntry(from uint64) (*entry.Registered, error)
}

// Config describes the log and the store of an Index.
type Config struct {
	// Log is the indexed log. Mandatory.
	Log Log
	// HeadAt returns the head that the log had at a size. The store is that of the log only
	// if it was written under the same head. Mandatory.
	HeadAt func(size uint64) (merkle.Head, error)
	// Submit registers an index entry. The Index sets every member of [entry.LogIndex] but its
	// header. An error that is no [*entry.Refusal] stops the Index. Nil: the Index writes no index
	// entry, and answers from the index entries of others.
	Submit func(ctx context.Context, x *entry.LogIndex) error
	// FS is where the store lives. Nil: the disk.
	FS vfs.FS
	// Logger gets the reason why the Index stopped, and why the Index builds its store again. Nil:
	// silence.
	Logger *slog.Logger
}

// Index follows a log. Its methods are safe for concurrent use; Run is called once.
type Index struct {
	cfg   Config
	dir   string
	queue queue

	// offered is the index entry that was submitted, or is about to be.
	offered atomic.Pointer[entry.LogIndex]
	status  atomic.Pointer[Status]
	broken  chan struct{} // closed when the store can no longer be used
	fault   atomic.Pointer[error]
	once    sync.Once

	// mu is held while tree and store change. They are that of shown whenever it is
	// not held, or shown is nil.
	mu    sync.RWMutex
	tree  *Tree
	store *store
	shown *entry.Registered // newest index entry; its root is the root of the tree
	moved chan struct{}     // closed when there is another one

	// What only Run uses.
	pending  []listing // of entries that were read, and are not in the tree
	read     uint64    // entries that were read
	seen     uint64    // entries that were searched for index entries
	previous map[merkle.Hash]*record
	written  uint64 // size of the tree in the store
	pace     pace
	buf      []entry.Listing
}

// Status is how far an Index is.
type Status struct {
	Size     uint64      // entries that it covers
	Root     merkle.Hash // of the tree over them
	Subjects uint64      // in the tree
	Entry    uint64      // newest index entry; 0: there is none
	Lag      uint64      // entries of the log that no index entry covers
	Stopped  string      // why it has stopped; empty: it follows the log
}

// New returns the index with its store in a directory. Run opens the store.
func New(dir string, cfg Config) *Index {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	x := &Index{cfg: cfg, dir: dir, broken: make(chan struct{}), moved: make(chan struct{})}
	x.status.Store(&Status{})
	return x
}

// open opens the store, or makes one. A store that is damaged, of another format or of
// another log is made anew.
func (x *Index) open() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.load()
	if err == nil {
		return nil
	}
	x.cfg.Logger.Warn("the ledger builds the index again from the log", "why", err.Error())
	if x.store != nil {
		_ = x.store.close() // it is removed
		x.store = nil
	}
	if err := x.cfg.FS.RemoveAll(x.dir); err != nil {
		return fmt.Errorf("complete: remove %s: %w", x.dir, err)
	}
	return x.load()
}

// load opens the store and takes its content.
func (x *Index) load() (err error) {
	if x.store, err = openStore(x.cfg.FS, x.dir, x.cfg.Logger, x.stop); err != nil {
		return err
	}
	m, err := x.store.mark()
	if err != nil {
		return err
	}
	if size := x.cfg.Log.Size(); m.size > size || m.seen > size {
		return fmt.Errorf("%w: it covers %d entries, and the log has %d", ErrStore, m.size, size)
	}
	if head, err := x.cfg.HeadAt(m.size); err != nil {
		return err
	} else if m.size > 0 && head.Root != m.log {
		return fmt.Errorf("%w: it is of a log that had root %s at size %d, where this one has %s", ErrStore, m.log, m.size, head.Root)
	}
	if x.tree, err = x.store.tree(m); err != nil {
		return err
	}
	x.tree.load = x.record
	x.read, x.seen, x.written = m.size, m.seen, m.size
	return nil
}

// stop notes why the Index cannot continue.
func (x *Index) stop(err error) {
	x.once.Do(func() {
		x.fault.Store(&err)
		x.cfg.Logger.Error("THE INDEX HAS STOPPED, and the ledger continues without it", "error", err.Error(), "store", x.dir)
		close(x.broken)
	})
}

// Status returns how far the Index is.
func (x *Index) Status() Status {
	s := *x.status.Load()
	s.behind(x.cfg.Log.Size())
	if fault := x.fault.Load(); fault != nil {
		s.Stopped = (*fault).Error()
	}
	return s
}

// StatusOf returns how far the index of a log of a size is, by the log alone: newest is the log's
// newest index entry; nil: there is none.
func StatusOf(newest *entry.Registered, size uint64) (s Status) {
	if newest != nil {
		said := newest.Body.(*entry.LogIndex)
		s = Status{Size: said.Size, Root: said.Root, Subjects: said.Subjects, Entry: newest.Index}
	}
	s.behind(size)
	return s
}

// behind sets Lag for a log of a size.
func (s *Status) behind(size uint64) {
	if s.Lag = 0; size > s.Size {
		s.Lag = size - s.Size
	}
}

// Wait returns when the newest index entry covers size entries or more, so that the Index can prove
// with it, or with the error of ctx. The error is [ErrStopped] if the Index has stopped.
func (x *Index) Wait(ctx context.Context, size uint64) error {
	for {
		x.mu.RLock()
		shown, moved := x.shown, x.moved
		x.mu.RUnlock()
		if shown != nil && shown.Body.(*entry.LogIndex).Size >= size {
			return nil
		}
		select {
		case <-moved:
		case <-x.broken:
			return fmt.Errorf("%w: %v", ErrStopped, *x.fault.Load())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Settle waits while the Index takes entries in, which its newest index entry does not cover: until
// the next index entry, for at most that long. Settle does not wait for an Index that is being
// built.
func (x *Index) Settle(ctx context.Context, most time.Duration) Status {
	if x.status.Load().Entry > 0 {
		ctx, over := context.WithTimeout(ctx, most)
		defer over()
		_ = x.Wait(ctx, 0) // an Index that is not ready says so to whoever asks
	}
	return x.Status()
}

// Admit refuses an index entry that is not the one which the Index has computed and
// submits now: the ledger asks before the order (IDX-3).
func (x *Index) Admit(e *entry.LogIndex) error {
	if own := x.offered.Load(); own != nil && own.Size == e.Size && own.Root == e.Root && own.Subjects == e.Subjects {
		return nil
	}
	return entry.Refuse(entry.StateConflict, "root", "the ledger has not computed root %s over %d entries", e.Root, e.Size).
		WithRemedy("leave index entries to the coordinator of the ledger")
}

// Run follows the log until ctx ends or the Index has to stop; then the store is
// closed. The error is that which stopped it: a [*RootError], or that of the log, of
// the store or of Submit.
func (x *Index) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan error, 1)
	go func() {
		err := x.open()
		if err == nil {
			err = x.follow(ctx)
		}
		over <- err
	}()
	select {
	case err := <-over:
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			x.stop(err)
		}
		return errors.Join(err, x.close(err == nil))
	case <-x.broken: // the engine waits for ever: leave the store unchanged
		return *x.fault.Load()
	}
}

// close writes the rest of the index, unless the index is not trusted.
func (x *Index) close(sound bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.store == nil {
		return nil
	}
	var err error
	if sound && x.tree != nil && x.tree.size != x.written {
		err = x.write()
	}
	x.shown = nil
	return errors.Join(err, x.store.close())
}
