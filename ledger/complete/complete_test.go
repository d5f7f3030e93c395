package complete

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// lists is the index by its definition (IDX-1).
func lists(entries []*entry.Entry) map[entry.Subject]map[entry.Label][]uint64 {
	all := map[entry.Subject]map[entry.Label][]uint64{}
	for i, e := range entries {
		for _, l := range e.Subjects(uint64(i)) {
			if all[l.Subject] == nil {
				all[l.Subject] = map[entry.Label][]uint64{}
			}
			all[l.Subject][l.Label] = append(all[l.Subject][l.Label], uint64(i))
		}
	}
	return all
}

// rootOf is IDX-2, slowly: hashes from the definition alone.
func rootOf(t *testing.T, all map[entry.Subject]map[entry.Label][]uint64) merkle.Hash {
	t.Helper()
	var leaves []merkle.PrefixLeaf
	for s, rows := range all {
		var list []merkle.Row
		for _, label := range slices.Sorted(maps.Keys(rows)) {
			var hashes []merkle.Hash
			for _, index := range rows[label] {
				hashes = append(hashes, merkle.HashIndex(index))
			}
			list = append(list, merkle.Row{Label: string(label), Count: uint64(len(hashes)), Root: merkle.HeadOf(hashes).Root})
		}
		record, err := merkle.HashRecord(list)
		must(t, err)
		leaves = append(leaves, merkle.PrefixLeaf{Key: Key(s), Record: record})
	}
	slices.SortFunc(leaves, func(a, b merkle.PrefixLeaf) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	var tree merkle.PrefixTree
	must(t, tree.Update(leaves))
	return tree.Root()
}

// step lets an index do all that it would do now, and write an index entry.
func (x *Index) step(ctx context.Context) error {
	size := x.cfg.Log.Size()
	if err := x.passIndexEntries(ctx, size); err != nil {
		return err
	}
	if x.cfg.Submit == nil {
		return nil
	}
	if err := x.tick(ctx); err != nil {
		return err
	}
	return x.passIndexEntries(ctx, x.cfg.Log.Size())
}

// checkAll compares everything that an index says with the definition: the root, the
// whole list of every subject, and parts of lists.
func (x *Index) checkAll(t *testing.T, log *memLog, rng *rand.Rand) {
	t.Helper()
	size := x.Status().Size
	all := lists(log.entries[:size])
	if root := rootOf(t, all); root != x.Status().Root {
		t.Fatalf("root %s of %d entries, want %s", x.Status().Root, size, root)
	}
	for s, rows := range all {
		part := Part{Labels: map[entry.SubjectType][]entry.Label{s.Type: slices.Collect(maps.Keys(rows))}, To: size}
		if rng.IntN(2) == 0 {
			part.From, part.Limit = rng.Uint64N(size), rng.IntN(5)
			part.To = part.From + rng.Uint64N(size-part.From) + 1
		}
		p, err := x.Prove([]entry.Subject{s, {Type: entry.SubjectAgent, Value: "nobody"}}, part)
		must(t, err)
		var want []uint64
		for _, list := range rows {
			for _, index := range list {
				if index >= part.From && index < part.To {
					want = append(want, index)
				}
			}
		}
		slices.Sort(want)
		end := part.To
		if part.Limit > 0 && len(want) > part.Limit {
			end, want = want[part.Limit], want[:part.Limit]
		}
		if !slices.Equal(p.Found, want) || p.To != end {
			t.Fatalf("%v, %+v: entries %v to %d, want %v to %d", s, part, p.Found, p.To, want, end)
		}
	}
}

// TestIndexChaos follows random logs in steps of all sizes, is opened again, deleted and
// built again, and says the same as the definition each time.
func TestIndexChaos(t *testing.T) {
	for seed := range uint64(budget.Budget{Short: 1, Usual: 3, Chaos: 200}.Now()) {
		rng := rand.New(rand.NewPCG(seed, 1))
		log, s, fs := newMemLog(), newStream(seed), vfs.NewMem()
		x := open(t, fs, log, true)
		for range 8 {
			batch := s.take(1 + rng.IntN(1<<rng.IntN(12)))
			size := log.append(batch...)
			if rng.IntN(2) == 0 {
				x.Committed(batch, size)
			}
			must(t, x.step(t.Context()))
			x.checkAll(t, log, rng)
			switch rng.IntN(4) {
			case 0:
				must(t, x.close(true))
				checkStore(t, fs, log, x.tree.size)
				x = open(t, fs, log, true)
				must(t, x.step(t.Context()))
				x.checkAll(t, log, rng)
			case 1:
				must(t, x.writeNow())
			}
		}
		must(t, x.close(true))
		must(t, fs.RemoveAll("index"))
		x = open(t, fs, log, false) // who only reads answers from the newest index entry
		must(t, x.step(t.Context()))
		x.checkAll(t, log, rng)
		must(t, x.close(true))
	}
}

// TestIndexLongLists has lists of more than 64² indexes, of which parts are shown.
func TestIndexLongLists(t *testing.T) {
	log := newMemLog()
	x := open(t, vfs.NewMem(), log, true)
	for range 9_000 {
		log.append(wrap(&entry.Execution{Header: entry.Header{Iss: "busy", Wid: "flow"}}))
	}
	must(t, x.step(t.Context()))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		x.checkAll(t, log, rng)
	}
	must(t, x.close(true))
}

// TestIndexRefusesWrongRoot: an index entry with another root stops the index, which
// answers nothing from then on, and says so.
func TestIndexRefusesWrongRoot(t *testing.T) {
	for name, damage := range map[string]func(*entry.LogIndex){
		"root":     func(x *entry.LogIndex) { x.Root[3] ^= 1 },
		"subjects": func(x *entry.LogIndex) { x.Subjects++ },
	} {
		log, s := newMemLog(), newStream(1)
		log.append(s.take(500)...)
		root, subjects := reference(t, log.entries)
		wrong := &entry.LogIndex{Header: entry.Header{Iss: "coordinator"}, Size: 500, Root: root, Subjects: subjects}
		damage(wrong)
		log.append(wrap(wrong))
		log.append(s.take(500)...)
		x := New("index", Config{Log: log, HeadAt: log.HeadAt, FS: vfs.NewMem(), Submit: log.submit})
		var found *RootError
		if err := x.Run(t.Context()); !errors.As(err, &found) || found.Index != 500 || found.Root != root {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := x.Prove([]entry.Subject{{Type: entry.SubjectLog}}, Part{To: 1}); !errors.Is(err, ErrStopped) {
			t.Errorf("%s: it answers: %v", name, err)
		}
		if s := x.Status(); !strings.Contains(s.Stopped, "index entry 500 says root") {
			t.Errorf("%s: status %+v", name, s)
		}
		if log.Size() != 1001 {
			t.Errorf("%s: it has written an index entry", name)
		}
	}
}

// TestIndexAdmit: the ledger takes the index entry that it has computed, and no other.
func TestIndexAdmit(t *testing.T) {
	log := newMemLog()
	log.append(newStream(1).take(100)...)
	x := open(t, vfs.NewMem(), log, true)
	x.cfg.Submit = func(_ context.Context, own *entry.LogIndex) error {
		must(t, x.Admit(own))
		for _, change := range []func(*entry.LogIndex){func(o *entry.LogIndex) { o.Size-- }, func(o *entry.LogIndex) { o.Root[0]++ },
			func(o *entry.LogIndex) { o.Subjects++ }} {
			other := *own
			change(&other)
			if refusal, ok := errors.AsType[*entry.Refusal](x.Admit(&other)); !ok || refusal.Problem != entry.StateConflict || refusal.Field != "root" {
				t.Errorf("%+v is admitted", other)
			}
		}
		return log.submit(t.Context(), own)
	}
	if err := x.Admit(&entry.LogIndex{}); err == nil {
		t.Error("it admits an index entry before it has computed any")
	}
	must(t, x.step(t.Context()))
	must(t, x.close(true))
}

// TestIndexRefused: a refused index entry is tried again with what there is by then.
func TestIndexRefused(t *testing.T) {
	log, refusals := newMemLog(), 0
	log.append(newStream(1).take(10)...)
	x := open(t, vfs.NewMem(), log, true)
	x.cfg.Submit = func(ctx context.Context, own *entry.LogIndex) error {
		if refusals++; refusals == 1 {
			return entry.Refuse(entry.NotReady, "", "not now")
		}
		return log.submit(ctx, own)
	}
	must(t, x.step(t.Context()))
	if _, err := x.Prove([]entry.Subject{{Type: entry.SubjectLog}}, Part{To: 1}); !errors.Is(err, ErrNotReady) {
		t.Errorf("it answers without an index entry: %v", err)
	}
	log.append(newStream(2).take(10)...)
	must(t, x.step(t.Context()))
	x.checkAll(t, log, rand.New(rand.NewPCG(1, 1)))
	refusals = 0 // the tree is ahead of the newest index entry from now on
	log.append(newStream(3).take(10)...)
	must(t, x.step(t.Context()))
	if _, err := x.Prove([]entry.Subject{{Type: entry.SubjectLog}}, Part{To: 1}); !errors.Is(err, ErrNotReady) {
		t.Errorf("it answers by an index entry of another root: %v", err)
	}
	must(t, x.close(true))
}

// TestIndexOpenedAgain: an index that is opened again answers by the newest index entry, though
// nothing was registered since.
func TestIndexOpenedAgain(t *testing.T) {
	log, fs := indexedLog(t, 1_000)
	x := open(t, fs, log, false)
	if x.tree.size != 1_000 {
		t.Errorf("it goes on from size %d", x.tree.size)
	}
	must(t, x.step(t.Context()))
	if s := x.Status(); s.Entry != 1_000 || s.Size != 1_000 {
		t.Errorf("status %+v", s)
	}
	x.checkAll(t, log, rand.New(rand.NewPCG(1, 1)))
	must(t, x.close(true))
}

// TestIndexPowerLossChaos takes the power away before every operation that changes the
// disk: what is left is opened again, with nothing, half and all of the unsynced data,
// and says the same as the definition.
func TestIndexPowerLossChaos(t *testing.T) {
	want := budget.Budget{Short: 50, Usual: 70, Chaos: 20_000}.Now()
	states := 0
	for seed := uint64(1); states < want; seed++ {
		rng := rand.New(rand.NewPCG(seed, 2))
		disk, log := vfs.NewCrashableMem(), newMemLog()
		var mu sync.Mutex // the storage engine writes in goroutines of its own, too
		var clones []*vfs.MemFS
		power := rand.New(rand.NewPCG(seed, 3))
		injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && power.IntN(4) == 0 {
				clones = append(clones, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * power.IntN(3), RNG: power}))
			}
			return nil
		})
		x := open(t, errorfs.Wrap(disk, injector), log, true)
		s := newStream(seed)
		for range 6 {
			log.append(s.take(1 + rng.IntN(300))...)
			must(t, x.step(t.Context()))
			must(t, x.writeNow())
		}
		must(t, x.close(true))
		mu.Lock()
		for _, clone := range clones {
			if states++; states > want {
				break
			}
			if _, err := Check(t.Context(), "index", Config{Log: log, HeadAt: log.HeadAt, FS: clone}, untold); err != nil {
				t.Errorf("what a crash leaves is no damage: %v", err)
			}
			again := open(t, clone, log, false)
			must(t, again.step(t.Context()))
			again.checkAll(t, log, rng)
			must(t, again.close(true))
		}
		mu.Unlock()
	}
}

// TestIndexBitFlipsChaos flips one bit of a stored index at a time. It is built again,
// stops, or says what it said before; it never answers wrongly.
func TestIndexBitFlipsChaos(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database")
	rng := rand.New(rand.NewPCG(7, 7))
	disk, log := vfs.NewMem(), newMemLog()
	log.append(newStream(3).take(3_000)...)
	x := open(t, disk, log, true)
	must(t, x.step(t.Context()))
	must(t, x.close(true))
	names, err := disk.List("index")
	must(t, err)
	slices.Sort(names)
	verdicts := map[string]int{}
	for range (budget.Budget{Short: 20, Usual: 40, Chaos: 5_000}).Now() {
		clone := vfs.NewMem()
		copied, err := vfs.Clone(disk, clone, "index", "index")
		must(t, err)
		if !copied {
			t.Fatal("nothing is copied")
		}
		name := names[rng.IntN(len(names))]
		flip(t, clone, path.Join("index", name), rng)
		report, found := Check(t.Context(), "index", Config{Log: log, HeadAt: log.HeadAt, FS: clone}, untold)
		verdict := afterFlip(t, clone, log)
		want := "as before"
		if found == nil && report.Size == 0 { // to the engine, the database is as empty as a new one
			want = "built again"
		}
		if found == nil && verdict != want {
			t.Errorf("%s: the check finds nothing in %d entries, and the index is %s", name, report.Size, verdict)
		}
		if verdicts[verdict]++; found != nil {
			verdicts["found by the check"]++
		}
	}
	t.Log(verdicts)
}

func flip(t *testing.T, fs vfs.FS, name string, rng *rand.Rand) {
	t.Helper()
	file, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	info, err := file.Stat()
	must(t, err)
	if size := info.Size(); size > 0 {
		at, b := rng.Int64N(size), []byte{0}
		_, err = file.ReadAt(b, at)
		must(t, err)
		b[0] ^= 1 << rng.IntN(8)
		_, err = file.WriteAt(b, at)
		must(t, err)
	}
	must(t, file.Close())
}

// afterFlip opens an index and asks it everything.
func afterFlip(t *testing.T, fs vfs.FS, log *memLog) string {
	t.Helper()
	x := open(t, fs, log, false)
	rebuilt := x.tree.size == 0
	if err := x.step(t.Context()); err != nil {
		return "stopped"
	}
	all := lists(log.entries[:x.Status().Size])
	verdict := "as before"
	if rebuilt {
		verdict = "built again"
	}
	for s, rows := range all {
		p, err := x.Prove([]entry.Subject{s}, Part{Labels: map[entry.SubjectType][]entry.Label{s.Type: slices.Collect(maps.Keys(rows))}, To: x.Status().Size})
		if errors.Is(err, ErrStopped) {
			verdict = "stopped at a question"
			break
		}
		must(t, err)
		count := 0
		for _, list := range rows {
			count += len(list)
		}
		if len(p.Found) != count {
			t.Fatalf("%v: %d entries, want %d", s, len(p.Found), count)
		}
	}
	_ = x.store.close() // of a damaged one: as it comes
	return verdict
}

// TestIndexOtherLog: a store that covers more than the log has, as after a restored
// backup, is built again.
func TestIndexOtherLog(t *testing.T) {
	fs, log := vfs.NewMem(), newMemLog()
	log.append(newStream(1).take(200)...)
	x := open(t, fs, log, true)
	must(t, x.step(t.Context()))
	must(t, x.close(true))
	older := newMemLog()
	older.append(log.entries[:100]...)
	x = open(t, fs, older, true)
	must(t, x.step(t.Context()))
	x.checkAll(t, older, rand.New(rand.NewPCG(1, 1)))
	must(t, x.close(true))
}

// TestIndexOfAnotherHistory: a store that was written under another history of the same
// length or a shorter one, as after a restored backup that has grown since, is built again:
// with it, the ledger would write a false root into its log.
func TestIndexOfAnotherHistory(t *testing.T) {
	fs, log := vfs.NewMem(), newMemLog()
	log.append(newStream(1).take(200)...)
	x := open(t, fs, log, true)
	must(t, x.step(t.Context()))
	must(t, x.close(true))
	for _, grown := range []int{101, 300} {
		other := newMemLog()
		other.append(log.entries[:100]...)
		other.append(newStream(2).take(grown)...)
		clone := vfs.NewMem()
		_, err := vfs.Clone(fs, clone, "index", "index")
		must(t, err)
		x := open(t, clone, other, true)
		if x.tree.size != 0 {
			t.Error("it goes on from another history")
		}
		must(t, x.step(t.Context()))
		x.checkAll(t, other, rand.New(rand.NewPCG(1, 1)))
		must(t, x.close(true))
	}
}

// TestPace is IDX-3's pace: at once for what decides or lets in, a second for many
// entries, ten for a few, never for index entries.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			kinds []entry.Kind
			want  time.Duration
			waits bool
		}{
			"nothing":       {nil, 0, false},
			"index entries": {slices.Repeat([]entry.Kind{entry.KindIndex}, 100), 0, false},
			"a few":         {slices.Repeat([]entry.Kind{entry.KindExecution}, 63), 10 * time.Second, true},
			"many":          {slices.Repeat([]entry.Kind{entry.KindExecution}, 64), 750 * time.Millisecond, true},
			"a decision":    {[]entry.Kind{entry.KindExecution, entry.KindDecision}, 0, true},
			"a policy":      {[]entry.Kind{entry.KindPolicy}, 0, true},
			"a revocation":  {[]entry.Kind{entry.KindAgent}, 0, true},
			"a record":      {[]entry.Kind{entry.KindRecord}, 0, true},
		} {
			var p pace
			for _, kind := range c.kinds {
				p.saw(kind)
			}
			wait, waits := p.due()
			if p.urgent {
				wait = max(wait, 0)
			}
			if wait != c.want || waits != c.waits {
				t.Errorf("%s: due in %v, %v", name, wait, waits)
			}
		}
	})
}

// TestRun follows a log that grows while it runs, by its own pace, and stops with its
// context.
func TestRun(t *testing.T) {
	log := newMemLog()
	x := New("index", Config{Log: log, HeadAt: log.HeadAt, FS: vfs.NewMem(), Submit: log.submit})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- x.Run(ctx) }()
	s := newStream(5)
	for i := range 20 {
		log.append(wrap(&entry.Agent{Header: entry.Header{Iss: "operator"}, Principal: entry.Principal(fmt.Sprintf("new-%d", i)), Op: entry.Enrol}))
		batch := s.take(50)
		x.Committed(batch, log.append(batch...))
	}
	last := log.append(wrap(&entry.Policy{Header: entry.Header{Iss: "authority"}}))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for x.Status().Size < last { // each policy is covered at once; the status follows the log
		<-tick.C
	}
	cancel()
	must(t, <-over)
}
