package ledger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// TestChaosEveryFlippedBitIsNamed flips the bits of every key and value of a small
// log in turn: each of them with ARL_CHAOS, else all those of the keys of
// snapshots, the kind of their chunks and the end of their signature, and a sample
// of the others that is the same in every run. In short it is every 20th of these.
func TestChaosEveryFlippedBitIsNamed(t *testing.T) {
	disk := vfs.NewCrashableMem()
	cfg := config(t, nil)
	cfg.SnapshotEvery = 8
	on := func(disk *vfs.MemFS) *ledger.Config {
		on := *cfg
		on.FS = disk
		return &on
	}
	r := start(t, "log", on(disk))
	r.add(24) // where a snapshot's signature ends in bits that its text form ignores
	r.stop()
	all := dump(t, snapshotOf(disk))
	if _, complete := all[string(ledger.SnapshotKey(24, 1))]; !complete {
		t.Fatal("no snapshot in two chunks")
	}
	tried, found, every := map[byte]int{}, 0, budget.Budget{Short: 20, Usual: 1}.Now()
	for n, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		for bit := range 8 * (len(key) + len(value)) {
			if !budget.Large() && !chosen(key, value, bit, n) {
				continue
			}
			if found++; found%every != 0 {
				continue
			}
			changed := snapshotOf(disk)
			pair := []byte(key + value)
			pair[bit/8] ^= 1 << (bit % 8)
			replace(t, changed, []byte(key), pair[:len(key)], pair[len(key):])
			_, err := ledger.Check(t.Context(), "log", on(changed), nil)
			if damage, ok := errors.AsType[*ledger.DamageError](err); !ok || damage.Key == nil {
				t.Errorf("key %x of %d bytes and a value of %d, bit %d: %v", key, len(key), len(value), bit, err)
			}
			tried[key[0]]++
		}
	}
	t.Logf("%d bits of %v", len(all), tried)
}

// chosen reports whether a bit of the n-th key or its value is one of the sample.
func chosen(key, value string, bit, n int) bool {
	if key[0] == 's' {
		digest, kind := 8*len(key), 8*(len(key)+32)
		return bit < digest+8 || bit >= kind && bit < kind+8 || bit%61 == 0 || bit >= 8*(len(key)+len(value)-4)
	}
	return n%5 == 0 && bit%97 == n
}

// replace puts a key and value in the place of a key.
func replace(t *testing.T, disk *vfs.MemFS, old, key, value []byte) {
	t.Helper()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	must(t, db.Delete(old, pebble.Sync))
	must(t, db.Set(key, value, pebble.Sync))
	must(t, db.Flush())
	must(t, db.Close())
}

// TestACutListOfOptionsIsNamed cuts the storage engine's list of its options at every
// byte. The engine takes a part for a list that says less; fsck names the file, as
// something that nothing needs, and the next start replaces it.
func TestACutListOfOptionsIsNamed(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	disk := vfs.NewCrashableMem()
	cfg := config(t, disk)
	r := start(t, "log", cfg)
	r.add(3)
	r.stop()
	_, err := ledger.Check(t.Context(), "log", cfg, nil)
	must(t, err)
	path := ""
	for _, name := range files(t, disk) {
		if strings.HasPrefix(name, "log/OPTIONS-") {
			path = name
		}
	}
	content, err := disk.UnsafeGetFileDataBuffer(path)
	must(t, err)
	content = bytes.Clone(content)
	if len(content) < 500 {
		t.Fatalf("%s: %d bytes", path, len(content))
	}
	on := *cfg
	for size := range len(content) {
		on.FS = snapshotOf(disk)
		write(t, on.FS.(*vfs.MemFS), path, content[:size])
		_, err := ledger.Check(t.Context(), "log", &on, nil)
		if damage, ok := errors.AsType[*ledger.DamageError](err); !ok || damage.Name != path || !damage.Spare {
			t.Fatalf("cut at %d of %d: %v", size, len(content), err)
		}
	}
	log, err := ledger.Open("log", &on)
	must(t, err)
	must(t, log.Close())
	_, err = ledger.Check(t.Context(), "log", &on, nil)
	must(t, err)
}

// TestADamagedDedupKeyIsNamed damages the dedup key of one of three entries. Who
// submits that entry again is told; the log is not ready, and ends before it takes
// a new one.
func TestADamagedDedupKeyIsNamed(t *testing.T) {
	set := func(value []byte) func(*pebble.DB, []byte) error {
		return func(db *pebble.DB, key []byte) error { return db.Set(key, value, pebble.Sync) }
	}
	for name, c := range map[string]struct {
		damage func(db *pebble.DB, key []byte) error
		told   bool // who submits the entry again
	}{
		"no index":         {set(nil), true},
		"a short index":    {set([]byte{1}), true},
		"a long index":     {set(make([]byte, 9)), true},
		"a large index":    {set(binary.BigEndian.AppendUint64(nil, 1<<20)), true},
		"the largest":      {set(binary.BigEndian.AppendUint64(nil, math.MaxUint64)), true},
		"that of another":  {set(binary.BigEndian.AppendUint64(nil, 2)), false},
		"it is missing":    {func(db *pebble.DB, key []byte) error { return db.Delete(key, pebble.Sync) }, false},
		"one more is left": {func(db *pebble.DB, key []byte) error { return db.Set(key[:9], make([]byte, 8), pebble.Sync) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			r := start(t, "log", config(t, disk))
			r.add(1)
			e := newEntry(t)
			_, err := r.Submit(t.Context(), e, newEntry(t))
			must(t, err)
			r.stop()
			db, err := ledger.OpenDatabase("log", disk)
			must(t, err)
			must(t, c.damage(db, ledger.DedupKey(e)))
			must(t, db.Close())

			l, err := ledger.Open("log", config(t, disk))
			must(t, err)
			defer func() { must(t, l.Close()) }()
			if c.told {
				if answer, err := l.Submit(t.Context(), e); !errors.Is(err, ledger.ErrCorrupt) {
					t.Errorf("the entry again: %+v, %v", answer, err)
				}
			}
			waiting := make(chan error, 1)
			go func() {
				_, err := l.Submit(t.Context(), newEntry(t))
				waiting <- err
			}()
			if refusal, ok := errors.AsType[*entry.Refusal](l.Ready()); !ok || refusal.Problem != entry.NotReady {
				t.Errorf("before the keys are read: %v", l.Ready())
			}
			if err := l.Run(t.Context()); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "dedup key") {
				t.Errorf("run: %v", err)
			}
			if err := <-waiting; !errors.Is(err, ledger.ErrStopped) {
				t.Errorf("a new entry: %v", err)
			}
			if err := l.Ready(); !errors.Is(err, ledger.ErrStopped) || l.Head().Size != 3 {
				t.Errorf("afterwards: %v, size %d", err, l.Head().Size)
			}
		})
	}
}

// TestAnEntryThatIsGoneIsMissing removes an entry from the database. Who reads the entry, and who
// submits it again, is told that it is missing, and not only that the log is damaged.
func TestAnEntryThatIsGoneIsMissing(t *testing.T) {
	disk := vfs.NewMem()
	cfg := config(t, disk)
	cfg.SnapshotEvery = 100
	r := start(t, "log", cfg)
	e := newEntry(t)
	_, err := r.Submit(t.Context(), e)
	must(t, err)
	r.add(300) // a start reads the entries behind the snapshot, and behind the last full tile
	r.stop()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	must(t, errors.Join(db.Delete(ledger.EntryKey(0), pebble.Sync), db.Close()))
	l, err := ledger.Open("log", cfg)
	must(t, err)
	defer func() { must(t, l.Close()) }()
	if _, err := l.Entry(0); !errors.Is(err, ledger.ErrMissing) {
		t.Errorf("read: %v", err)
	}
	if _, err := l.Submit(t.Context(), e); !errors.Is(err, ledger.ErrMissing) {
		t.Errorf("submitted again: %v", err)
	}
}

// TestALogIsReadyOnceItsDedupKeysAreRead submits to a log before it runs.
func TestALogIsReadyOnceItsDedupKeysAreRead(t *testing.T) {
	disk := logOf(t, 3)
	l, err := ledger.Open("log", config(t, disk))
	must(t, err)
	if refusal, ok := errors.AsType[*entry.Refusal](l.Ready()); !ok || refusal.Problem != entry.NotReady {
		t.Errorf("before: %v", l.Ready())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	answer, err := l.Submit(ctx, newEntry(t))
	must(t, err)
	if answer.Head.Size != 4 || l.Ready() != nil {
		t.Errorf("size %d, ready: %v", answer.Head.Size, l.Ready())
	}
	cancel()
	must(t, <-done)
	must(t, l.Close())
}

// TestADamagedFileIsNamed removes, cuts and flips every file of a database in
// turn. The log opens if nothing that counts has changed; else it is refused as
// damaged, or as older than its anchor, in one short line.
func TestADamagedFileIsNamed(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	d := newDamaged(t)
	base := d.disk
	verdicts, tried, flips := map[string]int{}, 0, budget.Budget{Short: 8, Usual: 12}.Now()
	for _, path := range files(t, base) {
		content, err := base.UnsafeGetFileDataBuffer(path)
		must(t, err)
		damages := map[string]func(*vfs.MemFS){"removed": func(disk *vfs.MemFS) { must(t, disk.Remove(path)) }}
		size := len(content)
		for _, left := range []int{0, size / 3, size / 2, size - 10, size - 1} {
			if left >= 0 && left < size {
				damages[fmt.Sprintf("cut to %d bytes", left)] = func(disk *vfs.MemFS) { write(t, disk, path, content[:left]) }
			}
		}
		for n := 0; n < flips && size > 0; n++ {
			at := n * (size - 1) / (flips - 1)
			damages[fmt.Sprintf("flipped at %d", at)] = func(disk *vfs.MemFS) {
				changed := bytes.Clone(content)
				changed[at] ^= 4
				write(t, disk, path, changed)
			}
		}
		for _, what := range slices.Sorted(maps.Keys(damages)) {
			disk := snapshotOf(base)
			damages[what](disk)
			verdict, err := d.refusal(disk)
			if err != nil {
				t.Errorf("%s %s: %v", path, what, err)
			}
			verdicts[verdict]++
			tried++
		}
	}
	t.Log(verdicts)
	if verdicts["opened"] < tried/6 || verdicts["damaged"] < tried/6 || verdicts["rolled back"] < tried/40 {
		t.Errorf("%v", verdicts)
	}
}

// write makes a file of content. The write of a [vfs.File] may change the bytes that it is given,
// and does so under the race detector: the file gets a copy.
func write(t *testing.T, disk *vfs.MemFS, path string, content []byte) {
	t.Helper()
	file, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = file.Write(bytes.Clone(content))
	must(t, errors.Join(err, file.Sync(), file.Close()))
}

// refusal says how the log on the disk is refused, if it is, and holds that this,
// what a check says, and what is logged meanwhile, is a short line each.
func (d *damagedLog) refusal(disk *vfs.MemFS) (verdict string, err error) {
	var logged bytes.Buffer
	cfg := *d.cfg
	cfg.FS = disk
	cfg.Fatal = func(err error) { panic(err) }
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	_, checked := ledger.Check(context.Background(), "log", &cfg, nil)
	log, opened := ledger.Open("log", &cfg)
	if opened == nil {
		opened = log.Close()
	}
	switch {
	case opened == nil:
		verdict = "opened"
	case errors.Is(opened, ledger.ErrCorrupt):
		verdict = "damaged"
	case errors.Is(opened, ledger.ErrRolledBack):
		verdict = "rolled back"
	default:
		return "", fmt.Errorf("open: %w", opened)
	}
	if checked != nil && !errors.Is(checked, ledger.ErrCorrupt) && !errors.Is(checked, ledger.ErrRolledBack) {
		return verdict, fmt.Errorf("check: %w", checked)
	}
	for line := range strings.Lines(fmt.Sprintf("%v\n%v\n%s", opened, checked, logged.String())) {
		if len(line) > 600 || strings.Contains(line, "stack trace") || strings.Contains(line, "detail carrier") || strings.HasPrefix(line, " ") {
			return verdict, fmt.Errorf("it says: %s", line)
		}
	}
	if n := strings.Count(fmt.Sprint(opened, checked), "\n"); n > 0 {
		return verdict, fmt.Errorf("%d lines: %v, %w", n, opened, checked)
	}
	return verdict, nil
}

// TestADamagedBlockOfASnapshotIsReplaced flips a bit of a table where a snapshot
// lies, and lets the log go on: nothing of the damage is left in the store, so
// that no compaction meets it.
func TestADamagedBlockOfASnapshotIsReplaced(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	disk := vfs.NewCrashableMem()
	r := start(t, "log", rollConfig(t, disk))
	r.bulk(4000)
	r.stop()
	compact(t, disk)
	damagedDisk := flipSnapshotBlock(t, disk, ledger.SnapshotKey(newestSnapshot(t, disk), 1))
	cfg := rollConfig(t, damagedDisk)
	if _, err := ledger.Check(t.Context(), "log", cfg, nil); !errors.Is(err, ledger.ErrCorrupt) {
		t.Fatalf("check: %v", err)
	}
	var logged bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	r = start(t, "log", cfg)
	if !errors.Is(r.SnapshotDamage(), ledger.ErrCorrupt) || !strings.Contains(logged.String(), "builds the state again from the log") {
		t.Errorf("%v: %s", r.SnapshotDamage(), logged.String())
	}
	r.add(1)
	r.checkAll()
	r.stop() // and finds the log sound
	if size := newestSnapshot(t, damagedDisk); size < 4000 {
		t.Errorf("the newest snapshot is of %d entries", size)
	}
	compact(t, damagedDisk)
	r = start(t, "log", rollConfig(t, damagedDisk))
	if r.SnapshotDamage() != nil {
		t.Error(r.SnapshotDamage())
	}
}

// compact brings all of the store to its lowest level.
func compact(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	must(t, db.Compact(t.Context(), []byte("a"), []byte("z"), false))
	must(t, db.Close())
}

// flipSnapshotBlock returns a copy of the disk on which the block that holds a
// chunk of a snapshot is damaged, and what lies before the snapshot is not.
func flipSnapshotBlock(t *testing.T, disk *vfs.MemFS, chunk []byte) *vfs.MemFS {
	t.Helper()
	for _, path := range files(t, disk) {
		content, err := disk.UnsafeGetFileDataBuffer(path)
		must(t, err)
		for at := len(content) - 4000; at > 0 && strings.HasSuffix(path, ".sst"); at -= 8000 {
			copied := snapshotOf(disk)
			changed := bytes.Clone(content)
			changed[at] ^= 1
			write(t, copied, path, changed)
			db, err := ledger.OpenDatabase("log", copied)
			if err != nil {
				continue
			}
			good, bad := readable(db, []byte("m")), !readable(db, chunk)
			must(t, db.Close())
			if good && bad {
				return copied
			}
		}
	}
	t.Fatal("no table holds the chunk")
	return nil
}

func readable(db *pebble.DB, key []byte) bool {
	_, closer, err := db.Get(key)
	return err == nil && closer.Close() == nil
}
