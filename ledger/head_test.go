package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	checkpoint "github.com/transparency-dev/formats/log"
	cosign "github.com/transparency-dev/formats/note"

	"recoveryledger/merkle"
)

// The published head carries both signatures; the slow one is made when somebody
// asks, at most once a second.
func TestPublishedHeadIsSignedTwiceAtMostOnceASecond(t *testing.T) {
	c := newClocks()
	cfg := c.on(config(t, vfs.NewMem()))
	skey, vkey, err := cosign.GenerateMLDSAKey(origin)
	must(t, err)
	signer, err := cosign.NewMLDSASigner(skey)
	must(t, err)
	verifier, err := cosign.NewMLDSAVerifier(vkey)
	must(t, err)
	cosigner := &counting{Signer: signer}
	cfg.Keys[0].Cosigner = cosigner
	r := start(t, "log", cfg)
	published := func(size uint64, signatures int64) {
		t.Helper()
		head, err := r.Published()
		must(t, err)
		if head.Size != size || cosigner.made.Load() != signatures {
			t.Fatalf("size %d with %d signatures made, want %d and %d", head.Size, cosigner.made.Load(), size, signatures)
		}
		_, _, signed, err := checkpoint.ParseCheckpoint([]byte(head.Note), origin, cfg.Keys[0].Verifier, verifier)
		must(t, err)
		if len(signed.Sigs) != 2 || openNote(t, head.Note) != head.Head {
			t.Fatalf("%s", head.Note)
		}
	}
	published(0, 1)
	r.add(10)
	published(0, 1)
	c.pass(time.Second - 1)
	published(0, 1)
	c.pass(1)
	published(10, 2)
	c.pass(time.Hour)
	published(10, 2) // nothing new
	r.add(1)
	published(11, 3)
	r.add(1)
	published(11, 3)
	if head := r.Head(); strings.Count(head.Note, "\u2014") != 1 {
		t.Errorf("the head of a receipt carries one signature: %s", head.Note)
	}
	r.stop()
	r = start(t, "log", cfg)
	published(12, 4)
}

// An empty log has a signed head, too.
func TestPublishedHeadOfAnEmptyLog(t *testing.T) {
	r := start(t, "log", config(t, vfs.NewMem()))
	head, err := r.Published()
	must(t, err)
	if head.Head != merkle.EmptyHead() || openNote(t, head.Note) != head.Head {
		t.Fatalf("%+v", head)
	}
}
