package keys

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstore "github.com/sigstore/sigstore/pkg/signature/dsse"

	"recoveryledger/ledger/entry"
)

// sigstoreVerifier returns sigstore's own DSSE verifier of the key.
func sigstoreVerifier(tb testing.TB, key entry.PublicKey) signature.Verifier {
	tb.Helper()
	v, err := signature.LoadVerifier(key.Crypto(), crypto.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	return sigstore.WrapVerifier(v)
}

// mustSign returns the canonical envelope of an entry signed by signer.
func mustSign(tb testing.TB, signer *Signer, wid entry.WorkflowID) []byte {
	tb.Helper()
	e := mustEntry(tb, wid)
	if err := signer.Sign(e); err != nil {
		tb.Fatal(err)
	}
	return e.AppendEnvelope(nil)
}

// TestSigstoreVerifiesOurEnvelopes hands our envelopes to sigstore's verifier,
// as they are and with one bit of the payload changed.
func TestSigstoreVerifiesOurEnvelopes(t *testing.T) {
	for _, algorithm := range algorithms {
		signer, _ := mustGenerate(t, algorithm, nil)
		verifier := sigstoreVerifier(t, signer.Public())
		envelope := mustSign(t, signer, "wf-1")
		if err := verifier.VerifySignature(bytes.NewReader(envelope), nil); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		at := bytes.Index(envelope, []byte(`"payload":"`)) + 20
		if envelope[at]++; verifier.VerifySignature(bytes.NewReader(envelope), nil) == nil {
			t.Errorf("%s: a changed payload was accepted", algorithm)
		}
	}
}

// TestWeVerifySigstoreEnvelopes lets go-securesystemslib make the envelope, with
// a signature by sigstore and the key id it computes by itself, and takes it the
// way every envelope takes.
func TestWeVerifySigstoreEnvelopes(t *testing.T) {
	for _, algorithm := range algorithms {
		signer, _ := mustGenerate(t, algorithm, nil)
		e := mustEntry(t, "wf-1")
		keyID, err := dsse.SHA256KeyID(signer.Public().Crypto())
		if err != nil {
			t.Fatal(err)
		}
		maker, err := dsse.NewEnvelopeSigner(&sigstore.SignerAdapter{
			SignatureSigner: signer.private, Pub: signer.Public().Crypto(), PubKeyID: keyID,
		})
		if err != nil {
			t.Fatal(err)
		}
		made, err := maker.SignPayload(t.Context(), e.Kind.PayloadType(), e.Payload())
		if err != nil {
			t.Fatal(err)
		}
		envelope, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := entry.Decode(envelope)
		if err != nil {
			t.Fatal(err)
		}
		if sent.KeyID != signer.Public().KeyID() {
			t.Errorf("%s: key id %s, want %s", algorithm, sent.KeyID, signer.Public().KeyID())
		}
		if err := mustVerifier(t).Check(signer.Public(), sent.PAE(), sent.Sig); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// TestPAEIsThatOfTheLibraries signs through sigstore's wrapper, which builds its
// own PAE, and checks over ours.
func TestPAEIsThatOfTheLibraries(t *testing.T) {
	signer, _ := mustGenerate(t, Ed25519, nil)
	e := mustEntry(t, "wf-1")
	if want := dsse.PAE(e.Kind.PayloadType(), e.Payload()); !bytes.Equal(e.PAE(), want) {
		t.Fatalf("PAE %q, want %q", e.PAE(), want)
	}
	raw, err := sigstore.WrapSigner(signer.private, e.Kind.PayloadType()).SignMessage(bytes.NewReader(e.Payload()))
	if err != nil {
		t.Fatal(err)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(raw, &envelope); err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	if err := mustVerifier(t).Check(signer.Public(), e.PAE(), sig); err != nil {
		t.Fatal(err)
	}
}

// fixedID is a DSSE verifier of one key under a key id of choice.
type fixedID struct {
	verifier *Verifier
	key      entry.PublicKey
	keyID    string
}

func (f fixedID) Verify(_ context.Context, data, sig []byte) error {
	return f.verifier.Check(f.key, data, sig)
}
func (f fixedID) KeyID() (string, error)   { return f.keyID, nil }
func (f fixedID) Public() crypto.PublicKey { return f.key.Crypto() }
