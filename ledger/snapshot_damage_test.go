package ledger_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger"
)

// TestChaosEveryFlippedBitIsNamed flips the bits of every key and value of a small
// log in turn: each of them with ARL_CHAOS, else all those of the keys of
// snapshots, the kind of their chunks and the end of their signature, and a sample
// of the others that is the same in every run.
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
	tried := map[byte]int{}
	for n, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		for bit := range 8 * (len(key) + len(value)) {
			if os.Getenv("ARL_CHAOS") == "" && !chosen(key, value, bit, n) {
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
