package complete

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

func untold(_, _ uint64) {}

// checkStore holds a store to be sound, and to cover size entries.
func checkStore(t *testing.T, fs vfs.FS, log *memLog, size uint64) {
	t.Helper()
	found, err := Check(t.Context(), "index", Config{Log: log, HeadAt: log.HeadAt, FS: fs}, untold)
	must(t, err)
	root, subjects := reference(t, log.entries[:size])
	if found.Size != size || found.Root != root || found.Subjects != subjects || found.Keys <= subjects {
		t.Fatalf("check: %+v, want size %d, root %s, %d subjects", found, size, root, subjects)
	}
}

// indexedLog returns a log of n entries with long lists, and the disk with its index.
func indexedLog(t *testing.T, n int) (*memLog, *vfs.MemFS) {
	t.Helper()
	log, fs := newMemLog(), vfs.NewMem()
	log.append(newStream(1).take(n)...)
	x := open(t, fs, log, true)
	must(t, x.step(t.Context()))
	must(t, x.close(true))
	return log, fs
}

// TestCheck finds a store sound that is there, is behind, or is not there at all.
func TestCheck(t *testing.T) {
	log, fs := indexedLog(t, 2_000)
	checkStore(t, fs, log, 2_000)
	log.append(newStream(2).take(500)...)
	checkStore(t, fs, log, 2_000)
	for name, prepare := range map[string]func(vfs.FS) error{
		"none":  func(vfs.FS) error { return nil },
		"empty": func(vfs.FS) error { return nil },
		"begun": func(fs vfs.FS) error { // the engine's mark of a manifest that a crash has taken
			marked, err := fs.Create("index/marker.manifest.000001.MANIFEST-000001", vfs.WriteCategoryUnspecified)
			return errors.Join(err, marked.Close())
		},
	} {
		fs := vfs.NewMem()
		if name != "none" {
			must(t, fs.MkdirAll("index", 0o700))
		}
		must(t, prepare(fs))
		if found, err := Check(t.Context(), "index", Config{Log: log, HeadAt: log.HeadAt, FS: fs}, untold); err != nil || *found != (CheckReport{}) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// TestCheckAfterCrash: subtrees of lists are in the store before the records that go with them.
func TestCheckAfterCrash(t *testing.T) {
	log, fs := indexedLog(t, 500)
	x := open(t, fs, log, true)
	log.append(newStream(2).take(2_000)...)
	must(t, x.step(t.Context()))
	must(t, x.store.db.Flush())
	must(t, x.close(false)) // nothing else is written
	checkStore(t, fs, log, 500)
}

// TestCheckFinds changes a sound store in each way that its checksums do not show.
func TestCheckFinds(t *testing.T) {
	newest := func(t *testing.T, db *pebble.DB, sort byte) (key, value []byte) {
		t.Helper()
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{sort}, UpperBound: []byte{sort + 1}})
		must(t, err)
		if !it.Last() {
			t.Fatalf("no key %c", sort)
		}
		key, value = slices.Clone(it.Key()), slices.Clone(it.Value())
		must(t, it.Close())
		return key, value
	}
	remark := func(change func(*mark)) func(*testing.T, *pebble.DB) {
		return func(t *testing.T, db *pebble.DB) {
			t.Helper()
			key, value := newest(t, db, keyMark)
			m, err := decodeMark(value)
			must(t, err)
			change(&m)
			must(t, db.Set(key, m.encode(), pebble.NoSync))
		}
	}
	damages := map[string]func(*testing.T, *pebble.DB){
		"smaller":        remark(func(m *mark) { m.size-- }),
		"larger":         remark(func(m *mark) { m.size++ }),
		"beyond the log": remark(func(m *mark) { m.size = 9_000 }),
		"of another log": remark(func(m *mark) { m.log[0] ^= 1 }),
		"another root":   remark(func(m *mark) { m.root[0] ^= 1 }),
		"skips entries":  remark(func(m *mark) { m.seen = m.size + 110 }),
		"seen beyond":    remark(func(m *mark) { m.seen = 9_000 }),
		"looks back":     remark(func(m *mark) { m.seen = 0 }),
		"another format": func(t *testing.T, db *pebble.DB) {
			t.Helper()
			must(t, db.Set([]byte{keyMark}, []byte("x"), pebble.NoSync))
		},
		"no mark": func(t *testing.T, db *pebble.DB) {
			t.Helper()
			must(t, db.Delete([]byte{keyMark}, pebble.NoSync))
		},
		"a foreign key": func(t *testing.T, db *pebble.DB) {
			t.Helper()
			must(t, db.Set([]byte("X"), nil, pebble.NoSync))
		},
		"a foreign chunk": func(t *testing.T, db *pebble.DB) {
			t.Helper()
			k, v := newest(t, db, keyList)
			k[40]++
			must(t, db.Set(k, v, pebble.NoSync))
		},
	}
	for _, sort := range []byte{keyRecord, keyList, keyNode} {
		damages[string(sort)+" missing"] = func(t *testing.T, db *pebble.DB) {
			t.Helper()
			k, _ := newest(t, db, sort)
			must(t, db.Delete(k, pebble.NoSync))
		}
		damages[string(sort)+" changed"] = func(t *testing.T, db *pebble.DB) {
			t.Helper()
			k, v := newest(t, db, sort)
			v[len(v)-1] ^= 1
			must(t, db.Set(k, v, pebble.NoSync))
		}
	}
	log, fs := newMemLog(), vfs.NewMem()
	x := open(t, fs, log, true)
	for range 2 { // an index entry before the one at which the store is
		log.append(newStream(1).take(1_000)...)
		must(t, x.step(t.Context()))
	}
	must(t, x.close(true))
	log.append(newStream(2).take(100)...)
	root, subjects := reference(t, log.entries)
	log.append(wrap(&entry.LogIndex{Header: entry.Header{Iss: "coordinator"}, Size: log.Size(), Root: root, Subjects: subjects}))
	log.append(newStream(3).take(10)...)
	checkStore(t, fs, log, x.tree.size)
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		clone := vfs.NewMem()
		_, err := vfs.Clone(fs, clone, "index", "index")
		must(t, err)
		s, err := openStore(clone, "index", x.cfg.Logger, func(err error) { t.Error(err) })
		must(t, err)
		damages[name](t, s.db)
		must(t, s.db.Flush())
		must(t, s.close())
		if _, err := Check(t.Context(), "index", Config{Log: log, HeadAt: log.HeadAt, FS: clone}, untold); !errors.Is(err, ErrStore) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := errors.New("the log cannot be read")
	_, err := Check(t.Context(), "index", Config{Log: log, FS: fs, HeadAt: func(uint64) (merkle.Head, error) { return merkle.Head{}, failed }}, untold)
	if !errors.Is(err, failed) || errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("of a log that cannot be read: %v", err)
	}
}
