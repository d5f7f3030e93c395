package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"recoveryledger/ledger/agreement"
)

const (
	attemptTime = time.Second            // for a transaction, before its fate counts as not known
	changeTime  = 5 * time.Second        // for a change of the members, likewise
	lookEvery   = 100 * time.Millisecond // at the leader of Raft
	wakeEvery   = time.Second            // to read the order, should a watch have missed something
	pageBatches = 16                     // batches that are read at once
)

func (n *Node) batchKey(seq uint64) string { return n.prefix + "b/" + fmt.Sprintf("%016x", seq) }

func (n *Node) key(name string) string { return n.prefix + name }

// Propose implements [agreement.Sequencer].
func (n *Node) Propose(ctx context.Context, t agreement.Term, seq uint64, batch []byte) error {
	n.slow(ctx, len(batch))
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if err := n.compare(ctx, t, batch); err != nil {
		return fmt.Errorf("cluster: propose batch %d: %w", seq, err)
	}
	key := n.batchKey(seq)
	answer, err := n.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(n.key("h")), "=", strconv.FormatUint(seq-1, 10)),
			clientv3.Compare(clientv3.ModRevision(n.key("t")), "=", t.ID),
			clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(batch)), clientv3.OpPut(n.key("h"), strconv.FormatUint(seq, 10))).
		Else(clientv3.OpGet(key)).
		Commit()
	switch {
	case err != nil:
		return fmt.Errorf("cluster: propose batch %d: %w", seq, err)
	case answer.Succeeded:
		return nil
	}
	if found := answer.Responses[0].GetResponseRange().Kvs; len(found) == 1 && bytes.Equal(found[0].Value, batch) {
		return nil // an earlier attempt
	}
	return agreement.ErrOvertaken
}

// Confirm implements [agreement.Sequencer].
func (n *Node) Confirm(ctx context.Context, t agreement.Term) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	answer, err := n.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(n.key("t")), "=", t.ID)).
		Then(clientv3.OpPut(n.key("c"), n.cfg.Name)).
		Commit()
	switch {
	case err != nil:
		return fmt.Errorf("cluster: confirm term %d: %w", t.ID, err)
	case !answer.Succeeded:
		return agreement.ErrOvertaken
	}
	return nil
}

// Terms implements [agreement.Sequencer]. A node begins a term when it leads Raft.
func (n *Node) Terms(ctx context.Context) <-chan agreement.Term {
	terms := make(chan agreement.Term, 1)
	n.group.Go(func() {
		defer close(terms)
		n.stand(ctx, func(t agreement.Term) {
			select {
			case <-terms: // nobody has received it
			default:
			}
			terms <- t
		})
	})
	return terms
}

// stand begins a term whenever the node has come to lead Raft, or its term is over while it leads.
func (n *Node) stand(ctx context.Context, tell func(agreement.Term)) {
	var term agreement.Term
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var confirmed time.Time
	for {
		n.noteVacant()
		leads := n.Leads() && !n.aside.Load()
		switch {
		case term.ID != 0 && !leads:
			term = agreement.Term{}
			n.standing.Store(nil)
			tell(term)
		case term.ID == 0 && leads:
			asked := time.Now()
			if begun, err := n.begin(ctx); err == nil {
				term, confirmed = begun, asked
				n.standing.Store(&standing{term, asked})
				tell(term)
			} else if ctx.Err() == nil {
				n.cfg.Logger.Warn("no term begins", "error", err.Error())
			}
		case term.ID != 0 && time.Since(confirmed) > wakeEvery:
			if confirmed = time.Now(); errors.Is(n.Confirm(ctx, term), agreement.ErrOvertaken) {
				term = agreement.Term{}
				n.standing.Store(nil)
				tell(term)
			}
		}
		select {
		case <-n.etcd.Server.LeaderChangedNotify():
		case <-tick.C:
		case <-n.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// begin begins a term. The first one of a cluster writes what the cluster begins with.
func (n *Node) begin(ctx context.Context) (agreement.Term, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	incarnation, made := fmt.Sprintf("%x", n.cfg.Incarnation), clientv3.Compare(clientv3.CreateRevision(n.key("m")), "=", 0)
	if _, err := n.client.Txn(ctx).If(made).
		Then(clientv3.OpPut(n.key("m"), incarnation), clientv3.OpPut(n.key("h"), strconv.FormatUint(n.cfg.After, 10))).
		Commit(); err != nil {
		return agreement.Term{}, err
	}
	seen, err := n.client.Get(ctx, n.key("t"))
	if err != nil {
		return agreement.Term{}, err
	}
	revision := int64(0)
	if len(seen.Kvs) > 0 {
		revision = seen.Kvs[0].ModRevision
	}
	answer, err := n.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(n.key("t")), "=", revision), clientv3.Compare(clientv3.Value(n.key("m")), "=", incarnation)).
		Then(clientv3.OpPut(n.key("t"), n.cfg.Name), clientv3.OpGet(n.key("h"))).
		Else(clientv3.OpGet(n.key("m"))).
		Commit()
	if err != nil {
		return agreement.Term{}, err
	}
	if !answer.Succeeded {
		if found := answer.Responses[0].GetResponseRange().Kvs; len(found) != 1 || string(found[0].Value) != incarnation {
			n.cfg.Fatal(fmt.Errorf("%w: etcd in %s is of another incarnation than %s of the cluster", agreement.ErrDiverged, n.cfg.Dir, incarnation))
		}
		return agreement.Term{}, agreement.ErrOvertaken
	}
	n.watchFormat(ctx)
	after, err := lastNumber(answer.Responses[1].GetResponseRange().Kvs)
	return agreement.Term{ID: answer.Header.Revision, After: after}, err
}

// Batches implements [agreement.Sequencer]. It reads at this node. A watch only wakes it up.
func (n *Node) Batches(ctx context.Context, seq uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		changes := n.client.Watch(watching, n.key("h"))
		wake := time.NewTicker(wakeEvery)
		defer wake.Stop()
		for {
			read, err := n.page(ctx, seq)
			if err != nil {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
			for _, batch := range read {
				if !yield(batch, nil) {
					return
				}
				seq++
			}
			if len(read) > 0 {
				continue
			}
			select {
			case _, open := <-changes:
				if !open {
					changes = nil // the ticker stands in
				}
			case <-wake.C:
			case <-n.closed:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// page reads some batches from number seq on: none if none stands there yet.
func (n *Node) page(ctx context.Context, seq uint64) (batches [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	for again := false; ; again = true {
		found, err := n.client.Get(ctx, n.batchKey(seq), clientv3.WithRange(n.prefix+"b0"), clientv3.WithLimit(pageBatches), clientv3.WithSerializable())
		if err != nil {
			return nil, fmt.Errorf("cluster: read batch %d: %w", seq, err)
		}
		for _, kv := range found.Kvs {
			if string(kv.Key) != n.batchKey(seq+uint64(len(batches))) {
				break
			}
			batches = append(batches, kv.Value)
		}
		if len(batches) > 0 {
			return batches, nil
		}
		last, err := n.client.Get(ctx, n.key("h"), clientv3.WithSerializable())
		if err != nil {
			return nil, fmt.Errorf("cluster: read the last number: %w", err)
		}
		number, err := lastNumber(last.Kvs)
		switch {
		case err != nil || len(last.Kvs) == 0 || number < seq:
			return nil, err
		case again: // it was not written between the two looks
			return nil, fmt.Errorf("%w: batch %d of %d", agreement.ErrTrimmed, seq, number)
		}
	}
}
