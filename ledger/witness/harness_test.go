package witness_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/witness"
	"recoveryledger/merkle"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

const origin = "ledger.example/witnessed"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// source is a log in memory.
type source struct {
	tb     testing.TB
	signer note.Signer
	vkey   string

	mu    sync.Mutex
	tree  merkle.Tree
	grown chan struct{}
}

func newSource(tb testing.TB, leaves ...string) *source {
	tb.Helper()
	signer, _, vkey := testlog.NoteKey(origin)
	s := &source{tb: tb, signer: signer, vkey: vkey, grown: make(chan struct{})}
	s.add(leaves...)
	return s
}

func (s *source) add(leaves ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, leaf := range leaves {
		s.tree.Append(merkle.HashLeaf([]byte(leaf)))
	}
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *source) Newest() verify.SignedHead {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sign(s.tree.Head(s.tree.Size()))
}

func (s *source) sign(head merkle.Head) verify.SignedHead {
	s.tb.Helper()
	return verify.SignedHead{Head: head, Note: signText(s.tb, headText(head), s.signer)}
}

func headText(head merkle.Head) string {
	return strings.Join([]string{origin, itoa(head.Size), head.Root.String()}, "\n") + "\n"
}

func signText(tb testing.TB, text string, signer note.Signer) string {
	tb.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(tb, err)
	return string(signed)
}

func (s *source) Wait(ctx context.Context, size uint64) error {
	for {
		s.mu.Lock()
		there, grown := s.tree.Size(), s.grown
		s.mu.Unlock()
		if there >= size {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *source) HeadAt(size uint64) (merkle.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.Head(size), nil
}

func (s *source) Consistency(older, newer uint64) ([]merkle.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return merkle.ProveConsistency(older, newer, s.tree.Node)
}

func (s *source) root() verify.Root {
	return verify.Root{Origin: origin, LedgerKeys: []string{s.vkey}, Genesis: merkle.HashLeaf([]byte("genesis")), Cosigner: cosign.NewVerifierForCosignatureV1}
}

// request asks for a cosignature on the newest head.
func (s *source) request(old uint64) *witness.Request {
	s.tb.Helper()
	newest := s.Newest()
	path, err := s.Consistency(old, newest.Size)
	must(s.tb, err)
	return &witness.Request{Old: old, Proof: path, Note: newest.Note}
}

// serve returns a witness of the log in dir, and its URL.
func (s *source) serve(dir, name string) (*witness.Witness, string) {
	s.tb.Helper()
	w, err := witness.Open(&witness.Config{Dir: dir, Name: name, Logs: []witness.Log{{Origin: origin, Keys: []string{s.vkey}}}})
	must(s.tb, err)
	server := httptest.NewServer(w.Handler(func(err error) { s.tb.Error(err) }))
	s.tb.Cleanup(func() { server.Close(); must(s.tb, w.Close()) })
	return w, server.URL
}

// rounds runs rounds under a policy.
func (s *source) rounds(policy func() witness.Terms, path string) *witness.Rounds {
	s.tb.Helper()
	r, err := witness.NewRounds(witness.RoundsConfig{Source: s, Root: s.root, Terms: policy, Path: path})
	must(s.tb, err)
	return r
}

func run(tb testing.TB, r *witness.Rounds) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	tb.Cleanup(func() { stop(); must(tb, <-done) })
}

// terms are those of a policy that never changes.
func terms(policy string) func() witness.Terms {
	return func() witness.Terms { return witness.Terms{Policy: policy, MaxAge: time.Hour} }
}

// answering is a witness that answers as a function does.
func answering(tb testing.TB, f http.HandlerFunc) string {
	tb.Helper()
	server := httptest.NewServer(f)
	tb.Cleanup(server.Close)
	return server.URL
}
