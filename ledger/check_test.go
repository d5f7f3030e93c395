package ledger_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// stored is a log that was stopped, to be tampered with.
type stored struct {
	disk *vfs.MemFS
	cfg  *ledger.Config // of any disk
	head ledger.Head
	keys []string // in order
	has  map[string][]byte
}

// storedOnce is the log of [newStored]. No test changes this disk.
var storedOnce struct {
	sync.Mutex
	made *stored
}

// newStored returns a log of 600 entries with two full tiles, a snapshot and every sort of key. The
// log is made once, and each test has a copy of its disk.
func newStored(t *testing.T) *stored {
	t.Helper()
	storedOnce.Lock()
	defer storedOnce.Unlock()
	if storedOnce.made == nil {
		storedOnce.made = makeStored(t)
	}
	own, cfg := *storedOnce.made, *storedOnce.made.cfg
	own.disk, own.cfg = snapshotOf(own.disk), &cfg
	return &own
}

func makeStored(t *testing.T) *stored {
	t.Helper()
	s := &stored{disk: vfs.NewCrashableMem(), has: map[string][]byte{}}
	s.cfg = config(t, nil)
	s.cfg.SnapshotEvery = 250
	r := start(t, "log", s.on(s.disk))
	for range 6 {
		var batch []*entry.Entry
		for range 100 {
			batch = append(batch, newTaskEntry(t))
		}
		_, err := r.Submit(t.Context(), batch...)
		must(t, err)
	}
	s.head = r.Head()
	r.stop()
	s.tamper(t, s.disk, func(db *pebble.DB) {
		it, err := db.NewIter(nil)
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			s.keys = append(s.keys, string(it.Key()))
			s.has[string(it.Key())] = bytes.Clone(it.Value())
		}
		must(t, it.Close())
	})
	return s
}

func (s *stored) on(disk vfs.FS) *ledger.Config {
	cfg := *s.cfg
	cfg.FS = disk
	return &cfg
}

// tamper opens the database under the log.
func (s *stored) tamper(t *testing.T, disk *vfs.MemFS, change func(db *pebble.DB)) {
	t.Helper()
	db, err := ledger.OpenDatabase("log", disk)
	must(t, err)
	change(db)
	must(t, db.Flush())
	must(t, db.Close())
}

// newTaskEntry returns a signed execution with all tags that one can have.
func newTaskEntry(tb testing.TB) *entry.Entry {
	tb.Helper()
	public, err := entry.NewPublicKey(testKey.Public())
	must(tb, err)
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent", Aud: origin, Iat: time.Now().Unix(), Wid: "w"},
		Exec:   uuid.NewString(), Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned, Task: "operator#task",
	})
	must(tb, err)
	e.Seal(public.KeyID(), ed25519.Sign(testKey, e.PAE()))
	return e
}

func TestCheckOfASoundLogCountsEverything(t *testing.T) {
	s := newStored(t)
	var done, total uint64
	report, err := ledger.Check(t.Context(), "log", s.on(s.disk), func(d, n uint64) { done, total = d, n })
	must(t, err)
	if report.Files == 0 || report.Snapshots != 1 || report.Anchor != s.head.Head {
		t.Errorf("%+v", report)
	}
	want := ledger.CheckReport{Head: s.head.Head, Anchor: s.head.Head, Files: report.Files, Entries: 600, Tiles: 2, Dedup: 600, Tags: 2400, Snapshots: 1}
	if *report != want {
		t.Errorf("%+v, want %+v", *report, want)
	}
	if done != total || total != 1200+report.Files {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ledger.Check(cancelled, "log", s.on(s.disk), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestCheckNamesTheFirstBadKey changes one thing at a time.
func TestCheckNamesTheFirstBadKey(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	s := newStored(t)
	value := func(key []byte) []byte { return bytes.Clone(s.has[string(key)]) }
	flippedBit := func(v []byte, at int) []byte { v = bytes.Clone(v); v[at] ^= 1; return v }
	flipped := func(key []byte, at int) []byte { return flippedBit(value(key), at) }
	sealed := ledger.SnapshotChunk
	set := func(key, value []byte) func(*pebble.DB) {
		return func(db *pebble.DB) { must(t, db.Set(key, value, pebble.Sync)) }
	}
	remove := func(key []byte) func(*pebble.DB) {
		return func(db *pebble.DB) { must(t, db.Delete(key, pebble.Sync)) }
	}
	one, _, err := entry.DecodeStored(value(ledger.EntryKey(1)))
	must(t, err)
	last, at, err := entry.DecodeStored(value(ledger.EntryKey(599)))
	must(t, err)
	tag := one.Tags(1)[0] // of all entries, in postings of 100
	firstPosting, nextPosting, lastPosting := ledger.TagKey(tag, 0), ledger.TagKey(tag, 100), ledger.TagKey(tag, 500)
	other := ledger.TagKey(entry.Tag{Index: entry.ByTask, Value: "other"}, 1)
	chunk, end := ledger.SnapshotKey(s.snapshotSize(), 0), ledger.SnapshotKey(s.snapshotSize(), 1)
	next, before, large := ledger.SnapshotKey(600, 2), ledger.SnapshotKey(599, 0), ledger.SnapshotKey(601, 0)
	state, _ := ledger.ChunkData(chunk, s.has[string(chunk)])
	signed, _ := ledger.ChunkData(end, s.has[string(end)])
	for _, c := range []struct {
		desc   string
		change func(*pebble.DB)
		key    []byte
		name   string
	}{
		{"format is missing", remove([]byte("m")), []byte("m"), "format and origin"},
		{"format is another", set([]byte("m"), []byte(`{"format":1,"origin":"`+origin+`"}`)), []byte("m"), "format and origin"},
		{"origin is another", set([]byte("m"), []byte(`{"format":4,"origin":"other"}`)), []byte("m"), "format and origin"},
		{"head is not signed", set([]byte("b"), ledger.ChangeBatch(value([]byte("b")), `"size":600`, `"size":601`)), []byte("b"), "last batch"},
		{"batch follows another root", set([]byte("b"), ledger.ChangeBatch(value([]byte("b")), `"previous_size":500`, `"previous_size":499`)), []byte("b"), "last batch"},
		{"batch is of another time", set([]byte("b"), ledger.ChangeBatch(value([]byte("b")), `"at":1`, `"at":2`)), []byte("b"), "last batch"},
		{"batch is no JSON", set([]byte("b"), ledger.ChangeBatch(value([]byte("b")), "{", "")), []byte("b"), "last batch"},
		{"batch has another number", set([]byte("b"), bytes.Replace(value([]byte("b")), []byte(`"seq":`), []byte(`"seq":1`), 1)), []byte("b"), "last batch"},
		{"batch is missing", remove([]byte("b")), []byte("b"), "last batch"},
		{"batch is short", set([]byte("b"), []byte("{")), []byte("b"), "last batch"},
		{"entry is missing", remove(ledger.EntryKey(17)), ledger.EntryKey(17), "entry 17"},
		{"last entry is missing", remove(ledger.EntryKey(599)), ledger.EntryKey(599), "entry 599"},
		{"one entry too many", set(ledger.EntryKey(600), value(ledger.EntryKey(599))), ledger.EntryKey(600), "entry 600"},
		{"entry is no record", set(ledger.EntryKey(17), []byte{1}), ledger.EntryKey(17), "entry 17"},
		{"entry key is short", set([]byte("e\x00"), nil), []byte("e\x00"), "key of an entry"},
		{"entry key is short where the state is built again", func(db *pebble.DB) {
			remove(end)(db)
			remove(chunk)(db)
			set([]byte("e\x00\x00\x00\x00\x00\x00\x01"), nil)(db)
		}, []byte("e\x00\x00\x00\x00\x00\x00\x01"), "key of an entry"},
		{"snapshot key is short", set([]byte("s\xff"), []byte{1}), []byte("s\xff"), "snapshot"},
		{"entry is another", set(ledger.EntryKey(17), value(ledger.EntryKey(18))), ledger.TileKey(0, 0), "tile 0/0"},
		{"right edge is another", set(ledger.EntryKey(599), last.AppendStored(nil, at+1)), []byte("b"), "last batch"},
		{"time falls", set(ledger.EntryKey(599), last.AppendStored(nil, 1)), ledger.EntryKey(599), "entry 599"},
		{"tile is missing", remove(ledger.TileKey(0, 1)), ledger.TileKey(0, 1), "tile 0/1"},
		{"tile is cut", set(ledger.TileKey(0, 1), value(ledger.TileKey(0, 1))[:32]), ledger.TileKey(0, 1), "tile 0/1"},
		{"tile has a flipped bit", set(ledger.TileKey(0, 1), flipped(ledger.TileKey(0, 1), 8191)), ledger.TileKey(0, 1), "tile 0/1"},
		{"one tile too many", set(ledger.TileKey(1, 0), value(ledger.TileKey(0, 0))), ledger.TileKey(1, 0), "tile"},
		{"dedup key is missing", remove(ledger.DedupKey(one)), ledger.DedupKey(one), "dedup key of entry 1"},
		{"dedup key finds another", set(ledger.DedupKey(one), binary.BigEndian.AppendUint64(nil, 2)), ledger.DedupKey(one), "dedup key of entry 1"},
		{"one dedup key too many", set(append([]byte("d"), make([]byte, 32)...), binary.BigEndian.AppendUint64(nil, 1)), append([]byte("d"), make([]byte, 32)...), "dedup key"},
		{"dedup key of no entry", set([]byte("d"), binary.BigEndian.AppendUint64(nil, 600)), []byte("d"), "dedup key"},
		{"first index key is missing", remove(firstPosting), firstPosting, "index key"},
		{"index key between is missing", remove(nextPosting), nextPosting, "index key"},
		{"last index key is missing", remove(lastPosting), lastPosting, "index key"},
		{"index key loses an entry", set(nextPosting, append([]byte{2}, value(nextPosting)[2:]...)), nextPosting, "index key"},
		{"index key loses its last entry", set(nextPosting, value(nextPosting)[1:]), ledger.TagKey(tag, 199), "index key"},
		{"index key has an entry of the next", set(firstPosting, append(value(firstPosting), 1)), nextPosting, "index key"},
		{"index key has an entry to come", set(lastPosting, append(value(lastPosting), 1)), lastPosting, "index key"},
		{"index key repeats an entry", set(nextPosting, append(value(nextPosting), 0)), nextPosting, "index key"},
		{"index key in another spelling", set(nextPosting, append([]byte{0x81, 0}, value(nextPosting)[1:]...)), nextPosting, "index key"},
		{"index key beyond all numbers", set(lastPosting, append(value(lastPosting), bytes.Repeat([]byte{255}, 9)...)), lastPosting, "index key"},
		{"one index key too many", set(other, nil), other, "index key"},
		{"one index key too many, of two entries", set(other, []byte{1}), other, "index key"},
		{"index key is short", set([]byte("xt"), nil), []byte("xt"), "index key"},
		{"snapshot is another", set(chunk, sealed(chunk, false, flippedBit(state, 9))), chunk, "snapshot at"},
		{"snapshot has another digest", set(end, sealed(end, true, flippedBit(signed, 9))), end, "snapshot at"},
		{"snapshot is short", set(chunk, sealed(chunk, false, state[:20])), end, "snapshot at"},
		{"snapshot is long", set(chunk, sealed(chunk, false, append(bytes.Clone(state), 0))), chunk, "snapshot at"},
		{"snapshot has a flipped bit", set(chunk, flipped(chunk, 40)), chunk, "snapshot"},
		{"snapshot has no end any more", set(end, flipped(end, 32)), end, "snapshot"},
		{"snapshot begins late", remove(chunk), end, "chunk 1"},
		{"snapshot is not a chunk", set(chunk, nil), chunk, "snapshot"},
		{"snapshot of a larger log", set(large, sealed(large, false, nil)), ledger.SnapshotKey(601, 0), "chunk 0"},
		{"snapshot goes on", set(next, sealed(next, false, nil)), next, "chunk 2"},
		{"two snapshots", func(db *pebble.DB) { set(before, sealed(before, false, nil))(db) }, end, "chunk 1"},
		{"unknown key", set([]byte("z"), nil), []byte("z"), "unknown key"},
		{"unknown key between", set([]byte("bb"), nil), []byte("bb"), "unknown key"},
	} {
		t.Run(c.desc, func(t *testing.T) {
			disk := snapshotOf(s.disk)
			s.tamper(t, disk, c.change)
			_, err := ledger.Check(t.Context(), "log", s.on(disk), nil)
			damage, ok := errors.AsType[*ledger.DamageError](err)
			if !ok || !errors.Is(err, ledger.ErrCorrupt) {
				t.Fatalf("%v", err)
			}
			if !bytes.Equal(damage.Key, c.key) || !strings.HasPrefix(damage.Name, c.name) || damage.What == "" {
				t.Fatalf("%v, want key %x, %s", err, c.key, c.name)
			}
			if opened, err := ledger.Open("log", s.on(disk)); err == nil { // it need not see it, but neither does it panic
				must(t, opened.Close())
			}
		})
	}
}

// snapshotSize returns the size that the log's snapshot is of.
func (s *stored) snapshotSize() uint64 {
	for _, key := range s.keys {
		if key[0] == 's' {
			return binary.BigEndian.Uint64([]byte(key)[1:])
		}
	}
	return 0
}

// A snapshot that was cut off is no damage: nothing is restored from it.
func TestCheckAcceptsACutOffSnapshot(t *testing.T) {
	s := newStored(t)
	r := start(t, "log", s.on(s.disk))
	r.add(3)
	r.stop()
	set := func(chunk uint32) {
		key := ledger.SnapshotKey(603, chunk)
		s.tamper(t, s.disk, func(db *pebble.DB) { must(t, db.Set(key, ledger.SnapshotChunk(key, false, []byte{1, 2}), pebble.Sync)) })
	}
	set(0)
	set(1)
	fsck(t, "log", s.on(s.disk))
	r = start(t, "log", s.on(s.disk))
	r.bulk(300)
	r.stop() // with a snapshot
	for key := range dump(t, s.disk) {
		if bytes.HasPrefix([]byte(key), ledger.SnapshotKey(603, 0)[:9]) {
			t.Errorf("key %x is still there", key)
		}
	}
}

// Neither is one that the fold does not know, as after a change of version.
func TestCheckAcceptsASnapshotOfAnotherVersion(t *testing.T) {
	s := newStored(t)
	s.cfg.NewFold = func() ledger.Fold { return new(picky) }
	chunk, end := ledger.SnapshotKey(s.snapshotSize(), 0), ledger.SnapshotKey(s.snapshotSize(), 1)
	state := []byte("of another version")
	signed, err := ledger.SignSnapshot(s.cfg, s.snapshotSize(), state)
	must(t, err)
	s.tamper(t, s.disk, func(db *pebble.DB) {
		must(t, db.Set(chunk, ledger.SnapshotChunk(chunk, false, state), pebble.Sync))
		must(t, db.Set(end, signed, pebble.Sync))
	})
	fsck(t, "log", s.on(s.disk))
	s.tamper(t, s.disk, func(db *pebble.DB) {
		must(t, db.Set(end, ledger.SnapshotChunk(end, true, make([]byte, 32)), pebble.Sync))
	})
	_, err = ledger.Check(t.Context(), "log", s.on(s.disk), nil)
	if damage, ok := errors.AsType[*ledger.DamageError](err); !ok || !bytes.Equal(damage.Key, chunk) {
		t.Fatal(err)
	}
}

// TestADamagedSnapshotIsNoState changes the snapshot in ways that only the
// ledger's signature, or nothing at all, holds it to: the state is built again
// from the log, and says so.
func TestADamagedSnapshotIsNoState(t *testing.T) {
	s := newStored(t)
	size := s.snapshotSize()
	chunk, end := ledger.SnapshotKey(size, 0), ledger.SnapshotKey(size, 1)
	state, _ := ledger.ChunkData(chunk, s.has[string(chunk)])
	other := config(t, nil)
	skey, _, err := note.GenerateKey(rand.Reader, origin)
	must(t, err)
	other.Keys[0].Signer, err = note.NewSigner(skey)
	must(t, err)
	forged, err := ledger.SignSnapshot(other, size, state)
	must(t, err)
	large, of := ledger.SnapshotKey(size+400, 0), s.has[string(end)]
	for desc, change := range map[string]func(*pebble.DB) error{
		"another key signed it": func(db *pebble.DB) error { return db.Set(end, forged, pebble.Sync) },
		"the tree head as its signature": func(db *pebble.DB) error {
			return db.Set(end, ledger.SnapshotChunk(end, true, []byte(s.head.Note)), pebble.Sync)
		},
		"its state is another": func(db *pebble.DB) error {
			return db.Set(chunk, ledger.SnapshotChunk(chunk, false, make([]byte, len(state))), pebble.Sync)
		},
		"a byte of its state is gone": func(db *pebble.DB) error {
			return db.Set(chunk, append(bytes.Clone(s.has[string(chunk)][:40]), s.has[string(chunk)][41:]...), pebble.Sync)
		},
		"its end is cut":            func(db *pebble.DB) error { return db.Set(end, of[:len(of)-9], pebble.Sync) },
		"its first chunk is gone":   func(db *pebble.DB) error { return db.Delete(chunk, pebble.Sync) },
		"its end is empty":          func(db *pebble.DB) error { return db.Set(end, nil, pebble.Sync) },
		"one more of a larger log":  func(db *pebble.DB) error { return db.Set(large, ledger.SnapshotChunk(large, true, nil), pebble.Sync) },
		"a key that is too short":   func(db *pebble.DB) error { return db.Set([]byte("s\xff"), nil, pebble.Sync) },
		"a chunk too many, damaged": func(db *pebble.DB) error { return db.Set(ledger.SnapshotKey(size, 2), of, pebble.Sync) },
	} {
		t.Run(desc, func(t *testing.T) {
			disk := snapshotOf(s.disk)
			s.tamper(t, disk, func(db *pebble.DB) { must(t, change(db)) })
			fold := new(tally)
			cfg := s.on(disk)
			cfg.NewFold = func() ledger.Fold { return fold }
			log, err := ledger.Open("log", cfg)
			must(t, err)
			defer func() { must(t, log.Close()) }()
			var rebuilt bytes.Buffer
			must(t, fold.Snapshot(&rebuilt))
			if !errors.Is(log.SnapshotDamage(), ledger.ErrCorrupt) || fold.size != 600 || size == 600 && !bytes.Equal(rebuilt.Bytes(), state) {
				t.Errorf("%d entries in the state, damage: %v", fold.size, log.SnapshotDamage())
			}
		})
	}
}

// What was changed in the store does not become state: entries behind a snapshot
// count only if the signed tree is made of them.
func TestStateIsWhatWasSigned(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	s := newStored(t)
	for desc, change := range map[string]func(*pebble.DB){
		"two entries in each other's place": func(db *pebble.DB) {
			must(t, db.DeleteRange([]byte("s"), []byte("t"), pebble.Sync))
			must(t, db.Set(ledger.EntryKey(300), s.has[string(ledger.EntryKey(301))], pebble.Sync))
			must(t, db.Set(ledger.EntryKey(301), s.has[string(ledger.EntryKey(300))], pebble.Sync))
		},
		"an entry less": func(db *pebble.DB) {
			must(t, db.DeleteRange([]byte("s"), []byte("t"), pebble.Sync))
			must(t, db.Delete(ledger.EntryKey(300), pebble.Sync))
		},
		"an entry that cannot be read": func(db *pebble.DB) {
			must(t, db.DeleteRange([]byte("s"), []byte("t"), pebble.Sync))
			must(t, db.Set(ledger.EntryKey(300), []byte("?"), pebble.Sync))
		},
	} {
		disk := snapshotOf(s.disk)
		s.tamper(t, disk, change)
		if l, err := ledger.Open("log", s.on(disk)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: open gives %v, want ErrCorrupt", desc, err)
			if err == nil {
				must(t, l.Close())
			}
		}
	}
}

// A start does not hold stored records to the rules of registration again: that
// one is what was registered shows in its leaf hash alone. One that was changed
// and can still be read is refused when the state is built from it; a check holds
// it to the rules, and names it.
func TestAStoredRecordThatBreaksTheRulesIsFound(t *testing.T) {
	budget.Unraced(t, "one goroutine reads a damaged database, as in TestChaosEveryFlippedBitIsNamed")
	s := newStored(t)
	key := ledger.EntryKey(3) // of a full tile: no right edge is hashed from it
	for desc, c := range map[string]struct{ old, new string }{
		"another version":    {`"v":1`, `"v":2`},
		"no workflow":        {`"wid"`, `"wix"`},
		"no UUID":            {`"jti":"`, `"jti":"Z`},
		"an unknown effect":  {`"effect":"none"`, `"effect":"nope"`},
		"a member like none": {`"iat":`, `"IAT":`},
	} {
		t.Run(desc, func(t *testing.T) {
			record := bytes.Replace(s.has[string(key)], []byte(c.old), []byte(c.new), 1)
			e, at, err := entry.DecodeStored(record)
			must(t, err)
			if _, _, err := entry.DecodeLeaf(e.AppendLeaf(nil, at)); err == nil {
				t.Fatal("it breaks no rule")
			}
			disk := snapshotOf(s.disk)
			s.tamper(t, disk, func(db *pebble.DB) { must(t, db.Set(key, record, pebble.Sync)) })
			forgetSnapshots(t, disk)
			if _, err := ledger.Open("log", s.on(disk)); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "entries 0 to 600 are not those of the tree") {
				t.Errorf("open gives %v", err)
			}
			_, err = ledger.Check(t.Context(), "log", s.on(disk), nil)
			if damage, ok := errors.AsType[*ledger.DamageError](err); !ok || !bytes.Equal(damage.Key, key) {
				t.Errorf("check gives %v", err)
			}
		})
	}
}
