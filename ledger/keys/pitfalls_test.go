package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/budget"
)

// The tests in this file stand beside what the libraries under us accept. Each
// shows first that a library falls into the trap, so that the trap is the one
// fault of the input, and then that we do not.

// TestOneKeyHasOneName: a DSSE verifier of threshold two is content with one key
// under two key ids. Here a key id is computed from the key, never chosen, a key
// has one encoding, and an envelope has one signature.
func TestOneKeyHasOneName(t *testing.T) {
	signer, _ := mustGenerate(t, Ed25519, nil)
	v := mustVerifier(t)
	envelope := mustSign(t, signer, "wf-1")
	e, err := entry.Decode(envelope)
	if err != nil {
		t.Fatal(err)
	}
	payload := base64.StdEncoding.EncodeToString(e.Payload())
	sig := base64.StdEncoding.EncodeToString(e.Sig)
	two, err := dsse.NewMultiEnvelopeVerifier(2,
		fixedID{v, signer.Public(), "first"}, fixedID{v, signer.Public(), "second"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Verify(t.Context(), &dsse.Envelope{
		PayloadType: e.Kind.PayloadType(), Payload: payload,
		Signatures: []dsse.Signature{{KeyID: "first", Sig: sig}, {KeyID: "second", Sig: sig}},
	}); err != nil {
		t.Fatalf("the library no longer counts one key twice: %v", err)
	}

	other, _ := mustGenerate(t, Ed25519, nil)
	twice := fmt.Sprintf(`{"payload":%q,"payloadType":%q,"signatures":[{"keyid":%q,"sig":%q},{"keyid":%q,"sig":%q}]}`,
		payload, e.Kind.PayloadType(), signer.Public().KeyID(), sig, other.Public().KeyID(), sig)
	checkMalformed(t, "two signatures", []byte(twice))

	// Under the name of another key, the signature is checked with that key.
	e.Seal(other.Public().KeyID(), e.Sig)
	if err := v.Check(other.Public(), e.PAE(), e.Sig); !errors.Is(err, ErrSignature) {
		t.Errorf("under the name of another key: error %v, want ErrSignature", err)
	}
}

// TestOneKeyHasOneEncoding spells public keys in every other way that DER, BER
// or a lenient parser would take: none gives the key a second fingerprint.
func TestOneKeyHasOneEncoding(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := entry.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	signer, _ := mustGenerate(t, Ed25519, nil)
	der := signer.Public().DER() // 30 2a 30 05 06 03 2b6570 03 21 00 key
	key := der[12:]
	spell := slices.Concat[[]byte]
	compressed := spell([]byte{0x30, 0x39}, p256.DER()[2:23], []byte{0x03, 0x22, 0x00, 0x02 | point[64]&1}, point[1:33])
	for _, test := range []struct {
		desc string
		der  []byte
	}{
		{"a byte behind", spell(der, []byte{0})},
		{"an element behind, which crypto/x509 takes", spell([]byte{0x30, 0x2c}, der[2:], []byte{0x05, 0x00})},
		{"length in the long form", spell([]byte{0x30, 0x81}, der[1:])},
		{"indefinite length", spell([]byte{0x30, 0x80}, der[2:], []byte{0, 0})},
		{"parameters NULL", spell([]byte{0x30, 0x2c, 0x30, 0x07}, der[4:9], []byte{0x05, 0x00, 0x03, 0x21, 0x00}, key)},
		{"seven unused bits", spell(der[:11], []byte{7}, key)},
		{"key in an OCTET STRING", spell(der[:9], []byte{0x04}, der[10:])},
		{"P-256, compressed point", compressed},
		{"P-256, hybrid point", bytes.Replace(p256.DER(), point, spell([]byte{0x06 | point[64]&1}, point[1:]), 1)},
		{"P-256, a byte behind", spell(p256.DER(), []byte{0})},
	} {
		if parsed, err := entry.ParsePublicKey(test.der); err == nil {
			t.Errorf("%s: accepted, key id %s", test.desc, parsed.KeyID())
		}
	}
	for _, k := range []entry.PublicKey{signer.Public(), p256} {
		again, err := entry.ParsePublicKey(k.DER())
		if err != nil || again.KeyID() != k.KeyID() || !again.Equal(k) {
			t.Errorf("the canonical encoding: %v", err)
		}
	}
}

// checkMalformed expects [entry.Decode] to refuse the envelope.
func checkMalformed(t *testing.T, desc string, envelope []byte) {
	t.Helper()
	_, err := entry.Decode(envelope)
	if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != entry.Malformed {
		t.Errorf("%s: error %v, want malformed", desc, err)
	}
}

// TestLaxEnvelopesAreRefused spells one validly signed envelope in the ways that
// sigstore's verifier accepts.
func TestLaxEnvelopesAreRefused(t *testing.T) {
	signer, _ := mustGenerate(t, Ed25519, nil)
	verifier := sigstoreVerifier(t, signer.Public())
	e := mustEntry(t, "wf-1")
	for wid := "w"; len(e.Payload())%3 != 1; wid += "w" { // so that base64 has bits to spare
		e = mustEntry(t, entry.WorkflowID(wid))
	}
	if err := signer.Sign(e); err != nil {
		t.Fatal(err)
	}
	good := string(e.AppendEnvelope(nil))
	payload := base64.StdEncoding.EncodeToString(e.Payload())
	sig := base64.StdEncoding.EncodeToString(e.Sig)
	junk := `{"keyid":"","sig":"AAAA"}`
	replace := func(part, by string) string { return strings.Replace(good, part, by, 1) }
	for _, test := range []struct{ desc, envelope string }{
		{"duplicate member, the last wins", replace(`{"payload"`, `{"payload":"e30=","payload"`)},
		{"duplicate member in a signature", replace(`"sig":`, `"sig":"AAAA","sig":`)},
		{"PAYLOAD", replace(`"payload"`, `"PAYLOAD"`)},
		{"Sig", replace(`"sig"`, `"Sig"`)},
		{"payload beside PAYLOAD", replace(`{"payload"`, `{"payload":"e30=","PAYLOAD"`)},
		{"unknown member", replace(`{"payload"`, `{"note":1,"payload"`)},
		{"unknown member in a signature", replace(`"sig":`, `"cert":"x","sig":`)},
		{"newline in base64", replace(payload, payload[:40]+`\n`+payload[40:])},
		{"carriage return in base64", replace(payload, payload[:40]+`\r\n`+payload[40:])},
		{"newline in the signature's base64", replace(sig, sig[:40]+`\n`+sig[40:])},
		{"padding bits of the payload", replace(payload, spareBits(payload))},
		{"padding bits of the signature", replace(sig, spareBits(sig))},
		{"base64 for URLs", replace(sig, base64.URLEncoding.EncodeToString(e.Sig))},
		{"a junk signature before", replace(`"signatures":[`, `"signatures":[`+junk+`,`)},
		{"a junk signature behind", replace(`"}]}`, `"},`+junk+`]}`)},
		{"no key id", replace(signer.Public().KeyID(), "")},
	} {
		if test.envelope == good {
			if test.desc != "base64 for URLs" { // a signature without + and / has one spelling
				t.Errorf("%s: nothing changed", test.desc)
			}
			continue
		}
		if err := verifier.VerifySignature(strings.NewReader(test.envelope), nil); err != nil {
			t.Errorf("%s: sigstore refuses it too, the test shows nothing: %v", test.desc, err)
		}
		checkMalformed(t, test.desc, []byte(test.envelope))
	}
	// These are no JSON; a fast path that looks for separators must see it too.
	checkMalformed(t, "line break as it is", []byte(replace(payload, payload[:40]+"\n"+payload[40:])))
	checkMalformed(t, "line break as it is, in the signature", []byte(replace(sig, sig[:40]+"\r\n"+sig[40:])))
	checkMalformed(t, "text behind", []byte(good+good))
	checkMalformed(t, "key id of other spelling", []byte(replace(signer.Public().KeyID(), strings.ToLower(signer.Public().KeyID()))))
	if _, err := entry.Decode([]byte(good)); err != nil {
		t.Error(err)
	}
}

// spareBits sets a bit of the last character of padded base64 that no byte needs.
func spareBits(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := len(strings.TrimRight(text, "=")) - 1
	return text[:last] + string(alphabet[strings.IndexByte(alphabet, text[last])|1]) + text[last+1:]
}

// fastest returns the shortest time of f in a few runs.
func fastest(f func()) time.Duration {
	best := time.Duration(1<<63 - 1)
	for range 20 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// TestJunkSignaturesCostLessThanChecks compares the refusal of an envelope with
// junk signatures with the time of one check by the standard library, on the
// same machine at the same time. Checked one by one they cost 10,000.
func TestJunkSignaturesCostLessThanChecks(t *testing.T) {
	budget.Unraced(t, "one goroutine; the detector slows the refusal, and leaves the check alone")
	signer, _ := mustGenerate(t, Ed25519, nil)
	e := mustEntry(t, "wf-1")
	if err := signer.Sign(e); err != nil {
		t.Fatal(err)
	}
	public, _ := signer.Public().Crypto().(ed25519.PublicKey)
	check := fastest(func() { ed25519.Verify(public, e.PAE(), e.Sig) })
	junk := func(count int) []byte {
		return bytes.Replace(e.AppendEnvelope(nil), []byte(`"signatures":[`),
			[]byte(`"signatures":[`+strings.Repeat(`{"sig":"AAAA"},`, count)), 1)
	}
	most := (entry.MaxEnvelope - len(e.AppendEnvelope(nil))) / len(`{"sig":"AAAA"},`)
	for _, test := range []struct {
		count  int
		checks int // the refusal takes less time than so many checks
		want   entry.Problem
	}{
		{10_000, 1, entry.TooLarge},
		{most, 200, entry.Malformed}, // some 3,000: as many as an envelope holds
	} {
		envelope := junk(test.count)
		var err error
		spent := fastest(func() { _, err = entry.Decode(envelope) })
		if refusal, ok := errors.AsType[*entry.Refusal](err); !ok || refusal.Problem != test.want {
			t.Errorf("%d junk signatures: error %v, want %s", test.count, err, test.want)
		}
		if spent > time.Duration(test.checks)*check {
			t.Errorf("%d junk signatures refused in %v, want less than %d × %v", test.count, spent, test.checks, check)
		}
		t.Logf("%d junk signatures refused in %v, one check takes %v", test.count, spent, check)
	}
}

// TestSmallOrderKeysAreRefused: with the identity for a key, the standard library
// accepts one signature over every message. No such key can be enrolled.
func TestSmallOrderKeysAreRefused(t *testing.T) {
	identity := fill(0x01, 0x00, 0x00)
	sig := append(slices.Clone(identity), make([]byte, 32)...)
	for _, message := range []string{"pay 1", "pay 1000000"} {
		if !ed25519.Verify(identity, []byte(message), sig) {
			t.Fatal("the standard library no longer accepts the identity")
		}
	}
	points := nonCanonical()
	for n := range 8 {
		points = append(points, smallOrder(t, n).Bytes())
	}
	for _, point := range points {
		if _, err := entry.NewPublicKey(ed25519.PublicKey(point)); err == nil {
			t.Errorf("key %x was accepted", point)
		}
		der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(point))
		if err != nil {
			t.Fatal(err)
		}
		var key entry.PublicKey
		if err := key.UnmarshalText([]byte(base64.StdEncoding.EncodeToString(der))); err == nil {
			t.Errorf("key %x was accepted in an entry", point)
		}
	}
}

// TestCraftedSignatureOfABatch: a signature whose R has a part of small order
// passes a batch, which multiplies by the cofactor. The standard library refuses
// it, and so do we, also in the midst of good ones.
func TestCraftedSignatureOfABatch(t *testing.T) {
	c := craft{key: []byte("key"), nonce: []byte("nonce"), rPart: 1, message: []byte("message")}
	c.make(t)
	batch := voi.NewBatchVerifier()
	batch.Add(c.public, c.message, c.sigBytes)
	if !batch.VerifyBatchOnly(rand.Reader) || ed25519.Verify(c.public, c.message, c.sigBytes) {
		t.Fatal("a batch and the standard library agree: the test shows nothing")
	}
	key, err := entry.NewPublicKey(ed25519.PublicKey(c.public))
	if err != nil {
		t.Fatal(err)
	}
	good := craft{key: c.key, nonce: c.nonce, message: c.message}
	good.make(t)
	v := mustVerifier(t)
	for range 64 {
		if err := v.Check(key, c.message, good.sigBytes); err != nil {
			t.Fatal(err)
		}
		if err := v.Check(key, c.message, c.sigBytes); !errors.Is(err, ErrSignature) {
			t.Fatalf("error %v, want ErrSignature", err)
		}
	}
}

// TestKeyIDIsThatOfTheLibraries: they reject every envelope with another one.
func TestKeyIDIsThatOfTheLibraries(t *testing.T) {
	for _, algorithm := range algorithms {
		signer, _ := mustGenerate(t, algorithm, nil)
		want, err := dsse.SHA256KeyID(signer.Public().Crypto())
		if err != nil {
			t.Fatal(err)
		}
		if got := signer.Public().KeyID(); got != want {
			t.Errorf("%s: key id %s, want %s", algorithm, got, want)
		}
		verifier := sigstoreVerifier(t, signer.Public())
		envelope := bytes.Replace(mustSign(t, signer, "wf-1"), []byte(want), []byte("key-1"), 1)
		if err := verifier.VerifySignature(bytes.NewReader(envelope), nil); err == nil {
			t.Errorf("%s: the library takes any key id: the test shows nothing", algorithm)
		}
	}
}
