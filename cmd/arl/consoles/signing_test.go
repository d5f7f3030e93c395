//go:build unix

package consoles_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"recoveryledger/api/console"
	"recoveryledger/cmd/arl/consoles"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/needs"
)

// TestSigningWithKMS signs with a key in a KMS as with a file that has no passphrase: once a person
// at the terminal confirms.
func TestSigningWithKMS(t *testing.T) {
	dir := t.TempDir()
	build := needs.Go(t.Context(), "build", "-o", dir, "recoveryledger/testdata/kms/sigstore-kms-arltest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	path := filepath.Join(dir, "ann.key")
	made, err := keys.Generate(path, keys.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	var asked string
	confirmed := errors.New("no")
	confirm := func(question string) error {
		asked = question
		return confirmed
	}
	signing, err := consoles.NewSigning(nil, nil, []string{"arltest://sign" + path}, nil, confirm)
	if err != nil {
		t.Fatal(err)
	}
	id := made.Public().KeyID()
	if got, want := signing.Keys(), (console.Key{ID: id, Name: "ann.key"}); len(got) != 1 || got[0] != want {
		t.Errorf("keys %+v, want %+v", got, want)
	}
	if _, err := signing.Unlock(t.Context(), id, "ann", "", "Approve"); !errors.Is(err, console.ErrDeclined) || asked != "Approve. Sign this as ann?" {
		t.Errorf("not confirmed: %v, asked %q", err, asked)
	}
	confirmed = nil
	signer, err := signing.Unlock(t.Context(), id, "ann", "", "Approve")
	if err != nil {
		t.Fatal(err)
	}
	e, err := entry.New(&entry.Execution{Header: entry.Header{V: 1, JTI: "00000000-0000-4000-8000-000000000001", Iss: "ann", Aud: "example.com/log", Iat: 1790000000, Wid: "w"},
		Exec: "exec-1", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed})
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Sign(e); err != nil {
		t.Fatal(err)
	}
	verifier, err := keys.NewVerifier(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Check(made.Public(), e.PAE(), e.Sig); err != nil || e.KeyID != id {
		t.Errorf("the signature of %s, by %s: %v", id, e.KeyID, err)
	}
}
