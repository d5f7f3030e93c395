package complete

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// The pace of index entries (IDX-3).
const (
	paceMany    = 750 * time.Millisecond // after manyMin entries that none covers: a second with the tick
	paceFew     = 10 * time.Second       // after any
	manyMin     = 64
	pauseFailed = time.Second // after a refusal
)

const (
	// pendingMax is the number of listings that are kept until the next index entry.
	pendingMax = 1 << 18
	// writeEvery and writeAfter say how much the store is behind at most.
	writeEvery = 1 << 16
	writeAfter = time.Minute
	// queueMax is the number of entries that are kept from commits until they are read.
	queueMax = 1 << 13
)

// pace says when the next index entry is due.
type pace struct {
	uncovered uint64    // entries that none covers, index entries aside
	since     time.Time // when the first of them was read
	urgent    bool      // whether an index entry must cover one of them at once
	until     time.Time // no earlier
	wrote     time.Time // when the store was written
}

func (p *pace) saw(kind entry.Kind) {
	if kind == entry.KindIndex {
		return
	}
	if p.uncovered++; p.uncovered == 1 {
		p.since = time.Now()
	}
	switch kind {
	case entry.KindPolicy, entry.KindAgent, entry.KindDecision, entry.KindRecord:
		p.urgent = true
	}
}

// due returns how long to wait, and whether there is anything to wait for.
func (p *pace) due() (wait time.Duration, waits bool) {
	at := p.since.Add(paceFew)
	switch {
	case p.uncovered == 0:
		return 0, false
	case p.urgent:
		at = p.until
	case p.uncovered >= manyMin:
		at = p.since.Add(paceMany)
	}
	if at.Before(p.until) {
		at = p.until
	}
	return time.Until(at), true
}

// queue holds entries from commits, so that they need not be read and decoded again.
type queue struct {
	sync.Mutex
	entries []*entry.Entry
	next    uint64 // index behind the last of them
}

// Committed takes entries that became durable, in order. size is the size of the log with them.
// Committed does not make the log wait.
func (x *Index) Committed(entries []*entry.Entry, size uint64) {
	if x.cfg.Submit == nil {
		return
	}
	q := &x.queue
	q.Lock()
	defer q.Unlock()
	if q.next+uint64(len(entries)) != size || len(q.entries)+len(entries) > queueMax {
		q.entries = nil // entries that are left out are read from the log
	}
	q.entries, q.next = append(q.entries, entries...), size
}

// take returns the entries from index from on that are at hand.
func (q *queue) take(from uint64) []*entry.Entry {
	q.Lock()
	defer q.Unlock()
	first := q.next - uint64(len(q.entries))
	if from < first || from >= q.next {
		return nil
	}
	out := q.entries[from-first:]
	q.entries = nil
	return out
}

// follow goes after the log until ctx ends.
func (x *Index) follow(ctx context.Context) error {
	x.pace.wrote = time.Now()
	for {
		size := x.cfg.Log.Size()
		if err := x.passIndexEntries(ctx, size); err != nil {
			return err
		}
		if x.cfg.Submit != nil {
			if err := x.readTo(ctx, size); err != nil {
				return err
			}
		}
		wait, waits := x.pace.due()
		if waits && wait <= 0 {
			if err := x.tick(ctx); err != nil {
				return err
			}
			continue
		}
		if err := x.writeIfDue(); err != nil {
			return err
		}
		if !waits || wait > writeAfter {
			wait = writeAfter
		}
		timed, cancel := context.WithTimeout(ctx, wait)
		err := x.cfg.Log.Wait(timed, size+1)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}

// passIndexEntries brings the tree to each index entry below size that it has not come
// by, and compares.
func (x *Index) passIndexEntries(ctx context.Context, size uint64) error {
	for x.seen < size {
		e, err := x.cfg.Log.IndexEntry(x.seen)
		if err != nil {
			return err
		}
		if e == nil || e.Index >= size {
			x.seen = size
			return nil
		}
		if err := x.pass(ctx, e); err != nil {
			return err
		}
		x.seen = e.Index + 1
	}
	return nil
}

// pass brings the tree to the size that an index entry covers, and compares the roots.
func (x *Index) pass(ctx context.Context, e *entry.Registered) error {
	said := e.Body.(*entry.LogIndex)
	if said.Size < x.tree.size {
		return fmt.Errorf("complete: index entry %d covers %d entries, and the index already covers %d: remove %s, to have it built again",
			e.Index, said.Size, x.tree.size, x.dir)
	}
	if err := x.advance(ctx, said.Size); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.tree.Check(e.Index, said); err != nil {
		x.shown = nil
		return err
	}
	if x.shown = e; said.Size >= x.read {
		x.pace = pace{wrote: x.pace.wrote}
	}
	x.status.Store(&Status{Size: said.Size, Root: said.Root, Subjects: said.Subjects, Entry: e.Index})
	close(x.moved)
	x.moved = make(chan struct{})
	return nil
}

// readTo reads entries up to size, as far as there is room.
func (x *Index) readTo(ctx context.Context, size uint64) error {
	for _, e := range x.queue.take(x.read) {
		x.see(e)
	}
	if x.read >= size || len(x.pending) >= pendingMax {
		return nil
	}
	for e, err := range x.cfg.Log.Entries(ctx, x.read, size) {
		if err != nil {
			return err
		}
		if x.see(e.Entry); len(x.pending) >= pendingMax {
			break
		}
	}
	return nil
}

// see takes up the next entry that was read.
func (x *Index) see(e *entry.Entry) {
	x.buf = e.AppendSubjects(x.buf[:0], x.read)
	for i := range x.buf {
		x.pending = append(x.pending, listing{Key(x.buf[i].Subject), x.buf[i].Label, x.read})
	}
	x.read++
	if x.pace.saw(e.Kind); len(x.pending) >= pendingMax {
		x.pace.urgent = true
	}
}

// advance brings the tree to size.
func (x *Index) advance(ctx context.Context, size uint64) error {
	for x.tree.size < size {
		if err := x.readTo(ctx, max(size, x.read)); err != nil {
			return err
		}
		if err := x.add(min(size, x.read)); err != nil {
			return err
		}
		if x.tree.size-x.written >= writeEvery {
			if err := x.writeNow(); err != nil {
				return err
			}
		}
	}
	return nil
}

// add takes the read entries below size into the tree.
func (x *Index) add(size uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	size = min(size, x.written+writeEvery)
	done := 0
	for ; done < len(x.pending) && x.pending[done].index < size; done++ {
		if err := x.tree.add(x.pending[done]); err != nil {
			return err
		}
	}
	x.pending = x.pending[:copy(x.pending, x.pending[done:])]
	x.tree.size, x.shown = size, nil
	return x.store.apply()
}

// tick computes the root over all that was read, and has it written into the log.
func (x *Index) tick(ctx context.Context) error {
	size := max(x.read, x.cfg.Log.Size())
	if err := x.advance(ctx, size); err != nil {
		return err
	}
	x.mu.Lock()
	root, err := x.tree.Root()
	x.mu.Unlock()
	if err != nil {
		return err
	}
	own := &entry.LogIndex{Algorithm: entry.IndexAlgorithm, Size: size, Root: root, Subjects: x.tree.Subjects()}
	x.offered.Store(own)
	err = x.cfg.Submit(ctx, own)
	if refusal, refused := errors.AsType[*entry.Refusal](err); refused {
		x.cfg.Logger.Warn("an index entry was refused", "size", size, "problem", string(refusal.Problem), "detail", refusal.Detail)
		x.pace.until = time.Now().Add(pauseFailed)
		return nil
	}
	return err
}

// writeIfDue writes the store where it is behind for long.
func (x *Index) writeIfDue() error {
	if x.tree.size == x.written || x.tree.size-x.written < writeEvery && time.Since(x.pace.wrote) < writeAfter {
		return nil
	}
	return x.writeNow()
}

func (x *Index) writeNow() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write()
}

// write makes the present tree durable; the caller holds mu. Records without a change since the
// last write leave memory.
//
// A crash before the end leaves the store of the last write, with subtrees of lists that will come
// again.
func (x *Index) write() error {
	root, err := x.tree.Root()
	if err != nil {
		return err
	}
	head, err := x.cfg.HeadAt(x.tree.size)
	if err != nil {
		return err
	}
	touched, m := x.tree.records, mark{size: x.tree.size, root: root, log: head.Root, seen: x.seen}
	if x.shown != nil {
		m.seen = x.shown.Index // to come by it again
	}
	if err := x.store.write(touched, m); err != nil {
		return err
	}
	x.tree.records = make(map[merkle.Hash]*record, len(touched))
	x.previous, x.written, x.pace.wrote = touched, x.tree.size, time.Now()
	return nil
}
