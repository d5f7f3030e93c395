package ledger_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// three are the nodes of a cluster of which the first leads.
func three(t *testing.T) (s *shared, a, b, c *peer) {
	t.Helper()
	s = newShared(t)
	a, b, c = s.join("a", vfs.NewCrashableMem(), nil), s.join("b", vfs.NewCrashableMem(), nil), s.join("c", vfs.NewCrashableMem(), nil)
	a.lead()
	return s, a, b, c
}

func batchOf(tb testing.TB, n int) (batch []*entry.Entry) {
	tb.Helper()
	for range n {
		batch = append(batch, newUnsigned(tb))
	}
	return batch
}

// resent are the entries as another submitter sends them: Submit writes into entries.
func resent(tb testing.TB, batch []*entry.Entry) (again []*entry.Entry) {
	tb.Helper()
	for _, e := range batch {
		same, _, err := entry.DecodeStored(e.AppendStored(nil, 0))
		must(tb, err)
		again = append(again, same)
	}
	return again
}

// registered submits a batch and wants all of it taken, from first on.
func (p *peer) registered(batch []*entry.Entry, first uint64, duplicate bool) {
	p.t.Helper()
	answer, err := p.Submit(p.t.Context(), batch...)
	must(p.t, err)
	if answer.Refused != nil || len(answer.Registered) != len(batch) {
		p.t.Fatalf("%s: %d of %d entries, %v", p.seat.name, len(answer.Registered), len(batch), answer.Refused)
	}
	for i, r := range answer.Registered {
		if r.Index != first+uint64(i) || r.Duplicate != duplicate {
			p.t.Fatalf("%s: entry %d: %+v, want index %d, duplicate %v", p.seat.name, i, r, first+uint64(i), duplicate)
		}
	}
	if head := openNote(p.t, answer.Head.Note); head.Size < first+uint64(len(batch)) {
		p.t.Fatalf("the answer's head is of size %d", head.Size)
	}
}

// TestClusterFollowersEqual: every node has the leader's log, signed with the same bytes, and
// answers what is registered; new entries go to the leader. The answer to a submission that
// needs several batches comes behind the last of them.
func TestClusterFollowersEqual(t *testing.T) {
	s, a, b, c := three(t)
	again := batchOf(t, 3)
	a.registered(again, 0, false)
	for _, n := range []int{1, 250, 2100, 1} {
		a.registered(batchOf(t, n), a.Size(), false)
	}
	equal(t, a, b, c)
	if got := len(s.batches); got != 1+1+1+3+1 {
		t.Errorf("%d batches", got)
	}
	b.registered(resent(t, again), 0, true)
	if _, err := b.Submit(t.Context(), newUnsigned(t)); !errors.Is(err, agreement.ErrNotLeading) {
		t.Errorf("a follower takes an entry: %v", err)
	}
	if a.Ready() != nil || b.Ready() == nil || b.Leads() {
		t.Errorf("ready: leader %v, follower %v", a.Ready(), b.Ready())
	}
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
	for _, p := range []*peer{a, b, c} {
		if s.kept[p.seat.name] != uint64(len(s.batches)) {
			t.Errorf("%s keeps %d of %d batches", p.seat.name, s.kept[p.seat.name], len(s.batches))
		}
	}
}

// TestClusterPausedLeader pauses the leader where it offers a batch that fills tiles. Another node
// leads on. When the leader wakes, its batch is overtaken: it takes everything back that the batch
// did, follows, and its submitter finds the entries new.
func TestClusterPausedLeader(t *testing.T) {
	s, a, b, c := three(t)
	a.registered(batchOf(t, 200), 0, false)
	paused, wake := make(chan struct{}), make(chan struct{})
	s.fail(func(node string, _ uint64) error {
		if node == "a" {
			close(paused)
			<-wake
		}
		return nil
	}, nil)
	lost, answered := batchOf(t, 400), make(chan error, 1)
	go func() {
		_, err := a.Submit(t.Context(), lost...)
		answered <- err
	}()
	<-paused
	must(t, b.Wait(t.Context(), 200))
	b.lead()
	b.registered(batchOf(t, 70), 200, false)
	b.registered(resent(t, lost[:10]), 270, false)
	s.fail(nil, nil)
	close(wake)
	if err := <-answered; !errors.Is(err, agreement.ErrNotLeading) {
		t.Fatalf("the overtaken submission: %v", err)
	}
	equal(t, a, b, c)
	a.registered(resent(t, lost[:10]), 270, true)
	a.lead()
	a.registered(resent(t, lost[10:]), 280, false)
	a.registered(batchOf(t, 300), 670, false)
	equal(t, a, b, c)
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}

// TestClusterAliveWhenOvertaken: who asks whether the order answers is told so, although the batch
// that the order took with the question is overtaken.
func TestClusterAliveWhenOvertaken(t *testing.T) {
	s, a, b, c := three(t)
	offered, wake := make(chan struct{}), make(chan struct{})
	s.fail(func(_ string, seq uint64) error {
		if seq > 1 {
			s.next()
			return nil
		}
		close(offered)
		<-wake
		return nil
	}, nil)
	first, second, alive := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	submit := func(answered chan<- error, e *entry.Entry) {
		_, err := a.Submit(t.Context(), e)
		answered <- err
	}
	go submit(first, newUnsigned(t))
	<-offered
	go submit(second, newUnsigned(t))
	go func() { alive <- a.Alive(t.Context()) }()
	for a.Waiting() < 2 {
		runtime.Gosched()
	}
	close(wake)
	must(t, <-first)
	if err := <-second; !errors.Is(err, agreement.ErrNotLeading) {
		t.Errorf("the overtaken submission: %v", err)
	}
	must(t, <-alive)
	s.fail(nil, nil)
	equal(t, a, b, c)
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}

// TestClusterLostAnswers: a batch stands, and its leader learns nothing of it for a while; or it
// was cut off before the order had it. The same bytes are offered again, and stand once.
func TestClusterLostAnswers(t *testing.T) {
	s, a, b, c := three(t)
	for n, where := range []string{"before", "after", "after, and it is overtaken then"} {
		cut := 0
		fail := func(node string, _ uint64) error {
			if cut++; node == "a" && cut <= 3 {
				if n == 2 && cut == 1 {
					s.next() // somebody's term begins behind the batch
				}
				return errCutOff
			}
			return nil
		}
		if n == 0 {
			s.fail(fail, nil)
		} else {
			s.fail(nil, fail)
		}
		batch := batchOf(t, 5)
		a.registered(batch, uint64(5*n), false)
		a.registered(resent(t, batch), uint64(5*n), true)
		if cut < 4 || len(s.batches) != n+1 {
			t.Errorf("%s: offered %d times, %d batches", where, cut, len(s.batches))
		}
	}
	equal(t, a, b, c)
	if _, err := a.Submit(t.Context(), newUnsigned(t)); !errors.Is(err, agreement.ErrNotLeading) {
		t.Errorf("a term that is over: %v", err)
	}
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}

// TestClusterOvertakenBetweenBatches: a submission needs three batches, and its leader is overtaken
// at the second. The first is the answer; the same submission at the new leader gets all of it.
func TestClusterOvertakenBetweenBatches(t *testing.T) {
	budget.Unraced(t, "TestClusterPausedLeader has the same goroutines")
	s, a, b, c := three(t)
	s.fail(func(node string, seq uint64) error {
		if node == "a" && seq == 2 {
			b.seat.give(s.next())
		}
		return nil
	}, nil)
	batch := batchOf(t, 2100)
	answer, err := a.Submit(t.Context(), resent(t, batch)...)
	must(t, err)
	first := len(answer.Registered)
	if first == 0 || first > agreement.MaxEntries || answer.Refused == nil || answer.Refused.Problem != entry.NotReady {
		t.Fatalf("%d entries, %v", first, answer.Refused)
	}
	s.fail(nil, nil)
	must(t, b.Wait(t.Context(), uint64(first)))
	b.until("it leads", b.Leads)
	answer, err = b.Submit(t.Context(), resent(t, batch)...)
	must(t, err)
	for i, r := range answer.Registered {
		if r.Index != uint64(i) || r.Duplicate != (i < first) {
			t.Fatalf("entry %d: %+v, %d were there", i, r, first)
		}
	}
	if len(answer.Registered) != len(batch) {
		t.Errorf("%d of %d entries, %v", len(answer.Registered), len(batch), answer.Refused)
	}
	equal(t, a, b, c)
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}

// TestClusterNoMajority: nothing is agreed on. Who waits may give up, new entries are refused after
// a while, and what is registered is still answered. When the majority is back, so is the order.
func TestClusterNoMajority(t *testing.T) {
	s, a, b, c := three(t)
	known := batchOf(t, 1)
	a.registered(known, 0, false)
	back := make(chan struct{})
	s.fail(func(string, uint64) error {
		select {
		case <-back:
			return nil
		default:
			return errCutOff
		}
	}, nil)
	waiting, giveUp := context.WithCancel(t.Context())
	left, left2 := make(chan error, 1), newUnsigned(t)
	go func() {
		_, err := a.Submit(waiting, left2)
		left <- err
	}()
	for refused := false; !refused; {
		_, refused = errors.AsType[*entry.Refusal](a.Ready())
		a.registered(resent(t, known), 0, true)
	}
	if answer, err := a.Submit(t.Context(), newUnsigned(t)); err != nil || answer.Refused == nil || answer.Refused.Problem != entry.NotReady {
		t.Errorf("without a majority: %+v, %v", answer, err)
	}
	a.registered(resent(t, known), 0, true)
	giveUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up: %v", err)
	}
	close(back)
	must(t, a.Wait(t.Context(), 2))
	a.registered(resent(t, []*entry.Entry{left2}), 1, true)
	a.registered(batchOf(t, 1), 2, false)
	equal(t, a, b, c)
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}

// ended returns why the node has ended.
func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.fatal:
		return err
	case <-time.After(time.Minute):
		p.t.Fatalf("%s goes on", p.seat.name)
	}
	return nil
}

// dead wants the node to end with an error of that class.
func (p *peer) dead(class error) {
	p.t.Helper()
	err := p.ended()
	if !errors.Is(err, class) {
		p.t.Fatalf("%s: %v, want %v", p.seat.name, err, class)
	}
}

// lostBatches wants the node to end since the order lost batches, with that reason. The remedy is
// that of a cluster.
func (p *peer) lostBatches(reason string) {
	p.t.Helper()
	err := p.ended()
	if !errors.Is(err, agreement.ErrDiverged) || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "lost its newest batches: restore nothing") ||
		strings.Contains(err.Error(), ledger.LostRemedy) {
		p.t.Fatalf("%s: %v", p.seat.name, err)
	}
}

// stricter refuses what the other nodes take.
type stricter struct{ tally }

func (f *stricter) Admit(e *entry.Entry, index uint64, at int64) error {
	if index == 3 {
		return entry.Refuse(entry.StateConflict, "", "a rule that the others do not have")
	}
	return f.tally.Admit(e, index, at)
}

// TestDiverged: a node that cannot take what stands ends, and signs nothing of it. The other nodes
// go on.
func TestDiverged(t *testing.T) {
	for what, change := range map[string]func(*ledger.Config){
		"another rule":        func(cfg *ledger.Config) { cfg.NewFold = func() ledger.Fold { return new(stricter) } },
		"another secret":      func(cfg *ledger.Config) { cfg.Cluster.Secret = []byte("guessed") },
		"another incarnation": func(cfg *ledger.Config) { cfg.Cluster.Incarnation[0]++ },
	} {
		t.Run(what, func(t *testing.T) {
			s := newShared(t)
			a := s.join("a", vfs.NewCrashableMem(), nil)
			b := s.join("b", vfs.NewCrashableMem(), change)
			a.lead()
			a.registered(batchOf(t, 3), 0, false)
			a.registered(batchOf(t, 2), 3, false)
			b.dead(agreement.ErrDiverged)
			a.registered(batchOf(t, 2), 5, false)
			a.stop()
		})
	}
	t.Run("another head at another node", func(t *testing.T) {
		s := newShared(t)
		s.differs = true
		a := s.join("a", vfs.NewCrashableMem(), nil)
		a.lead()
		a.registered(batchOf(t, 3), 0, false)
		a.dead(agreement.ErrDiverged)
	})
	for what, change := range map[string]func(*agreement.Batch){
		"another root":     func(b *agreement.Batch) { b.Head.Root[0] ^= 1 },
		"another past":     func(b *agreement.Batch) { b.Previous.Root[0] ^= 1 },
		"a time that fell": func(b *agreement.Batch) { b.At = 1 },
		"another number":   func(b *agreement.Batch) { b.Seq++ },
	} {
		t.Run(what, func(t *testing.T) {
			s := newShared(t)
			a, b := s.join("a", vfs.NewCrashableMem(), nil), s.join("b", vfs.NewCrashableMem(), nil)
			a.lead()
			a.registered(batchOf(t, 3), 0, false)
			must(t, b.Wait(t.Context(), 3))
			batch := agreement.Batch{Incarnation: incarnation, Seq: 2, Previous: a.Head().Head, Head: a.Head().Head, At: a.Head().RegisteredAt}
			batch.Head.Size++
			change(&batch)
			batch.Records = agreement.AppendRecord(nil, newUnsigned(t).AppendStored(nil, batch.At))
			must(t, s.decide(agreement.Term{ID: s.term}, 2, batch.Encode([]byte("secret"))))
			b.dead(agreement.ErrDiverged)
		})
	}
}

// TestOrderThatLostBatches: an order restored from an older copy gives a node a term behind which
// the node has batches. The node ends, and signs nothing more. A term that is over is no reason.
func TestOrderThatLostBatches(t *testing.T) {
	s, a, b, _ := three(t)
	a.registered(batchOf(t, 1), 0, false)
	over := s.next()
	b.seat.give(s.next())
	must(t, b.Wait(t.Context(), 1))
	b.until("it leads", b.Leads)
	b.registered(batchOf(t, 1), 1, false)
	must(t, a.Wait(t.Context(), 2))
	a.seat.give(over)
	a.until("it has the term", func() bool { return len(a.seat.terms) == 0 })
	must(t, a.Alive(t.Context()))

	s.mu.Lock()
	s.batches = s.batches[:1]
	s.mu.Unlock()
	a.seat.give(s.next())
	a.lostBatches("ends at batch 1, and this node has 2 batches")
}

// TestEmptyOrder: keys that have signed tree heads begin no second log in an empty order.
func TestEmptyOrder(t *testing.T) {
	s := newShared(t)
	a := s.join("a", vfs.NewCrashableMem(), func(cfg *ledger.Config) { cfg.Used = true })
	a.seat.give(s.next())
	a.lostBatches("is empty")
}

// TestTrimmed: a node that comes too late ends. It never goes on beyond a gap.
func TestTrimmed(t *testing.T) {
	s := newShared(t)
	a := s.join("a", vfs.NewCrashableMem(), nil)
	a.lead()
	a.registered(batchOf(t, 1), 0, false)
	a.registered(batchOf(t, 1), 1, false)
	a.until("it keeps them", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.kept["a"] == 2
	})
	s.mu.Lock()
	s.trimmed = 2
	s.mu.Unlock()
	s.join("b", vfs.NewCrashableMem(), nil).dead(agreement.ErrTrimmed)
	a.registered(batchOf(t, 1), 2, false)
	a.stop()
}

// TestDatabaseOfANode: a single ledger does not go on with the database of a node, which would fork
// the log of the cluster; and a node does not go on with another database than its own.
func TestDatabaseOfANode(t *testing.T) {
	s := newShared(t)
	a := s.join("a", vfs.NewCrashableMem(), nil)
	a.lead()
	a.registered(batchOf(t, 1), 0, false)
	a.stop()
	alone, other, node := *a.cfg, *a.cfg, *a.cfg
	alone.Cluster = nil
	other.Cluster = again(a.cfg.Cluster)
	other.Cluster.Incarnation[0]++
	node.FS = logOf(t, 1)
	for what, cfg := range map[string]*ledger.Config{
		"alone": following(&alone), "in another cluster": reverting(&other), "with the database of a single ledger": reverting(&node),
	} {
		if _, err := ledger.Open("log", cfg); !errors.Is(err, ledger.ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
	incomplete := *a.cfg
	incomplete.Cluster = &ledger.Cluster{Member: agreement.Member{Sequencer: a.seat, Secret: []byte("secret"), Incarnation: incarnation}}
	if _, err := ledger.Open("log", &incomplete); err == nil {
		t.Error("a cluster without Revert")
	}
}

// TestClusterHalt: a halted leader signs nothing of the batch that it has offered.
func TestClusterHalt(t *testing.T) {
	s, a, b, c := three(t)
	offered := make(chan struct{})
	wake := make(chan struct{})
	s.fail(func(string, uint64) error { close(offered); <-wake; return errCutOff }, nil)
	answered := make(chan error, 1)
	go func() {
		_, err := a.Submit(t.Context(), newUnsigned(t))
		answered <- err
	}()
	<-offered
	a.Halt()
	close(wake)
	if err := <-answered; !errors.Is(err, ledger.ErrStopped) {
		t.Errorf("the submission: %v", err)
	}
	s.mu.Lock()
	if len(s.heads[1]) > 0 {
		t.Error("a head of a batch that does not stand is signed")
	}
	s.mu.Unlock()
	for _, p := range []*peer{a, b, c} {
		p.stop()
	}
}
