package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

var algorithms = []Algorithm{Ed25519, ECDSAP256}

func TestGeneratedKeyLoadsAndSigns(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			made, path := mustGenerate(t, algorithm, nil)
			loaded, err := Load(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !loaded.Public().Equal(made.Public()) {
				t.Fatalf("loaded %s, made %s", loaded.Public(), made.Public())
			}
			checkSigns(t, made)
			checkSigns(t, loaded)
		})
	}
}

func TestEncryptedKeyNeedsItsPassphrase(t *testing.T) {
	budget.Unraced(t, "one goroutine derives keys from passphrases")
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			made, path := mustGenerate(t, algorithm, secret("correct horse"))
			loaded, err := Load(path, secret("correct horse"))
			if err != nil {
				t.Fatal(err)
			}
			if !loaded.Public().Equal(made.Public()) {
				t.Fatalf("loaded %s, made %s", loaded.Public(), made.Public())
			}
			checkPassphrases(t, func(p Passphrase) error { _, err := Load(path, p); return err })
		})
	}
}

// TestEncryptedFileHidesTheKey looks for the plain file's bytes, in DER and in
// base64, in the encrypted one.
func TestEncryptedFileHidesTheKey(t *testing.T) {
	budget.Unraced(t, "one goroutine derives keys from passphrases")
	private, err := newPrivateKey(Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := encode(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := encode(private, secret("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	plainBlock, _ := pem.Decode(plain)
	sealedBlock, _ := pem.Decode(sealed)
	seed := plainBlock.Bytes[len(plainBlock.Bytes)-32:]
	if bytes.Contains(sealedBlock.Bytes, seed) || bytes.Contains(sealed, bytes.Split(plain, []byte("\n"))[1]) {
		t.Fatal("the encrypted file holds the plain key")
	}
}

func TestPassphraseFunctionIsAskedOnlyIfNeeded(t *testing.T) {
	_, path := mustGenerate(t, Ed25519, nil)
	asked := func() ([]byte, error) { t.Error("asked for the passphrase of a plain file"); return nil, nil }
	if _, err := Load(path, asked); err != nil {
		t.Fatal(err)
	}

	interrupted := errors.New("interrupted")
	refuses := func() ([]byte, error) { return nil, interrupted }
	path = filepath.Join(t.TempDir(), "agent.key")
	if _, err := Generate(path, Ed25519, refuses); !errors.Is(err, interrupted) {
		t.Errorf("error %v, want the passphrase function's", err)
	}
	if _, err := Generate(path, Ed25519, secret("")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("empty passphrase: error %v, want ErrPassphrase", err)
	}
	checkFiles(t, filepath.Dir(path))
}

// TestKeyOfRFC8410 loads the example of RFC 8410, section 10.3, and compares
// with the public key in section 10.1.
func TestKeyOfRFC8410(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rfc8410.key")
	content := "-----BEGIN PRIVATE KEY-----\n" +
		"MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n" +
		"-----END PRIVATE KEY-----\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := signer.Public().String(), "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="; got != want {
		t.Fatalf("public key %s, want %s", got, want)
	}
	checkSigns(t, signer)
}

func pkcs8(t *testing.T, key crypto.PrivateKey, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// unknownPKCS8 returns a PKCS#8 key of an algorithm the library does not know.
func unknownPKCS8(t *testing.T, algorithm, curve asn1.ObjectIdentifier) []byte {
	t.Helper()
	id := pkix.AlgorithmIdentifier{Algorithm: algorithm}
	if curve != nil {
		parameters, err := asn1.Marshal(curve)
		if err != nil {
			t.Fatal(err)
		}
		id.Parameters.FullBytes = parameters
	}
	der, err := asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{Algorithm: id, Key: make([]byte, 57)})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestOtherAlgorithmsAreRefusedByName(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaDER := pkcs8(t, rsaKey, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p384DER := pkcs8(t, p384, err)
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	p521DER := pkcs8(t, p521, err)
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	x25519DER := pkcs8(t, x25519, err)
	for _, test := range []struct {
		der  []byte
		want string
	}{
		{rsaDER, "RSA key of 2048 bits"},
		{p384DER, "P-384"},
		{p521DER, "P-521"},
		{x25519DER, "X25519"},
		{unknownPKCS8(t, asn1.ObjectIdentifier{1, 3, 101, 113}, nil), "1.3.101.113"},                                              // Ed448
		{unknownPKCS8(t, asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, asn1.ObjectIdentifier{1, 3, 132, 0, 10}), "1.3.132.0.10"}, // secp256k1
	} {
		_, err := decode(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: test.der}), nil)
		refusal, ok := errors.AsType[*entry.Refusal](err)
		if !ok || refusal.Problem != entry.UnsupportedAlg || !strings.Contains(refusal.Detail, test.want) || refusal.Remedy == "" {
			t.Errorf("error %v, want unsupported-alg with %q and a remedy", err, test.want)
		}
	}

	path := filepath.Join(t.TempDir(), "agent.key")
	_, err = Generate(path, "rsa", nil)
	refusal, ok := errors.AsType[*entry.Refusal](err)
	if !ok || refusal.Problem != entry.UnsupportedAlg || !strings.Contains(refusal.Detail, "rsa") {
		t.Errorf("generate rsa: error %v, want unsupported-alg", err)
	}
	checkFiles(t, filepath.Dir(path))
}

func TestMalformedKeyFilesAreRefused(t *testing.T) {
	private, err := newPrivateKey(Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	good, err := encode(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	block := func(blockType string, headers map[string]string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: blockType, Headers: headers, Bytes: der}))
	}
	parsed, _ := pem.Decode(good)
	for _, test := range []struct{ desc, content, want string }{
		{"empty", "", "one PEM block"},
		{"text before", "my key\n" + string(good), "one PEM block"},
		{"text behind", string(good) + "my key\n", "one PEM block"},
		{"two keys", string(good) + string(good), "one PEM block"},
		{"cut short", string(good[:len(good)-10]), "one PEM block"},
		{"headers", block("PRIVATE KEY", map[string]string{"Proc-Type": "4,ENCRYPTED"}, parsed.Bytes), "headers: convert the key with openssl"},
		{"SEC 1", block("EC PRIVATE KEY", nil, parsed.Bytes), `"EC PRIVATE KEY": convert the key with openssl`},
		{"public key", block("PUBLIC KEY", nil, parsed.Bytes), `"PUBLIC KEY"`},
		{"no DER", block("PRIVATE KEY", nil, []byte("key")), "not a PKCS#8 private key"},
		{"seed too short", block("PRIVATE KEY", nil, unknownPKCS8(t, asn1.ObjectIdentifier{1, 3, 101, 112}, nil)), "not a PKCS#8 private key"},
	} {
		if _, err := decode([]byte(test.content), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.desc, err, test.want)
		}
	}
	if _, err := decode(append(good, "\n \n"...), nil); err != nil {
		t.Errorf("white space behind: %v", err)
	}
}

// TestErrorsNameFileAndRemedy is for the person at the terminal.
func TestErrorsNameFileAndRemedy(t *testing.T) {
	_, path := mustGenerate(t, Ed25519, nil)
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o644, 0o660, 0o666, 0o601, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("keys: load %s: with mode %04o other users can read or write the private key: run chmod 600 %s", path, mode, path)
		if _, err := Load(path, nil); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, nil); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if _, err := Load(path+".absent", nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want fs.ErrNotExist with the path", err)
	}
	dir := filepath.Dir(path)
	if _, err := Load(dir, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: error %v", err)
	}
}

// TestFileLimit tries a key file of the largest size and one byte more; white
// space behind the block fills it up.
func TestFileLimit(t *testing.T) {
	_, path := mustGenerate(t, Ed25519, nil)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, bytes.Repeat([]byte("\n"), maxFile-len(content))...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, nil); err != nil {
		t.Errorf("%d bytes: %v", maxFile, err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, nil); err == nil || !strings.Contains(err.Error(), "larger than a key file") {
		t.Errorf("%d bytes: error %v, want a refusal", maxFile+1, err)
	}
}
