package ledger_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	checkpoint "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

const origin = "ledger.example/test"

// tally is the smallest fold with a memory: it chains the hashes of all entries
// and refuses those whose exec is "refuse-me" or, for their quota, "limit-me".
type tally struct {
	size  uint64
	chain [sha256.Size]byte
}

func (f *tally) Admit(e *entry.Entry, index uint64, _ int64) error {
	if index != f.size {
		panic(fmt.Sprintf("admit %d after %d entries", index, f.size))
	}
	if x, ok := e.Body.(*entry.Execution); ok {
		switch x.Exec {
		case "refuse-me":
			return entry.Refuse(entry.StateConflict, "exec", "refused by the test")
		case "limit-me":
			return entry.Refuse(entry.RateLimited, "iss", "refused by the test")
		}
	}
	return nil
}

func (f *tally) Apply(e *entry.Entry, index uint64, at int64) {
	if index != f.size {
		panic(fmt.Sprintf("apply %d after %d entries", index, f.size))
	}
	f.size++
	f.chain = sha256.Sum256(append(f.chain[:], e.AppendLeaf(nil, at)...))
}

func (f *tally) Snapshot(w io.Writer) error {
	if err := binary.Write(w, binary.BigEndian, f.size); err != nil {
		return err
	}
	_, err := w.Write(f.chain[:])
	return err
}

func (f *tally) Restore(r io.Reader) error {
	data, err := io.ReadAll(r)
	switch {
	case err != nil:
		return err
	case len(data) != 8+sha256.Size:
		return fmt.Errorf("a state of %d bytes", len(data))
	}
	f.size = binary.BigEndian.Uint64(data)
	copy(f.chain[:], data[8:])
	return nil
}

// keys are the log's, the same in every test.
func keys(tb testing.TB) (note.Signer, note.Verifier) {
	tb.Helper()
	signer, verifier, _ := testlog.NoteKey(origin)
	return signer, verifier
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// config returns the configuration of a log on fs that must not fail.
func config(tb testing.TB, fs vfs.FS) *ledger.Config {
	tb.Helper()
	signer, verifier := keys(tb)
	return &ledger.Config{
		Origin: origin, Keys: []ledger.Key{{Signer: signer, Verifier: verifier}}, FS: fs,
		NewFold:  func() ledger.Fold { return new(tally) },
		Precheck: func(e *entry.Entry) error { e.SignatureChecked = true; return nil },
		Fatal:    func(err error) { panic(err) },
	}
}

// following returns cfg with the committed state as snapshots want it.
func following(cfg *ledger.Config) *ledger.Config {
	var mu sync.Mutex
	var admitting ledger.Fold
	var state bytes.Buffer
	var size uint64
	c := *cfg
	c.NewFold = func() ledger.Fold {
		fold := cfg.NewFold()
		if admitting == nil {
			admitting = fold
		}
		return fold
	}
	c.Committed = func(head verify.SignedHead) {
		mu.Lock()
		defer mu.Unlock()
		state.Reset()
		if err := admitting.Snapshot(&state); err != nil {
			panic(err)
		}
		size = head.Size
		if cfg.Committed != nil {
			cfg.Committed(head)
		}
	}
	c.Frozen = func() (ledger.Fold, uint64) {
		mu.Lock()
		defer mu.Unlock()
		return frozen(bytes.Clone(state.Bytes())), size
	}
	return &c
}

// frozen is a fold of which only the snapshot is left.
type frozen []byte

func (frozen) Admit(*entry.Entry, uint64, int64) error { panic("frozen") }
func (frozen) Apply(*entry.Entry, uint64, int64)       { panic("frozen") }
func (frozen) Restore(io.Reader) error                 { panic("frozen") }

func (f frozen) Snapshot(w io.Writer) error {
	_, err := w.Write(f)
	return err
}

// running is an open log with its order running.
type running struct {
	*ledger.Log
	t     testing.TB
	end   func()          // ends the order
	stop  func()          // ends the order, closes the log and checks what it leaves
	again func() *running // starts the log again
}

// start opens and runs a log.
func start(tb testing.TB, dir string, cfg *ledger.Config) *running {
	tb.Helper()
	log, err := ledger.Open(dir, following(cfg))
	must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	r := &running{Log: log, t: tb}
	r.again = func() *running { return start(tb, dir, cfg) }
	r.end = sync.OnceFunc(func() {
		cancel()
		must(tb, <-done)
	})
	r.stop = sync.OnceFunc(func() {
		r.end()
		must(tb, log.Close())
		fsck(tb, dir, cfg)
	})
	tb.Cleanup(r.stop)
	return r
}

// fsck checks a log that is not open.
func fsck(tb testing.TB, dir string, cfg *ledger.Config) *ledger.CheckReport {
	tb.Helper()
	report, err := ledger.Check(context.Background(), dir, cfg, nil)
	must(tb, err)
	return report
}

// add submits n new entries one by one and returns their indexes.
func (r *running) add(n int) (indexes []uint64) {
	r.t.Helper()
	for range n {
		answer, err := r.Submit(r.t.Context(), newEntry(r.t))
		must(r.t, err)
		if answer.Refused != nil || len(answer.Registered) != 1 {
			r.t.Fatalf("answer %+v", answer)
		}
		indexes = append(indexes, answer.Registered[0].Index)
	}
	return indexes
}

// crash stops the log and returns the disk as it would be after a crash at a
// moment when nothing was under way: the anchor is up to date then.
func (r *running) crash(disk *vfs.MemFS) *vfs.MemFS {
	r.t.Helper()
	left := snapshotOf(disk)
	r.stop()
	copyTo(r.t, disk, left, "log.anchor")
	return left
}

// copyTo copies a directory or file from one disk to another.
func copyTo(tb testing.TB, from, to vfs.FS, path string) {
	tb.Helper()
	must(tb, to.RemoveAll(path))
	ok, err := vfs.Clone(from, to, path, path, vfs.CloneSync)
	must(tb, err)
	if !ok {
		tb.Fatalf("%s is not there", path)
	}
}

// snapshotOf returns a copy of the disk as it is.
func snapshotOf(disk *vfs.MemFS) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newRNG(0)})
}

// checkAll checks everything that can be asked of the log against a tree
// computed from its leaves alone.
func (r *running) checkAll() {
	r.t.Helper()
	head := r.Head()
	leaves := r.leafHashes()
	reference := merkle.Head{Size: uint64(len(leaves)), Root: referenceRoot(leaves)}
	if reference != head.Head {
		r.t.Fatalf("head %v, leaves give %v", head.Head, reference)
	}
	if head.Size > 0 && openNote(r.t, head.Note) != head.Head {
		r.t.Fatalf("head %v, signed is %s", head.Head, head.Note)
	}
	rng := newRNG(head.Size)
	for range min(20, head.Size) {
		index := rng.Uint64N(head.Size)
		receipt, err := r.Receipt(index)
		must(r.t, err)
		must(r.t, merkle.CheckInclusion(index, leaves[index], reference, receipt.Proof))
		older := merkle.Head{Size: index, Root: referenceRoot(leaves[:index])}
		path, err := r.Consistency(index, head.Size)
		must(r.t, err)
		must(r.t, merkle.CheckConsistency(older, reference, path))
	}
}

// leafHashes reads all entries.
func (r *running) leafHashes() (leaves []merkle.Hash) {
	r.t.Helper()
	for e, err := range r.Entries(r.t.Context(), 0, r.Head().Size) {
		must(r.t, err)
		leaves = append(leaves, merkle.HashLeaf(e.AppendLeaf(nil)))
	}
	return leaves
}

// referenceRoot is MTH of RFC 6962, section 2.1, word for word.
func referenceRoot(leaves []merkle.Hash) merkle.Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := referenceRoot(leaves[:k]), referenceRoot(leaves[k:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// openNote returns what a signed tree head says.
func openNote(tb testing.TB, signed string) merkle.Head {
	tb.Helper()
	head, err := parseNote(signed)
	must(tb, err)
	return head
}

func parseNote(signed string) (merkle.Head, error) {
	_, verifier, _ := testlog.NoteKey(origin)
	opened, _, _, err := checkpoint.ParseCheckpoint([]byte(signed), origin, verifier)
	if err != nil {
		return merkle.Head{}, err
	}
	return merkle.Head{Size: opened.Size, Root: merkle.Hash(opened.Hash)}, nil
}

var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// newEntry returns a new signed execution.
func newEntry(tb testing.TB) *entry.Entry {
	tb.Helper()
	return newExec(tb, uuid.NewString())
}

func newExec(tb testing.TB, exec string) *entry.Entry {
	tb.Helper()
	public, err := entry.NewPublicKey(testKey.Public())
	must(tb, err)
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent", Aud: origin, Iat: time.Now().Unix(), Wid: "w"},
		Exec:   exec, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	})
	must(tb, err)
	e.Seal(public.KeyID(), ed25519.Sign(testKey, e.PAE()))
	return e
}

// newUnsigned returns a new execution with a signature that is none; it costs
// little.
func newUnsigned(tb testing.TB) *entry.Entry {
	tb.Helper()
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent", Aud: origin, Iat: time.Now().Unix(), Wid: "w"},
		Exec:   "x", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	})
	must(tb, err)
	e.Seal("SHA256:"+strings.Repeat("A", 43), make([]byte, ed25519.SignatureSize))
	return e
}

// atOnce gives the configuration clocks that advance by a second whenever they
// are read: the published head is always the newest.
func atOnce(cfg *ledger.Config) *ledger.Config {
	var ticks atomic.Int64
	began := time.Now()
	cfg.Uptime = func() time.Duration { return time.Duration(ticks.Add(1)) * time.Second }
	cfg.Now = func() time.Time { return began.Add(cfg.Uptime()) }
	return cfg
}

func newRNG(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
