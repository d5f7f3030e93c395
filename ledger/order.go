package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/anchor"
	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Registration says where an entry stands.
type Registration struct {
	Index        uint64
	RegisteredAt int64 // Unix milliseconds
	// Duplicate is set if the entry was in the log before.
	Duplicate bool
}

// Answer is the result of a submission. The entries of a prefix stand in the log that Head covers.
// The entry after the prefix, if there is one, was refused.
type Answer struct {
	Registered []Registration
	Refused    *entry.Refusal
	// Proven is set if the entry that was refused is signed by the key that it names.
	Proven bool
	Head   Head

	log  *Log
	view *view
}

// Head is a signed tree head of the log.
type Head struct {
	verify.SignedHead
	RegisteredAt int64 // of the last entry that it covers, Unix milliseconds
}

// submission is an ordered prefix batch on its way through the order.
type submission struct {
	all     []*entry.Entry  // as submitted
	entries []*entry.Entry  // the part of all that was not refused before the order
	keys    []dedup.ID      // of the entries
	known   []*Registration // entries that the look-up found; nil for an entry that seems new
	refused *entry.Refusal  // of the entry behind entries, found before the order
	seen    uint64          // size of the log when the entries were looked up
	answer  Answer
	done    chan struct{}      // closed when answer is complete
	leave   func(refused bool) // gives back its room in a narrow lane; nil: it is in none
	agreed  int                // registrations in answer that stand, while more are under way
	doubt   chan Answer        // has room for the answer in doubt; nil: it waits until nothing is in doubt
}

// order is the state of the goroutine that owns the order.
type order struct {
	fold     Fold
	last     *Batch
	frontier *merkle.Frontier
	edge     []edgeTile
	anchor   *anchor.File
	recent   *dedup.Recent
	snapshot uint64 // size of the newest snapshot of the fold
	buf      []byte
	index    []indexKey      // room for the index keys of the next commit
	records  []byte          // the same for its records
	ending   <-chan struct{} // closed: no commit begins
	lost     bool            // the fold has entries that no tree head was signed for: nothing more is written
	term     agreement.Term  // in which this node of a cluster offers batches
}

// Submit registers entries in order: the first refusal ends the prefix that is taken. It returns
// when the prefix is durable and a signed tree head covers it. Submitting the same entries again
// gives the same answer. Submit writes into the entries; two calls at a time must not share one.
// The error is [ErrStopped], that of ctx, [entry.Refusal] if nothing can be taken now, or
// [ErrCorrupt] if the store contradicts itself about an entry; a refusal of an entry stands in the
// answer. In a cluster it is [agreement.ErrNotLeading] if the entries belong to the node that
// orders the log, and the end of ctx leaves open whether the entries are registered.
func (l *Log) Submit(ctx context.Context, entries ...*entry.Entry) (*Answer, error) {
	return l.submit(ctx, nil, entries)
}

// SubmitOrDoubt is [Log.Submit] for somebody who can ask again. When the nodes of a cluster have
// not agreed on the entries for [agreement.DoubtAfter], the answer is the prefix that stands, and
// refuses the rest (not-ready). Nobody knows then whether the rest will be registered.
func (l *Log) SubmitOrDoubt(ctx context.Context, entries ...*entry.Entry) (*Answer, error) {
	return l.submit(ctx, make(chan Answer, 1), entries)
}

func (l *Log) submit(ctx context.Context, doubt chan Answer, entries []*entry.Entry) (answer *Answer, _ error) {
	if over(l.closing) {
		return nil, ErrStopped
	}
	if len(entries) > MaxBatch {
		return nil, entry.Refuse(entry.TooLarge, "", "%d entries in one batch, the limit is %d", len(entries), MaxBatch)
	}
	s := &submission{all: entries, entries: entries, seen: l.view.Load().head.Size, done: make(chan struct{}), doubt: doubt}
	err := l.precheck(ctx, s)
	if s.leave != nil {
		defer func() { s.leave(answer == nil || answer.Refused != nil) }()
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.known, nil) {
		answer = new(l.standing(s, nil))
		l.settle(s, answer)
		return answer, nil
	}
	if answer, err = l.await(ctx, s); err != nil {
		return nil, err
	}
	l.settle(s, answer)
	return answer, nil
}

// Alive returns nil once the order has taken and answered a submission without entries: the log is
// neither closed nor stuck in a write. The error is [ErrStopped], or that of ctx.
func (l *Log) Alive(ctx context.Context) error {
	_, err := l.await(ctx, &submission{done: make(chan struct{})})
	return err
}

// await waits until the order has answered s. The end of ctx withdraws s only before the order has
// taken s. In a cluster an answer may take as long as there is no majority, so ctx ends the wait.
func (l *Log) await(ctx context.Context, s *submission) (*Answer, error) {
	var unsettled <-chan struct{}
	if l.cfg.Cluster != nil {
		unsettled = ctx.Done()
	}
	select {
	case l.in <- s:
	case <-l.closing:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-s.done:
	case <-l.stopped:
		if !over(s.done) { // it may have been answered just before the end
			return nil, ErrStopped
		}
	case <-unsettled:
		return nil, ctx.Err()
	case answer := <-s.doubt:
		return &answer, nil
	}
	if s.answer.Refused == agreement.Elsewhere && s.agreed == 0 {
		return nil, agreement.ErrNotLeading
	}
	return &s.answer, nil
}

// precheck does the work that needs no order, in the caller's goroutine. It finds duplicates
// (REG-2) and lets Config.Precheck look at the rest. It cuts s.entries before the first refusal.
func (l *Log) precheck(ctx context.Context, s *submission) error {
	s.keys, s.known = make([]dedup.ID, len(s.entries)), make([]*Registration, len(s.entries))
	for i, e := range s.entries {
		s.keys[i] = dedup.Key(e)
		found, err := l.lookup(ctx, e, &s.keys[i], maxCommit+MaxBatch)
		if err == nil && found == nil {
			err = l.check(ctx, s, e)
		}
		if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
			if i == 0 && refusal.Problem == entry.RateLimited {
				return refusal
			}
			s.entries, s.known, s.refused = s.entries[:i], s.known[:i], refusal
			break
		}
		if err != nil {
			return err
		}
		s.known[i] = found
	}
	return nil
}

// check runs Config.Precheck when it is the key's turn. A submission is in one
// narrow lane at most.
func (l *Log) check(ctx context.Context, s *submission, e *entry.Entry) (err error) {
	if s.leave == nil {
		if s.leave, err = l.lanes.Enter(ctx, lanesOf(e)...); err != nil {
			return err
		}
	}
	if err := l.gate.Acquire(ctx, e.KeyID); err != nil {
		return err
	}
	defer l.gate.Release()
	return l.cfg.Precheck(e)
}

// gather lets goroutines submit that are just about to, as long as more come: a commit of many
// entries costs little more than a commit of a few. It waits for nothing: if no other goroutine is
// ready to run, it returns at once.
func (l *Log) gather() {
	for n := -1; n < len(l.in) && n < maxCommit; {
		n = len(l.in)
		runtime.Gosched()
	}
}

// drain takes the waiting submissions, up to a full commit.
func (l *Log) drain(batch ...*submission) []*submission {
	entries := 0
	for _, s := range batch {
		entries += len(s.entries)
	}
	for entries < maxCommit {
		select {
		case s := <-l.in:
			batch = append(batch, s)
			entries += len(s.entries)
		default:
			return batch
		}
	}
	return batch
}

// pending is a commit in the making.
type pending struct {
	store   *pebble.Batch
	at      int64
	first   uint64         // index of the first entry
	next    uint64         // index of the next one
	entries []*entry.Entry // admitted so far
	took    time.Duration  // for the sync
	index   []indexKey
	tagged  tags.Postings
	keys    []Key  // that sign the tree head
	records []byte // of the entries, for the other nodes of a cluster
}

// commit orders the submissions, makes the admitted entries durable under a new signed tree head,
// and answers. A chunk of a snapshot may travel along.
//
// A crash before the sync loses the whole batch, and no submitter has an answer. After the sync the
// batch is there, and a submitter that asks again gets its receipt.
func (l *Log) commit(batch []*submission, chunk *snapshotChunk) {
	o := &l.order
	now, refusal := l.clock.Now(o.last.At)
	if refusal == nil {
		refusal = l.space.Check()
	}
	p := l.pend(now)
	l.must(o.check())
	for _, s := range batch {
		l.admit(p, s, refusal)
	}
	if chunk != nil {
		l.must(chunk.put(p.store))
		if chunk.last {
			o.snapshot = chunk.size
		}
	}
	if p.next > p.first {
		l.putIndexes(p)
		var signed bool
		if batch, signed = l.sign(p, l.following(p), batch); !signed {
			o.lost = true
			l.must(p.store.Close())
			return
		}
	}
	if !p.store.Empty() {
		l.sync(p)
	}
	l.must(p.store.Close())
	l.snapshotAt.Store(o.snapshot)
	if p.next > p.first {
		l.shown(p)
		o.anchor.Write(o.last.anchor())
	}
	l.answer(batch)
}

// pend begins a commit at an instant. The store keeps a buffer of up to 4 MiB for the next commit.
func (l *Log) pend(at int64) *pending {
	o := &l.order
	return &pending{store: l.db.NewBatch(pebble.WithMaxRetainedSizeBytes(4 << 20)), at: at, first: o.last.Size, next: o.last.Size, index: o.index[:0], records: o.records[:0], tagged: tags.Postings{}}
}

// answer answers submissions under the newest head.
func (l *Log) answer(batch []*submission) {
	v := l.view.Load()
	for _, s := range batch {
		s.answer.Head, s.answer.log, s.answer.view = v.signed(), l, v
		close(s.done)
	}
}

// check compares the tree in memory with the head that was signed last: nothing
// is signed over a tree that has changed.
func (o *order) check() error {
	head, err := o.frontier.Head()
	if err == nil && head != o.last.Head() {
		err = fmt.Errorf("%w: root %s of size %d in memory, signed is %s of size %d", ErrCorrupt, head.Root, head.Size, o.last.Root, o.last.Size)
	}
	return err
}

// admit takes the entries of a submission into the commit, up to the first that
// is refused. It returns false if the commit takes no more: then admit goes on in the next one.
func (l *Log) admit(p *pending, s *submission, unable *entry.Refusal) bool {
	s.answer.Refused = s.refused
	if s.answer.Registered == nil {
		s.answer.Registered = make([]Registration, 0, len(s.entries))
	}
	for i := len(s.answer.Registered); i < len(s.entries); i++ {
		if l.cfg.Cluster != nil && !agreement.Room(len(p.entries), p.records) {
			return false
		}
		if s.known[i] != nil {
			s.answer.Registered = append(s.answer.Registered, *s.known[i])
			continue
		}
		registered, refusal := l.admitOne(p, s, i, unable)
		if refusal != nil {
			s.answer.Refused = refusal
			return true
		}
		s.answer.Registered = append(s.answer.Registered, *registered)
	}
	return true
}

func (l *Log) admitOne(p *pending, s *submission, i int, unable *entry.Refusal) (*Registration, *entry.Refusal) {
	o, e, key := &l.order, s.entries[i], &s.keys[i]
	found, err := l.lookupOrdered(p, s, e, key)
	if refusal, ok := errors.AsType[*entry.Refusal](err); ok {
		return nil, refusal
	}
	l.must(err)
	if found != nil {
		return found, nil
	}
	if unable != nil {
		return nil, unable
	}
	if err := o.fold.Admit(e, p.next, p.at); err != nil {
		refusal, ok := errors.AsType[*entry.Refusal](err)
		if !ok {
			l.must(err)
		}
		return nil, refusal
	}
	l.take(p, e, key)
	return &Registration{Index: p.next - 1, RegisteredAt: p.at}, nil
}

// take gives an admitted entry the next place.
func (l *Log) take(p *pending, e *entry.Entry, key *dedup.ID) {
	o := &l.order
	o.fold.Apply(e, p.next, p.at)
	l.put(p, e, key)
	o.recent.Add(key, p.next)
	l.known.Add(key)
	p.entries = append(p.entries, e)
	p.next++
}

// put writes an entry and the tiles it completes, and notes its index keys.
func (l *Log) put(p *pending, e *entry.Entry, key *dedup.ID) {
	o := &l.order
	o.buf = e.AppendStored(o.buf[:0], p.at)
	l.must(p.store.Set(entryKey(p.next), o.buf, nil))
	if o.leads() { // who follows offers nothing
		p.records = agreement.AppendRecord(p.records, o.buf)
	}
	p.index = append(p.index, indexKey{key[:], binary.BigEndian.AppendUint64(nil, p.next)})
	for _, tag := range e.Tags(p.next) {
		p.tagged.Add(tag, p.next)
	}
	l.must(o.frontier.Append(e.LeafHash(p.at), func(level uint, index uint64, h merkle.Hash) {
		l.place(p, level, index, h)
	}))
}

// place puts a node into its tile at the right edge. The first hash of a level
// above completes the tile below it.
func (l *Log) place(p *pending, level uint, index uint64, h merkle.Hash) {
	o := &l.order
	t, height, i := merkle.Locate(level, index)
	if t.Level == uint(len(o.edge)) {
		o.edge = append(o.edge, edgeTile{t.Index, new(merkle.TileNodes)})
	}
	if height == 0 && t.Level > 0 {
		below := &o.edge[t.Level-1]
		full := merkle.Tile{Level: t.Level - 1, Index: below.index, Width: merkle.TileWidth}
		l.must(p.store.Set(tileKey(full), below.Bytes(full.Width), nil))
		l.tiles.Add(full, below.TileNodes)
		*below = edgeTile{below.index + 1, new(merkle.TileNodes)}
	}
	*o.edge[t.Level].At(height, i) = h
}

// following returns the batch of the commit, without its note.
func (l *Log) following(p *pending) *Batch {
	o := &l.order
	head, err := o.frontier.Head()
	l.must(err)
	return &Batch{
		Seq: o.last.Seq + 1, PreviousSize: o.last.Size, PreviousRoot: o.last.Root,
		Size: head.Size, Root: head.Root, At: p.at,
	}
}

// sign signs the tree head of the commit, and puts next behind the last batch. It returns the
// submissions that still wait, and false if the log ends before its keys sign.
func (l *Log) sign(p *pending, next *Batch, batch []*submission) ([]*submission, bool) {
	if p.keys = l.cfg.Signs(l.order.fold, l.cfg.Keys); len(p.keys) == 0 {
		l.must(fmt.Errorf("%w: no key is in force at size %d", ErrKeys, next.Size))
	}
	try := func() (err error) {
		next.Note, err = signHead(l.cfg.Origin, next.Head(), classic(p.keys)...)
		return err
	}
	if err := try(); err != nil {
		l.turnAway(err, batch...)
		if batch = nil; !l.untilSigned(try, err) {
			return nil, false
		}
	}
	l.must(l.append(p, next))
	return batch, true
}

// append puts the batch behind the last one: compare and swap on the sequence number and the head.
func (l *Log) append(p *pending, next *Batch) error {
	last := l.order.last
	if next.Seq != last.Seq+1 || next.PreviousSize != last.Size || next.PreviousRoot != last.Root || next.Size != p.next {
		return fmt.Errorf("%w: batch %d does not follow batch %d", ErrCorrupt, next.Seq, last.Seq)
	}
	value, err := next.seal()
	if err != nil {
		return err
	}
	if err := p.store.Set([]byte{keyBatch}, value, nil); err != nil {
		return err
	}
	l.order.last = next
	return nil
}

// sync makes the commit durable, or ends the process.
func (l *Log) sync(p *pending) {
	late := l.untilLate()
	began := l.cfg.Uptime()
	l.must(p.store.Commit(pebble.Sync))
	p.took = l.cfg.Uptime() - began
	late.Stop()
}

// untilLate ends the process unless it is stopped in time.
func (l *Log) untilLate() *time.Timer {
	return time.AfterFunc(l.cfg.CommitTimeout, func() {
		l.cfg.Fatal(fmt.Errorf("ledger: commit hangs for more than %v", l.cfg.CommitTimeout))
	})
}

// shown shows the commit to readers.
func (l *Log) shown(p *pending) {
	o := &l.order
	if p.first == 0 {
		// A crash before it leaves a log under keys that count as unused, which the
		// next open puts right; after it, keys without a log are a loss.
		l.must(l.cfg.Begun())
	}
	o.recent.Turn(p.next)
	before := l.view.Load()
	l.view.Store(&view{head: o.last.Head(), note: o.last.Note, keys: p.keys, at: o.last.At, edge: slices.Clone(o.edge), shown: before.grown, grown: make(chan struct{})})
	l.cfg.Committed(l.Head().SignedHead)
	l.cfg.Observe(Commit{Entries: p.entries, Size: p.next, Took: p.took})
	close(before.grown)
}

// must ends the process on an error of the write path: state in memory must not
// outlive a failed commit.
func (l *Log) must(err error) {
	if err != nil {
		l.cfg.Fatal(err)
		panic("ledger: Config.Fatal returned")
	}
}
