package keys

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

// secret returns a passphrase function.
func secret(text string) Passphrase {
	return func() ([]byte, error) { return []byte(text), nil }
}

// mustGenerate returns a key in a new file and the path of the file.
func mustGenerate(tb testing.TB, algorithm Algorithm, passphrase Passphrase) (*Signer, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "agent.key")
	signer, err := Generate(path, algorithm, passphrase)
	if err != nil {
		tb.Fatal(err)
	}
	return signer, path
}

func mustVerifier(tb testing.TB) *Verifier {
	tb.Helper()
	v, err := NewVerifier(0)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// mustEntry returns an entry to be signed. The workflow id goes into the
// payload and sets its length.
func mustEntry(tb testing.TB, wid entry.WorkflowID) *entry.Entry {
	tb.Helper()
	e, err := entry.New(&entry.Execution{
		Header: entry.Header{V: 1, JTI: uuid.NewString(), Iss: "agent-1", Aud: "example.com/log", Iat: 1790000000, Wid: wid},
		Exec:   "exec-1", Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// checkSigns lets signer sign an entry, takes the entry through its envelope
// and checks it under the signer's public key.
func checkSigns(tb testing.TB, signer *Signer) {
	tb.Helper()
	e := mustEntry(tb, "wf-1")
	if err := signer.Sign(e); err != nil {
		tb.Fatal(err)
	}
	sent, err := entry.Decode(e.AppendEnvelope(nil))
	if err != nil {
		tb.Fatal(err)
	}
	if sent.KeyID != signer.Public().KeyID() {
		tb.Fatalf("key id %q, want %q", sent.KeyID, signer.Public().KeyID())
	}
	v := mustVerifier(tb)
	if err := v.Check(signer.Public(), sent.PAE(), sent.Sig); err != nil {
		tb.Fatal(err)
	}
	sig := bytes.Clone(sent.Sig)
	sig[len(sig)/2] ^= 1
	if err := v.Check(signer.Public(), sent.PAE(), sig); err == nil {
		tb.Fatal("a changed signature was accepted")
	}
}

// checkFiles holds the directory to exactly these names.
func checkFiles(tb testing.TB, dir string, want ...string) {
	tb.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for i, f := range found {
		if i >= len(want) || f.Name() != want[i] {
			tb.Fatalf("directory holds %v, want %v", found, want)
		}
	}
	if len(found) != len(want) {
		tb.Fatalf("directory holds %v, want %v", found, want)
	}
}

// checkPassphrases loads a file that is encrypted with "correct horse" by
// others, and by none.
func checkPassphrases(t *testing.T, load func(Passphrase) error) {
	t.Helper()
	for _, test := range []struct {
		passphrase Passphrase
		want       string
	}{
		{nil, "the file is encrypted and none was given"},
		{secret(""), "empty"},
		{secret("battery staple"), "wrong, or the file is damaged"},
	} {
		if err := load(test.passphrase); !errors.Is(err, ErrPassphrase) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want ErrPassphrase with %q", err, test.want)
		}
	}
}
