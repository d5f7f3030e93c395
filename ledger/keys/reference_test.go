//go:build unix

package keys

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/entry"
)

// inMode lets the KMS of arltest://switch/PATH do what mode says from now on.
func inMode(t *testing.T, path, mode string) {
	t.Helper()
	if err := os.WriteFile(path+".mode", []byte(mode), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLedgerKeyInKMS makes a ledger's key in a KMS, and reads its file while the KMS is away. The
// tree heads are those of the key in the KMS, one signature a head, and a head that is shown again
// needs no KMS.
func TestLedgerKeyInKMS(t *testing.T) {
	installKMS(t)
	made, path := mustGenerate(t, Ed25519, nil)
	uri := "arltest://switch" + path
	for _, passphrase := range []Passphrase{nil, secret("correct horse")} {
		inMode(t, path, "sign")
		dir := t.TempDir()
		ledger, err := ReferLedger(dir, origin, uri, passphrase)
		if err != nil || ledger.URI != uri || !ledger.Unused {
			t.Fatalf("%+v, %v", ledger, err)
		}
		inMode(t, path, "fail")
		all, err := LoadLedger(dir, passphrase)
		if err != nil || len(all) != 1 || all[0].URI != uri || all[0].VerifierKeys != ledger.VerifierKeys {
			t.Fatalf("%+v, %v", all, err)
		}
		public, err := LedgerPublic(filepath.Join(dir, "ledger.key"), passphrase)
		if err != nil || !public.Equal(made.Public()) {
			t.Errorf("public key %v, %v", public, err)
		}
		signer := all[0].Signer
		if _, err := signer.Sign([]byte("head 1\n")); err == nil {
			t.Fatal("a KMS that refuses has signed")
		}
		inMode(t, path, "sign")
		signed := signAgain(t, all[0], "head 1\n")
		inMode(t, path, "fail")
		if again := signAgain(t, all[0], "head 1\n"); again != signed {
			t.Errorf("a head has two signatures: %q and %q", signed, again)
		}
		if _, err := note.Open([]byte(signed), note.VerifierList(all[0].Verifier)); err != nil {
			t.Error(err)
		}
	}
	inMode(t, path, "sign")
	dir := t.TempDir()
	if _, err := GenerateLedger(dir, origin, nil); err != nil {
		t.Fatal(err)
	}
	if next, file, err := ReferNextLedger(dir, uri, nil); err != nil || next.URI != uri || filepath.Base(file) != "ledger-2.key" {
		t.Errorf("the next key: %+v, %s, %v", next, file, err)
	}
}

// signAgain signs a text as a note, and waits until the pause after a failure is over.
func signAgain(t *testing.T, l *Ledger, text string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		signed, err := note.Sign(&note.Note{Text: text}, l.Signer)
		if err == nil {
			return string(signed)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestLedgerKeyInKMSIsRefused wants no file from a KMS that does not sign as a ledger's key must.
func TestLedgerKeyInKMSIsRefused(t *testing.T) {
	installKMS(t)
	_, path := mustGenerate(t, Ed25519, nil)
	_, curve := mustGenerate(t, ECDSAP256, nil)
	for uri, says := range map[string]string{
		"arltest://lie" + path: "another key", "arltest://fail" + path: "denied", "arltest://sign" + curve: "signed with ed25519 alone",
		"arltest://twoways" + path: "in two ways", "arltest://sign" + path + " x": "without spaces", "file.key": "is not the URI",
	} {
		dir := t.TempDir()
		_, err := ReferLedger(dir, origin, uri, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", uri, err, says)
		}
		if _, err := os.Stat(filepath.Join(dir, "ledger.key")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a key file is there: %v", uri, err)
		}
	}
}

// TestReference reads the file of a key in a KMS while the KMS is away, and refuses what is not
// such a file.
func TestReference(t *testing.T) {
	installKMS(t)
	made, path := mustGenerate(t, ECDSAP256, nil)
	uri := "arltest://switch" + path
	inMode(t, path, "sign")
	signer, err := Load(uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "coordinator.key")
	if err := Refer(file, signer); err != nil {
		t.Fatal(err)
	}
	if err := Refer(file, signer); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	if err := Refer(file+"2", made); err == nil {
		t.Error("a file names a KMS for a key that is in a file")
	}
	inMode(t, path, "away")
	again, err := Load(file, nil)
	if err != nil || again.URI() != uri || !again.Public().Equal(made.Public()) {
		t.Fatalf("%+v, %v", again, err)
	}
	inMode(t, path, "sign")
	if err := again.Try(); err != nil {
		t.Error(err)
	}
}

// TestAKMSThatFailedIsNotAskedAtOnce wants callers to get the error at once, one of them to ask
// again after the pause, and each question to be told.
func TestAKMSThatFailedIsNotAskedAtOnce(t *testing.T) {
	var told []error
	h := health{used: func(_ time.Duration, err error) { told = append(told, err) }}
	now := time.Now()
	broken := errors.New("denied")
	h.leave(now, broken)
	if err := h.enter(now); !errors.Is(err, broken) {
		t.Errorf("asked at once: %v", err)
	}
	later := now.Add(kmsPauseFirst)
	if err := h.enter(later); err != nil {
		t.Errorf("not asked after the pause: %v", err)
	}
	if err := h.enter(later); !errors.Is(err, broken) {
		t.Errorf("asked by two callers: %v", err)
	}
	for range 20 {
		h.leave(later, broken)
	}
	if h.pause != kmsPauseLongest {
		t.Errorf("pause %v, want %v at most", h.pause, kmsPauseLongest)
	}
	h.leave(later, nil)
	if sig, err := h.ask(func() ([]byte, error) { return []byte("s"), nil }); err != nil || string(sig) != "s" || h.pause != 0 || len(told) != 1 {
		t.Errorf("%q, %v, told %v", sig, err, told)
	}
}

// FuzzReference: a file that names a key in a KMS is written in one way.
func FuzzReference(f *testing.F) {
	public, err := entry.NewPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)).Public())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(public.String() + " awskms:///alias/a\n"))
	f.Add([]byte(public.String() + " awskms:///a b\n"))
	f.Add([]byte("x awskms://k\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		signer, err := decodeReference(content)
		if err != nil || signer == nil {
			return
		}
		if again := signer.Public().String() + " " + signer.URI() + "\n"; again != string(content) {
			t.Fatalf("%q is read as %q", content, again)
		}
	})
}
