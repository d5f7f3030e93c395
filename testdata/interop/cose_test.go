package interop

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	m_proof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/veraison/go-cose"
)

// The labels of RFC 9942, and of RFC 9597.
const (
	labelVDS       = int64(395)
	labelVDP       = int64(396)
	labelInclusion = int64(-1)
	labelCWTClaims = int64(15)
)

// coseReceipt checks a COSE receipt as a stranger would: by RFC 9942, a COSE library, the leaf, and
// the ledger's key.
func coseReceipt(t *testing.T, l *live, where ...string) {
	path := filepath.Join(t.TempDir(), "entry.cose")
	l.run(t, append([]string{"log", "proof", "--index", "300", "--format", "cose", "--out", path}, where...)...)
	data, err := os.ReadFile(path)
	must(t, err)
	leaf, err := os.ReadFile(path + ".leaf")
	must(t, err)
	var message cose.Sign1Message
	must(t, message.UnmarshalCBOR(data))
	claims, _ := message.Headers.Protected[labelCWTClaims].(map[any]any)
	if message.Payload != nil || message.Headers.Protected[labelVDS] != int64(1) || claims[int64(1)] != l.origin {
		t.Fatalf("payload %x, protected header %v", message.Payload, message.Headers.Protected)
	}
	root := provenRoot(t, &message, leaf)
	verifier := coseVerifier(t, l)
	message.Payload = root
	must(t, message.Verify(nil, verifier))
	message.Payload = provenRoot(t, &message, append(bytes.Clone(leaf), ' '))
	if message.Verify(nil, verifier) == nil {
		t.Error("the receipt of another leaf verifies")
	}
}

// provenRoot is the root that the inclusion proof in a message leads to.
func provenRoot(t *testing.T, message *cose.Sign1Message, leaf []byte) []byte {
	t.Helper()
	proofs := message.Headers.Unprotected[labelVDP].(map[any]any)[labelInclusion].([]any)
	var proof struct {
		_     struct{} `cbor:",toarray"`
		Size  uint64
		Index uint64
		Path  [][]byte
	}
	must(t, cbor.Unmarshal(proofs[0].([]byte), &proof))
	if len(proofs) != 1 || proof.Index != 300 {
		t.Fatalf("%d proofs, the first of leaf %d", len(proofs), proof.Index)
	}
	root, err := m_proof.RootFromInclusionProof(rfc6962.DefaultHasher, proof.Index, proof.Size, rfc6962.DefaultHasher.HashLeaf(leaf), proof.Path)
	must(t, err)
	return root
}

// coseVerifier has the key that the ledger printed at its start.
func coseVerifier(t *testing.T, l *live) cose.Verifier {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.SplitN(l.vkey, "+", 3)[2])
	must(t, err)
	verifier, err := cose.NewVerifier(cose.AlgorithmEdDSA, ed25519.PublicKey(key[1:]))
	must(t, err)
	return verifier
}
