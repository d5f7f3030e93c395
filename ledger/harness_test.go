package ledger_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
)

const origin = "ledger.example/test"

// tally is the smallest fold with a memory: it chains the hashes of all entries
// and refuses those whose exec is "refuse-me".
type tally struct {
	size  uint64
	chain [sha256.Size]byte
}

func (f *tally) Admit(e *entry.Entry, index uint64, _ int64) error {
	if index != f.size {
		panic(fmt.Sprintf("admit %d after %d entries", index, f.size))
	}
	if x, ok := e.Body.(*entry.Execution); ok && x.Exec == "refuse-me" {
		return entry.Refuse(entry.StateConflict, "exec", "refused by the test")
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
	if err := binary.Read(r, binary.BigEndian, &f.size); err != nil {
		return err
	}
	_, err := io.ReadFull(r, f.chain[:])
	return err
}

// keys are the log's, the same in every test.
func keys(t testing.TB) (note.Signer, note.Verifier) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(zeros{}, origin)
	must(t, err)
	signer, err := note.NewSigner(skey)
	must(t, err)
	verifier, err := note.NewVerifier(vkey)
	must(t, err)
	return signer, verifier
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config returns the configuration of a log on fs that must not fail.
func config(t testing.TB, fs vfs.FS) *ledger.Config {
	signer, verifier := keys(t)
	return &ledger.Config{
		Origin: origin, Signer: signer, Verifier: verifier, FS: fs,
		NewFold: func() ledger.Fold { return new(tally) },
		Fatal:   func(err error) { panic(err) },
	}
}

// running is an open log with its order running.
type running struct {
	*ledger.Log
	t    testing.TB
	stop func()
}

// start opens and runs a log.
func start(t testing.TB, dir string, cfg *ledger.Config) *running {
	t.Helper()
	log, err := ledger.Open(dir, cfg)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	r := &running{Log: log, t: t}
	stopped := false
	r.stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		must(t, <-done)
		must(t, log.Close())
	}
	t.Cleanup(r.stop)
	return r
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

// checkAll checks everything that can be asked of the log against a tree
// computed from its leaves alone.
func (r *running) checkAll() {
	r.t.Helper()
	head := r.Head()
	var leaves []merkle.Hash
	for e, err := range r.Entries(r.t.Context(), 0, head.Size) {
		must(r.t, err)
		leaves = append(leaves, merkle.HashLeaf(e.AppendLeaf(nil, e.At)))
	}
	reference, err := merkle.HeadOf(leaves)
	must(r.t, err)
	if reference != head.Head {
		r.t.Fatalf("head %v, leaves give %v", head.Head, reference)
	}
	for range min(20, head.Size) {
		index := rand.Uint64N(head.Size)
		receipt, err := r.Receipt(index)
		must(r.t, err)
		must(r.t, merkle.CheckInclusion(index, leaves[index], reference, receipt.Proof))
		older, err := merkle.HeadOf(leaves[:index])
		must(r.t, err)
		path, err := r.Consistency(index, head.Size)
		must(r.t, err)
		must(r.t, merkle.CheckConsistency(older, reference, path))
	}
}

var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// newEntry returns a new signed execution.
func newEntry(t testing.TB) *entry.Entry {
	t.Helper()
	return newExec(t, uuid.NewString())
}

func newExec(t testing.TB, exec string) *entry.Entry {
	t.Helper()
	public, err := entry.NewPublicKey(testKey.Public())
	must(t, err)
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent", Aud: origin, Iat: time.Now().Unix(), Wid: "w"},
		Exec:   exec, Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Planned,
	})
	must(t, err)
	e.Seal(public.KeyID(), ed25519.Sign(testKey, e.PAE()))
	return e
}
