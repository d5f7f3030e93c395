package dedup_test

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/engine"
)

func filterKey(n uint64) (key dedup.ID) {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	key[0] = dedup.KeyPrefix
	copy(key[1:], sum[:])
	return key
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A filter may let a new key pass, but must never deny one that is there,
// whether it was added by a commit or loaded from the store.
func TestTheFilterDeniesNoKeyThatIsThere(t *testing.T) {
	const stored, added = 20_000, 20_000
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: &engine.Logger{Ends: func(err error) { t.Error(err) }, To: slog.New(slog.DiscardHandler)}})
	check(t, err)
	batch := db.NewBatch()
	for n := range uint64(stored) {
		key := filterKey(n)
		check(t, batch.Set(key[:], binary.BigEndian.AppendUint64(nil, n), nil))
	}
	check(t, batch.Commit(pebble.Sync))
	f := dedup.NewFilter(0)
	for n := range uint64(added) {
		key := filterKey(stored + n)
		f.Add(&key)
	}
	unknown := filterKey(stored + added)
	if f.Denies(&unknown) {
		t.Fatal("denies a key before it knows the stored ones")
	}
	check(t, f.Load(t.Context(), db, stored))
	check(t, db.Close())
	for n := range uint64(stored + added) {
		if key := filterKey(n); f.Denies(&key) {
			t.Fatalf("denies key %d", n)
		}
	}
	passed := 0
	for n := range uint64(100_000) {
		if key := filterKey(stored + added + n); !f.Denies(&key) {
			passed++
		}
	}
	if passed > 100 {
		t.Fatalf("%d of 100,000 new keys pass, want next to none", passed)
	}
}
