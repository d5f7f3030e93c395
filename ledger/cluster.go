package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/disk"
	"recoveryledger/merkle"
)

// Cluster makes a log one node of a cluster: the nodes agree on each batch before one of them signs
// its tree head. Every node keeps the whole log. The agreement is the write-ahead log of the nodes:
// a node syncs its store once a second, and takes what it lost again from the Sequencer.
type Cluster struct {
	agreement.Member
	// Revert returns the fold as of the last call of Config.Committed. It admits entries from
	// then on. The log calls it when a batch, which the fold before has applied, was overtaken.
	// Mandatory.
	Revert func() Fold
}

func (c *Cluster) check() error {
	if c == nil {
		return nil
	}
	if c.Revert == nil {
		return errors.New("ledger: open: Revert of a Cluster is required")
	}
	return c.Check()
}

// incarnation returns the incarnation of a cluster as the store has it; empty for a single ledger.
func (c *Cluster) incarnation() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%x", c.Incarnation)
}

const (
	keepEvery   = time.Second     // between two syncs of the store of a node
	settleMax   = 5 * time.Second // in which a log that ends waits for the fate of an offered batch
	followAhead = 16              // batches that are decoded before the order takes them
)

// Leads reports whether this node orders the log, as far as it knows. A log that is no node of a
// cluster always does.
func (l *Log) Leads() bool { return l.cfg.Cluster == nil || l.leads.Load() }

// node is what the order of a node of a cluster waits for beside submissions. Its channels are nil
// in a log that is no node of one.
type node struct {
	standing <-chan agreement.Standing
	terms    <-chan agreement.Term
	ticks    <-chan time.Time
	leave    func() // makes the last batch durable and ends the goroutines
	synced   chan<- *Batch
}

// enter begins to follow the order of the cluster.
func (l *Log) enter(ctx context.Context) *node {
	if l.cfg.Cluster == nil {
		return &node{leave: func() {}}
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	standing, synced := make(chan agreement.Standing, followAhead), make(chan *Batch, 1)
	l.kept.Store(l.order.last.Seq)
	warn := func(next uint64, err error) {
		l.cfg.Logger.Warn("the order of the cluster cannot be read: the ledger tries again", "from", next, "error", err.Error())
	}
	group.Go(func() { l.cfg.Cluster.Follow(whole, l.kept.Load, standing, warn) })
	group.Go(func() { l.keep(whole, synced) })
	ticker := time.NewTicker(keepEvery)
	return &node{
		standing: standing, synced: synced, ticks: ticker.C, terms: l.cfg.Cluster.Sequencer.Terms(whole),
		leave: func() {
			l.leads.Store(false)
			ticker.Stop()
			synced <- l.order.last
			close(synced)
			cancel()
			group.Wait()
		},
	}
}

// behind returns where the next batch comes from. A node whose disk is at its reserve follows no
// further, so that it keeps what it has: it looks again each second.
func (n *node) behind(space *disk.Space) <-chan agreement.Standing {
	if n.standing == nil || space.Enough() {
		return n.standing
	}
	return nil
}

// sync lets the store be made durable up to last, unless the sync before is under way.
func (n *node) sync(last *Batch) {
	select {
	case n.synced <- last:
	default:
	}
}

// register takes submissions: alone, or in the order of the cluster.
func (l *Log) register(batch []*submission) {
	if l.cfg.Cluster == nil {
		l.commit(batch, nil)
		return
	}
	l.commitAgreed(batch)
}

// commitChunk writes a chunk of a snapshot. In a single ledger it travels with what waits.
func (l *Log) commitChunk(chunk *snapshotChunk) {
	if l.cfg.Cluster != nil {
		l.commit(nil, chunk)
	} else if batch := l.drain(); !over(l.halted) {
		l.commit(batch, chunk)
	}
}

// keep makes batches durable, the anchor behind each, and tells the cluster. The anchor holds no
// head that the store could lose.
func (l *Log) keep(ctx context.Context, synced <-chan *Batch) {
	told := uint64(0)
	for last := range synced {
		if last.Seq == told {
			continue
		}
		late := l.untilLate()
		l.must(l.db.LogData(nil, pebble.Sync))
		late.Stop()
		l.order.anchor.Write(last.anchor())
		told = last.Seq
		l.kept.Store(told)
		err := l.cfg.Cluster.Sequencer.Kept(ctx, last.Seq, last.Head())
		if errors.Is(err, agreement.ErrDiverged) {
			l.must(err)
		}
		if err != nil && ctx.Err() == nil {
			l.cfg.Logger.Warn("the cluster does not know what this node keeps", "batch", last.Seq, "error", err.Error())
			told = 0 // it is told again
		}
	}
}

// begin takes a term, or gives it up. A node that has batches beyond the beginning of its term is
// not one of the nodes that agreed on them, or the order lost batches: in both cases each head more
// could be a second one of its size.
func (l *Log) begin(ctx context.Context, t agreement.Term) {
	o := &l.order
	o.term = t
	if beyond := t.ID != 0 && t.After < o.last.Seq; beyond || t.ID != 0 && t.After == 0 && l.cfg.Used {
		o.term = agreement.Term{}
		err := l.cfg.Cluster.Sequencer.Confirm(ctx, t)
		switch {
		case err == nil && beyond:
			l.must(agreement.LostBatches("the order of the cluster ends at batch %d, and this node has %d batches", t.After, o.last.Seq))
		case err == nil:
			l.must(agreement.LostBatches("the order of the cluster is empty, but the keys of this node have signed tree heads"))
		default: // a term that is over, or of which nobody knows
			l.cfg.Logger.Warn("the ledger does not take a term", "term", t.ID, "error", err.Error())
		}
	}
	l.leads.Store(o.leads())
}

// leads reports whether the order may offer batches: it has all that stood before its term.
func (o *order) leads() bool { return o.term.ID != 0 && o.last.Seq >= o.term.After }

// commitAgreed registers the submissions in as many batches as they need.
//
// A crash before the agreement loses the batch, unless it was offered: then the other nodes have
// it, and so does this node when it starts again. No submitter has an answer. After the agreement a
// majority has the batch, and a submitter that asks again gets its receipt.
func (l *Log) commitAgreed(batch []*submission) {
	for len(batch) > 0 && !l.order.lost {
		batch = l.commitNext(batch)
	}
}

// commitNext registers as many entries as one batch takes, and returns submissions with more.
func (l *Log) commitNext(batch []*submission) (rest []*submission) {
	o := &l.order
	now, refusal := l.clock.Now(o.last.At)
	if refusal == nil {
		refusal = cmp.Or(l.space.Check(), l.cfg.Cluster.Refusal())
	}
	if !o.leads() && (refusal == nil || o.term.ID == 0) { // one that has a term says why it does not follow
		refusal = agreement.Elsewhere
	}
	p := l.pend(now)
	l.must(o.check())
	whole := 0
	for whole < len(batch) && l.admit(p, batch[whole], refusal) {
		whole++
	}
	if p.next > p.first {
		next := l.following(p)
		err := l.agree(p, next, batch)
		if errors.Is(err, agreement.ErrOvertaken) {
			l.revert(p, batch)
			return batch
		}
		if err == nil {
			batch, err = l.conclude(p, next, batch)
		}
		if err != nil {
			o.lost = true
			l.must(p.store.Close())
			return nil
		}
		whole = min(whole, len(batch))
	}
	l.must(p.store.Close())
	l.answer(batch[:whole])
	for _, s := range batch[whole:] {
		s.agreed = len(s.answer.Registered)
	}
	return batch[whole:]
}

// agree offers the batch until its fate is known. Meanwhile it prepares the index. After a while it
// turns new submissions away, and tells those that wait what stands of them.
func (l *Log) agree(p *pending, next *Batch, batch []*submission) error {
	o, c := &l.order, l.cfg.Cluster
	offered := agreement.Batch{Incarnation: c.Incarnation, Seq: next.Seq, Previous: o.last.Head(), Head: next.Head(), At: next.At, Records: p.records}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settled := make(chan error, 1)
	term := o.term
	go func() { settled <- c.Settle(ctx, term, &offered) }()
	l.putIndexes(p)
	doubt := time.NewTimer(agreement.DoubtAfter)
	defer doubt.Stop()
	var in <-chan *submission
	ending, giveUp := o.ending, (<-chan time.Time)(nil)
	for {
		select {
		case err := <-settled:
			if in != nil {
				l.away.Store(nil)
			}
			return err
		case <-doubt.C:
			refusal := cmp.Or(c.Refusal(), agreement.NoneAgree)
			l.away.Store(refusal)
			in = l.in
			for _, s := range batch {
				select {
				case s.doubt <- l.standing(s, refusal):
				default: // it was told, or waits on
				}
			}
		case s := <-in:
			l.turnAway(nil, s)
		case <-ending:
			ending, giveUp = nil, time.After(settleMax)
		case <-giveUp:
			cancel()
		case <-l.halted:
			return ErrStopped
		}
	}
}

// conclude signs the head of a batch that stands, and shows it. It returns what still waits.
func (l *Log) conclude(p *pending, next *Batch, batch []*submission) ([]*submission, error) {
	batch, signed := l.sign(p, next, batch)
	if !signed {
		return nil, ErrStopped
	}
	began := l.cfg.Uptime()
	l.must(p.store.Commit(pebble.NoSync))
	p.took = l.cfg.Uptime() - began
	l.shown(p)
	return batch, nil
}

// revert takes back a batch that was overtaken. Its submissions wait again: a node that does not
// order answers them. No reader has seen anything of the batch. The filter may keep its keys, and
// the cache a tile that it completed: readers ask for a full tile only when a batch that stands has
// completed it, which replaces the tile in the cache.
func (l *Log) revert(p *pending, batch []*submission) {
	o, v := &l.order, l.view.Load()
	l.must(p.store.Close())
	for _, e := range p.entries {
		key := dedup.Key(e)
		o.recent.Remove(&key)
	}
	var err error
	o.frontier, err = merkle.NewFrontier(v.head.Size, l.nodes(v))
	l.must(err)
	o.edge, o.fold, o.term = slices.Clone(v.edge), l.cfg.Cluster.Revert(), agreement.Term{}
	l.leads.Store(false)
	for _, s := range batch {
		s.answer.Registered = s.answer.Registered[:s.agreed]
	}
}

// follow takes a batch that stands in the order of the nodes.
func (l *Log) follow(b agreement.Standing) {
	o := &l.order
	l.must(b.Err)
	if b.Seq < o.last.Seq {
		return // this node offered it
	}
	if b.Seq == o.last.Seq {
		if b.Head != o.last.Head() {
			l.must(agreement.Diverged(b.Seq, "it leads to root %s of size %d, and this node has %s of size %d", b.Head.Root, b.Head.Size, o.last.Root, o.last.Size))
		}
		return
	}
	if b.Seq != o.last.Seq+1 || b.Previous != o.last.Head() || b.At < o.last.At {
		l.must(agreement.Diverged(b.Seq, "it follows root %s of size %d, and batch %d of this node is root %s of size %d", b.Previous.Root, b.Previous.Size, o.last.Seq, o.last.Root, o.last.Size))
	}
	l.must(b.Decode())
	p := l.pend(b.At)
	l.must(o.check())
	for _, e := range b.Entries {
		if err := o.fold.Admit(e, p.next, p.at); err != nil {
			l.must(agreement.Diverged(b.Seq, "entry %d is refused here: %v", p.next, err))
		}
		key := dedup.Key(e)
		l.take(p, e, &key)
	}
	next := l.following(p)
	if next.Head() != b.Head {
		l.must(agreement.Diverged(b.Seq, "it leads to root %s of size %d, and here to root %s of size %d", b.Head.Root, b.Head.Size, next.Root, next.Size))
	}
	l.putIndexes(p)
	if _, err := l.conclude(p, next, nil); err != nil {
		o.lost = true
	}
	l.must(p.store.Close())
	l.leads.Store(o.leads())
}
