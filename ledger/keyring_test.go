package ledger_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger"
)

// keyring is a configuration with three keys, of which a test says which sign.
type keyring struct {
	*ledger.Config
	first int
}

func newKeyring(t *testing.T, fs vfs.FS) *keyring {
	t.Helper()
	k := &keyring{Config: config(t, fs)}
	for range 2 {
		skey, vkey, err := note.GenerateKey(rand.Reader, origin)
		must(t, err)
		signer, err := note.NewSigner(skey)
		must(t, err)
		verifier, err := note.NewVerifier(vkey)
		must(t, err)
		k.Keys = append(k.Keys, ledger.Key{Signer: signer, Verifier: verifier})
	}
	k.Signs = func(_ ledger.Fold, keys []ledger.Key) []ledger.Key { return keys[k.first:] }
	return k
}

// wantSigners wants a head that exactly the keys from first on have signed.
func (k *keyring) wantSigners(t *testing.T, head string, first int) {
	t.Helper()
	for i, key := range k.Keys {
		_, err := note.Open([]byte(head), note.VerifierList(key.Verifier))
		if (err == nil) != (i >= first) {
			t.Errorf("key %d: %v, want those from %d on", i, err, first)
		}
	}
}

// TestTheKeysInForceSign changes them with a batch: its head, the published one
// and the snapshot at the end are by the new ones, and the log opens by any that
// is in force.
func TestTheKeysInForceSign(t *testing.T) {
	k := newKeyring(t, vfs.NewMem())
	c := newClocks()
	r := start(t, "log", c.on(k.Config))
	r.add(10)
	k.wantSigners(t, r.Head().Note, 0)
	k.first = 1 // with the next batch
	r.add(1)
	k.wantSigners(t, r.Head().Note, 1)
	c.pass(time.Second)
	published, err := r.Published()
	must(t, err)
	k.wantSigners(t, published.Note, 1)
	r.stop()

	all := k.Keys
	k.Keys, k.first = all[2:], 0 // those before are not here any more
	if _, err := ledger.Check(t.Context(), "log", c.on(k.Config), nil); err != nil {
		t.Errorf("check: %v", err)
	}
	r = start(t, "log", c.on(k.Config))
	r.add(1)
	r.stop()

	k.Keys = all[:2] // none of these has signed the last head
	for name, open := range map[string]func() error{
		"open":  func() error { _, err := ledger.Open("log", c.on(k.Config)); return err },
		"check": func() error { _, err := ledger.Check(t.Context(), "log", c.on(k.Config), nil); return err },
	} {
		if err := open(); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "unless the file of one is missing") {
			t.Errorf("%s: %v", name, err)
		}
	}
	k.Keys, k.first = all, 3
	if _, err := ledger.Open("log", c.on(k.Config)); !errors.Is(err, ledger.ErrKeys) {
		t.Errorf("without a key in force: %v", err)
	}
	k.first = 2
	start(t, "log", c.on(k.Config)).stop()
}

// TestAHeadByAKeyThatWasReplacedIsNoHead is a stored head that only a key has
// signed which is here, but not in force.
func TestAHeadByAKeyThatWasReplacedIsNoHead(t *testing.T) {
	k := newKeyring(t, vfs.NewMem())
	all := k.Keys
	k.Keys = all[:1]
	r := start(t, "log", k.Config)
	r.add(3)
	r.stop()
	k.Keys, k.first = all, 1
	if _, err := ledger.Open("log", k.Config); !errors.Is(err, ledger.ErrCorrupt) {
		t.Fatal(err)
	}
}
