package ledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

// model is what a log should be, and a log on a disk that is stopped, crashed
// and given the wrong time.
type model struct {
	t   *rapid.T
	tb  testing.TB
	cfg *ledger.Config
	*clocks
	disk *vfs.MemFS

	log    *ledger.Log
	cancel context.CancelFunc
	done   chan error

	entries []*entry.Entry // acknowledged, in order
	leaves  []merkle.Hash
	at      int64
}

// TestRandomLives compares a log with a model while it lives at random.
func TestRandomLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: rt, tb: t, disk: vfs.NewCrashableMem(), clocks: newClocks()}
		m.cfg = m.on(config(t, nil))
		m.cfg.SnapshotEvery = rapid.Uint64Range(1, 20).Draw(rt, "snapshot every")
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"submit":  m.submit,
			"restart": func(*rapid.T) { m.stop(); m.open() },
			"crash":   m.crash,
			"time":    func(rt *rapid.T) { m.pass(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond) },
			"step":    m.stepClock,
			"":        m.check,
		})
		m.stop()
		fsck(t, "log", m.cfg)
	})
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) open() {
	m.cfg.FS = m.disk
	m.cfg.AcceptClock = true
	log, err := ledger.Open("log", following(m.cfg))
	m.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	m.log, m.cancel, m.done = log, cancel, make(chan error, 1)
	go func() { m.done <- log.Run(ctx) }()
}

func (m *model) stop() {
	m.cancel()
	m.must(<-m.done)
	m.must(m.log.Close())
}

// submit sends a batch of new, old, conflicting and unwelcome entries.
func (m *model) submit(rt *rapid.T) {
	var batch []*entry.Entry
	var want []int // index in entries; -1 behind the refused one
	size := len(m.entries)
	added := []*entry.Entry{}
	known := func() []*entry.Entry { return append(slices.Clip(m.entries), added...) }
	refused := entry.Problem("")
	for range rapid.IntRange(1, 8).Draw(rt, "entries") {
		kind := rapid.SampledFrom([]string{"new", "new", "new", "old", "conflict", "unwelcome"}).Draw(rt, "kind")
		if len(known()) == 0 && (kind == "old" || kind == "conflict") {
			kind = "new"
		}
		switch kind {
		case "new":
			batch = append(batch, newUnsigned(m.tb))
			if refused == "" {
				added = append(added, batch[len(batch)-1])
				want = append(want, size+len(added)-1)
			}
		case "old":
			i := rapid.IntRange(0, len(known())-1).Draw(rt, "which")
			batch = append(batch, known()[i])
			if refused == "" {
				want = append(want, i)
			}
		case "conflict":
			i := rapid.IntRange(0, len(known())-1).Draw(rt, "which")
			batch = append(batch, conflicting(m.tb, known()[i]))
			refused = first(refused, entry.IDConflict)
		case "unwelcome":
			batch = append(batch, newExec(m.tb, "refuse-me"))
			refused = first(refused, entry.StateConflict)
		}
	}
	answer, err := m.log.Submit(context.Background(), batch...)
	m.must(err)
	if answer.Refused != nil && answer.Refused.Problem == entry.NotReady {
		if len(answer.Registered) > len(want) {
			rt.Fatalf("not ready, but registered %+v", answer.Registered)
		}
		m.take(added[:m.log.Head().Size-uint64(size)])
		return
	}
	if len(answer.Registered) != len(want) || (refused == "") != (answer.Refused == nil) || refused != "" && answer.Refused.Problem != refused {
		rt.Fatalf("%d registered, want %d; refused %v, want %q", len(answer.Registered), len(want), answer.Refused, refused)
	}
	for i, registered := range answer.Registered {
		if registered.Index != uint64(want[i]) {
			rt.Fatalf("entry %d of the batch is %+v, want index %d", i, registered, want[i])
		}
	}
	m.take(added)
}

func first(refused, problem entry.Problem) entry.Problem {
	if refused != "" {
		return refused
	}
	return problem
}

// take adds what was registered to the model.
func (m *model) take(added []*entry.Entry) {
	for _, e := range added {
		logged, err := m.log.Entry(uint64(len(m.entries)))
		m.must(err)
		if string(logged.PAE()) != string(e.PAE()) || logged.RegisteredAt < m.at {
			m.t.Fatalf("entry %d is another one, or registered at %d after %d", logged.Index, logged.RegisteredAt, m.at)
		}
		m.at = logged.RegisteredAt
		m.entries = append(m.entries, e)
		m.leaves = append(m.leaves, merkle.HashLeaf(e.AppendLeaf(nil, logged.RegisteredAt)))
	}
}

// crash goes on with the disk as a power loss leaves it.
func (m *model) crash(rt *rapid.T) {
	percent := rapid.SampledFrom([]int{0, 50, 100}).Draw(rt, "kept")
	left := m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: newRNG(rapid.Uint64().Draw(rt, "seed"))})
	m.stop()
	m.disk = left
	m.open()
}

func (m *model) stepClock(rt *rapid.T) {
	m.step(time.Duration(rapid.IntRange(-100, 100).Draw(rt, "seconds")) * time.Second)
}

// check compares the log with the model.
func (m *model) check(*rapid.T) {
	want := merkle.Head{Size: uint64(len(m.leaves)), Root: referenceRoot(m.leaves)}
	if head := m.log.Head(); head.Head != want || head.RegisteredAt != m.at {
		m.t.Fatalf("head %+v, want %v at %d", head, want, m.at)
	}
	if want.Size == 0 {
		return
	}
	for _, index := range []uint64{0, want.Size / 2, want.Size - 1} {
		receipt, err := m.log.Receipt(index)
		m.must(err)
		m.must(merkle.CheckInclusion(index, m.leaves[index], want, receipt.Proof))
	}
	found, err := m.log.Find(ledger.Query{Index: entry.ByWorkflow, Value: "w"})
	m.must(err)
	if len(found) != len(m.entries) {
		m.t.Fatalf("the index finds %d of %d entries", len(found), len(m.entries))
	}
}

// TestNothingRunsOnAfterwards opens logs that open and logs that do not, and
// counts goroutines.
func TestNothingRunsOnAfterwards(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	disk := logOf(t, 5)
	older := snapshotOf(disk)
	r := start(t, "log", config(t, disk))
	r.add(5)
	r.stop()
	copyTo(t, older, disk, "log")
	if _, err := ledger.Open("log", config(t, disk)); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatal(err)
	}
	must(t, disk.Remove("log.anchor"))
	if _, err := ledger.Open("log", config(t, disk)); !errors.Is(err, ledger.ErrAnchor) {
		t.Fatal(err)
	}
	cfg := config(t, disk)
	cfg.AcceptAnchor = true
	log, err := ledger.Open("log", cfg) // without Run
	must(t, err)
	must(t, log.Close())
}
