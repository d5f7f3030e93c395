package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/agreement"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// errCutOff is the answer to a proposal of which the proposer learns nothing.
var errCutOff = errors.New("cut off")

// shared is an order in memory, which decides as the transactions of a store do: by the number that
// stands, the newest term, and the bytes that stand already. A test fails the answers.
type shared struct {
	t testing.TB

	mu      sync.Mutex
	batches [][]byte // the batch with number n is at n-1
	trimmed uint64   // batches that are not kept
	term    int64    // the newest
	grown   chan struct{}
	kept    map[string]uint64
	differs bool // whether another node has another head

	// before and after are called around the decision about a proposal. An error of either is
	// the answer, whatever was decided.
	before, after func(node string, seq uint64) error

	// heads are all heads that any node has signed, by size.
	heads map[uint64]map[merkle.Head]bool
}

func newShared(tb testing.TB) *shared {
	tb.Helper()
	return &shared{t: tb, grown: make(chan struct{}), kept: map[string]uint64{}, heads: map[uint64]map[merkle.Head]bool{}}
}

// seat is the place of one node at the order.
type seat struct {
	*shared
	name  string
	terms chan agreement.Term
}

// Propose implements [agreement.Sequencer].
func (s *seat) Propose(ctx context.Context, t agreement.Term, seq uint64, batch []byte) error {
	before, after := s.hooks()
	if before != nil {
		if err := before(s.name, seq); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := s.decide(t, seq, batch)
	if after != nil {
		if cut := after(s.name, seq); cut != nil {
			return cut
		}
	}
	return err
}

func (s *shared) hooks() (before, after func(string, uint64) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.after
}

// fail sets the hooks.
func (s *shared) fail(before, after func(string, uint64) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *shared) decide(t agreement.Term, seq uint64, batch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch stands := uint64(len(s.batches)); {
	case stands == seq-1 && s.term == t.ID:
		s.batches = append(s.batches, bytes.Clone(batch))
		close(s.grown)
		s.grown = make(chan struct{})
		return nil
	case stands >= seq && bytes.Equal(s.batches[seq-1], batch):
		return nil
	}
	return agreement.ErrOvertaken
}

// Batches implements [agreement.Sequencer].
func (s *seat) Batches(ctx context.Context, seq uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for ; ctx.Err() == nil; seq++ {
			batch, err := s.wait(ctx, seq)
			if ctx.Err() != nil || !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

func (s *shared) wait(ctx context.Context, seq uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uint64(len(s.batches)) < seq && ctx.Err() == nil {
		grown := s.grown
		s.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if seq <= s.trimmed {
		return nil, agreement.ErrTrimmed
	}
	return s.batches[seq-1], nil
}

// Terms implements [agreement.Sequencer].
func (s *seat) Terms(context.Context) <-chan agreement.Term { return s.terms }

// Confirm implements [agreement.Sequencer].
func (s *seat) Confirm(_ context.Context, t agreement.Term) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t.ID {
		return agreement.ErrOvertaken
	}
	return nil
}

// Kept implements [agreement.Sequencer].
func (s *seat) Kept(_ context.Context, seq uint64, _ merkle.Head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[s.name] = seq
	if s.differs {
		return agreement.Diverged(seq, "another root")
	}
	return nil
}

// next begins a term.
func (s *shared) next() agreement.Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term++
	return agreement.Term{ID: s.term, After: uint64(len(s.batches))}
}

// give tells a node of a term. One that it did not receive is replaced.
func (s *seat) give(t agreement.Term) {
	select {
	case <-s.terms:
	default:
	}
	s.terms <- t
}

// oneRoot is a signer that fails the test when a second root of one size is signed anywhere.
type oneRoot struct {
	note.Signer
	shared *shared
}

// Sign implements [note.Signer].
func (w oneRoot) Sign(msg []byte) ([]byte, error) {
	signature, err := w.Signer.Sign(msg)
	if head, ok := headOf(msg); ok {
		w.shared.mu.Lock()
		defer w.shared.mu.Unlock()
		roots := w.shared.heads[head.Size]
		if roots == nil {
			roots = map[merkle.Head]bool{}
			w.shared.heads[head.Size] = roots
		}
		if roots[head] = true; len(roots) > 1 {
			w.shared.t.Errorf("two roots of size %d are signed", head.Size)
		}
	}
	return signature, err
}

// headOf reads the text of a tree head. A snapshot's text is none.
func headOf(text []byte) (head merkle.Head, ok bool) {
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < 3 || string(lines[0]) != origin {
		return head, false
	}
	if _, err := fmt.Sscanf(string(lines[1]), "%d", &head.Size); err != nil {
		return head, false
	}
	copy(head.Root[:], lines[2])
	return head, true
}

// peer is a node of a cluster in a test.
type peer struct {
	*ledger.Log
	t     testing.TB
	seat  *seat
	cfg   *ledger.Config
	disk  *vfs.MemFS
	fatal chan error
	end   func() error // ends the order, and returns what Run said
}

var incarnation = agreement.Incarnation{1, 2, 3}

// join opens a node of the order on a disk of its own.
func (s *shared) join(name string, disk *vfs.MemFS, change func(*ledger.Config)) *peer {
	s.t.Helper()
	p := &peer{t: s.t, seat: &seat{s, name, make(chan agreement.Term, 1)}, disk: disk, fatal: make(chan error, 1)}
	p.cfg = config(s.t, disk)
	p.cfg.Keys = slices.Clone(p.cfg.Keys)
	p.cfg.Keys[0].Signer = oneRoot{p.cfg.Keys[0].Signer, s}
	p.cfg.SnapshotEvery = 300
	p.cfg.Fatal = func(err error) { p.fatal <- err; select {} }
	p.cfg.Cluster = &ledger.Cluster{Member: agreement.Member{Sequencer: p.seat, Secret: []byte("secret"), Incarnation: incarnation}}
	if change != nil {
		change(p.cfg)
	}
	log, err := ledger.Open("log", reverting(p.cfg))
	must(s.t, err)
	p.Log = log
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	p.end = sync.OnceValue(func() error { cancel(); return <-done })
	must(s.t, log.Prepared(s.t.Context()))
	return p
}

// reverting is [following] for a node of a cluster: the state goes back to the committed one.
func reverting(cfg *ledger.Config) *ledger.Config {
	admitting := cfg.NewFold()
	first := true
	own := *cfg
	own.NewFold = func() ledger.Fold {
		if first {
			first = false
			return admitting
		}
		return cfg.NewFold()
	}
	var mu sync.Mutex
	var state bytes.Buffer
	var size uint64
	own.Committed = func(head verify.SignedHead) {
		mu.Lock()
		defer mu.Unlock()
		state.Reset()
		if err := admitting.Snapshot(&state); err != nil {
			panic(err)
		}
		size = head.Size
	}
	own.Frozen = func() (ledger.Fold, uint64) {
		mu.Lock()
		defer mu.Unlock()
		return frozen(bytes.Clone(state.Bytes())), size
	}
	own.Cluster = again(cfg.Cluster)
	own.Cluster.Revert = func() ledger.Fold {
		admitting = cfg.NewFold()
		if err := admitting.Restore(bytes.NewReader(state.Bytes())); err != nil {
			panic(err)
		}
		return admitting
	}
	return &own
}

// again is a cluster as a configuration has it, for another log.
func again(c *ledger.Cluster) *ledger.Cluster {
	return &ledger.Cluster{Revert: c.Revert,
		Member: agreement.Member{Sequencer: c.Sequencer, Secret: c.Secret, Incarnation: c.Incarnation, Unable: c.Unable, Format: c.Format}}
}

// lead lets the node order the log, and waits until it does.
func (p *peer) lead() {
	p.t.Helper()
	p.seat.give(p.seat.next())
	p.until("it leads", p.Leads)
}

// until waits, while the order is running, for what its goroutine does without telling anybody.
func (p *peer) until(what string, is func() bool) {
	p.t.Helper()
	for !is() {
		if err := p.Alive(p.t.Context()); err != nil {
			p.t.Fatalf("%s: %s: %v", p.seat.name, what, err)
		}
	}
}

// stop ends the node and checks what it leaves.
func (p *peer) stop() {
	p.t.Helper()
	must(p.t, p.end())
	must(p.t, p.Close())
	if report := fsck(p.t, "log", p.cfg); report.Anchor != report.Head {
		p.t.Errorf("%s: the anchor is of %v, the log of %v", p.seat.name, report.Anchor, report.Head)
	}
}

// equal waits until the nodes have the same log, to the last byte of the signed head.
func equal(tb testing.TB, peers ...*peer) {
	tb.Helper()
	size := uint64(0)
	for _, p := range peers {
		size = max(size, p.Size())
	}
	want := ""
	for _, p := range peers {
		must(tb, p.Wait(tb.Context(), size))
		if want == "" {
			want = p.Head().Note
		}
		if p.Head().Note != want {
			tb.Fatalf("%s has head %s, another node %s", p.seat.name, p.Head().Note, want)
		}
		(&running{Log: p.Log, t: tb}).checkAll()
	}
}
