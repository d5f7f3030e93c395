//go:build unix

package keys

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// kmsDir is the folder of the program that [buildKMS] builds.
var kmsDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "arl-keys-")
	if err != nil {
		panic(err)
	}
	kmsDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // in the system's directory of temporary files
	os.Exit(code)
}

// buildKMS builds the program of testdata/kms.
var buildKMS = sync.OnceValues(func() ([]byte, error) {
	return needs.Go(context.Background(), "build", "-ldflags", "-s -w", "-o", kmsDir, "recoveryledger/testdata/kms/sigstore-kms-arltest").CombinedOutput()
})

// installKMS puts the program of testdata/kms on the PATH, for URIs of the scheme arltest.
func installKMS(t *testing.T) {
	t.Helper()
	dir := kmsDir
	if out, err := buildKMS(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestKeyInKMSSigns holds keys in a KMS to the keys in its files: same public half, signatures that
// verify, several at once.
func TestKeyInKMSSigns(t *testing.T) {
	installKMS(t)
	for _, algorithm := range algorithms {
		for _, mode := range []string{"sign", "slow"} {
			t.Run(string(algorithm)+" "+mode, func(t *testing.T) {
				made, path := mustGenerate(t, algorithm, nil)
				signer, err := Load("arltest://"+mode+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !signer.Public().Equal(made.Public()) {
					t.Fatalf("public key %s, want that of the file, %s", signer.Public(), made.Public())
				}
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						e := mustEntry(t, "wf-1")
						if err := signer.Sign(e); err != nil {
							t.Error(err)
							return
						}
						if err := mustVerifier(t).Check(made.Public(), e.PAE(), e.Sig); err != nil || e.KeyID != made.Public().KeyID() {
							t.Errorf("key %s: %v", e.KeyID, err)
						}
					})
				}
				all.Wait()
			})
		}
	}
}

// TestLyingKMSIsRefused wants no signature of another key to leave, and the entry unsealed.
func TestLyingKMSIsRefused(t *testing.T) {
	budget.Unraced(t, "TestKeyInKMSSigns has the same processes, and several goroutines")
	installKMS(t)
	for _, algorithm := range algorithms {
		_, path := mustGenerate(t, algorithm, nil)
		signer, err := Load("arltest://lie"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := mustEntry(t, "wf-1")
		wantKMSError(t, signer.Sign(e), "arltest://lie"+path, ErrSignature, "another key than "+signer.Public().KeyID())
		if e.Sig != nil || e.KeyID != "" {
			t.Errorf("%s: the entry is sealed with %x of %q", algorithm, e.Sig, e.KeyID)
		}
		renewal, err := signer.SignRenewal(&entry.Renewal{})
		if renewal != nil || err == nil {
			t.Errorf("%s: a renewal was signed: %v", algorithm, err)
		}
	}
}

// TestKMSThatFails wants a typed error that names the URI, the cause and a remedy for each way to
// fail, before and at the signature.
func TestKMSThatFails(t *testing.T) {
	installKMS(t)
	_, path := mustGenerate(t, Ed25519, nil)
	for _, test := range []struct{ uri, says string }{
		{"arltest://mute" + path, "no answer to the question"},
		{"arltest://babble" + path, "parsing plugin response"},
		{"arltest://sign" + path + ".none", "no such file"},
		{"arltest-none://key", "sigstore-kms-arltest-none: executable file not found"},
	} {
		_, err := Load(test.uri, nil)
		wantKMSError(t, err, test.uri, nil, test.says)
	}
	signer, err := Load("arltest://fail"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantKMSError(t, signer.Sign(mustEntry(t, "wf-1")), "arltest://fail"+path, nil, "denied")
	_, err = Load("arltest-none://key", nil)
	wantKMSError(t, err, "arltest-none://key", exec.ErrNotFound, "")
}

// TestKMSThatIsAway wants the wait to be bounded, also where a child of the program holds the pipe
// that its answer comes from.
func TestKMSThatIsAway(t *testing.T) {
	installKMS(t)
	_, path := mustGenerate(t, Ed25519, nil)
	const wait = 300 * time.Millisecond
	begin := time.Now()
	_, err := openKMS("arltest://away"+path, wait)
	wantKMSError(t, err, "arltest://away"+path, context.DeadlineExceeded, "did not answer within 300ms")

	uri := "arltest://hang" + path
	signer, err := openKMS(uri, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := signer.private.(*kmsKey)
	if !ok {
		t.Fatalf("the key is a %T", signer.private)
	}
	key.wait = wait
	wantKMSError(t, signer.Sign(mustEntry(t, "wf-1")), uri, context.DeadlineExceeded, "did not answer within 300ms")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the errors took %v, and the child of the program runs for a minute", took)
	}
}

// TestKMSWithAnotherAlgorithm refuses a key of the KMS as one of a file.
func TestKMSWithAnotherAlgorithm(t *testing.T) {
	installKMS(t)
	private, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := cryptoutils.MarshalPrivateKeyToPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p384.key")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load("arltest://sign"+path, nil)
	wantKMSError(t, err, "arltest://sign"+path, nil, "P-384")
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.UnsupportedAlg {
		t.Errorf("error %v, want a refusal, unsupported-alg", err)
	}
}

// TestWhatIsAURI tells keys in a KMS from files.
func TestWhatIsAURI(t *testing.T) {
	for name, want := range map[string]bool{
		"awskms:///alias/arl": true, "pkcs11://token": true, "my-hsm+2://k": true,
		"agent.key": false, "/keys/agent.key": false, `C:\keys\agent.key`: false, "C://keys": false, "keys://": false,
		"../x://k": false, "a/b://k": false, "-x://k": false, "": false, "://k": false,
	} {
		if IsURI(name) != want {
			t.Errorf("%q is a URI: %v, want %v", name, !want, want)
		}
	}
}

// wantKMSError wants the typed error of a URI, with its cause, words and a remedy, and without
// control characters of the program.
func wantKMSError(t *testing.T, err error, uri string, is error, says string) {
	t.Helper()
	found, ok := errors.AsType[*KMSError](err)
	switch {
	case !ok:
		t.Errorf("%s: error %v, want a *KMSError", uri, err)
	case found.URI != uri, !strings.Contains(err.Error(), uri), found.Remedy == "", strings.ContainsRune(err.Error(), '\x1b'):
		t.Errorf("error %q of URI %s with remedy %q, want %s named and a remedy", err, found.URI, found.Remedy, uri)
	case is != nil && !errors.Is(err, is), !strings.Contains(err.Error(), says):
		t.Errorf("%s: error %q, want %v and %q", uri, err, is, says)
	}
}
