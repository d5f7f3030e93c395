package ledger

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/merkle"
)

// proofLeaves is the size of the tree that proofs are made in: about ten
// million, in full tiles, so that no entry is needed at the right edge.
const proofLeaves = 39_063 * merkle.TileWidth

// BenchmarkProof measures inclusion proofs out of the store in a tree of ten
// million leaves: warm with the tiles in memory, cold with none of them.
func BenchmarkProof(b *testing.B) {
	l := openHuge(b)
	v := l.view.Load()
	prove := func(index uint64) time.Duration {
		start := time.Now()
		path, err := merkle.ProveInclusion(index, v.head.Size, l.nodes(v), nil)
		elapsed := time.Since(start)
		if err != nil || len(path) == 0 {
			b.Fatal(len(path), err)
		}
		return elapsed
	}
	b.Run("warm", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			index := mathrand.Uint64N(100 * merkle.TileWidth)
			if len(times) == 0 {
				for i := range uint64(100) {
					prove(i * merkle.TileWidth)
				}
			}
			times = append(times, prove(index))
		}
		reportMedian(b, times)
	})
	b.Run("cold", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			l.tiles.Purge()
			times = append(times, prove(mathrand.Uint64N(v.head.Size)))
		}
		reportMedian(b, times)
	})
}

func reportMedian(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
}

// openHuge makes a store with the tiles of a huge tree, but without its entries,
// and opens it as any other.
func openHuge(b *testing.B) *Log {
	b.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "bench")
	check(b, err)
	signer, err := note.NewSigner(skey)
	check(b, err)
	verifier, err := note.NewVerifier(vkey)
	check(b, err)
	dir := b.TempDir() + "/db"
	cfg, err := (&Config{Origin: "bench", Keys: []Key{{Signer: signer, Verifier: verifier}}, FS: vfs.Default, AcceptAnchor: true,
		NewFold: func() Fold { return stillFold{} }, Fatal: func(err error) { b.Fatal(err) }}).withDefaults(dir)
	check(b, err)
	db, err := openStore(dir, cfg)
	check(b, err)
	fillTiles(b, db, cfg)
	check(b, db.Close())
	l, err := Open(dir, cfg)
	check(b, err)
	b.Cleanup(func() { check(b, l.Close()) })
	return l
}

// fillTiles writes the tiles and the signed head of proofLeaves random leaves.
func fillTiles(b *testing.B, db *pebble.DB, cfg *Config) {
	b.Helper()
	frontier, err := merkle.NewFrontier(0, nil)
	check(b, err)
	l := &Log{cfg: cfg, db: db}
	l.tiles, err = lru.New[merkle.Tile, *merkle.TileNodes](tileCacheSize)
	check(b, err)
	l.order.frontier, l.order.last = frontier, &Batch{Root: merkle.EmptyHead().Root, PreviousRoot: merkle.EmptyHead().Root}
	p := &pending{store: db.NewBatch()}
	var leaf [8]byte
	for i := range uint64(proofLeaves) {
		binary.BigEndian.PutUint64(leaf[:], i)
		check(b, frontier.Append(merkle.HashLeaf(leaf[:]), func(level uint, index uint64, h merkle.Hash) { l.place(p, level, index, h) }))
		if p.store.Len() > 8<<20 {
			check(b, p.store.Commit(pebble.NoSync))
			check(b, p.store.Close())
			p.store = db.NewBatch()
		}
	}
	head, err := frontier.Head()
	check(b, err)
	signed, err := signHead(cfg.Origin, head, classic(cfg.Keys)...)
	check(b, err)
	value, err := (&Batch{Seq: 1, Size: head.Size, Root: head.Root, Note: signed}).seal()
	check(b, err)
	check(b, p.store.Set([]byte{keyBatch}, value, nil))
	none, err := signSnapshot(cfg.Origin, cfg.Keys, head.Size, sha256.Sum256(nil))
	check(b, err)
	check(b, (&snapshotChunk{size: head.Size, data: none, last: true}).put(p.store))
	check(b, p.store.Commit(pebble.Sync))
}

// stillFold has no state.
type stillFold struct{ Fold }

func (stillFold) Restore(io.Reader) error { return nil }

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
