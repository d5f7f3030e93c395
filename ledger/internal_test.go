package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"recoveryledger/ledger/dedup"
	"recoveryledger/ledger/engine"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/fair"
	"recoveryledger/ledger/tags"
	"recoveryledger/merkle"
)

// What tests need of the inside, most of them to tamper with the store.

// LanesOf returns what the lanes of the log are like.
func LanesOf(l *Log) fair.LaneState { return l.lanes.State() }

// HoldLanes lets the test release the rooms that refusals keep, instead of a timer.
func HoldLanes(l *Log, hold func(release func())) { l.lanes.Hold = hold }

// EnterLane waits for room in a narrow lane of the entry, as a submission of it does.
func EnterLane(ctx context.Context, l *Log, e *entry.Entry) (leave func(refused bool), err error) {
	return l.lanes.Enter(ctx, lanesOf(e)...)
}

// Queued is how many submissions wait for the order.
func Queued(l *Log) int { return len(l.in) }

// EntryKey is the key of the record at index.
func EntryKey(index uint64) []byte { return entryKey(index) }

// TileKey is the key of a full tile.
func TileKey(level uint, index uint64) []byte {
	return tileKey(merkle.Tile{Level: level, Index: index})
}

// SnapshotKey is the key of a chunk of a fold snapshot.
func SnapshotKey(size uint64, chunk uint32) []byte { return snapshotKey(size, chunk) }

// DedupKey is the key that finds a duplicate of e.
func DedupKey(e *entry.Entry) []byte { key := dedup.Key(e); return key[:] }

// TagKey is the key of the posting that begins with the entry at index.
func TagKey(tag entry.Tag, index uint64) []byte { return tags.Key(tag, index) }

// ParsePosting reads a posting.
func ParsePosting(key, value []byte) ([]uint64, error) { return tags.Parse(key, value) }

// OpenDatabase opens the database under a log that is not open.
func OpenDatabase(dir string, fs vfs.FS) (*pebble.DB, error) {
	quiet := slog.New(slog.DiscardHandler)
	return pebble.Open(dir, storeOptions(&Config{FS: fs, Logger: quiet, Fatal: func(err error) { panic(err) }}))
}

// ForgetTree puts another tree of the same size into the order's memory.
func ForgetTree(l *Log) {
	other, err := merkle.NewFrontier(l.Head().Size, func(uint, uint64) (merkle.Hash, error) { return merkle.Hash{}, nil })
	if err != nil {
		panic(err)
	}
	l.order.frontier = other
}

// SignSnapshot makes the last chunk of a fold snapshot with the given state, which
// is in one chunk.
func SignSnapshot(cfg *Config, size uint64, state []byte) ([]byte, error) {
	signed, err := signSnapshot(cfg.Origin, cfg.Keys, size, sha256.Sum256(state))
	return SnapshotChunk(snapshotKey(size, 1), true, signed), err
}

// SnapshotChunk is the stored form of a chunk of a fold snapshot.
func SnapshotChunk(key []byte, last bool, data []byte) []byte {
	kind := byte(0)
	if last {
		kind = 1
	}
	return engine.Seal(key, []byte{kind}, data)
}

// ChunkData returns what a stored chunk of a fold snapshot holds, and whether it
// is the last one.
func ChunkData(key, value []byte) (data []byte, last bool) {
	c, ok := parseChunk(key, value)
	if !ok {
		panic("no chunk")
	}
	return c.data, c.last
}

// ChangeBatch returns a stored batch with old replaced by changed in its JSON,
// under a digest that fits.
func ChangeBatch(stored []byte, old, changed string) []byte {
	return engine.Seal([]byte{keyBatch}, bytes.Replace(stored[sha256.Size:], []byte(old), []byte(changed), 1))
}
