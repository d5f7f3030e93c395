package ledger_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// gatedDisk lets a test hold all syncs.
type gatedDisk struct {
	vfs.FS
	mu      sync.Mutex
	hold    chan struct{} // nil: nothing is held
	waiting chan struct{}
}

func newGatedDisk(disk vfs.FS) *gatedDisk {
	g := &gatedDisk{waiting: make(chan struct{}, 100)}
	g.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			g.mu.Lock()
			hold := g.hold
			g.mu.Unlock()
			if hold != nil {
				g.waiting <- struct{}{}
				<-hold
			}
		}
		return nil
	}))
	return g
}

func (g *gatedDisk) Unwrap() vfs.FS { return g.FS }

func (g *gatedDisk) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = make(chan struct{})
}

func (g *gatedDisk) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold != nil {
		close(g.hold)
		g.hold = nil
	}
}

// I1 and I2: while the sync of a commit is held, nobody sees its head or its
// entries, and nobody is answered, not even who submits the same entry again.
// Draft: LOG-3.
func TestI1I2NothingIsSeenBeforeItIsDurable(t *testing.T) {
	disk := newGatedDisk(vfs.NewMem())
	r := start(t, "log", atOnce(config(t, disk)))
	r.add(3)
	head := r.Head()
	e := newEntry(t)
	disk.close()
	defer disk.open()
	answers := make(chan *ledger.Answer, 2)
	submit := func() {
		answer, err := r.Submit(context.Background(), e)
		must(t, err)
		answers <- answer
	}
	go submit()
	<-disk.waiting
	go submit()
	for range 100 {
		published, err := r.Published()
		must(t, err)
		if r.Head().Head != head.Head || published.Size > head.Size {
			t.Fatalf("head %v, published %v, durable is %v", r.Head().Head, published.Head, head.Head)
		}
		if _, err := r.Entry(3); err == nil {
			t.Fatal("an entry that is not durable is read")
		}
		if _, err := r.Tile(merkle.Tile{Width: 4}); err == nil {
			t.Fatal("a tile that is not durable is read")
		}
		if found, err := r.Find(ledger.Query{Index: entry.ByKind, Value: "execution"}); err != nil || len(found) != 3 {
			t.Fatalf("found %v, %v", found, err)
		}
		select {
		case answer := <-answers:
			t.Fatalf("answered %+v", answer)
		default:
		}
	}
	disk.open()
	for range 2 {
		answer := <-answers
		if index := answer.Registered[0].Index; index != 3 || answer.Head.Size != 4 {
			t.Fatalf("answer %+v", answer)
		}
		if openNote(t, answer.Head.Note) != answer.Head.Head {
			t.Fatal("the head of the answer is not the signed one")
		}
		path, err := answer.Proof(3)
		must(t, err)
		must(t, merkle.CheckInclusion(3, merkle.HashLeaf(e.AppendLeaf(nil, answer.Registered[0].RegisteredAt)), answer.Head.Head, path))
	}
}

// I2: every answer of many concurrent submitters comes with a signed head that
// covers its indexes, and the proof under that head holds.
func TestI2AnswersAreCovered(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 30 {
				batch := []*entry.Entry{newEntry(t), newEntry(t)}
				answer, err := r.Submit(t.Context(), batch...)
				must(t, err)
				if openNote(t, answer.Head.Note) != answer.Head.Head {
					t.Errorf("head %v", answer.Head)
				}
				for i, registered := range answer.Registered {
					receipt, err := answer.Receipt(registered.Index)
					must(t, err)
					leaf := batch[i].AppendLeaf(nil, registered.RegisteredAt)
					if string(receipt.Leaf) != string(leaf) || receipt.Head != answer.Head.Note {
						t.Errorf("receipt of another entry or head")
					}
					must(t, merkle.CheckInclusion(registered.Index, merkle.HashLeaf(leaf), answer.Head.Head, receipt.Proof))
				}
			}
		})
	}
	group.Wait()
	r.checkAll()
}

// I3 and I5: sizes seen by readers never fall, and any two heads that were ever
// signed are consistent: each with the newest, and thus with each other.
func TestI3I5HeadsGrowAndAreConsistent(t *testing.T) {
	cfg := atOnce(config(t, vfs.NewMem()))
	cfg.SnapshotEvery = 50
	var mu sync.Mutex
	signed := map[merkle.Head]bool{}
	note := func(head merkle.Head) {
		mu.Lock()
		defer mu.Unlock()
		signed[head] = true
	}
	size := uint64(0)
	for range 3 {
		r := start(t, "log", cfg)
		var stop atomic.Bool
		var readers, writers sync.WaitGroup
		seen := make([]uint64, 3)
		for i := range seen {
			seen[i] = size
			readers.Go(func() {
				for !stop.Load() {
					head := r.Head()
					if i == 0 {
						var err error
						head, err = r.Published()
						must(t, err)
					}
					if head.Size < seen[i] {
						t.Errorf("size %d after %d", head.Size, seen[i])
					}
					seen[i] = head.Size
					note(head.Head)
				}
			})
		}
		for range 4 {
			writers.Go(func() {
				for range 20 {
					answer, err := r.Submit(t.Context(), newEntry(t))
					must(t, err)
					note(answer.Head.Head)
				}
			})
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		size = r.Head().Size
		leaves := r.leafHashes()
		for head := range signed {
			if root := referenceRoot(leaves[:head.Size]); root != head.Root {
				t.Fatalf("signed root %s of size %d, the log's is %s", head.Root, head.Size, root)
			}
			path, err := r.Consistency(head.Size, size)
			must(t, err)
			must(t, merkle.CheckConsistency(head, r.Head().Head, path))
		}
		r.stop()
	}
	if len(signed) < 3*20 { // an entry of each writer fits in a commit, at most
		t.Errorf("only %d heads were seen", len(signed))
	}
}

// I4: what an entry's leaf is when it is answered, it is after growth, restarts
// and compactions.
func TestI4BytesNeverChange(t *testing.T) {
	budget.Unraced(t, "one question after the other; TestConcurrentSubmittersShareCommits has the goroutines")
	cfg := config(t, vfs.NewMem())
	var want [][]byte
	for range 6 {
		r := start(t, "log", cfg)
		for range 20 {
			e := newEntry(t)
			answer, err := r.Submit(t.Context(), e)
			must(t, err)
			want = append(want, e.AppendLeaf(nil, answer.Registered[0].RegisteredAt))
		}
		r.bulk(500)
		for range 500 {
			logged, err := r.Entry(uint64(len(want)))
			must(t, err)
			want = append(want, logged.AppendLeaf(nil))
		}
		var got [][]byte
		for logged, err := range r.Entries(t.Context(), 0, r.Head().Size) {
			must(t, err)
			got = append(got, logged.AppendLeaf(nil))
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatal("an entry has changed")
		}
		r.stop()
	}
}
