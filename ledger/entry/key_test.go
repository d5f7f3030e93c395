package entry_test

import (
	"crypto"
	"crypto/elliptic"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"recoveryledger/ledger/entry"
)

// keyID returns the key id of a key in memory.
func keyID(public crypto.PublicKey) string {
	key, err := entry.NewPublicKey(public)
	if err != nil {
		panic(err)
	}
	return key.KeyID()
}

// TestKeyID compares with the key ids that DSSE libraries accept.
func TestKeyID(t *testing.T) {
	for _, public := range []crypto.PublicKey{
		ed25519Key("agent").Public(), ed25519Key("other").Public(), ecdsaKey(t, elliptic.P256(), "agent").Public(),
		ecdsaKey(t, elliptic.P256(), "other").Public(),
	} {
		want, err := dsse.SHA256KeyID(public)
		must(t, err)
		if got := keyID(public); got != want || len(got) != entry.MaxKeyID {
			t.Errorf("key id %s, want %s", got, want)
		}
	}
	if id := (entry.PublicKey{}).KeyID(); id != "" {
		t.Errorf("no key has the id %q", id)
	}
}

// TestKeyForeign: a key in memory is refused as one in DER is, by name.
func TestKeyForeign(t *testing.T) {
	for name, public := range map[string]crypto.PublicKey{
		"P-384": ecdsaKey(t, elliptic.P384(), "agent").Public(), "a text": "a text", "nothing": nil, "a private key": ed25519Key("agent"),
	} {
		key, err := entry.NewPublicKey(public)
		if problem, field := problemOf(err); problem != string(entry.UnsupportedAlg) || field != "key" || !key.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyEqual(t *testing.T) {
	a, b := publicKey(t, "a"), publicKey(t, "b")
	if !a.Equal(publicKey(t, "a")) || a.Equal(b) || a.Equal(entry.PublicKey{}) || a.IsZero() {
		t.Error("keys compare wrong")
	}
	der := a.DER()
	der[0] = 0
	if a.DER()[0] == 0 {
		t.Error("DER gives the key's own bytes away")
	}
}
