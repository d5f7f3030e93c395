package keys

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzKeyFile: what is taken for a key file signs, and says the same public key
// when its key is written and read again.
func FuzzKeyFile(f *testing.F) {
	for _, algorithm := range algorithms {
		for _, passphrase := range []Passphrase{nil, secret("correct horse")} {
			_, path := mustGenerate(f, algorithm, passphrase)
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
			f.Add(bytes.Replace(content, []byte("PRIVATE KEY"), []byte("EC PRIVATE KEY"), 2))
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		signer, err := decode(content, nil)
		if err != nil {
			return
		}
		checkSigns(t, signer)
		block, _ := pem.Decode(content)
		again, err := decode(pem.EncodeToMemory(block), nil)
		if err != nil || !again.Public().Equal(signer.Public()) {
			t.Fatalf("written and read again: %v", err)
		}
	})
}

// FuzzLedgerKeyFile: a key has one spelling. What is accepted is what the parts
// spell, and signs under the name that it says.
func FuzzLedgerKeyFile(f *testing.F) {
	_, dir := mustLedger(f)
	content, err := os.ReadFile(filepath.Join(dir, ledgerFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n")))
	f.Add(bytes.ToLower(content))
	made, err := decodeLedger(content, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(made.VerifierKeys[0] + " awskms:///alias/l\n" + strings.Split(string(content), "\n")[1] + "\n"))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: ledgerPEMType, Bytes: content}))
	f.Fuzz(func(t *testing.T, content []byte) {
		ledger, err := decodeLedger(content, nil)
		if err != nil {
			return
		}
		var spelled strings.Builder
		for i, keyType := range []byte{typeEd25519, typeMLDSA44} {
			if i == 0 && ledger.URI != "" { // of a key in a KMS
				fmt.Fprintf(&spelled, "%s %s\n", ledger.VerifierKeys[0], ledger.URI)
				continue
			}
			key, err := parseSignerKey(strings.Split(string(content), "\n")[i], keyType)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&spelled, "PRIVATE+KEY+%s+%s+%s\n", key.name, ledger.VerifierKeys[i][len(key.name)+1:][:8],
				base64.StdEncoding.EncodeToString(append([]byte{keyType}, key.seed...)))
		}
		if spelled.String() != string(content) {
			t.Fatalf("accepted %q, its parts spell %q", content, spelled.String())
		}
	})
}

// FuzzCheckEd25519: the verdict is the standard library's for any 32 bytes as key
// and any bytes as signature.
func FuzzCheckEd25519(f *testing.F) {
	for parts := range 64 {
		c := craft{key: []byte("key"), nonce: []byte("nonce"), keyPart: parts / 8, rPart: parts % 8, message: []byte("message")}
		c.make(f)
		f.Add(c.public, c.message, c.sigBytes)
	}
	for _, encoding := range nonCanonical() {
		f.Add(encoding, []byte("message"), append(bytes.Clone(encoding), make([]byte, 32)...))
	}
	v := mustVerifier(f)
	f.Fuzz(func(t *testing.T, public, message, sig []byte) {
		if len(public) == ed25519.PublicKeySize {
			compareEd25519(t, v, public, message, sig)
		}
	})
}
