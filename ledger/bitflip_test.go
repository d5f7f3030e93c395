package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
)

// damagedLog is a log with something wrong in it, and what is right.
type damagedLog struct {
	disk   *vfs.MemFS
	cfg    *ledger.Config
	head   merkle.Head
	leaves []merkle.Hash
	more   *entry.Entry // a new entry for it
}

// verdict says where the damage was found. It is an error if it was not found
// although something is different, or if something was signed over it.
func (d *damagedLog) verdict() (string, error) {
	checked := snapshotOf(d.disk)
	cfg := *d.cfg
	cfg.FS = checked
	_, checkErr := ledger.Check(context.Background(), "log", &cfg, nil)

	opened := snapshotOf(d.disk)
	cfg.FS = opened
	dead, over := make(chan string, 1), make(chan error, 1)
	cfg.Fatal = func(err error) {
		select {
		case dead <- err.Error():
		default:
		}
		select {} // as good as an exit
	}
	refused, found := "", checkErr != nil
	go func() {
		log, err := ledger.Open("log", &cfg)
		if err != nil {
			refused = "refused at open"
			if errors.Is(err, ledger.ErrRolledBack) {
				refused = "refused by the anchor"
			}
			over <- nil
			return
		}
		over <- d.use(log, !found)
	}()
	select {
	case <-dead:
		return "ended the process", nil
	case err := <-over:
		switch {
		case err != nil:
			return "", err
		case refused != "":
			return refused, nil
		case found:
			return "found by check", nil
		}
		return "harmless", nil
	case <-time.After(30 * time.Second):
		return "", errors.New("hangs")
	}
}

// use reads all of an open log and lets it sign: the new head must continue the
// old history, and, if fsck has found nothing, nothing may be different.
func (d *damagedLog) use(log *ledger.Log, sound bool) error {
	if log.Head().Head != d.head {
		return fmt.Errorf("head %v, was %v", log.Head().Head, d.head)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	end := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	defer func() { _ = errors.Join(end(), log.Close()) }() // what is damaged may say so here too
	answer, err := log.Submit(ctx, d.more)
	if errors.Is(err, ledger.ErrStopped) {
		err = end() // in the background
	}
	if errors.Is(err, ledger.ErrCorrupt) {
		return nil // found on the way
	}
	if err != nil || len(answer.Registered) != 1 {
		return fmt.Errorf("submit: %+v, %v", answer, err)
	}
	added, err := log.Entry(d.head.Size)
	if err != nil {
		return err
	}
	leaves := append(slices.Clip(d.leaves), merkle.HashLeaf(added.AppendLeaf(nil)))
	if root := referenceRoot(leaves); root != answer.Head.Root {
		return fmt.Errorf("signed root %s, history gives %s", answer.Head.Root, root)
	}
	for index := range d.head.Size {
		receipt, err := log.Receipt(index)
		if err != nil {
			if sound {
				return fmt.Errorf("check found nothing, but: %w", err)
			}
			continue // found on the way to a receipt
		}
		if merkle.HashLeaf(receipt.Leaf) != d.leaves[index] {
			return fmt.Errorf("receipt of entry %d is of another leaf", index)
		}
	}
	return nil
}

// dump reads all keys of a database.
func dump(t *testing.T, disk *vfs.MemFS) map[string]string {
	t.Helper()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	all := map[string]string{}
	it, err := db.NewIter(nil)
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		all[string(it.Key())] = string(it.Value())
	}
	must(t, it.Close())
	must(t, db.Close())
	return all
}

// newDamaged makes a log of two full tiles and a snapshot. The last entries are
// still in the write-ahead log, as after a crash.
func newDamaged(t *testing.T) *damagedLog {
	t.Helper()
	d := &damagedLog{disk: vfs.NewCrashableMem(), cfg: config(t, nil), more: newEntry(t)}
	d.cfg.SnapshotEvery = 100
	cfg := *d.cfg
	cfg.FS = d.disk
	r := start(t, "log", &cfg)
	for range 4 {
		var batch []*entry.Entry
		for range 70 {
			batch = append(batch, newTaskEntry(t))
		}
		_, err := r.Submit(t.Context(), batch...)
		must(t, err)
	}
	r.stop()
	r = start(t, "log", &cfg)
	r.add(10)
	d.head, d.leaves = r.Head().Head, r.leafHashes()
	d.disk = r.crash(d.disk)
	return d
}

// TestChaosFlippedBitInAFileIsFound flips one bit in a file of the store, or in
// the anchor, at many positions of each. In an obsolete file that is harmless.
func TestChaosFlippedBitInAFileIsFound(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	d := newDamaged(t)
	base := d.disk
	want := dump(t, snapshotOf(base))
	rng := newRNG(budget.Seed(t))
	flips := budget.Budget{Short: 4, Usual: 8, Chaos: 3000}.Now()
	for _, path := range append(files(t, base), "log.anchor") {
		content, err := base.UnsafeGetFileDataBuffer(path)
		must(t, err)
		if len(content) == 0 {
			continue // locks and markers; a marker is its name
		}
		verdicts := map[string]int{}
		for range flips {
			d.disk = snapshotOf(base)
			bit := flip(t, d.disk, path, rng)
			verdict, err := d.verdict()
			if err != nil {
				t.Fatalf("%s, bit %d: %v", path, bit, err)
			}
			if verdict == "harmless" && !maps.Equal(dump(t, d.disk), want) {
				t.Fatalf("%s, bit %d: nobody sees the difference", path, bit)
			}
			verdicts[verdict]++
		}
		t.Logf("%s, %d bytes: %v", path, len(content), verdicts)
		if strings.HasSuffix(path, ".sst") && verdicts["harmless"] > 0 {
			t.Errorf("%s: %v", path, verdicts)
		}
	}
}

// flip flips a random bit of a file.
func flip(t *testing.T, disk *vfs.MemFS, path string, rng *rand.Rand) int {
	t.Helper()
	content, err := disk.UnsafeGetFileDataBuffer(path)
	must(t, err)
	bit := rng.IntN(8 * len(content))
	content[bit/8] ^= 1 << (bit % 8)
	return bit
}

// TestAFlippedBitInAKeyOrValueIsFound flips one bit in a key or a value of each
// sort, in a store that is content with itself, and looks at what the log makes
// of it. The choice of bits is the same in every run.
func TestAFlippedBitInAKeyOrValueIsFound(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	d := newDamaged(t)
	base := d.disk
	sorts := map[byte][]string{}
	all := dump(t, snapshotOf(base))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		sorts[key[0]] = append(sorts[key[0]], key)
	}
	if len(sorts) != 7 {
		t.Fatalf("%d sorts of keys, want all 7", len(sorts))
	}
	rng, flips := newRNG(1), budget.Budget{Short: 3, Usual: 25}.Now()
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		keys := sorts[sort]
		verdicts := map[string]int{}
		for range flips {
			key := keys[rng.IntN(len(keys))]
			d.disk = snapshotOf(base)
			what := tamperBit(t, d.disk, key, all[key], rng)
			verdict, err := d.verdict()
			if err != nil || verdict == "harmless" {
				t.Fatalf("key %x, %s: %s, %v", key, what, verdict, err)
			}
			verdicts[verdict]++
		}
		t.Logf("%c: %v", sort, verdicts)
	}
}

// tamperBit flips a random bit of the key or of its value.
func tamperBit(t *testing.T, disk *vfs.MemFS, key, value string, rng *rand.Rand) string {
	t.Helper()
	newKey, newValue := []byte(key), []byte(value)
	what, in := "key", newKey
	if len(newValue) > 0 && rng.IntN(2) == 0 {
		what, in = "value", newValue
	}
	bit := rng.IntN(8 * len(in))
	in[bit/8] ^= 1 << (bit % 8)
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	if !bytes.Equal(newKey, []byte(key)) {
		must(t, db.Delete([]byte(key), pebble.Sync))
	}
	must(t, db.Set(newKey, newValue, pebble.Sync))
	must(t, db.Flush())
	must(t, db.Close())
	return fmt.Sprintf("%s, bit %d", what, bit)
}

// TestAFlippedBitInTheFirstLogIsFound is the worst case of the storage engine: a
// flip in the first write-ahead log of a new database makes it forget synced
// entries without a word. The ledger's first is the store's second, where flips
// are found but for those in the last 32 KiB; and the anchor remembers what was
// signed.
func TestAFlippedBitInTheFirstLogIsFound(t *testing.T) {
	d := &damagedLog{disk: vfs.NewCrashableMem(), cfg: config(t, nil), more: newEntry(t)}
	cfg := *d.cfg
	cfg.FS = d.disk
	r := start(t, "log", &cfg)
	r.add(200)
	d.head, d.leaves = r.Head().Head, r.leafHashes()
	base := r.crash(d.disk)
	rng := newRNG(budget.Seed(t))
	verdicts := map[string]int{}
	path := liveLog(t, base)
	flips := budget.Budget{Short: 15, Usual: 150}.Now()
	for range flips {
		d.disk = snapshotOf(base)
		bit := flip(t, d.disk, path, rng)
		verdict, err := d.verdict()
		if err != nil {
			t.Fatalf("%s, bit %d: %v", path, bit, err)
		}
		verdicts[verdict]++
	}
	t.Log(verdicts)
	if verdicts["refused at open"] == 0 || verdicts["refused at open"]+verdicts["refused by the anchor"] < flips*14/15 {
		t.Errorf("%v", verdicts)
	}
}

// files lists the files of the store.
func files(t *testing.T, disk *vfs.MemFS) (paths []string) {
	t.Helper()
	names, err := disk.List("log")
	must(t, err)
	slices.Sort(names)
	for _, name := range names {
		paths = append(paths, "log/"+name)
	}
	return paths
}

// liveLog returns the write-ahead log that was written last.
func liveLog(t *testing.T, disk *vfs.MemFS) (newest string) {
	t.Helper()
	for _, path := range files(t, disk) {
		if strings.HasSuffix(path, ".log") {
			newest = path
		}
	}
	return newest
}

// TestALostFileIsFound takes away one file at a time; a marker is nothing but its
// name.
func TestALostFileIsFound(t *testing.T) {
	d := newDamaged(t)
	base := d.disk
	want := dump(t, snapshotOf(base))
	verdicts := map[string][]string{}
	for _, path := range files(t, base) {
		d.disk = snapshotOf(base)
		must(t, d.disk.Remove(path))
		dir, err := d.disk.OpenDir("log")
		must(t, err)
		must(t, dir.Sync())
		must(t, dir.Close())
		verdict, err := d.verdict()
		if err != nil {
			t.Fatalf("without %s: %v", path, err)
		}
		if verdict == "harmless" && !maps.Equal(dump(t, d.disk), want) {
			t.Fatalf("without %s: nobody sees the difference", path)
		}
		verdicts[verdict] = append(verdicts[verdict], path)
	}
	t.Log(verdicts)
	if len(verdicts["refused at open"])+len(verdicts["refused by the anchor"]) < 4 { // table, log, manifest, its marker
		t.Errorf("%v", verdicts)
	}
}

// TestALostTailIsRefused cuts the write-ahead log at every so many bytes. What
// is missing was acknowledged, and the error says so.
func TestALostTailIsRefused(t *testing.T) {
	d := newDamaged(t)
	base := d.disk
	path := liveLog(t, base)
	content, err := base.UnsafeGetFileDataBuffer(path)
	must(t, err)
	for size := 0; size < len(content)-32; size += 131 {
		disk := snapshotOf(base)
		write(t, disk, path, content[:size])
		cfg := *d.cfg
		cfg.FS = disk
		_, err = ledger.Open("log", &cfg)
		if !errors.Is(err, ledger.ErrRolledBack) || !strings.Contains(err.Error(), "but its anchor has a signed tree head of 290") {
			t.Fatalf("cut at %d of %d: %v", size, len(content), err)
		}
	}
}

// TestAChangedRightEdgeIsRefused changes the last entry where there is no anchor
// to compare with: the signed head is enough.
func TestAChangedRightEdgeIsRefused(t *testing.T) {
	s := newStored(t)
	for _, index := range []uint64{512, 599} {
		disk := snapshotOf(s.disk)
		s.tamper(t, disk, func(db *pebble.DB) {
			must(t, db.Set(ledger.EntryKey(index), s.has[string(ledger.EntryKey(1))], pebble.Sync))
		})
		must(t, disk.Remove("log.anchor"))
		cfg := s.on(disk)
		cfg.AcceptAnchor = true
		if _, err := ledger.Open("log", cfg); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
}
